"""From merged interactions to the arrays of a prepared folder, as `split_users` would divide them.

The only things in memory are numbers of users and items, the interactions of held-out users, and a few million others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from macrid.data.ids import Ids
from macrid.data.split import choose_users, draw_targets
from macrid.data.store import forget

CHUNK = 1 << 22  # interactions


class Shelf:
    """The merged interactions of all users, bucket by bucket on disk."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        counts = [np.load(folder / "counts.npy") for folder in folders]
        self.counts = np.concatenate(counts)
        """(codes,)"""
        self._users = [len(part) for part in counts]

    def blocks(self) -> Iterator[slice]:
        """The codes of users whose interactions are read at once."""
        return (block for _, _, blocks in self._by_bucket() for block in blocks)

    def read(self, name: str) -> Iterator[tuple[slice, np.ndarray]]:
        """An array of each block, and which codes it belongs to."""
        for folder, first, blocks in self._by_bucket():
            array = np.load(folder / f"{name}.npy", mmap_mode="r")
            for block in blocks:
                before = int(self.counts[first : block.start].sum(dtype=np.int64))
                yield block, np.asarray(array[before : before + int(self.counts[block].sum(dtype=np.int64))])
                forget(array)

    def _by_bucket(self) -> Iterator[tuple[Path, int, list[slice]]]:
        """The folder, first code and blocks of each bucket."""
        first = 0
        for folder, users in zip(self._folders, self._users, strict=True):
            chunks = _chunks(self.counts[first : first + users])
            yield folder, first, [slice(first + start, first + stop) for start, stop in chunks]
            first += users


@dataclass(frozen=True)
class Numbering:
    """Which items the split has, in its order, and those that only held-out users have."""

    items: np.ndarray
    """(all items,) codes, the split's first"""
    in_split: int
    used: np.ndarray
    """(items that anybody has,) codes, ascending"""
    number: np.ndarray
    """(codes,) the position of each in `items`"""


