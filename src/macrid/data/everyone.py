"""Everybody's interactions, for a last training in which no user and no item is left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from macrid.data.ids import Ids
from macrid.data.interactions import Interactions
from macrid.data.split import HeldOut, Split


def everyone_of(split: Split) -> Interactions:
    """All users over all items: those of the split in their places, then those that only held-out users have.

    A split that does not hold all of the data (`Split.everyone`) still has its own users, and all they have among its
    items.
    """
    return _assembled(split) if split.everyone is None else _split_items_first(split.everyone, split)


def over_more_items(group: HeldOut, items: int) -> HeldOut:
    """The same users over this many items, of which theirs are the first."""
    history, target = (wider(matrix, items) for matrix in (group.history, group.target))
    return replace(group, history=history, target=target)


def _split_items_first(data: Interactions, split: Split) -> Interactions:
    places = split.items.positions(data.items)
    others = np.flatnonzero(places < 0)
    items = len(split.items) + len(others)
    if len(data.items) == items and np.array_equal(places[: len(split.items)], np.arange(len(split.items))):
        return data
    places[others] = np.arange(len(split.items), items)
    matrix = sp.csr_array((len(data.users), items), dtype=np.float32)
    matrix.indptr, matrix.data = data.matrix.indptr, data.matrix.data
    matrix.indices = places.astype(data.matrix.indices.dtype)[data.matrix.indices]
    ids = Ids(pa.concat_arrays([split.items.array, data.items.array.take(pa.array(others))]))
    return Interactions(matrix, data.users, ids, _joined(split.table, data.table, others), data.report)


def _joined(table: pa.Table | None, whole: pa.Table | None, others: np.ndarray) -> pa.Table | None:
    """The attributes of the split's items, then those of the others: rows of another table."""
    if table is None or whole is None:
        return None
    return pa.concat_tables([table, whole.take(pa.array(others))], promote_options="permissive").combine_chunks()


def _assembled(split: Split) -> Interactions:
    """From train, histories and targets; a user may be in several groups."""
    parts = [(split.train.users, split.train.matrix)]
    parts += [(group.users, part) for group in (split.validation, split.test) for part in (group.history, group.target)]
    users = pa.concat_arrays([ids.array for ids, matrix in parts if matrix.shape[0]]).dictionary_encode()
    starts = np.cumsum([0, *(matrix.shape[0] for _, matrix in parts)])
    codes = users.indices.to_numpy()
    rows = np.concatenate([
        np.repeat(codes[start : start + matrix.shape[0]], np.diff(matrix.indptr))
        for start, (_, matrix) in zip(starts, parts, strict=False)
    ]).astype(np.int64)  # fmt: skip
    columns, values = (np.concatenate([getattr(matrix, name) for _, matrix in parts]) for name in ("indices", "data"))
    _, first = np.unique(rows * len(split.items) + columns, return_index=True)
    shape = (len(users.dictionary), len(split.items))
    matrix = sp.csr_array((values[first].astype(np.float32), (rows[first], columns[first])), shape=shape)
    return Interactions(matrix, Ids(users.dictionary), split.items, split.table, split.train.report)


def wider(matrix: sp.csr_array, items: int) -> sp.csr_array:
    """With empty columns at the end."""
    wide = sp.csr_array((matrix.shape[0], items), dtype=matrix.dtype)
    wide.indptr, wide.indices, wide.data = matrix.indptr, matrix.indices, matrix.data
    return wide
