"""Splits that graph papers publish (NGCF, LightGCN): a train and a test file of lines `user item item …`.

The users are known: each is folded in on all items of the train line and scored on the test line. For choosing epochs,
a tenth of each train line is held back, at random.
"""

from __future__ import annotations

import re
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from macrid.data.ids import Ids
from macrid.data.interactions import Interactions, ReadReport, csr_from_pairs
from macrid.data.reading import join_items
from macrid.data.split import MIN_ITEMS_TO_PREDICT, HeldOut, Split
from macrid.errors import DataError
from macrid.files import check_regular

VALIDATION_SHARE = 0.1
TEST = "published test items of known users"
VALIDATION = "10 % of each known user's train items"
EXPECTED = "expected whole numbers separated by spaces: user item item …"
Pairs = tuple[np.ndarray, np.ndarray]


def read_published(
    train: str | PathLike[str], test: str | PathLike[str], *, items: Any = None, seed: int = 98765
) -> Split:
    """The split of two published files; `everyone` has the complete train lines.

    items: a table with one row per item: id, title, any attributes.
    seed: of the tenth of the train items that is held back for validation.
    """
    if not 0 <= seed < 2**32:
        raise DataError(f"seed is {seed}; it must be from 0 to 2^32 − 1")
    train, test = Path(train), Path(test)
    users, columns, duplicates = _read_lines(train)
    if not len(users):
        raise DataError(f"{train}: no user has an item; {EXPECTED}")
    user_ids, rows = np.unique(users, return_inverse=True)
    item_ids, columns = np.unique(columns, return_inverse=True)
    rows, columns = rows.astype(np.int32), columns.astype(np.int32)
    tests, notes = _tests(_read_lines(test)[:2], user_ids, item_ids, (rows, columns))
    if not len(tests[0]):
        why = f" ({'; '.join(notes)})" if notes else ""
        raise DataError(f"{test}: nothing to predict{why}; give the test file that goes with {train.name}")

    ids = Ids(item_ids)
    table, more = (None, ()) if items is None else join_items(ids, items)
    report = ReadReport(train.name, len(rows) + duplicates, duplicates=duplicates, notes=(*notes, *more))
    everyone = Interactions.from_pairs(rows, columns, Ids(user_ids), ids, table, report)
    held_back = _held_back(rows, columns, len(user_ids), seed)
    if not held_back.any():
        raise DataError(f"{train}: no user has {MIN_ITEMS_TO_PREDICT} items, which validation takes")
    kept = Interactions.from_pairs(rows[~held_back], columns[~held_back], everyone.users, ids, table, report)
    return Split(
        kept,
        _group((rows[~held_back], columns[~held_back]), (rows[held_back], columns[held_back]), kept, VALIDATION),
        _group((rows, columns), tests, everyone, TEST),
        everyone,
    )


def _tests(pairs: Pairs, users: np.ndarray, items: np.ndarray, train: Pairs) -> tuple[Pairs, list[str]]:
    """Positions of what can be predicted, and notes on what cannot."""
    known_user, known_item = np.isin(pairs[0], users), np.isin(pairs[1], items)
    notes = []
    if unknown := len(np.unique(pairs[0][~known_user])):
        notes.append(f"skipped {unknown:,} test users without train items")
    if unknown := int(np.count_nonzero(known_user & ~known_item)):
        notes.append(f"dropped {unknown:,} of {len(pairs[0]):,} test items: not in the train file")
    keep = known_user & known_item
    rows, columns = np.searchsorted(users, pairs[0][keep]), np.searchsorted(items, pairs[1][keep])
    seen = np.isin(rows * len(items) + columns, train[0].astype(np.int64) * len(items) + train[1])
    if seen.any():
        notes.append(
            f"dropped {np.count_nonzero(seen):,} of {len(pairs[0]):,} test items: also in the user's train line"
        )
    return (rows[~seen], columns[~seen]), notes


def _held_back(rows: np.ndarray, columns: np.ndarray, users: int, seed: int) -> np.ndarray:
    """(pairs,) a tenth of each user's items, at least one of five; the last train user of an item keeps it."""
    random = np.random.RandomState(seed)
    counts = np.bincount(rows, minlength=users)
    shares = np.where(counts >= MIN_ITEMS_TO_PREDICT, np.maximum((VALIDATION_SHARE * counts).astype(int), 1), 0)
    order = np.lexsort((random.random_sample(len(rows)), rows))
    place = np.empty(len(rows), dtype=np.int64)
    place[order] = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    held_back = place < shares[rows]
    left = np.bincount(columns[~held_back], minlength=int(columns.max()) + 1) > 0
    first = np.unique(columns, return_index=True)[1]
    held_back[first[~left]] = False
    return held_back


def _group(history: Pairs, target: Pairs, known: Interactions, protocol: str) -> HeldOut:
    """The users who have something to predict."""
    users, rows = np.unique(target[0], return_inverse=True)
    place = np.full(len(known.users), -1, dtype=np.int64)
    place[users] = np.arange(len(users))
    mine = place[history[0]] >= 0
    shape = (len(users), len(known.items))
    return HeldOut(
        csr_from_pairs(place[history[0][mine]], history[1][mine], shape),
        csr_from_pairs(rows, target[1], shape),
        known.users.take(users),
        protocol,
    )


def _read_lines(path: Path) -> tuple[np.ndarray, np.ndarray, int]:
    """User and item of every pair, in order, and how many pairs were repeated."""
    try:
        check_regular(path, DataError)
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise DataError(f"{path}: no such file; check the path (relative to {Path.cwd()})") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    if wrong := re.search(rb"[^0-9 \t\r\n]|[0-9]{19}", content):
        number = content.count(b"\n", 0, wrong.start()) + 1
        text = content.split(b"\n")[number - 1].decode(errors="replace").strip()
        shown = text if len(text) <= 60 else f"{text[:60]}…"
        raise DataError(f"{path}, line {number:,}: {shown!r} is not a user and items; {EXPECTED}")
    lines = [list(map(int, line.split())) for line in content.split(b"\n")]
    first_line: dict[int, int] = {}
    for number, line in enumerate(lines, start=1):
        if line and first_line.setdefault(line[0], number) != number:
            raise DataError(f"{path}, line {number:,}: user {line[0]} is already on line {first_line[line[0]]:,}")
    duplicates = sum(map(len, lines))
    lines = [[line[0], *dict.fromkeys(line[1:])] for line in lines if line]
    duplicates -= sum(map(len, lines))
    if not lines:
        raise DataError(f"{path}: the file is empty; {EXPECTED}")
    users = np.repeat(np.array([line[0] for line in lines]), [len(line) - 1 for line in lines])
    return users, np.array([item for line in lines for item in line[1:]], dtype=np.int64), duplicates
