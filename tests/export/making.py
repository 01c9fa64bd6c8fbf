"""Models with random weights, and an exported graph as a function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import torch

import macrid
from macrid.data.ids import Ids
from macrid.models.neighbours import Neighbours

ITEMS = 90


def made(kind: Any = macrid.MacridVAE, items: int = ITEMS, seed: int = 0, linear: bool = False, **settings: Any) -> Any:
    """A network with random weights. linear: with neighbours, of which some items have none and one has many."""
    model, random = kind(**({"concepts": 4} if kind is macrid.MacridVAE else {}) | {"dim": 6} | settings), seed
    model.items, model.network = Ids([f"item-{item}" for item in range(items)]), model._build(items)
    generator = torch.Generator().manual_seed(random)
    model.network.initialise(generator)
    with torch.no_grad():
        for name, parameter in model.network.named_parameters():
            if name in ("whole", "item_bias", "context_bias"):
                parameter.normal_(std=0.5, generator=generator)
            elif name == "share_power":
                parameter.fill_(1.3)
    model.popularity = np.random.default_rng(seed).permutation(items) + 1
    if linear:
        b = sp.random_array((items, items), density=0.05, format="lil", dtype=np.float32, rng=seed)
        b[3, :], b[7, :] = np.linspace(-1, 1, items), 0
        b = b.tocsr()
        parts = (b.indptr.astype(np.int64), b.indices.astype(np.int32), b.data)
        model.neighbours = Neighbours(*(torch.from_numpy(part) for part in parts), items)
    return model


def histories(users: int, items: int = ITEMS, seed: int = 1, weighted: bool = False) -> sp.csr_array:
    """Users with 1 to 20 items."""
    random = np.random.default_rng(seed)
    rows = [random.choice(items, random.integers(1, 20), replace=False) for _ in range(users)]
    columns, lengths = np.concatenate(rows), [len(row) for row in rows]
    values = random.random(len(columns)) + 0.1 if weighted else np.ones(len(columns))
    matrix = sp.csr_array((values.astype(np.float32), columns, np.cumsum([0, *lengths])), shape=(users, items))
    matrix.sort_indices()
    return matrix


def fitted(kind: Any, split: Any) -> Any:
    return kind().fit(split.train, device="cpu")


class Exported:
    """An ONNX file, asked with defaults for what is not given."""

    def __init__(self, file: Path) -> None:
        import onnxruntime

        self.session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        self.names = [each.name for each in self.session.get_inputs()]

    def __call__(self, items: Any, n: int = 10, exclude_seen: bool = True, **others: Any) -> list[np.ndarray]:
        values = {"items": np.asarray(items, dtype=np.int64), "n": np.array(n), "exclude_seen": np.array(exclude_seen)}
        return self.session.run(None, values | others)


def with_attributes(model: Any) -> Any:
    """The model with a table of items, of which some columns have names that an export needs for itself."""
    items = len(model.items)
    columns = {"title": [f"Item {i}" for i in range(items)], "concept": ["x"] * items, "price": np.arange(items)}
    model.table = pa.table(columns)
    return model
