"""A shop with enough items in every concept for axes of its own, and copies with planted vectors and attributes."""

import copy

import numpy as np
import pyarrow as pa
import pytest
import torch

import macrid
from macrid.concepts.meaning import Meaning
from macrid.data.shop import generate
from macrid.ops.topk import Decoder

DIM = 16


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def random_rotation(random, dim=DIM):
    return np.linalg.qr(random.normal(size=(dim, dim)))[0]


@pytest.fixture(scope="session")
def wide():
    """(model, split), about 80 items per concept: do not change the model."""
    split = generate(users=500, items=560, seed=5).split(heldout=50)
    model = macrid.MacridVAE(concepts=7, dim=DIM, neighbours=0)
    model.fit(split.train, validation=split.validation, epochs=8, batch_size=50, seed=1, device="cpu")
    return model, split


@pytest.fixture
def editable(wide):
    """A copy of the model that a test may change."""
    return copy.deepcopy(wide[0])


@pytest.fixture
def place(wide):
    """A function that returns a copy of the model with other vectors, concepts and attributes of its items."""
    return lambda *args, **kwargs: with_items(wide[0], *args, **kwargs)


def with_items(model, vectors, concepts, table=None, popularity=None):
    """A copy with other vectors, concepts, attributes and popularity; values beyond the number of items are ignored."""
    model = copy.copy(model)
    count = len(model.items)
    model.table = None if table is None else pa.table(table)[:count]
    model.meaning = Meaning()
    model.popularity = model.popularity if popularity is None else popularity[:count]
    chosen = torch.nn.functional.one_hot(torch.from_numpy(concepts[:count]), 7).float()
    directions = torch.from_numpy(vectors[:count].astype(np.float32))
    model.decoder, model.cached = Decoder(directions, torch.log(chosen + 1e-9)), None
    return model
