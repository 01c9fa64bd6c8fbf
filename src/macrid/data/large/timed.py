"""A split by time of events on disk, one bucket of users after the other: only users and items are counted in memory.

The folder is what `macrid.data.temporal` makes of the same events in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from macrid.data.large.assembling import Numbering, Shelf, array_file, as_bytes, number_items
from macrid.data.store import MATRICES, MAY_BE_WEIGHTED, write_array
from macrid.data.temporal import (
    GROUPS,
    Cut,
    LastItems,
    Moments,
    Purposes,
    check_members,
    members_of,
    remarks_on,
)
from macrid.data.weighing import Occurrences, distinct

Tell = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Bucket:
    """The interactions of consecutive users, one user after the other, and their events."""

    counts: np.ndarray
    """(users,) of interactions; 0 of a user who was dropped"""
    items: np.ndarray
    """(interactions,) codes"""
    places: np.ndarray | None
    """(interactions,) the first row of each in the file, if the order of rows counts"""
    log: Occurrences
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> np.ndarray:
        """(interactions,) the user of each."""
        return np.repeat(np.arange(len(self.counts), dtype=np.int32), self.counts)

    def write(self, folder: Path) -> dict[str, Any]:
        first_times, log = self.log.first_times(), self.log
        assert first_times is not None
        arrays = {"counts": self.counts, "items": self.items, "places": self.places, "pair": log.pair}
        arrays |= {"times": log.times, "weights": log.weights, "moments": np.sort(first_times)}
        for name, array in arrays.items():
            if array is not None:
                write_array(folder / f"{name}.npy", array)
        return self.facts

    @classmethod
    def read(cls, folder: Path, half_life: float | None) -> Bucket:
        def array(name: str) -> np.ndarray | None:
            path = folder / f"{name}.npy"
            return np.load(path) if path.exists() else None

        counts, items, pair = (np.load(folder / f"{name}.npy") for name in ("counts", "items", "pair"))
        return cls(
            counts, items, array("places"), Occurrences(pair, len(items), array("times"), array("weights"), half_life)
        )


def merge(
    pairs: dict[str, np.ndarray], first: int, users: int, items: int, min_items: int, half_life: float | None
) -> Bucket:
    """The events of the users with the codes `first` … `first + users − 1`; compare `merging.merge`.

    The items of a user are in the order of their first rows or, if that does not count, of their codes.
    """
    codes, places = pairs["user"].astype(np.int64) - first, pairs.get("place")
    order = np.lexsort((pairs["item"] if places is None else places, codes))
    pair, first_rows = distinct((codes * items + pairs["item"])[order])
    firsts = order[first_rows]
    rows = codes[firsts]
    counts = np.bincount(rows, minlength=users)
    enough = counts >= min_items
    keep = enough[rows]
    weights = pairs["weight"][order] if "weight" in pairs else None
    log = Occurrences(pair, len(firsts), pairs["time"][order], weights, half_life).of(keep)
    assert log.times is not None
    facts = {
        "duplicates": len(order) - len(firsts),
        "dropped_users": int(np.count_nonzero(counts[~enough])),
        "dropped_rows": int(counts[~enough].sum()),
        "longest": int(counts.max(initial=0)),
        "users": int(np.count_nonzero(counts * enough)),
        "interactions": int(keep.sum()),
        "weight": None,
        "latest": log.latest(),
    }
    kept = firsts[keep]
    kept_places = None if places is None else places[kept]
    return Bucket((counts * enough).astype(np.int32), pairs["item"][kept], kept_places, log, facts)


@dataclass(frozen=True)
class Assembly:
    """Writes the arrays of a prepared folder, from buckets on disk."""

    folder: Path
    buckets: Sequence[Path]
    items: int
    """Codes."""
    ordered: bool
    """Whether the order of rows counts."""
    weighted: bool
    half_life: float | None
    latest: int
    """The latest event, from which everyone's ages are counted."""
    tell: Tell

    def run(self, cut: Cut, source: str) -> dict[str, Any]:
        """Write everything; returns what to say of the split. source: what errors call the data."""
        shelf, remarks = Shelf(self.buckets), list[str]()
        if isinstance(cut, LastItems):
            cut.check(source, int(shelf.counts.max()))
            remarks = cut.remarks(cut.short(shelf.counts))
            if self.half_life is not None:
                cut = replace(cut, now=self._latest(cut))
        for place, bucket in self._read("dividing by time"):
            write_array(place / "train.npy", cut.divide(bucket.rows, bucket.log).in_train)
        numbering = number_items(shelf, (mask for _, mask in shelf.read("train")), self.items, self.ordered)
        with ExitStack() as stack:
            writing = _Writing(stack, self.folder / "data", numbering, self.weighted, self.latest)
            for _, bucket in self._read("writing interactions"):
                writing.add(bucket, cut.divide(bucket.rows, bucket.log))
        notes: list[str] = []
        for group, protocol in zip(GROUPS, cut.protocols, strict=True):
            check_members(sum(map(len, writing.users[group])), source, group, protocol)
            notes += remarks_on(group, writing.lost[group])
        np.save(self.folder / "kept.npy", np.flatnonzero(shelf.counts))
        np.save(self.folder / "order.npy", np.concatenate([part for parts in writing.users.values() for part in parts]))
        np.savez(self.folder / "numbering.npz", items=numbering.items, used=numbering.used, in_split=numbering.in_split)
        return {"notes": [*notes, *remarks], "protocols": cut.protocols, "mean_weight": writing.mean_weight}

    def _latest(self, cut: LastItems) -> tuple[int, int]:
        """See `LastItems.now`."""
        latest = [cut.latest(bucket.rows, bucket.log) for _, bucket in self._read("finding the latest events")]
        first, second = (max(moments) for moments in zip(*latest, strict=True))
        return first, second

    def _read(self, title: str) -> Iterator[tuple[Path, Bucket]]:
        for number, place in enumerate(self.buckets):
            self.tell(title, number, len(self.buckets))
            yield place, Bucket.read(place, self.half_life)


