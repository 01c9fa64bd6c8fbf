"""How two models differ, by definitions written out naively."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import macrid
from macrid.data.ids import Ids
from macrid.errors import DataError
from macrid.report import comparison
from macrid.report.comparison import Pair


@given(st.permutations(range(8)), st.permutations(range(8)))
def test_rank_biased_overlap_follows_its_definition(first, second):
    one, other = np.array([first[:6]]), np.array([second[:6]])
    agree = comparison.agreement(one, other)
    naive = [len(set(first[:d]) & set(second[:d])) / d for d in range(1, 7)]
    np.testing.assert_allclose(agree, [naive])
    p = 0.9
    expected = naive[-1] * p**6 + (1 - p) / p * sum(value * p**d for d, value in enumerate(naive, start=1))
    assert comparison.rank_biased_overlap(agree)[0] == pytest.approx(expected)
    assert comparison.rank_biased_overlap(comparison.agreement(one, one))[0] == pytest.approx(1)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(1, 5)), min_size=1, max_size=8))
def test_the_weighted_ari_counts_pairs_of_choices(items):
    now, before, weights = (np.array(part) for part in zip(*items, strict=True))
    joint = comparison.crossing(now, before, weights.astype(float), (3, 3))
    shares = weights / weights.sum()
    pairs = np.outer(shares, shares)
    same_now, same_before = now[:, None] == now, before[:, None] == before
    a, b, both = (float(pairs[mask].sum()) for mask in (same_now, same_before, same_now & same_before))
    if a < 1 or b < 1:
        assert comparison.weighted_ari(joint) == pytest.approx((both - a * b) / ((a + b) / 2 - a * b), abs=1e-9)
    else:
        assert comparison.weighted_ari(joint) == 1


def test_a_model_does_not_differ_from_itself(trained):
    model, split = copy.deepcopy(trained[0]), trained[1]
    macrid.understand(model)
    pair = Pair.of(model, model)
    found = comparison.concepts(pair)
    assert (found["ari"], found["nmi"], found["numbers_kept"]) == pytest.approx((1, 1, 1))
    assert all(row["moved_items"] == 0 and row["stay"] in (None, 1.0) for row in found["concepts"])
    assert {knob["status"] for knob in comparison.knobs(pair, found["concepts"])["knobs"]} <= {"kept"}
    lists = comparison.lists(pair, split.test.history)
    assert (lists["overlap"], lists["rbo"], lists["same_top"], lists["new_items"]) == pytest.approx((1, 1, 1, 0))


def test_concepts_in_another_order_are_matched_by_their_items_and_reversed_axes_seen(trained):
    before = copy.deepcopy(trained[0])
    macrid.understand(before)
    after = copy.deepcopy(before)
    with torch.no_grad():
        after.network.prototypes.copy_(after.network.prototypes[[1, 0, 2, 3, 4, 5, 6]].clone())
    after.cached = after.kept_decoder = None
    found = comparison.concepts(Pair.of(before, after))
    assert found["ari"] == pytest.approx(1)
    assert [row["after"] for row in found["concepts"]] == [1, 0, 2, 3, 4, 5, 6]
    assert found["numbers_kept"] == pytest.approx(5 / 7)


def test_models_without_a_common_item_cannot_be_compared(trained):
    other = copy.copy(trained[0])
    other.items = Ids([f"x{i}" for i in range(len(other.items))])
    with pytest.raises(DataError, match="share no item: the first has"):
        Pair.of(trained[0], other)
