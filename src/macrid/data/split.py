"""The held-out-user protocol of Liang et al. (2018), which the paper follows, exact to the last random number.

Sort the user ids and permute them once; the last n users are test, the n before them validation, the rest train. The
items are those of the train users, in order of first appearance; held-out users lose all others. Each held-out user is
folded in on 80 % of their items and scored on the other 20 % (`int(0.2 · count)`, drawn without replacement, users in
id order, from a generator reseeded for validation and for test); a user left with fewer than five items keeps them all
in the history.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from macrid.data.ids import Ids
from macrid.data.interactions import Interactions, csr_from_pairs
from macrid.errors import DataError

TARGET_SHARE = 0.2
MIN_ITEMS_TO_PREDICT = 5


@dataclass(frozen=True)
class HeldOut:
    """Users never trained on: folded in on `history`, scored on `target` (both users × items)."""

    history: sp.csr_array
    target: sp.csr_array
    users: Ids

    def __repr__(self) -> str:
        counts = f"{self.history.nnz:,} items to fold in, {self.target.nnz:,} to predict"
        return f"HeldOut({len(self.users):,} users, {counts})"


@dataclass(frozen=True)
class Split:
    """Training users and two groups of held-out users, over the same items."""

    train: Interactions
    validation: HeldOut
    test: HeldOut

    @property
    def items(self) -> Ids:
        return self.train.items

    @property
    def table(self) -> pa.Table | None:
        return self.train.table

    def __repr__(self) -> str:
        return f"Split(train={self.train!r}, validation={self.validation!r}, test={self.test!r})"


def split_users(data: Interactions, heldout: int | float, seed: int = 98765) -> Split:
    """Split by held-out users.

    heldout: number of validation users, and of test users; below 1, a share of all users.
    """
    if not 0 <= seed < 2**32:
        raise DataError(f"seed is {seed}; it must be from 0 to 2^32 − 1")
    users = len(data.users)
    n = _heldout_count(heldout, users)
    order = data.users.order()[np.random.RandomState(seed).permutation(users)]
    place = np.empty(users, dtype=np.int32)  # a user's position in the permutation
    place[order] = np.arange(users, dtype=np.int32)

    rows, columns = data.pairs
    places = place[rows]
    train_users = users - 2 * n
    in_train = places < train_users
    items, first_seen = np.unique(columns[in_train], return_index=True)
    items = items[np.argsort(first_seen)]
    number = np.full(len(data.items), -1, dtype=np.int32)
    number[items] = np.arange(len(items), dtype=np.int32)
    item_ids = data.items.take(items)

    train = Interactions.from_pairs(
        places[in_train],
        number[columns[in_train]],
        data.users.take(order[:train_users]),
        item_ids,
        None if data.table is None else data.table.take(pa.array(items)),
        data.report,
    )

    def group(start: int) -> HeldOut:
        keep = (places >= start) & (places < start + n) & (number[columns] >= 0)
        ids = data.users.take(order[start : start + n])
        return _fold(places[keep] - start, number[columns[keep]], ids, len(item_ids), seed)

    return Split(train, group(train_users), group(train_users + n))


def _heldout_count(heldout: int | float, users: int) -> int:
    if not math.isfinite(heldout) or (heldout >= 1 and int(heldout) != heldout):
        raise DataError(f"heldout is {heldout}; give a whole number of users, or a share below 1")
    n = int(heldout * users) if 0 < heldout < 1 else int(heldout)
    if n < 1:
        raise DataError(f"heldout {heldout} of {users:,} users leaves nobody held out; give at least one user")
    if 2 * n >= users:
        raise DataError(
            f"heldout asks for 2 × {n:,} users (validation and test), but there are {users:,};"
            f" give at most {max((users - 1) // 2, 0):,}, or a share such as 0.1"
        )
    return n


def _fold(rows: np.ndarray, columns: np.ndarray, users: Ids, items: int, seed: int) -> HeldOut:
    """Divide each user's items into history and target."""
    by_user = csr_from_pairs(rows, np.arange(len(rows)), (len(users), max(len(rows), 1)))
    random = np.random.RandomState(seed)
    is_target = np.zeros(len(rows), dtype=bool)
    for user in users.order():
        pairs = by_user.indices[by_user.indptr[user] : by_user.indptr[user + 1]]
        if len(pairs) >= MIN_ITEMS_TO_PREDICT:
            is_target[pairs[random.choice(len(pairs), size=int(TARGET_SHARE * len(pairs)), replace=False)]] = True
    shape = (len(users), items)
    return HeldOut(
        csr_from_pairs(rows[~is_target], columns[~is_target], shape),
        csr_from_pairs(rows[is_target], columns[is_target], shape),
        users,
    )
