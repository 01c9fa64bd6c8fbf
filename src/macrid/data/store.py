"""A prepared folder: a split on disk, checked when opened, and memory-mapped.

about.json                      format version, counts, origin
train.indptr.npy, …             the CSR index arrays of train, validation and test (history and target)
train.weights.npy, …            the weights of train and of the histories, unless all are 1
items.parquet                   id, then title and attributes
users.parquet                   id and group (train, validation, test), in row order
everyone.indptr.npy, …          all users over all items, the split's first: index arrays and, unless all are 1, weights
everyone.users.parquet          ids of these users
everyone.items.parquet          id, title and attributes of the items that the split lacks
manifest.json                   the SHA-256 of each of these files

Everyone's interactions are kept whole, although most are in the other arrays too: a split may drop items, events and
the weights of targets, and what it drops depends on the kind of split. Four bytes per interaction buy a reader that
need not know how. Splits that were published have no such files, as there is no more data than theirs.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterator
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import scipy.sparse as sp

from macrid import manifest
from macrid.data.everyone import everyone_of
from macrid.data.ids import Ids
from macrid.data.interactions import Interactions, ReadReport, are_weighted, binary_csr
from macrid.data.split import HELD_OUT_USERS, HeldOut, Split
from macrid.errors import DataError, first_line
from macrid.files import check_free, claimed, new_folder, recover, writing
from macrid.version import __version__

FORMAT = 1
PIECE = 1 << 25  # numbers that are checked at a time
REMEDY = "recreate the folder with `macrid data prepare … --overwrite`"
GROUPS = ("train", "validation", "test")
MATRICES = ("train", "validation_history", "validation_target", "test_history", "test_target")
OF_WEIGHTS = ("time_column", "weight_column", "event_column", "half_life", "zero_weights", "mean_weight")
MAY_BE_WEIGHTED = ("train", "validation_history", "test_history", "everyone")
FILES = (
    "about.json",
    "items.parquet",
    "users.parquet",
    "everyone.users.parquet",
    "everyone.items.parquet",
    manifest.FILE,
    *(f"{name}.{part}.npy" for name in (*MATRICES, "everyone") for part in ("indptr", "indices")),
    *(f"{name}.weights.npy" for name in MAY_BE_WEIGHTED),
)


def write(
    split: Split, folder: str | os.PathLike[str], *, overwrite: bool = False, about: dict[str, Any] | None = None
) -> None:
    """Write a prepared folder atomically; `about` (a recipe, say) is kept in about.json under 'recipe'."""
    target = Path(folder)
    remedy = "nothing was changed; free some space or choose another folder"
    with claimed(target, DataError), writing(target, DataError, remedy):
        check_free(target, overwrite, DataError, replaceable=FILES)
        with new_folder(target) as temporary:
            write_rest(temporary, split, write_arrays(temporary, split), about)


def write_arrays(folder: Path, split: Split) -> Interactions | None:
    """The arrays of a prepared folder; returns everyone, if there is more than the split."""
    everyone = everyone_of(split) if _has_more(split) else None
    for name, matrix in _matrices(split):
        _write_matrix(folder, name, matrix)
    if everyone is not None:
        _write_matrix(folder, "everyone", everyone.matrix)
    return everyone


def write_rest(folder: Path, split: Split, everyone: Interactions | None, about: dict[str, Any] | None) -> None:
    """All files of a prepared folder but the arrays, which it has."""
    for name, table in (("items", _items_table(split)), ("users", _users_table(split))):
        _write_table(folder / f"{name}.parquet", table)
    if everyone is not None:
        _write_table(folder / "everyone.users.parquet", pa.table({"id": everyone.users.array}))
        _write_table(folder / "everyone.items.parquet", _items_table(everyone).slice(len(split.items)))
    text = json.dumps(_about(split, about, everyone), indent=2, ensure_ascii=False)
    (folder / "about.json").write_text(text + "\n", encoding="utf-8")
    manifest.seal(folder, FILES)


def read(folder: str | os.PathLike[str]) -> Split:
    """Open a prepared folder, and check all of its files."""
    folder = Path(folder)
    return manifest.steadily(folder, lambda: _read(folder))


def _read(folder: Path) -> Split:
    about = read_about(folder)
    _check(folder, about)
    counts: dict[str, Any] = about["counts"]
    items, item_ids = _read_table(folder / "items.parquet", counts["items"])
    users = _read_users(folder / "users.parquet", counts["users"])

    def matrix(name: str) -> sp.csr_array:
        shape = (counts["users"][name.split("_")[0]], counts["items"])
        return read_matrix(folder, name, shape, counts["interactions"][name], name in about.get("weights", ()))

    def heldout(group: str) -> HeldOut:
        protocol = about.get("protocol", {}).get(group, HELD_OUT_USERS)
        return HeldOut(matrix(f"{group}_history"), matrix(f"{group}_target"), users[group], protocol)

    train = Interactions(matrix("train"), users["train"], item_ids, _attributes(items), _report(about))
    everyone = None if counts["users"]["validation"] + counts["users"]["test"] else train
    if "everyone" in counts:
        everyone = _read_everyone(folder, about, items, train)
    return Split(train, heldout("validation"), heldout("test"), everyone)


def examine(folder: str | os.PathLike[str]) -> dict[str, str]:
    """What is wrong with a prepared folder, by file; empty if nothing is."""
    try:
        wrong = manifest.problems(Path(folder))
        if not wrong:
            read(folder)
    except manifest.DamagedError as error:
        return error.problems
    except DataError as error:
        return {"data": str(error)}
    return wrong


def read_about(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """about.json, if its format is known."""
    folder = Path(folder)
    recover(folder)
    if not folder.is_dir():
        raise DataError(
            f"{folder}: no such folder; create it with `macrid data prepare SOURCE --out {quote(str(folder))}`"
        )
    path = folder / "about.json"
    if not path.exists():
        raise DataError(f"{folder}: not a prepared folder (no about.json); create one with `macrid data prepare`")
    try:
        about = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, error) from error
    if not isinstance(about, dict) or about.get("kind") != "prepared data":
        raise DataError(f"{folder}: not a prepared folder (its about.json belongs to something else)")
    version = about.get("format")
    if not isinstance(version, int) or version > FORMAT:
        raise DataError(
            f"{folder}: written by macrid {about.get('macrid')} in format {version}, but macrid {__version__} reads"
            f" formats up to {FORMAT}; upgrade macrid or prepare the data again"
        )
    _check(folder, about, ["about.json"])
    if not _complete(about.get("counts")):
        raise _damaged(path, "its counts are incomplete")
    return about


def _matrices(split: Split) -> Iterator[tuple[str, sp.csr_array]]:
    yield "train", split.train.matrix
    for group, heldout in (("validation", split.validation), ("test", split.test)):
        yield f"{group}_history", heldout.history
        yield f"{group}_target", heldout.target


def _has_more(split: Split) -> bool:
    """Whether there is more data than that of the train users."""
    return split.everyone is not None and bool(len(split.validation.users) + len(split.test.users))


def _about(split: Split, recipe: dict[str, Any] | None, everyone: Interactions | None) -> dict[str, Any]:
    report = split.train.report
    more = {} if everyone is None else {"everyone": _counts_of(everyone)}
    matrices = dict(_matrices(split)) | ({} if everyone is None else {"everyone": everyone.matrix})
    weighted = [name for name, matrix in matrices.items() if _is_weighted(name, matrix)]
    return {
        "kind": "prepared data",
        "format": FORMAT,
        "has_manifest": True,  # earlier folders have none
        "macrid": __version__,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "counts": {
            "users": {group: len(getattr(split, group).users) for group in GROUPS},
            "items": len(split.items),
            "interactions": {name: int(matrix.nnz) for name, matrix in _matrices(split)},
            **more,
        },
        "protocol": {group: getattr(split, group).protocol for group in GROUPS[1:]},
        **({"weights": weighted} if weighted else {}),
        "recipe": recipe,
        "report": None if report is None else _facts(report),
    }


def _facts(report: ReadReport) -> dict[str, Any]:
    """What a report says; of times and weights only if there are any."""
    return {name: value for name, value in asdict(report).items() if value or name not in OF_WEIGHTS}


def _counts_of(data: Interactions) -> dict[str, int]:
    return {"users": len(data.users), "items": len(data.items), "interactions": len(data)}


def _complete(counts: Any) -> bool:
    """Whether the counts have every field needed for reading."""
    try:
        needed = [counts["items"], *(counts["users"][group] for group in GROUPS)]
        needed += [counts["interactions"][name] for name in MATRICES]
        if "everyone" in counts:
            needed += [counts["everyone"][name] for name in ("users", "items", "interactions")]
            needed.append(counts["everyone"]["items"] - counts["items"])
    except (KeyError, TypeError):
        return False
    return all(isinstance(count, int) and count >= 0 for count in needed)


def _report(about: dict[str, Any]) -> ReadReport | None:
    written = about.get("report")
    if not isinstance(written, dict):
        return None
    known: dict[str, Any] = {field.name: written[field.name] for field in fields(ReadReport) if field.name in written}
    return ReadReport(**known)


def _items_table(data: Split | Interactions) -> pa.Table:
    columns = {} if data.table is None else dict(zip(data.table.column_names, data.table.columns, strict=True))
    return pa.table({"id": data.items.array} | columns)


def _attributes(items: pa.Table) -> pa.Table | None:
    return items.drop_columns(["id"]) if items.num_columns > 1 else None


def _read_everyone(folder: Path, about: dict[str, Any], items: pa.Table, train: Interactions) -> Interactions:
    """items: the table of the split's items."""
    counts = about["counts"]["everyone"]
    _, users = _read_table(folder / "everyone.users.parquet", counts["users"])
    path = folder / "everyone.items.parquet"
    others, _ = _read_table(path, counts["items"] - len(train.items))
    try:
        whole = pa.concat_tables([items, others]).combine_chunks()
        ids = distinct_ids(whole.column("id").combine_chunks())
    except (pa.ArrowException, DataError) as error:
        raise _damaged(path, error) from error
    shape = (counts["users"], counts["items"])
    matrix = read_matrix(folder, "everyone", shape, counts["interactions"], "everyone" in about.get("weights", ()))
    report = train.report
    if report is not None and report.mean_weight is not None:
        report = replace(report, mean_weight=float(matrix.data.mean(dtype=np.float64)))
    return Interactions(matrix, users, ids, _attributes(whole), report)


