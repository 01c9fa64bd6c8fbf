"""The split whose arrays were written to a folder, as maps of its files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from macrid.data import store
from macrid.data.ids import Ids
from macrid.data.interactions import Interactions, ReadReport, are_weighted
from macrid.data.large import mapping
from macrid.data.large.work import Work
from macrid.data.reading import join_items
from macrid.data.split import HELD_OUT_USERS, HeldOut, Split


class Attributes(NamedTuple):
    """A table with one row per item; see `join_items`."""

    source: Any
    item_column: str | None
    encoding: str | None


def opened(
    work: Work, report: ReadReport, attributes: Attributes | None, more: dict[str, Any]
) -> tuple[Split, Interactions | None]:
    """The split, and everyone if there is more than the split; what a prepared folder does not keep is deleted.

    more: what a split by time adds: its protocols, notes for the report, and the mean weight of its train data.
    """
    folder = work.path("arrays")
    users = mapping.read_ids(work.path("users"), np.load(folder / "kept.npy"))
    order = np.load(folder / "order.npy")
    with np.load(folder / "numbering.npz") as numbering:
        codes, used, in_split = numbering["items"], numbering["used"], int(numbering["in_split"])
    ids = mapping.read_ids(work.path("items"), used)
    table, notes = (None, ()) if attributes is None else join_items(ids, *attributes)
    report = replace(report, notes=(*report.notes, *notes, *more.get("notes", ())))
    report = replace(report, mean_weight=more.get("mean_weight", report.mean_weight))
    places = np.searchsorted(used, codes)
    reader = Reader(folder / "data")

    def some_items(positions: np.ndarray) -> tuple[Ids, pa.Table | None]:
        return ids.take(positions), None if table is None else table.take(pa.array(positions))

    split_items, split_table = some_items(places[:in_split])
    counts = reader.users("validation_history"), reader.users("test_history")
    ends = len(order) - sum(counts), len(order) - counts[1]
    train = reader.matrix("train", in_split)

    def heldout(name: str, part: slice, protocol: str) -> HeldOut:
        history, target = (reader.matrix(f"{name}_{kind}", in_split) for kind in ("history", "target"))
        return HeldOut(history, target, users.take(order[part]), protocol)

    protocols = more.get("protocols", (HELD_OUT_USERS, HELD_OUT_USERS))
    validation = heldout("validation", slice(*ends), protocols[0])
    test = heldout("test", slice(ends[1], None), protocols[1])
    data = Interactions(train, users.take(order[: ends[0]]), split_items, split_table, report)
    if not sum(counts):
        reader.remove("everyone")
        return Split(data, validation, test, data), None
    everyone = Interactions(reader.matrix("everyone", len(codes)), users, *some_items(places), report)
    return Split(data, validation, test, everyone), everyone


class Reader:
    """Matrices whose arrays are in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def users(self, name: str) -> int:
        return len(np.load(self._folder / f"{name}.indptr.npy", mmap_mode="r")) - 1

    def matrix(self, name: str, items: int) -> Any:
        weights = self._folder / f"{name}.weights.npy"
        count = len(np.load(self._folder / f"{name}.indices.npy", mmap_mode="r"))
        matrix = store.read_matrix(self._folder, name, (self.users(name), items), count, weights.exists())
        if weights.exists() and not are_weighted(matrix):
            weights.unlink()
            return self.matrix(name, items)
        return matrix

    def remove(self, name: str) -> None:
        for part in ("indptr", "indices", "weights"):
            (self._folder / f"{name}.{part}.npy").unlink(missing_ok=True)
