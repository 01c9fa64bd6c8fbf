"""Sums over the interactions of a batch, on a CPU and by kernels, against loops in float64."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from macrid.ops.sparse import Dropout, Histories, positives, sum_by_concept
from tests.truth import (
    DEVICE,
    DOUBLE,
    KERNELS,
    SINGLE,
    assert_near,
    assert_same,
    choose_rows,
    choose_values,
    histories,
    mask_of,
    mixed_weights,
    naive_positives,
    problem,
    runs_kernels,
    somewhere,
    with_gradients,
)


def naive_sums(table, log_c, rows, keep=None, values=None):
    """A_uk and Q_uk, interaction by interaction."""
    weights = None if values is None else [value for row in values for value in row]
    place, a, q = 0, [], []
    for history in rows:
        sums = torch.zeros(log_c.shape[1], table.shape[1]).double() * table.sum()
        squares = torch.zeros(log_c.shape[1]).double() * log_c.sum()
        for item in history:
            kept = 1.0 if keep is None else keep[place]
            weighted = log_c[item].exp() * (1.0 if weights is None else weights[place])
            sums = sums + kept * weighted[:, None] * table[item]
            squares = squares + weighted**2
            place += 1
        a.append(sums)
        q.append(squares)
    return torch.stack(a), torch.stack(q)


def table_and_assignment(concepts, dim, items, seed=0):
    _, table, log_c = problem(1, concepts, dim, items, seed)
    return [table, log_c]


def weights_of_sums(batch, concepts, dim, seed=7):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(*shape, generator=generator) for shape in ((batch, concepts, dim), (batch, concepts))]


SHAPES = [(1, 1, 2, 1), (4, 3, 8, 60), (3, 20, 33, 20), (2, 40, 16, 70), (3, 7, 100, 10)]  # batch, concepts, dim, items


def rows_for(batch, items, seed=1):
    return choose_rows(batch, items, torch.Generator().manual_seed(seed), empty=batch > 1)


@pytest.fixture(params=[pytest.param(True, id="MKL"), pytest.param(False, id="no MKL")])
def mkl(request, monkeypatch):
    if request.param and not torch.backends.mkl.is_available():
        pytest.skip("torch was built without MKL")
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: request.param)


@pytest.fixture(params=[pytest.param((32, 16), id="one program"), pytest.param((16, 1), id="many programs")])
def chunks(request, monkeypatch):
    """Histories are read 32 items at a time by one program, or 16 at a time by as many as it takes."""
    pytest.importorskip("triton")
    from macrid.ops import sparse_triton

    for name in ("SUM", "SUM_BACKWARD", "POSITIVES", "POSITIVES_BACKWARD"):
        monkeypatch.setattr(sparse_triton, name, sparse_triton.Chunks(*request.param, warps=4))


@pytest.mark.parametrize("kind", [torch.float64, torch.float32])
@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_by_concept_and_their_gradients_equal_the_formula(mkl, shape, dropped, kind):
    batch, concepts, dim, items = shape
    rows = rows_for(batch, items)
    keep = None
    if dropped:
        size = sum(map(len, rows))
        keep = 2.0 * (torch.rand(size, generator=torch.Generator().manual_seed(3)) < 0.5).to(kind)
    assert_same(
        lambda *t: sum_by_concept(*t, histories(rows), keep), lambda *t: naive_sums(*t, rows, keep),
        table_and_assignment(concepts, dim, items), weights_of_sums(*shape[:3]),
        DOUBLE if kind == torch.float64 else SINGLE, kind,
    )  # fmt: skip


@pytest.mark.parametrize("way", ["cpu", pytest.param("triton", marks=KERNELS)])
@pytest.mark.parametrize("shape", SHAPES)
def test_weights_of_interactions_count_in_all_sums(way, shape, request):
    rows = rows_for(shape[0], shape[3])
    values = choose_values(rows)
    placed, kind, device = histories(rows, values), torch.float64, "cpu"
    if way == "triton":
        request.getfixturevalue("by_kernels")
        placed, kind, device = somewhere(rows, values), torch.float32, DEVICE
    tolerance = DOUBLE if way == "cpu" else SINGLE
    assert_same(
        lambda *t: sum_by_concept(*t, placed), lambda *t: naive_sums(*t, rows, values=values),
        table_and_assignment(*shape[1:]), weights_of_sums(*shape[:3]), tolerance, kind, device,
    )  # fmt: skip
    check_positives(lambda *t: positives(*t, 0.1, placed), shape, rows, tolerance, kind, device, values)


@runs_kernels
@pytest.mark.parametrize("shape", SHAPES)
def test_sums_by_concept_of_the_kernels_equal_the_formula(chunks, shape):
    from macrid.ops.sparse_triton import SumByConcept

    rows = rows_for(shape[0], shape[3])

    assert_same(
        lambda *t: SumByConcept.apply(*t, somewhere(rows), None, "fp32"), lambda *t: naive_sums(*t, rows),
        table_and_assignment(*shape[1:]), weights_of_sums(*shape[:3]), SINGLE, torch.float32, DEVICE,
    )  # fmt: skip


@pytest.mark.parametrize("kind", [torch.float64, torch.float32])
@pytest.mark.parametrize("shape", SHAPES)
def test_positives_and_their_gradients_equal_the_formula(mkl, shape, kind):
    rows = rows_for(shape[0], shape[3])
    check_positives(
        lambda *t: positives(*t, 0.1, histories(rows)), shape, rows, DOUBLE if kind == torch.float64 else SINGLE, kind
    )


@runs_kernels
@pytest.mark.parametrize("shape", SHAPES)
def test_positives_of_the_kernels_equal_the_formula(chunks, shape):
    from macrid.ops.sparse_triton import Positives

    rows = rows_for(shape[0], shape[3])
    check_positives(
        lambda *t: Positives.apply(*t, somewhere(rows), 0.1, "fp32"), shape, rows, SINGLE, torch.float32, DEVICE
    )


def check_positives(ours, shape, rows, tolerance, kind, device="cpu", values=None):
    weights = [mixed_weights(shape[0]), mixed_weights(shape[0]).flip(0)]
    assert_same(
        ours, lambda *t: naive_positives(*t, 0.1, rows, values), problem(*shape), weights, tolerance, kind, device
    )


@pytest.mark.parametrize("temperature", [0.001, 10.0])
@pytest.mark.parametrize("way", ["cpu", pytest.param("triton", marks=KERNELS)])
def test_positives_do_not_overflow_at_any_temperature(way, temperature):
    inputs = [tensor.float() for tensor in problem(3, 2, 4, 20)]
    rows = [[3, 4, 5], [], list(range(20))]
    if way == "cpu":
        sums = positives(*inputs, temperature, histories(rows))
    else:
        from macrid.ops.sparse_triton import Positives

        tensors = [tensor.to(DEVICE) for tensor in inputs]
        sums = Positives.apply(*tensors, somewhere(rows), temperature, "fp32")
    for ours, truth in zip(sums, naive_positives(*(t.double() for t in inputs), temperature, rows), strict=True):
        assert_near(ours, truth, SINGLE.values)


def test_a_batch_without_interactions_has_empty_sums():
    rows = [[], [], []]
    assert_same(
        lambda *t: sum_by_concept(*t, histories(rows)), lambda *t: naive_sums(*t, rows),
        table_and_assignment(2, 4, 10), weights_of_sums(3, 2, 4), DOUBLE,
    )  # fmt: skip
    check_positives(lambda *t: positives(*t, 0.1, histories(rows)), (3, 2, 4, 10), rows, DOUBLE, torch.float64)


def dropout_of(seed, rate):
    return Dropout(torch.tensor([seed], device=DEVICE), rate)


MANY = [list(range(256))] * 8


@runs_kernels
@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.9])
def test_dropout_by_a_seed_keeps_the_expected_share_and_scales_it_up(rate):
    mask = mask_of(dropout_of(3, rate), somewhere(MANY), 256)
    kept = mask > 0
    torch.testing.assert_close(mask[kept], torch.full((int(kept.sum()),), 1 / (1 - rate)))
    five_sigma = 5 * (rate * (1 - rate) / len(mask)) ** 0.5
    assert kept.double().mean().item() == pytest.approx(1 - rate, abs=five_sigma)
    neighbours = (kept[1:] & kept[:-1]).double().mean().item()
    assert neighbours == pytest.approx((1 - rate) ** 2, abs=2 * five_sigma)


@runs_kernels
def test_dropout_masks_repeat_with_their_seed_and_differ_between_seeds():
    rows = somewhere(MANY)
    masks = [mask_of(dropout_of(seed, 0.5), rows, 256) > 0 for seed in (3, 3, 4, 2**31 - 1)]
    assert torch.equal(masks[0], masks[1])
    for one, other in ((0, 2), (0, 3), (2, 3)):
        agreement = (masks[one] == masks[other]).double().mean().item()
        assert agreement == pytest.approx(0.5, abs=5 * 0.5 / len(masks[0]) ** 0.5)


@runs_kernels
@pytest.mark.parametrize("concepts", [3, 40])
def test_dropout_drops_the_same_interactions_forward_and_backward(by_kernels, chunks, concepts):
    rows = rows_for(4, 50)
    placed, dropout = somewhere(rows), dropout_of(11, 0.4)
    keep = mask_of(dropout, placed, 50)
    assert 0 < (keep > 0).sum() < len(keep)
    assert_same(
        lambda *t: sum_by_concept(*t, placed, dropout), lambda *t: naive_sums(*t, rows, keep.double()),
        table_and_assignment(concepts, 8, 50), weights_of_sums(4, concepts, 8), SINGLE, torch.float32, DEVICE,
    )  # fmt: skip


@runs_kernels
def test_a_dropped_interaction_does_not_change_the_norm(by_kernels):
    table, log_c = (tensor.float().to(DEVICE) for tensor in table_and_assignment(3, 4, 20))
    placed = somewhere(rows_for(3, 20))
    _, plain = sum_by_concept(table, log_c, placed, dropout_of(1, 0.0))
    _, dropped = sum_by_concept(table, log_c, placed, dropout_of(1, 0.9))
    assert torch.equal(plain, dropped)


@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="torch was built without MKL")
def test_products_are_the_same_with_and_without_mkl(monkeypatch):
    rows = rows_for(4, 30)
    weights = [mixed_weights(4), mixed_weights(4)]
    results = []
    for available in (True, False):
        monkeypatch.setattr(torch.backends.mkl, "is_available", lambda answer=available: answer)
        values, gradients = with_gradients(
            lambda *t: positives(*t, 0.1, histories(rows)), problem(4, 3, 8, 30), weights
        )
        results.append([*values, *gradients])
    for ours, fallback in zip(*results, strict=True):
        torch.testing.assert_close(ours, fallback, rtol=1e-12, atol=1e-12)


some_rows = st.lists(st.lists(st.integers(0, 12), unique=True, max_size=8), min_size=1, max_size=6)


def rows_in(batch: Histories) -> list[list[int]]:
    return [batch.items[a:b].tolist() for a, b in zip(batch.starts, batch.stops, strict=True)]


@given(rows=some_rows, data=st.data())
def test_kept_interactions_stay_in_order(rows, data):
    size = sum(map(len, rows))
    keep = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    flags = iter(keep)
    expected = [[item for item in row if next(flags)] for row in rows]
    kept = histories(rows).where(torch.tensor(keep, dtype=torch.bool).nonzero()[:, 0])
    check_histories(kept, expected)


@given(rows=some_rows, data=st.data())
def test_a_slice_of_users_has_their_histories(rows, data):
    first = data.draw(st.integers(0, len(rows) - 1))
    last = data.draw(st.integers(first + 1, len(rows) + 3))
    check_histories(histories(rows).of(slice(first, last)), rows[first:last])


def check_histories(batch, expected):
    assert rows_in(batch) == expected
    assert batch.rows.tolist() == [user for user, row in enumerate(expected) for _ in row]
    assert batch.offsets.tolist() == [0, *torch.tensor([len(row) for row in expected]).cumsum(0).tolist()]
    assert batch.counts.tolist() == [len(row) for row in expected]
    assert batch.longest >= max(map(len, expected))


@given(rows=some_rows)
def test_histories_by_item_list_the_users_of_every_item(rows):
    batch = histories(rows)
    order, users, offsets = batch.by_item
    assert sorted(order.tolist()) == list(range(len(batch.items)))
    assert torch.equal(batch.rows[order], users)
    highest = max((item for row in rows for item in row), default=-1)
    assert len(offsets) == highest + 2
    for item in range(highest + 1):
        block = slice(int(offsets[item]), int(offsets[item + 1]))
        assert sorted(users[block].tolist()) == [user for user, row in enumerate(rows) if item in row]
        assert all(int(batch.items[place]) == item for place in order[block])
