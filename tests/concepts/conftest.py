"""A shop with enough items in every concept for axes of its own."""

import copy

import numpy as np
import pyarrow as pa
import pytest
import torch

from macrid.concepts.meaning import meaning_of
from macrid.ops.topk import Decoder


@pytest.fixture(scope="session")
def wide():
    """(model, split), about 80 items a concept: do not change the model."""
    import macrid
    from macrid.data.shop import generate

    split = generate(users=500, items=560, seed=5).split(heldout=50)
    model = macrid.MacridVAE(concepts=7, dim=16)
    model.fit(split.train, validation=split.validation, epochs=8, batch_size=50, seed=1, device="cpu")
    return model, split


@pytest.fixture
def own(wide):
    """A copy of the model that may be changed."""
    return copy.deepcopy(wide[0])


@pytest.fixture
def place(wide):
    """A function that gives a copy of the model with vectors of its items, concepts and attributes of one's own.

    Of all there are some more than items, to be left aside.
    """

    def make(vectors, concepts, table=None, popularity=None):
        model = copy.deepcopy(wide[0])
        count = len(model.items)
        vectors, concepts = vectors[:count], concepts[:count]
        popularity = None if popularity is None else popularity[:count]
        model.table = None if table is None else pa.table(table)[:count]
        meaning_of(model).axes, meaning_of(model).in_use, meaning_of(model).names = {}, (), None
        model.popularity = model.popularity if popularity is None else popularity
        chosen = torch.nn.functional.one_hot(torch.from_numpy(concepts), 7).float()
        model.decoder = Decoder(torch.from_numpy(vectors.astype(np.float32)), torch.log(chosen + 1e-9))
        model.cached = None
        return model

    return make
