"""Adam with clipping, on whole tables and on rows, against torch's."""

import pytest
import torch
from torch import nn

from macrid.training.adam import Adam
from tests.truth import DEVICE, KERNELS, assert_near, runs_kernels, use_kernels

ROUNDING = 1e-5  # relative, of some steps in single precision; clip_grad_norm_ adds 1e-6 to the norm


def tables(seed=0, items=9, dim=5):
    """A table of items, and a matrix that is always changed as a whole."""
    generator = torch.Generator().manual_seed(seed)
    return [nn.Parameter(torch.randn(*shape, generator=generator)) for shape in ((items, dim), (3, dim))]


def gradients_of(steps, items=9, dim=5):
    generator = torch.Generator().manual_seed(8)
    return [[torch.randn(*shape, generator=generator) for shape in ((items, dim), (3, dim))] for _ in range(steps)]


def torch_steps(parameters, gradients, clip, l2, learning_rate=0.03):
    optimiser = torch.optim.Adam(parameters, lr=learning_rate, weight_decay=l2)
    for step in gradients:
        for parameter, gradient in zip(parameters, step, strict=True):
            parameter.grad = gradient.clone()
        nn.utils.clip_grad_norm_(parameters, clip)
        optimiser.step()


def assert_equal_tables(tables, expected):
    for ours, theirs in zip(tables, expected, strict=True):
        assert_near(ours.detach(), theirs.detach(), ROUNDING)


settings = pytest.mark.parametrize(
    ("clip", "l2"),
    [
        pytest.param(1e9, 0.0, id="plain"),
        pytest.param(2.0, 0.0, id="clipped"),
        pytest.param(1e9, 0.1, id="held"),
        pytest.param(2.0, 0.1, id="clipped and held"),
    ],
)


@settings
@pytest.mark.parametrize("kernel", [False, pytest.param(True, marks=KERNELS)])
def test_steps_on_whole_tables_equal_torch_with_clipping(clip, l2, kernel, monkeypatch):
    use_kernels(monkeypatch, lambda tensor: kernel)
    device, shape = DEVICE if kernel else "cpu", (40, 33)  # more numbers than one program takes
    ours, theirs = [nn.Parameter(table.detach().to(device)) for table in tables(0, *shape)], tables(0, *shape)
    gradients = gradients_of(5, *shape)
    optimiser = Adam(ours, 0.03, l2)
    for step in gradients:
        for parameter, gradient in zip(ours, step, strict=True):
            parameter.grad = gradient.clone().to(device)
        optimiser.step(clip)
    torch_steps(theirs, gradients, clip, l2)
    assert_equal_tables(ours, theirs)


@settings
@pytest.mark.parametrize("kernel", [False, pytest.param(True, marks=KERNELS)])
def test_steps_on_all_rows_equal_steps_on_whole_tables(clip, l2, kernel):
    device = DEVICE if kernel else "cpu"
    ours, theirs = [nn.Parameter(table.detach().to(device)) for table in tables()], tables()
    gradients = gradients_of(5)
    optimiser = Adam(ours, 0.03, l2)
    for number, (by_items, by_matrix) in enumerate(gradients):
        rows = torch.randperm(9, generator=torch.Generator().manual_seed(number))
        ours[1].grad = by_matrix.clone().to(device)  # a fused step leaves its gradient shortened
        count = torch.tensor(9, device=device) if kernel else None
        optimiser.step(clip, {ours[0]: by_items[rows].to(device)}, rows.to(device), count)
    torch_steps(theirs, gradients, clip, l2)
    assert_equal_tables(ours, theirs)


def test_steps_on_some_rows_equal_sparse_adam():
    (ours, _), (theirs, _) = tables(), tables()
    optimiser, sparse = Adam([ours], 0.03, 0.0), torch.optim.SparseAdam([theirs], lr=0.03)
    for number, (gradient, _) in enumerate(gradients_of(6)):
        rows = torch.randperm(9, generator=torch.Generator().manual_seed(number))[:4]
        optimiser.step(1e9, {ours: gradient[:4]}, rows)
        theirs.grad = torch.sparse_coo_tensor(rows[None], gradient[:4], (9, 5), check_invariants=True)
        sparse.step()
    assert_equal_tables([ours], [theirs])


@pytest.mark.parametrize("kernel", [False, pytest.param(True, marks=KERNELS)])
def test_other_rows_stay_exactly_the_same(kernel):
    device = DEVICE if kernel else "cpu"
    table = nn.Parameter(tables()[0].detach().to(device))
    optimiser = Adam([table], 0.03, 0.1)
    gradient = gradients_of(1)[0][0].to(device)
    count = torch.tensor(9, device=device) if kernel else None
    optimiser.step(1e9, {table: gradient}, torch.arange(9, device=device), count)
    state = optimiser.state[table]
    before = [tensor.detach().clone() for tensor in (table, state["exp_avg"], state["exp_avg_sq"])]
    rows = torch.tensor([7, 2, 4, 0, 0], device=device)  # the last two are there for a fixed size
    size = 5 if kernel else 3
    count = torch.tensor(3, device=device) if kernel else None
    optimiser.step(1e9, {table: gradient[:size]}, rows[:size], count)
    touched = [2, 4, 7]
    others = [0, 1, 3, 5, 6, 8]
    for was, now in zip(before, (table.detach(), state["exp_avg"], state["exp_avg_sq"]), strict=True):
        assert torch.equal(now[others], was[others])
        assert (now[touched] != was[touched]).all()
    assert int(state["step"]) == 2


@runs_kernels
@pytest.mark.parametrize(("rows", "dim"), [(1, 1), (40, 33)])
def test_the_kernel_updates_rows_as_torch_does(rows, dim):
    start = torch.randn(50, dim, generator=torch.Generator().manual_seed(0))
    plain, by_kernel = nn.Parameter(start.clone()), nn.Parameter(start.to(DEVICE))
    optimisers = Adam([plain], 0.01, 0.05), Adam([by_kernel], 0.01, 0.05)
    generator = torch.Generator().manual_seed(1)
    for _ in range(4):
        chosen = torch.randperm(50, generator=generator)[:rows]
        gradient = torch.randn(rows, dim, generator=generator)
        optimisers[0].step(3.0, {plain: gradient}, chosen)
        optimisers[1].step(3.0, {by_kernel: gradient.to(DEVICE)}, chosen.to(DEVICE), torch.tensor(rows, device=DEVICE))
    assert_equal_tables([by_kernel], [plain])
    for name, value in optimisers[0].state[plain].items():
        assert_near(optimisers[1].state[by_kernel][name], value, ROUNDING, name)


def test_the_clipped_norm_covers_rows_and_whole_tables():
    items, matrix = tables()
    optimiser = Adam([items, matrix], 0.03, 0.0)
    matrix.grad = torch.full_like(matrix, 2.0)
    gradient = torch.full((4, 5), -3.0)
    optimiser.step(1.5, {items: gradient}, torch.arange(4))
    norm = (15 * 2.0**2 + 20 * 3.0**2) ** 0.5
    torch.testing.assert_close(optimiser.state[matrix]["exp_avg"], torch.full((3, 5), 0.1 * 2.0 * 1.5 / norm))
    torch.testing.assert_close(optimiser.state[items]["exp_avg"][:4], torch.full((4, 5), 0.1 * -3.0 * 1.5 / norm))
