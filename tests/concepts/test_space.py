"""Typical items and items that two concepts share."""

import numpy as np
import pytest
import torch

from macrid.concepts.space import space_of
from macrid.ops.topk import Decoder
from tests.concepts.conftest import DIM


@pytest.fixture
def spread(place):
    """A function that returns the space of a model whose first items belong to concepts as given, and the rest to 6."""

    def make(membership, popularity):
        model = place(np.ones((1000, DIM)), np.full(1000, 6), popularity=np.array([*popularity, *[0] * 1000]))
        shares = np.zeros((len(model.items), 7), dtype=np.float32)
        shares[:, 6] = 1
        shares[: len(membership)] = membership
        model.decoder = Decoder(model.decoder.items, torch.log(torch.from_numpy(shares) + 1e-9))
        return space_of(model)

    return make


ROWS = [
    [0.5, 0.5, 0, 0, 0, 0, 0],
    [0.79, 0.21, 0, 0, 0, 0, 0],
    [0.9, 0.02, 0.02, 0.02, 0.02, 0.02, 0],
    [0.81, 0, 0.19, 0, 0, 0, 0],
    [0.98, 0, 0, 0.02, 0, 0, 0],
]


def test_typical_items_are_popular_and_belong_to_no_other_concept(spread):
    space = spread(ROWS, popularity=[1000, 100, 90, 10, 95])
    assert [item.id for item in space.typical_items()[0]] == [space.model.items[place] for place in (4, 2, 1)]
    assert space.typical_items()[1] == ()


def test_an_item_is_shared_if_its_second_concept_has_a_quarter_of_the_share_of_its_best(spread):
    space = spread(ROWS, popularity=[1] * 5)
    assert space.is_shared[:6].tolist() == [True, True, False, False, False, False]
    assert space.second[0][:5].tolist()[1:] == [1, 1, 2, 3]
    assert space.second[1][:5] == pytest.approx([0.5, 0.21, 0.02, 0.19, 0.02])
