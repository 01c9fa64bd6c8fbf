"""The held-out-user protocol of Liang et al. (2018), which the paper follows, exact to the last random number.

Sort the user ids and permute them once; the last n users are test, the n before them validation, the rest train. The
items are those of the train users, in order of first appearance; held-out users lose all others. Each held-out user is
folded in on 80 % of their items and scored on the other 20 % (`int(0.2 · count)`, drawn without replacement, users in
id order, from a generator reseeded for validation and for test); a user left with fewer than five items keeps them all
in the history.

Where users come and go, a permutation of them all holds out other users every time. A stable split holds out those
whose hashed ids are the largest, whoever else is there: nobody who is held out today was trained on yesterday.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from macrid.data.ids import Ids
from macrid.data.interactions import Interactions, csr_from_pairs
from macrid.errors import DataError

HELD_OUT_USERS = "held-out users, 80 % of each history"
TARGET_SHARE = 0.2
MIN_ITEMS_TO_PREDICT = 5


@dataclass(frozen=True)
class HeldOut:
    """Users to score a model on: folded in on `history`, scored on `target` (both users × items).

    By the held-out-user protocol none of them is trained on; by others they are, on what came before.
    """

    history: sp.csr_array
    """Its values are weights."""
    target: sp.csr_array
    users: Ids
    protocol: str = HELD_OUT_USERS
    """How history and target were divided, in a few words."""

    def __repr__(self) -> str:
        counts = f"{self.history.nnz:,} items to fold in, {self.target.nnz:,} to predict"
        return f"HeldOut({len(self.users):,} users, {counts})"


@dataclass(frozen=True)
class Split:
    """Training users and two groups of held-out users, over the same items."""

    train: Interactions
    validation: HeldOut
    test: HeldOut
    everyone: Interactions | None = None
    """All users over all items, also those that only held-out users have; None if no more than the split is known.
    `macrid.data.everyone.everyone_of` has it for every split."""

    @property
    def protocol(self) -> str:
        """That of the test."""
        return self.test.protocol

    @property
    def items(self) -> Ids:
        return self.train.items

    @property
    def table(self) -> pa.Table | None:
        return self.train.table

    def __repr__(self) -> str:
        return f"Split(train={self.train!r}, validation={self.validation!r}, test={self.test!r})"


def split_users(data: Interactions, heldout: int | float, seed: int = 98765, stable: bool = False) -> Split:
    """Split by held-out users.

    heldout: number of validation users, and of test users; below 1, a share of all users; 0 holds out nobody.
    stable: choose users by their ids alone; heldout is then a share.
    """
    users = len(data.users)
    order, counts = choose_users(data.users, heldout, seed, stable)
    place = np.empty(users, dtype=np.int32)  # a user's position in the permutation
    place[order] = np.arange(users, dtype=np.int32)

    rows, columns = data.pairs
    weights = data.weights
    places = place[rows]
    train_users = users - sum(counts)
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
        None if weights is None else weights[in_train],
        None if data.events is None else data.events.of(in_train),
    )

    def group(start: int, n: int) -> HeldOut:
        keep = (places >= start) & (places < start + n) & (number[columns] >= 0)
        ids = data.users.take(order[start : start + n])
        mine = None if weights is None else weights[keep]
        return _fold(places[keep] - start, number[columns[keep]], ids, len(item_ids), seed, mine)

    validation, test = group(train_users, counts[0]), group(users - counts[1], counts[1])
    return Split(train, validation, test, data if sum(counts) else train)


def choose_users(users: Ids, heldout: int | float, seed: int, stable: bool) -> tuple[np.ndarray, tuple[int, int]]:
    """Positions of the users, first those to train on, then those for validation and for the test; and how many of
    these there are. See `split_users`."""
    if not 0 <= seed < 2**32:
        raise DataError(f"seed is {seed}; it must be from 0 to 2^32 − 1")
    if stable:
        return _stable_order(users, heldout, seed)
    n = _heldout_count(heldout, len(users))
    return users.order()[np.random.RandomState(seed).permutation(len(users))], (n, n)


def _stable_order(users: Ids, heldout: int | float, seed: int) -> tuple[np.ndarray, tuple[int, int]]:
    """Positions of the users by their hashed ids, and how many are for validation and for the test."""
    if not 0 < heldout < 0.5:
        raise DataError(f"heldout is {heldout}; a stable split needs a share of the users, such as 0.1")
    keys = [blake2b(f"{seed} {user}".encode("utf-8", "surrogatepass"), digest_size=8).digest() for user in users]
    shares = np.frombuffer(b"".join(keys), dtype=">u8").astype(np.float64) / 2**64
    counts = int(((shares >= 1 - 2 * heldout) & (shares < 1 - heldout)).sum()), int((shares >= 1 - heldout).sum())
    if not min(counts) or sum(counts) == len(users):
        raise DataError(
            f"a stable split of {len(users):,} users holds out {counts[0]:,} for validation and {counts[1]:,} for the"
            " test; take another share, or another seed"
        )
    return np.argsort(shares, kind="stable"), counts


def _heldout_count(heldout: int | float, users: int) -> int:
    if not math.isfinite(heldout) or (heldout >= 1 and int(heldout) != heldout):
        raise DataError(f"heldout is {heldout}; give a whole number of users, or a share below 1")
    n = int(heldout * users) if 0 < heldout < 1 else int(heldout)
    if heldout == 0:
        return 0
    if n < 1:
        raise DataError(f"heldout {heldout} of {users:,} users leaves nobody held out; give at least one user, or 0")
    if 2 * n >= users:
        raise DataError(
            f"heldout asks for 2 × {n:,} users (validation and test), but there are {users:,};"
            f" give at most {max((users - 1) // 2, 0):,}, or a share such as 0.1"
        )
    return n


def _fold(
    rows: np.ndarray, columns: np.ndarray, users: Ids, items: int, seed: int, weights: np.ndarray | None
) -> HeldOut:
    """Divide each user's items into history and target."""
    by_user = csr_from_pairs(rows, np.arange(len(rows)), (len(users), max(len(rows), 1)))
    is_target = np.empty(len(rows), dtype=bool)
    is_target[by_user.indices] = draw_targets(by_user.indptr, users, seed)
    shape = (len(users), items)
    return HeldOut(
        csr_from_pairs(rows[~is_target], columns[~is_target], shape, None if weights is None else weights[~is_target]),
        csr_from_pairs(rows[is_target], columns[is_target], shape),
        users,
    )


def draw_targets(starts: np.ndarray, users: Ids, seed: int) -> np.ndarray:
    """Which interactions to predict, of users one after the other, whose first ones are at `starts`: a mask."""
    random = np.random.RandomState(seed)
    is_target = np.zeros(int(starts[-1]), dtype=bool)
    counts = np.diff(starts)
    for user in users.order():
        count = counts[user]
        if count >= MIN_ITEMS_TO_PREDICT:
            is_target[starts[user] + random.choice(count, size=int(TARGET_SHARE * count), replace=False)] = True
    return is_target
