"""The tiled likelihood against the formula written out in float64."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from macrid.ops import partition
from macrid.ops.partition import log_likelihood, log_partition
from macrid.ops.sparse import Histories


def histories(rows_of_items: list[list[int]]) -> Histories:
    counts = torch.tensor([len(items) for items in rows_of_items])
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)])
    items = torch.tensor([item for row in rows_of_items for item in row], dtype=torch.long)
    return Histories(offsets, items, torch.repeat_interleave(counts))


def naive_probabilities(components, items, log_assignment, temperature):
    """p_ui before normalisation: (batch, items)."""
    p = torch.zeros(len(components), len(items), dtype=torch.float64)
    for k in range(components.shape[1]):
        p = p + log_assignment[:, k].exp() * torch.exp(components[:, k] @ items.t() / temperature)
    return p


def problem(batch, concepts, dim, items, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    unit = torch.nn.functional.normalize
    z = unit(torch.randn(batch, concepts, dim, generator=generator, dtype=dtype), dim=-1)
    h = unit(torch.randn(items, dim, generator=generator, dtype=dtype), dim=-1)
    log_c = torch.log_softmax(5 * torch.randn(items, concepts, generator=generator, dtype=dtype), dim=1)
    return [tensor.requires_grad_() for tensor in (z, h, log_c)]


def relative_error(ours, truth):
    return float(
        (ours.detach().double() - truth.detach().double()).norm() / truth.detach().double().norm().clamp(min=1e-30)
    )


@settings(max_examples=40, deadline=None)
@given(
    batch=st.integers(1, 6), concepts=st.sampled_from([1, 2, 7, 20]), dim=st.integers(2, 9),
    items=st.integers(1, 50), tile=st.sampled_from([1, 3, 16, 64]), seed=st.integers(0, 99), full=st.booleans(),
)  # fmt: skip
def test_likelihood_and_all_gradients_equal_the_formula(batch, concepts, dim, items, tile, seed, full):
    z, h, log_c = problem(batch, concepts, dim, items, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    rows = [
        torch.randperm(items, generator=generator)[: items if full else seed % (items + 1)].tolist()
        for _ in range(batch)
    ]
    rows[0] = []
    p = naive_probabilities(z, h, log_c, 0.1)
    truth = torch.stack([(p[u, row].log() - p[u].sum().log()).sum() for u, row in enumerate(rows)])
    weights = torch.randn(batch, generator=generator, dtype=torch.float64)
    expected = torch.autograd.grad((truth * weights).sum(), (z, h, log_c), allow_unused=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition, "TILE_ITEMS", tile)
        ours = log_likelihood(z, h, log_c, 0.1, histories(rows))
        found = torch.autograd.grad((ours * weights).sum(), (z, h, log_c))
    torch.testing.assert_close(ours, truth, rtol=1e-10, atol=1e-10)
    for ours_grad, true_grad in zip(found, expected, strict=True):
        torch.testing.assert_close(
            ours_grad, torch.zeros_like(ours_grad) if true_grad is None else true_grad, rtol=1e-8, atol=1e-9
        )


def test_log_partition_and_its_gradients_equal_the_formula_across_many_tiles():
    z, h, log_c = problem(5, 3, 8, 2500)
    truth = naive_probabilities(z, h, log_c, 0.1).sum(dim=1).log()
    expected = torch.autograd.grad(truth.sum(), (z, h, log_c))
    ours = log_partition(z, h, log_c, 0.1)
    for a, b in zip(torch.autograd.grad(ours.sum(), (z, h, log_c)), expected, strict=True):
        assert relative_error(a, b) < 1e-10
    assert relative_error(ours, truth) < 1e-12


def test_float32_agrees_with_float64_within_its_precision():
    z, h, log_c = problem(16, 7, 20, 3000)
    rows = [torch.randperm(3000)[:40].tolist() for _ in range(16)]
    truth = log_likelihood(z, h, log_c, 0.1, histories(rows))
    expected = torch.autograd.grad(truth.sum(), (z, h, log_c))
    singles = [tensor.detach().float().requires_grad_() for tensor in (z, h, log_c)]
    ours = log_likelihood(*singles, 0.1, histories(rows))
    assert relative_error(ours, truth) < 1e-6
    for a, b in zip(torch.autograd.grad(ours.sum(), singles), expected, strict=True):
        assert relative_error(a, b) < 1e-5


@pytest.mark.parametrize("temperature", [0.001, 0.01, 10.0])
def test_no_temperature_overflows_single_precision(temperature):
    z, h, log_c = problem(4, 3, 8, 100, dtype=torch.float32)
    value = log_likelihood(z, h, log_c, temperature, histories([[0, 5], [1], [], [99]]))
    value.sum().backward()
    for tensor in (value, z.grad, h.grad, log_c.grad):
        assert torch.isfinite(tensor).all()


def test_assignment_probabilities_down_to_1e_minus_30_and_zero_are_handled():
    z, h, _ = problem(3, 2, 4, 10)
    for tiny in (1e-30, 0.0):
        log_c = torch.tensor([[1.0 - tiny, tiny]] * 10, dtype=torch.float64).log()
        value = log_likelihood(z, h, log_c, 0.1, histories([[1], [2, 3], [4]]))
        alone = log_likelihood(z[:, :1], h, torch.zeros(10, 1, dtype=torch.float64), 0.1, histories([[1], [2, 3], [4]]))
        torch.testing.assert_close(value, alone)
        assert torch.isfinite(torch.autograd.grad(value.sum(), z)[0]).all()


def test_no_tensor_as_large_as_users_times_items_is_made():
    batch, items = 64, 20_000
    z, h, log_c = problem(batch, 2, 4, items, dtype=torch.float32)
    rows = histories([[u, u + 100] for u in range(batch)])
    largest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            for tensor in out if isinstance(out, tuple | list) else [out]:
                if isinstance(tensor, torch.Tensor):
                    largest = max(largest, tensor.untyped_storage().nbytes() // 4)
            return out

    with Watch():
        log_likelihood(z, h, log_c, 0.1, rows).sum().backward()
    assert 0 < largest < batch * items / 4