def _users_table(split: Split) -> pa.Table:
    ids = [getattr(split, group).users.array for group in GROUPS]
    if len({array.type for array in ids}) > 1:
        raise DataError("user ids are strings in one group and integers in another; use one type for all")
    names = np.repeat(np.arange(len(GROUPS), dtype=np.int8), [len(array) for array in ids])
    groups = pa.DictionaryArray.from_arrays(pa.array(names), pa.array(GROUPS))
    return pa.table({"id": pa.concat_arrays(ids), "group": groups})


def _write_matrix(folder: Path, name: str, matrix: sp.csr_array) -> None:
    write_array(folder / f"{name}.indptr.npy", matrix.indptr.astype(np.int64, copy=False))
    write_array(folder / f"{name}.indices.npy", matrix.indices.astype(np.int32, copy=False))
    if _is_weighted(name, matrix):
        write_array(folder / f"{name}.weights.npy", matrix.data.astype(np.float32, copy=False))


def _is_weighted(name: str, matrix: sp.csr_array) -> bool:
    """Whether there are weights to keep."""
    return name in MAY_BE_WEIGHTED and are_weighted(matrix)


def _write_table(path: Path, table: pa.Table) -> None:
    pa.parquet.write_table(table, path, compression="zstd", write_page_checksum=True)


