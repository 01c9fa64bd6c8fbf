"""The likelihood, on a CPU and by kernels, against the formula written out in float64."""

from dataclasses import replace
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from macrid.ops import partition
from macrid.ops.partition import bounded, log_likelihood, log_partition
from tests.truth import (
    BF16,
    DEVICE,
    DOUBLE,
    KERNELS,
    SINGLE,
    Tolerance,
    assert_near,
    assert_same,
    choose_rows,
    choose_values,
    histories,
    mixed_weights,
    naive_log_likelihood,
    naive_log_partition,
    naive_weights,
    problem,
    runs_kernels,
    somewhere,
    use_kernels,
    with_gradients,
)


class Way(NamedTuple):
    """How the log-partition is computed."""

    kind: torch.dtype
    by_kernels: bool = False

    @property
    def device(self) -> str:
        return DEVICE if self.by_kernels else "cpu"

    def log_partition(self, *args, **options):
        with pytest.MonkeyPatch.context() as patch:
            use_kernels(patch, lambda tensor: self.by_kernels)
            return log_partition(*args, **options)

    def tolerance(self, temperature: float = 0.1) -> Tolerance:
        """Probabilities of single precision are as good as their logits, which grow as the temperature falls."""
        if self.kind == torch.float64:
            return DOUBLE
        return Tolerance(SINGLE.values, SINGLE.gradients * max(1.0, 0.1 / temperature))


every_way = pytest.mark.parametrize(
    "way",
    [
        pytest.param(Way(torch.float64), id="double"),
        pytest.param(Way(torch.float32), id="single"),
        pytest.param(Way(torch.float32, by_kernels=True), id="kernels", marks=KERNELS),
    ],
)


def check(way, inputs, temperature=0.1, hidden=None, bound=None, weights=None):
    """log Z and its gradients on this way are those of the formula."""

    def ours(z, h, log_c):
        mask = None if hidden is None else hidden.to(z.device)
        return way.log_partition(z, h, log_c, temperature, hidden=mask, bound=bound)

    def truth(z, h, log_c):
        return naive_log_partition(z, h, log_c, temperature, hidden)

    weights = mixed_weights(len(inputs[0])) if weights is None else weights
    assert_same(ours, truth, inputs, [weights], way.tolerance(temperature), way.kind, way.device)


@every_way
@pytest.mark.parametrize(
    "shape",  # batch, concepts, dim, items
    [
        (1, 1, 2, 1),
        (6, 7, 8, 3),  # sums fit into the padding to a power of two, exactly
        (3, 8, 8, 5),  # one column is missing for that
        (4, 20, 33, 65),
        (2, 40, 8, 130),
        (3, 7, 100, 40),
        (5, 3, 16, 17),  # no padding at all
        (2, 1, 500, 5),
    ],
)
def test_log_partition_and_every_gradient_equal_the_formula(way, shape, monkeypatch):
    monkeypatch.setattr(partition, "SCRATCH", 100)
    check(way, problem(*shape))


@every_way
def test_blocks_of_users_and_of_items_make_no_difference(way, monkeypatch):
    if way.by_kernels:
        from macrid.ops import partition_triton

        tile = partition_triton.Tile(16, 16, 4, 1)
        for name in ("FORWARD", "BACKWARD"):
            monkeypatch.setattr(partition_triton, name, [tile])
        monkeypatch.setattr(partition_triton, "_fits", {})
    monkeypatch.setattr(partition, "SCRATCH", 1)
    check(way, problem(18, 2, 4, 35))


@settings(max_examples=60, deadline=None)
@given(
    batch=st.integers(1, 6), concepts=st.sampled_from([1, 2, 7, 20]), dim=st.integers(2, 9), items=st.integers(1, 50),
    scratch=st.sampled_from([1, 30, 400, 1 << 20]), seed=st.integers(0, 99), hide=st.sampled_from([0.0, 0.5, 1.0]),
)  # fmt: skip
def test_blocks_of_any_size_give_the_formula(batch, concepts, dim, items, scratch, seed, hide):
    hidden = torch.rand(batch, items, generator=torch.Generator().manual_seed(seed)) < hide
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition, "SCRATCH", scratch)
        check(Way(torch.float64), problem(batch, concepts, dim, items, seed), hidden=hidden)