def moments(buckets: Sequence[Path]) -> Moments:
    """When the interactions of all users happened."""
    return Moments(_Files([folder / "moments.npy" for folder in buckets]))


class _Files(Sequence[np.ndarray]):
    """Arrays on disk, each mapped when it is asked for: there may be more of them than files that can be open."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, place: Any) -> Any:
        return np.load(self._paths[place], mmap_mode="r")


class _Writing:
    """All matrices, to which the users of one bucket after the other are added."""

    def __init__(self, stack: ExitStack, folder: Path, numbering: Numbering, weighted: bool, latest: int) -> None:
        self._numbering, self._latest, self._done = numbering, latest, 0
        self._matrices = {
            name: stack.enter_context(_Matrix(folder, name, weighted and name in MAY_BE_WEIGHTED))
            for name in (*MATRICES, "everyone")
        }
        self.users: dict[str, list[np.ndarray]] = {group: [] for group in ("train", *GROUPS)}
        """Positions among all users."""
        self.lost = {group: Counter[str]() for group in GROUPS}
        self._weight, self._pairs = 0.0, 0

    @property
    def mean_weight(self) -> float | None:
        """Of the train data."""
        return self._weight / self._pairs if self._pairs else None

    def add(self, bucket: Bucket, purposes: Purposes) -> None:
        rows, columns = bucket.rows, self._numbering.number[bucket.items]
        kept = np.flatnonzero(bucket.counts)
        position = self._done - 1 + np.cumsum(bucket.counts > 0)  # among all users
        self._done += len(kept)

        def add(name: str, users: np.ndarray, mask: np.ndarray, weights: np.ndarray | None) -> None:
            counts = np.bincount(rows[mask], minlength=len(bucket.counts))[users]
            self._matrices[name].add(counts, columns[mask], None if weights is None else weights[mask])

        everything, weights = np.ones(len(rows), dtype=bool), purposes.validation.weights
        add("everyone", kept, everything, bucket.log.pair_weights(self._latest))
        trained = np.unique(rows[purposes.in_train])
        add("train", trained, purposes.in_train, weights)
        self.users["train"].append(position[trained])
        if weights is not None:
            self._weight += float(weights[purposes.in_train].sum(dtype=np.float64))
            self._pairs += int(purposes.in_train.sum())
        is_known = columns < self._numbering.in_split
        for name, group in zip(GROUPS, (purposes.validation, purposes.test), strict=True):
            members = members_of(group, rows, is_known, len(bucket.counts))
            add(f"{name}_history", members.users, members.history, group.weights)
            add(f"{name}_target", members.users, members.target, None)
            self.users[name].append(position[members.users])
            self.lost[name] += members.lost


class _Matrix:
    """Arrays of a sparse matrix that grows by rows."""

    def __init__(self, folder: Path, name: str, weighted: bool) -> None:
        self._folder, self._name, self._counts = folder, name, [np.zeros(1, dtype=np.int64)]
        self._stack = ExitStack()
        kinds = {"indices": np.int32, "weights": np.float32} if weighted else {"indices": np.int32}
        self._files = {
            part: self._stack.enter_context(array_file(folder / f"{name}.{part}.npy", np.dtype(kind)))
            for part, kind in kinds.items()
        }

    def __enter__(self) -> _Matrix:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        write_array(self._folder / f"{self._name}.indptr.npy", np.cumsum(np.concatenate(self._counts)))

    def add(self, counts: np.ndarray, columns: np.ndarray, weights: np.ndarray | None) -> None:
        """counts: of the rows."""
        self._counts.append(counts.astype(np.int64))
        self._files["indices"].write(as_bytes(columns.astype(np.int32, copy=False)))
        if "weights" in self._files:
            assert weights is not None
            self._files["weights"].write(as_bytes(weights.astype(np.float32, copy=False)))