def write_array(path: Path, array: np.ndarray) -> None:
    """Like `np.save`, but through a Python file, which reports a full disk as soon as it happens."""
    array = np.ascontiguousarray(array)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(array.view(np.uint8).data)


def _read_users(path: Path, counts: dict[str, int]) -> dict[str, Ids]:
    """By group; somebody may be in several, but in none of them twice."""
    _, ids = _read_table(path, sum(counts.values()), distinct=False)
    ends = np.cumsum([counts[group] for group in GROUPS]).tolist()
    try:
        return {
            group: distinct_ids(ids.array[end - counts[group] : end]) for group, end in zip(GROUPS, ends, strict=True)
        }
    except DataError as error:
        raise _damaged(path, error) from error


def _read_table(path: Path, rows: int, distinct: bool = True) -> tuple[pa.Table, Ids]:
    """A table whose first column is 'id', and those ids."""
    try:
        with pa.parquet.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read()
        if table.column_names[:1] != ["id"]:
            raise DataError("it does not start with a column 'id'")
        if table.num_rows != rows:
            raise DataError(f"it has {table.num_rows:,} rows, about.json says {rows:,}")
        ids = table.column("id").combine_chunks()
        return table, distinct_ids(ids) if distinct else Ids(ids)
    except (pa.ArrowException, OSError, DataError) as error:
        raise _damaged(path, error) from error


