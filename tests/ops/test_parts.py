"""Cells cut into parts, against known clusters."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from macrid.ops.parts import CUTS, MOST, divide


def clusters(sizes, dim=6, spread=0.01, seed=0):
    """Items around random points, and the cluster each belongs to."""
    random = torch.Generator().manual_seed(seed)
    of = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    points = 10 * torch.randn(len(sizes), dim, generator=random)
    return points[of] + spread * torch.randn(len(of), dim, generator=random), of


def test_two_clusters_of_one_cell_become_its_two_parts():
    items, of = clusters([MOST, MOST // 2])
    part = divide(items, torch.zeros(len(items), dtype=torch.long))
    assert part.dtype == torch.int16
    assert len(part.unique()) == 2
    assert torch.equal(part == part[0], of == 0)


def test_a_cell_that_is_small_enough_stays_one_part():
    items, _ = clusters([MOST - 5, 5])
    assert len(divide(items, torch.zeros(MOST, dtype=torch.long)).unique()) == 1


def test_no_part_mixes_distant_clusters_and_none_is_too_large():
    items, of = clusters([20] * 8)
    part = divide(items, torch.zeros(len(items), dtype=torch.long))
    assert torch.bincount(part.long()).max() <= MOST
    for members in part.unique():
        assert len(of[part == members].unique()) == 1


def test_copies_stay_together_and_end_the_cuts():
    part = divide(torch.ones(10 * MOST, 3), torch.zeros(10 * MOST, dtype=torch.long))
    assert len(part.unique()) == 1


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 4 * MOST), min_size=1, max_size=6), dim=st.integers(1, 8), seed=st.integers(0, 999),
    distinct=st.sampled_from([1, 3, 1000]),
)  # fmt: skip
def test_cells_divided_together_are_divided_as_each_alone(sizes, dim, seed, distinct):
    random = torch.Generator().manual_seed(seed)
    cell = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    items = torch.randn(distinct, dim, generator=random)[torch.randint(distinct, (len(cell),), generator=random)]
    items = items.round(decimals=2)
    part = divide(items, cell)
    assert ((part >= 0) & (part < 1 << CUTS)).all()
    for each, size in enumerate(sizes):
        alone = divide(items[cell == each], torch.zeros(size, dtype=torch.long))
        assert torch.equal(part[cell == each], alone)


def test_spread_out_items_are_cut_until_every_part_is_small():
    items = torch.randn(2000, 10, generator=torch.Generator().manual_seed(0))
    cell = torch.arange(2000) % 5
    part = divide(items, cell)
    assert torch.bincount((cell << CUTS) + part).max() <= MOST