def number_items(shelf: Shelf, in_train: Iterable[np.ndarray], items: int, ordered: bool) -> Numbering:
    """Items in order of first appearance in the train data, then the others in order of their codes.

    in_train: masks of the interactions of one block after the other, as `shelf` reads them.
    """
    first = np.full(items, np.iinfo(np.int64).max)
    used = np.zeros(items, dtype=bool)
    places = shelf.read("places") if ordered else None
    position = 0
    for (_, columns), mine in zip(shelf.read("items"), in_train, strict=True):
        used[columns] = True
        rows = np.arange(position, position + len(columns)) if places is None else next(places)[1]
        np.minimum.at(first, columns[mine], rows[mine])
        position += len(columns)
    seen = np.flatnonzero(first < np.iinfo(np.int64).max)
    seen = seen[np.argsort(first[seen])]
    others = used.copy()
    others[seen] = False
    order = np.concatenate([seen, np.flatnonzero(others)])
    number = np.full(items, -1, dtype=np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    return Numbering(order, len(seen), np.flatnonzero(used), number)


class Assembly:
    """Writes the arrays of a prepared folder."""

    def __init__(self, folder: Path, shelf: Shelf, weighted: bool) -> None:
        self.folder, self._shelf, self._names = folder, shelf, ("indices", *(("weights",) if weighted else ()))
        self._kept = np.flatnonzero(shelf.counts)
        self._starts = np.concatenate([[0], np.cumsum(shelf.counts[self._kept], dtype=np.int64)])

    def write_everyone(self, numbering: Numbering) -> None:
        """All users in the order of their codes."""
        self._write("everyone", "indptr", self._starts)
        kinds = {"indices": "items", "weights": "weights"}
        for name in self._names:
            kind = np.dtype(np.int32 if name == "indices" else np.float32)
            with array_file(self.folder / f"everyone.{name}.npy", kind, int(self._starts[-1])) as file:
                for _, part in self._shelf.read(kinds[name]):
                    file.write(as_bytes(numbering.number[part] if name == "indices" else part))

    def write_train(self, users: np.ndarray) -> Iterator[int]:
        """The histories of users (positions among all), in this order; yields how many interactions are written."""
        starts = np.concatenate([[0], np.cumsum(self._counts(users), dtype=np.int64)])
        self._write("train", "indptr", starts)
        for name in self._names:
            source = self._map(name)
            done = 0
            with array_file(self.folder / f"train.{name}.npy", source.dtype, int(starts[-1])) as file:
                for part in self._gathered(source, users):
                    file.write(as_bytes(part))
                    done += len(part)
                    yield done

    def write_heldout(self, group: str, users: np.ndarray, ids: Ids, items: int, seed: int) -> None:
        """The histories and targets of held-out users, as far as the split has their items."""
        columns = self._collected("indices", users)
        known = columns < items
        rows = np.repeat(np.arange(len(users), dtype=np.int32), self._counts(users))[known]
        starts = _starts(rows, len(users))
        is_target = draw_targets(starts, ids, seed)
        columns = columns[known]
        for kind, mask in (("history", ~is_target), ("target", is_target)):
            self._write(f"{group}_{kind}", "indptr", _starts(rows[mask], len(users)))
            self._write(f"{group}_{kind}", "indices", columns[mask])
        if "weights" in self._names:
            self._write(f"{group}_history", "weights", self._collected("weights", users)[known][~is_target])

    def _counts(self, users: np.ndarray) -> np.ndarray:
        return self._shelf.counts[self._kept[users]]

    def _map(self, name: str) -> np.memmap[Any, Any]:
        mapped = np.load(self.folder / f"everyone.{name}.npy", mmap_mode="r")
        assert isinstance(mapped, np.memmap)
        return mapped

    def _collected(self, name: str, users: np.ndarray) -> np.ndarray:
        source = self._map(name)
        whole = np.empty(int(self._counts(users).sum(dtype=np.int64)), source.dtype)
        done = 0
        for part in self._gathered(source, users):
            whole[done : done + len(part)] = part
            done += len(part)
        return whole

    def _gathered(self, source: np.memmap[Any, Any], users: np.ndarray) -> Iterator[np.ndarray]:
        """The interactions of users, one user after the other."""
        counts = self._counts(users)
        for start, stop in _chunks(counts):
            ends = np.cumsum(counts[start:stop], dtype=np.int64)
            shift = self._starts[users[start:stop]] - (ends - counts[start:stop])
            positions = np.arange(ends[-1]) + np.repeat(shift, counts[start:stop])
            yield np.asarray(source[positions])
            forget(source)

    def _write(self, name: str, part: str, array: np.ndarray) -> None:
        with array_file(self.folder / f"{name}.{part}.npy", array.dtype, len(array)) as file:
            file.write(as_bytes(array))


def assemble(
    folder: Path, shelf: Shelf, user_ids: Ids, items: int, heldout: float, seed: int, stable: bool, ordered: bool,
    weighted: bool,
) -> Iterator[tuple[str, int, int]]:  # fmt: skip
    """Write all arrays; yields what is being done and how far it is."""
    total = int(shelf.counts.sum(dtype=np.int64))
    yield "numbering items", 0, total
    order, heldout_counts = choose_users(user_ids, heldout, seed, stable)
    train = len(order) - sum(heldout_counts)
    in_train = np.zeros(len(shelf.counts), dtype=bool)
    in_train[np.flatnonzero(shelf.counts)[order[:train]]] = True
    masks = (np.repeat(in_train[block], shelf.counts[block]) for block in shelf.blocks())
    numbering = number_items(shelf, masks, items, ordered)
    assembly = Assembly(folder / "data", shelf, weighted)
    yield "writing interactions", 0, total
    assembly.write_everyone(numbering)
    for done in assembly.write_train(order[:train]):
        yield "writing interactions", done, total
    start = train
    for group, count in zip(("validation", "test"), heldout_counts, strict=True):
        users = order[start : start + count]
        assembly.write_heldout(group, users, user_ids.take(users), numbering.in_split, seed)
        start += count
    np.save(folder / "order.npy", order)
    np.savez(folder / "numbering.npz", items=numbering.items, used=numbering.used, in_split=numbering.in_split)


@contextmanager
def array_file(path: Path, kind: np.dtype[Any], length: int | None = None) -> Iterator[BinaryIO]:
    """A file like those of `np.save`, whose numbers are written afterwards. length: None if it is not known yet."""
    with path.open("wb") as file:
        start = _write_header(file, kind, length or 0)
        yield file
        if length is None:
            written = (file.tell() - start) // kind.itemsize
            file.seek(0)
            end = _write_header(file, kind, written)
            assert end == start  # numpy leaves room for arrays that grow


def _write_header(file: BinaryIO, kind: np.dtype[Any], length: int) -> int:
    """Returns where it ends."""
    header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": (length,)}
    np.lib.format.write_array_header_1_0(file, header)
    return file.tell()


def as_bytes(array: np.ndarray) -> Any:
    return np.ascontiguousarray(array).view(np.uint8).data


def _starts(rows: np.ndarray, users: int) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=users), dtype=np.int64)])


def _chunks(counts: np.ndarray) -> Iterator[tuple[int, int]]:
    """Consecutive users who have about `CHUNK` interactions together."""
    ends = np.cumsum(counts, dtype=np.int64)
    start = 0
    while start < len(counts):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + CHUNK, side="right")))
        yield start, stop
        start = stop