@runs_kernels
@settings(max_examples=12, deadline=None)
@given(
    batch=st.integers(1, 6), concepts=st.sampled_from([1, 2, 7, 20]), dim=st.sampled_from([2, 13, 16, 33]),
    items=st.integers(1, 70), seed=st.integers(0, 99), hide=st.sampled_from([0.0, 0.5, 1.0]), known=st.booleans(),
)  # fmt: skip
@pytest.mark.slow
def test_kernels_of_any_shape_give_the_formula(batch, concepts, dim, items, seed, hide, known):
    hidden = torch.rand(batch, items, generator=torch.Generator().manual_seed(seed)) < hide
    way = Way(torch.float32, by_kernels=True)
    check(way, problem(batch, concepts, dim, items, seed), hidden=hidden.byte(), bound=10.0 if known else None)


@every_way
@pytest.mark.parametrize("temperature", [0.001, 0.1, 10.0])
@pytest.mark.parametrize("known", [False, True])
def test_no_temperature_overflows(way, temperature, known):
    check(way, problem(4, 3, 8, 65), temperature, bound=1 / temperature if known else None)


@every_way
def test_large_logits_do_not_overflow_without_a_bound(way):
    z, h, log_c = problem(4, 3, 8, 65)
    check(way, [300 * z, h, log_c], temperature=1.0)
    check(way, [z, h, log_c + 500], temperature=1.0)


@every_way
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("tiny", [1e-30, 0.0])
def test_tiny_and_zero_assignments_are_handled(way, tiny, known):
    z, h, log_c = problem(4, 3, 8, 65)
    log_c = log_c.exp()
    log_c[::2, 1] = tiny
    log_c[:, 2] = tiny
    log_c[5] = tiny
    check(way, [z, h, log_c.log()], bound=10.0 if known else None)


@every_way
@pytest.mark.parametrize("known", [False, True])
def test_hidden_items_are_left_out_for_their_user_only(way, known):
    hidden = torch.rand(5, 65, generator=torch.Generator().manual_seed(0)) < 0.5
    hidden[1] = False
    check(way, problem(5, 3, 8, 65), hidden=hidden.byte(), bound=10.0 if known else None)


@every_way
@pytest.mark.parametrize("known", [False, True])
def test_a_user_with_all_items_hidden_has_no_sum_and_no_gradient(way, known):
    hidden = torch.zeros(5, 17, dtype=torch.uint8)
    hidden[0], hidden[1], hidden[2] = 1, 1, 1  # with weights of both signs, and of 0
    inputs = problem(5, 3, 8, 17)
    check(way, inputs, hidden=hidden, bound=10.0 if known else None)
    tensors = [tensor.to(way.device, way.kind) for tensor in inputs]
    (log_z,), (by_z, *_) = with_gradients(
        lambda *t: way.log_partition(*t, 0.1, hidden=hidden.to(way.device)), tensors, [mixed_weights(5)]
    )
    assert (log_z[:3] == -torch.inf).all()
    assert (by_z[:3] == 0).all()


@every_way
def test_users_of_weight_zero_have_no_gradient(way):
    tensors = [tensor.to(way.device, way.kind) for tensor in problem(3, 2, 4, 20)]
    _, gradients = with_gradients(lambda *t: way.log_partition(*t, 0.1), tensors, [torch.zeros(3)])
    assert all((g == 0).all() for g in gradients)


def kernel_likelihood(z, h, log_c, temperature, rows, *, precision="fp32", bound=None):
    from macrid.ops.likelihood_triton import Likelihood

    return Likelihood.apply(z, h, log_c, rows, temperature, precision, bounded(bound))