def read_matrix(folder: Path, name: str, shape: tuple[int, int], nnz: int, weighted: bool = False) -> sp.csr_array:
    indptr = _read_array(folder / f"{name}.indptr.npy", np.dtype(np.int64), shape[0] + 1)
    indices = _read_array(folder / f"{name}.indices.npy", np.dtype(np.int32), nnz)
    weights = _read_array(folder / f"{name}.weights.npy", np.dtype(np.float32), nnz) if weighted else None
    try:
        return checked_csr(indptr, indices, shape, weights)
    except ValueError as error:
        part, _, reason = str(error).partition(": ")
        raise _damaged(folder / f"{name}.{part}.npy", reason) from error


def checked_csr(
    indptr: np.ndarray, indices: np.ndarray, shape: tuple[int, int], weights: np.ndarray | None = None
) -> sp.csr_array:
    """CSR from arrays that may be damaged, since scipy would crash on them; without weights, of ones.

    A `ValueError` says which array is bad and why: "indptr: …", "indices: …" or "weights: …".
    """
    if indptr.shape != (shape[0] + 1,):
        raise ValueError(f"indptr: its shape is {indptr.shape}, not {(shape[0] + 1,)}")
    if indptr[0] != 0 or indptr[-1] != len(indices) or np.any(indptr[1:] < indptr[:-1]):
        raise ValueError("indptr: its values are not row starts")
    if not all(part.min() >= 0 and part.max() < shape[1] for part in _pieces(indices)):
        raise ValueError(f"indices: it refers to items beyond the {shape[1]:,} there are")
    largest = np.finfo(np.float32).max
    if weights is not None and not (
        weights.shape == indices.shape and all(np.all((part > 0) & (part <= largest)) for part in _pieces(weights))
    ):
        raise ValueError("weights: its values are not one positive number per interaction")
    return binary_csr(indptr, indices, shape, weights)


def _pieces(array: np.ndarray) -> Iterator[np.ndarray]:
    """An array in parts, each of which may leave memory after its use if it is a map of a file."""
    for start in range(0, len(array), PIECE):
        yield array[start : start + PIECE]
        if len(array) > PIECE:
            forget(array)


def forget(array: np.ndarray) -> None:
    """Let the pages of a mapped file go, which the system keeps in its cache as long as there is room."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


def distinct_ids(array: pa.Array) -> Ids:
    """Ids from a table that may be damaged; a `DataError` if one occurs twice."""
    ids = Ids(array)
    if len(ids.array.unique()) != len(ids):
        raise DataError("some ids occur twice")
    return ids


def _read_array(path: Path, dtype: np.dtype, length: int) -> np.ndarray:
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise _damaged(path, error) from error
    if mapped.dtype != dtype or mapped.shape != (length,):
        raise _damaged(path, f"it is {mapped.shape} of {mapped.dtype}, about.json says ({length},) of {dtype}")
    return np.asarray(mapped)


def _check(folder: Path, about: dict[str, Any], names: list[str] | None = None) -> None:
    try:
        manifest.check(folder, names, required=about.get("has_manifest", False))
    except manifest.DamagedError as error:
        raise DataError(f"{error}; {REMEDY}") from None


def _damaged(path: Path, reason: str | Exception) -> DataError:
    if isinstance(reason, Exception):
        reason = "it is missing" if isinstance(reason, FileNotFoundError) else first_line(reason)
    return DataError(f"{path}: damaged ({reason}); {REMEDY}")
