"""Splits published by Liang et al. and the paper's authors (`pro_sg`), used as they are.

train.csv, validation_tr.csv, validation_te.csv, test_tr.csv and test_te.csv contain `uid,sid`; line n of
unique_sid.txt, counted from 0, is the id of the item with sid n.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from macrid.data.ids import Ids
from macrid.data.interactions import Interactions, ReadReport, csr_from_pairs
from macrid.data.reading import join_items
from macrid.data.split import HeldOut, Split
from macrid.data.tables import DelimitedTable, open_table
from macrid.errors import DataError

PARTS = ("train", "validation_tr", "validation_te", "test_tr", "test_te")
Pairs = tuple[np.ndarray, np.ndarray]


def read_released(folder: Path, categories: str | None = None) -> Split:
    """The split as released: users sorted by uid, their items in file order.

    categories: the name of a file with every item's category.
    """
    items = _read_items(folder / "unique_sid.txt")
    pairs = {part: _read_pairs(folder / f"{part}.csv", len(items)) for part in PARTS}
    distinct = {part: _without_duplicates(pairs[part], len(items)) for part in PARTS}
    uids = {
        group: np.unique(np.concatenate([distinct[part][0] for part in PARTS if part.startswith(group)]))
        for group in ("train", "validation", "test")
    }
    everyone, counts = np.unique(np.concatenate(list(uids.values())), return_counts=True)
    if counts.max() > 1:
        raise DataError(f"{folder}: user {everyone[counts > 1][0]} is in more than one of train, validation and test")
    rows = sum(len(users) for users, _ in pairs.values())
    duplicates = rows - sum(len(users) for users, _ in distinct.values())
    report = ReadReport(folder.name, rows, "uid", "sid", duplicates=duplicates)
    table = None if categories is None else join_items(items, _read_categories(folder / categories, items))[0]
    users = np.searchsorted(uids["train"], distinct["train"][0]).astype(np.int32)
    train = Interactions.from_pairs(users, distinct["train"][1], Ids(uids["train"]), items, table, report)

    def heldout(group: str) -> HeldOut:
        def matrix(part: str) -> sp.csr_array:
            users, sids = distinct[f"{group}_{part}"]
            return csr_from_pairs(np.searchsorted(uids[group], users), sids, (len(uids[group]), len(items)))

        return HeldOut(matrix("tr"), matrix("te"), Ids(uids[group]))

    return Split(train, heldout("validation"), heldout("test"))


def _read_items(path: Path) -> Ids:
    table = DelimitedTable(path, header=False, no_header_names=("item",))
    codes, ids = table.read_ids(table.read(["item"], text=["item"]), "item")
    if len(ids) < len(codes):
        raise DataError(f"{path}: {len(codes) - len(ids):,} lines repeat an item; every line must be a different one")
    return ids


def _read_pairs(path: Path, items: int) -> Pairs:
    table = open_table(path)
    columns = table.read([table.find("uid", (), "user"), table.find("sid", (), "item")])
    if columns.num_rows == 0:
        raise DataError(f"{path}: no rows")
    for name, column in zip(columns.column_names, columns.columns, strict=True):
        if not pa.types.is_integer(column.type) or column.null_count:
            raise DataError(f"{path}: column '{name}' must be an integer in every row")
    uids, sids = (column.to_numpy() for column in columns.columns)
    wrong = np.flatnonzero((sids < 0) | (sids >= items))
    if wrong.size:
        raise DataError(
            f"{path}: row {wrong[0] + 1:,} has sid {sids[wrong[0]]}, but unique_sid.txt only has 0 to {items - 1:,}"
        )
    return uids, sids.astype(np.int32)


def _without_duplicates(pairs: Pairs, items: int) -> Pairs:
    """The first occurrence of each pair, in order."""
    first = np.sort(np.unique(pairs[0] * items + pairs[1], return_index=True)[1])
    return pairs[0][first], pairs[1][first]


def _read_categories(path: Path, items: Ids) -> pa.Table:
    """Item and category. A few items have two: the lower is one of the seven, the other a stray."""
    by_sid = path.name == "item_cate_sid.csv"
    table = open_table(path, header=by_sid, no_header_names=("item", "category"))
    columns = table.read(table.columns[:2]).rename_columns(["item", "category"])
    if any(not pa.types.is_integer(column.type) or column.null_count for column in columns.columns):
        raise DataError(f"{path}: every row must be two integers, item and category")
    lowest = columns.group_by("item", use_threads=False).aggregate([("category", "min")])
    known = lowest.column("item")
    if by_sid:
        if pc.max(known).as_py() >= len(items) or pc.min(known).as_py() < 0:
            raise DataError(f"{path}: contains a sid outside the {len(items):,} lines of unique_sid.txt")
        known = items.array.take(known)
    return pa.table({"item": known, "category": lowest.column("category_min")})