@pytest.fixture(
    params=[
        pytest.param((1 << 20, torch.float64, False), id="one sweep"),
        pytest.param((150, torch.float64, False), id="one sweep of many blocks"),
        pytest.param((1, torch.float64, False), id="composed"),
        pytest.param((1 << 20, torch.float32, False), id="one sweep, single"),
        pytest.param((1, torch.float32, False), id="composed, single"),
        pytest.param((1 << 20, torch.float64, True), id="one bounded sweep"),
        pytest.param((150, torch.float64, True), id="one bounded sweep of many blocks"),
        pytest.param((1 << 20, torch.float32, True), id="one bounded sweep, single"),
        pytest.param(None, id="triton", marks=KERNELS),
    ]
)
def check_likelihood(request, monkeypatch):
    """Checks the likelihood of some histories and its gradients against the formula."""
    scratch, kind, is_bounded = request.param or (1, torch.float32, False)
    monkeypatch.setattr(partition, "SCRATCH", scratch)

    def check(inputs, rows, temperature=0.1, weight=-1.7, balance=0.0, values=None, **options):
        options = {**({"bound": 1 / temperature} if is_bounded else {}), **options}

        def ours(*tensors):
            if request.param is None:
                placed = replace(somewhere(rows, values), balance=balance)
                return kernel_likelihood(*tensors, temperature, placed, **options)
            return log_likelihood(*tensors, temperature, replace(histories(rows, values), balance=balance), **options)

        def truth(z, h, log_c):
            weights = naive_weights(rows, balance, values)
            each = [
                naive_log_likelihood(
                    z[u : u + 1], h, log_c, temperature, [row], None if values is None else [values[u]]
                )
                for u, row in enumerate(rows)
            ]
            return sum(weight * value for weight, value in zip(weights, each, strict=True))

        assert_same(
            ours, truth, inputs, [torch.tensor(weight)],
            Way(kind).tolerance(temperature), kind, "cpu" if request.param else DEVICE,
        )  # fmt: skip

    return check


@pytest.mark.parametrize("shape", [(1, 1, 2, 1), (5, 3, 8, 50), (4, 20, 33, 7), (3, 7, 100, 20), (2, 40, 16, 3)])
def test_likelihood_and_every_gradient_equal_the_formula(check_likelihood, shape):
    rows = choose_rows(shape[0], shape[3], torch.Generator().manual_seed(1), empty=shape[0] > 1)
    check_likelihood(problem(*shape), rows)


@pytest.mark.parametrize("temperature", [0.001, 0.1, 10.0])
@pytest.mark.parametrize("known", [False, True])
def test_no_temperature_overflows_the_likelihood(check_likelihood, temperature, known):
    bound = 1 / temperature if known else None
    check_likelihood(problem(4, 3, 8, 33), [[0, 5], [1], [], list(range(33))], temperature, bound=bound)


@pytest.mark.parametrize("balance", [0.0, 0.5])
def test_weights_of_interactions_count_in_the_likelihood(check_likelihood, balance):
    rows = [[0, 5], [1], [], list(range(33))]
    check_likelihood(problem(4, 3, 8, 33), rows, balance=balance, values=choose_values(rows))


@pytest.mark.parametrize("balance", [0.3, 0.5, 1.0])
def test_long_histories_are_down_weighted(check_likelihood, balance):
    check_likelihood(problem(4, 3, 8, 33), [[0, 5], [1], [], list(range(33))], balance=balance)


def test_interactions_count_one_on_average_for_any_balance():
    for balance in (0.0, 0.5, 1.0):
        batch = replace(histories([[0, 5], [1], [], list(range(33))]), balance=balance)
        assert float(batch.weights @ batch.counts.double()) == pytest.approx(36)
    assert float(batch.weights[0] * 2) == pytest.approx(
        float(batch.weights[3] * 33)
    )  # with 1 every user counts the same
    assert replace(histories([[], []]), balance=0.5).weights.isfinite().all()


@pytest.mark.parametrize("tiny", [1e-30, 0.0])
def test_own_items_may_lack_a_concept(check_likelihood, tiny):
    z, h, log_c = problem(3, 3, 4, 10)
    log_c = log_c.exp()
    log_c[::2, 1:] = tiny
    check_likelihood([z, h, log_c.log()], [[1], [2, 3], [4, 0]])


