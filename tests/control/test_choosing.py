"""Lists chosen by pins, limits and diversity, against their definition written naively in float64."""

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from macrid.control import choosing
from macrid.control.choosing import Candidates, Demands, Limit, Pin, choose, mean_similarity, pool_size

ITEMS = 12


@st.composite
def cases(draw):
    """Scores, vectors, values of two attributes, pins, limits, a diversity and n."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(1, ITEMS))
    candidates = random.permutation(ITEMS)[:count]
    scores = np.sort(random.normal(size=count))[::-1].astype(np.float32)
    vectors = random.normal(size=(ITEMS, 3))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    values = [random.random((ITEMS, 4)) < share for share in (0.3, 0.15)]
    limits = [(draw(st.integers(1, 3)), each) for each in values[: draw(st.integers(0, 2))]]
    pinned = draw(st.lists(st.sampled_from(candidates.tolist()), unique=True, max_size=3))
    ranks = draw(st.lists(st.integers(1, 8), unique=True, min_size=len(pinned), max_size=len(pinned)))
    pins = sorted((Pin(*pair) for pair in zip(pinned, ranks, strict=True)), key=lambda pin: pin.rank)
    diversity = draw(st.sampled_from([0.0, 0.0, 0.2, 0.5, 1.0]))
    return (
        candidates,
        scores,
        vectors,
        limits,
        pins,
        diversity,
        draw(st.integers(1, 8)),
        draw(st.sampled_from([2, 5, 20])),
    )


def naive(candidates, scores, vectors, limits, pins, diversity, n, pool):
    """The definition, place by place."""
    scores, vectors = scores.astype(np.float64), vectors.astype(np.float64)
    first = candidates[:pool]
    low, high = scores[: len(first)].min(), scores[0]
    relevance = {
        item: (score - low) / (high - low) if high > low else 1.0 for item, score in zip(first, scores, strict=False)
    }
    pinned, soon = [pin.position for pin in pins], [pin.position for pin in pins if pin.rank <= n]
    chosen = []

    def is_allowed(item, pins=pinned):
        have = [*soon, *chosen]
        return item not in pins and item not in chosen and all(
            values[have][:, value].sum() < most for most, values in limits for value in np.flatnonzero(values[item])
        )  # fmt: skip

    def worth(item):
        closest = max([0.0, *(float(vectors[item] @ vectors[other]) for other in (*soon, *chosen))])
        return (1 - diversity) * relevance[item] - diversity * closest

    while len(chosen) < n - len(soon):
        inside = [item for item in first if is_allowed(item)]
        below = [item for item in candidates[pool:] if is_allowed(item)]
        if not inside and not below:
            break
        chosen.append(max(inside, key=worth) if inside else below[0])  # max gives the first of equal ones
    listed, waiting = [], [(pin.rank, pin.position) for pin in pins if pin.rank <= n]
    for pin in pins:
        if pin.rank > n and len(chosen) < n - len(soon) and is_allowed(pin.position, ()):
            chosen.append(pin.position)
    while len(listed) < n and (chosen or waiting):
        if waiting and (waiting[0][0] <= len(listed) + 1 or not chosen):
            listed.append(waiting.pop(0)[1])
        else:
            listed.append(chosen.pop(0))
    return listed


def fast(candidates, scores, vectors, limits, pins, diversity, n, pool):
    demands = Demands(
        tuple(Limit("some", most, sp.csr_array(values.astype(np.float32))) for most, values in limits),
        diversity,
        lambda positions: vectors[positions],
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choosing, "pool_size", lambda n: pool)
        patch.setattr(choosing, "GROWTH", 2)
        best = lambda depth: Candidates(candidates[:depth], scores[:depth])  # noqa: E731
        return choose(best, len(candidates), n, pins, demands).tolist()


@given(case=cases())
def test_a_list_is_the_one_that_the_definition_gives(case):
    assert fast(*case) == naive(*case)


@given(case=cases())
def test_pins_have_their_places_limits_hold_and_only_nothing_left_makes_a_list_short(case):
    candidates, _, _, limits, pins, _, n, _ = case
    listed = fast(*case)
    assert len(listed) == len(set(listed)) <= n
    assert set(listed) <= set(candidates.tolist())
    for pin in pins:
        if pin.rank <= n and len(listed) == n:
            assert listed[pin.rank - 1] == pin.position
        elif pin.rank <= n:
            assert pin.position in listed[: pin.rank]
    pinned = [pin.position for pin in pins]
    for most, values in limits:
        have, fixed = values[listed].sum(axis=0), values[[at for at in pinned if at in listed]].sum(axis=0)
        assert (have <= np.maximum(most, fixed)).all()
    if len(listed) < n:
        for item in set(candidates.tolist()) - set(listed):
            assert any((values[[*listed, item]].sum(axis=0) > most)[values[item]].any() for most, values in limits)


@given(case=cases())
def test_without_any_demand_a_list_has_the_best_in_order(case):
    candidates, scores, vectors, _, _, _, n, pool = case
    assert fast(candidates, scores, vectors, [], [], 0.0, n, pool) == candidates[:n].tolist()


def test_diversity_avoids_twins_and_full_diversity_ignores_scores():
    vectors = np.array([[1, 0], [1, 0], [0, 1], [0.6, 0.8]], dtype=np.float32)
    order, scores = np.arange(4), np.array([1.0, 0.9, 0.5, 0.0])
    lists = {d: fast(order, scores, vectors, [], [], d, 3, 10) for d in (0.0, 0.2, 0.4, 1.0)}
    assert lists == {0.0: [0, 1, 2], 0.2: [0, 1, 2], 0.4: [0, 2, 1], 1.0: [0, 2, 3]}


@given(seed=st.integers(0, 1000))
def test_full_diversity_of_two_is_the_least_similar_partner_of_the_best(seed):
    """For two items the greedy choice is the best of all pairs that contain the best item."""
    vectors = np.random.default_rng(seed).normal(size=(8, 3))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    chosen = fast(np.arange(8), np.linspace(1, 0, 8), vectors, [], [], 1.0, 2, 10)
    similar = {pair: max(0.0, float(vectors[pair[0]] @ vectors[pair[1]])) for pair in combinations(range(8), 2)}
    assert similar[0, chosen[1]] == pytest.approx(min(value for pair, value in similar.items() if pair[0] == 0))


def test_a_pool_is_several_times_the_list_and_never_small():
    assert [pool_size(n) for n in (1, 20, 100)] == [100, 100, 500]


def test_mean_similarity_is_over_pairs_of_different_items():
    rows = np.array([[1, 0], [0, 1], [-1, 0], [1, 0]], dtype=np.float32)
    assert mean_similarity(rows) == pytest.approx(
        1 / 6
    )  # one pair of twins among six; opposites have nothing in common
    assert mean_similarity(rows[:1]) == 0