def test_empty_histories_have_likelihood_one(check_likelihood):
    check_likelihood(problem(3, 2, 4, 10), [[], [], []])


def test_histories_of_all_items_count_in_full(check_likelihood):
    check_likelihood(problem(3, 2, 4, 10), [list(range(10))] * 3)


@settings(max_examples=40, deadline=None)
@given(
    batch=st.integers(1, 6), concepts=st.sampled_from([1, 2, 7, 20]), dim=st.integers(2, 9), items=st.integers(1, 50),
    scratch=st.sampled_from([1, 60, 400, 1 << 20]), seed=st.integers(0, 99),
)  # fmt: skip
def test_blocks_of_any_size_give_the_likelihood(batch, concepts, dim, items, scratch, seed):
    rows = choose_rows(batch, items, torch.Generator().manual_seed(seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition, "SCRATCH", scratch)
        assert_same(
            lambda *t: log_likelihood(*t, 0.1, histories(rows)), lambda *t: naive_log_likelihood(*t, 0.1, rows),
            problem(batch, concepts, dim, items, seed), [torch.tensor(0.6)], DOUBLE,
        )  # fmt: skip


def likelihood_and_gradients(precision, inputs, rows, bound=None):
    one, options = [torch.ones(())], {"precision": precision, "bound": bound}
    return with_gradients(lambda *t: log_likelihood(*t, 0.1, histories(rows), **options), inputs, one)


@pytest.mark.parametrize("bound", [None, 10.0], ids=["any logits", "bounded"])
def test_bf16_on_a_cpu_rounds_the_products_and_little_else(bound):
    inputs = [tensor.float() for tensor in problem(40, 4, 12, 60)]
    rows = choose_rows(40, 60, torch.Generator().manual_seed(0))
    (value,), gradients = likelihood_and_gradients("fp32", inputs, rows)
    (rounded,), by_rounded = likelihood_and_gradients("bf16", inputs, rows, bound)
    assert_near(rounded, value, 1e-3)
    for ours, exact in zip(by_rounded, gradients, strict=True):
        assert_near(ours, exact, 2 * BF16.gradients)  # logits of up to 10 are rounded too
        assert not torch.equal(ours, exact)


@pytest.mark.parametrize("bound", [None, 10.0], ids=["any logits", "bounded"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_few_users_at_a_time_give_the_same_as_many(precision, bound, monkeypatch):
    inputs = [tensor.float() for tensor in problem(13, 3, 8, 50)]
    rows = choose_rows(13, 50, torch.Generator().manual_seed(1))
    (whole,), gradients = likelihood_and_gradients(precision, inputs, rows, bound)
    monkeypatch.setattr(partition, "CACHED", 1)
    (part,), by_part = likelihood_and_gradients(precision, inputs, rows, bound)
    torch.testing.assert_close(part, whole)
    for ours, exact in zip(by_part, gradients, strict=True):
        torch.testing.assert_close(ours, exact, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("scratch", [1 << 15, 1 << 17])
def test_no_tensor_has_the_size_of_users_times_items(scratch, monkeypatch):
    monkeypatch.setattr(partition, "SCRATCH", scratch)
    batch, items = 64, 20_000
    inputs = [tensor.float().requires_grad_() for tensor in problem(batch, 2, 4, items)]
    rows = histories([[u, u + 100] for u in range(batch)])
    largest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            for tensor in out if isinstance(out, tuple | list) else [out]:
                if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided:
                    largest = max(largest, tensor.untyped_storage().nbytes() // 4)
            return out

    with Watch():
        log_likelihood(*inputs, 0.1, rows).backward()
    assert 0 < largest < batch * items / 4


@pytest.mark.parametrize("threads", [1, 2, 7, 64])
def test_many_threads_do_not_shrink_blocks_to_single_users(threads, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    z, h, log_c = torch.randn(40, 2, 3), torch.randn(5, 3), torch.zeros(5, 2)
    heights = [logits.shape[0] for _, logits in partition._Blocks(z, h, log_c, 12, "fp32")]
    assert sum(heights) == 40
    assert min(heights[:-1]) >= 7
