"""A prepared folder: a split on disk, checked when opened, and memory-mapped.

about.json                      format version, counts, origin
train.indptr.npy, …             the CSR index arrays of train, validation and test (history and target)
items.parquet                   id, then title and attributes
users.parquet                   id and group (train, validation, test), in row order
manifest.json                   the SHA-256 of each of these files
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import scipy.sparse as sp

from macrid import manifest
from macrid.data.ids import Ids
from macrid.data.interactions import Interactions, ReadReport, binary_csr
from macrid.data.split import HeldOut, Split
from macrid.errors import DataError, first_line
from macrid.files import check_free, claimed, new_folder, recover, writing
from macrid.version import __version__

FORMAT = 1
REMEDY = "recreate the folder with `macrid data prepare … --overwrite`"
GROUPS = ("train", "validation", "test")
MATRICES = ("train", "validation_history", "validation_target", "test_history", "test_target")
FILES = (
    "about.json",
    "items.parquet",
    "users.parquet",
    manifest.FILE,
    *(f"{name}.{part}.npy" for name in MATRICES for part in ("indptr", "indices")),
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
            for name, matrix in _matrices(split):
                _write_array(temporary / f"{name}.indptr.npy", matrix.indptr.astype(np.int64, copy=False))
                _write_array(temporary / f"{name}.indices.npy", matrix.indices.astype(np.int32, copy=False))
            for name, table in (("items", _items_table(split)), ("users", _users_table(split))):
                path = temporary / f"{name}.parquet"
                pa.parquet.write_table(table, path, compression="zstd", write_page_checksum=True)
            text = json.dumps(_about(split, about), indent=2, ensure_ascii=False)
            (temporary / "about.json").write_text(text + "\n", encoding="utf-8")
            manifest.seal(temporary, FILES)


def read(folder: str | os.PathLike[str]) -> Split:
    """Open a prepared folder, and check all of its files."""
    folder = Path(folder)
    return manifest.steadily(folder, lambda: _read(folder))


def _read(folder: Path) -> Split:
    about = read_about(folder)
    _check(folder, about)
    counts: dict[str, Any] = about["counts"]
    items, item_ids = _read_table(folder / "items.parquet", counts["items"])
    _, user_ids = _read_table(folder / "users.parquet", sum(counts["users"].values()))
    ends = np.cumsum([counts["users"][group] for group in GROUPS])
    users = {
        group: Ids(user_ids.array[end - counts["users"][group] : end]) for group, end in zip(GROUPS, ends, strict=True)
    }

    def matrix(name: str) -> sp.csr_array:
        shape = (counts["users"][name.split("_")[0]], counts["items"])
        return _read_matrix(folder, name, shape, counts["interactions"][name])

    table = items.drop_columns(["id"]) if items.num_columns > 1 else None
    return Split(
        Interactions(matrix("train"), users["train"], item_ids, table, _report(about)),
        HeldOut(matrix("validation_history"), matrix("validation_target"), users["validation"]),
        HeldOut(matrix("test_history"), matrix("test_target"), users["test"]),
    )


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


def _about(split: Split, recipe: dict[str, Any] | None) -> dict[str, Any]:
    report = split.train.report
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
        },
        "recipe": recipe,
        "report": None if report is None else asdict(report),
    }


def _complete(counts: Any) -> bool:
    """Whether the counts have every field needed for reading."""
    try:
        needed = [counts["items"], *(counts["users"][group] for group in GROUPS)]
        needed += [counts["interactions"][name] for name in MATRICES]
    except (KeyError, TypeError):
        return False
    return all(isinstance(count, int) and count >= 0 for count in needed)


def _report(about: dict[str, Any]) -> ReadReport | None:
    written = about.get("report")
    if not isinstance(written, dict):
        return None
    known: dict[str, Any] = {field.name: written[field.name] for field in fields(ReadReport) if field.name in written}
    return ReadReport(**known)


def _items_table(split: Split) -> pa.Table:
    columns = {} if split.table is None else dict(zip(split.table.column_names, split.table.columns, strict=True))
    return pa.table({"id": split.items.array} | columns)


def _users_table(split: Split) -> pa.Table:
    ids = [getattr(split, group).users.array for group in GROUPS]
    if len({array.type for array in ids}) > 1:
        raise DataError("user ids are strings in one group and integers in another; use one type for all")
    names = np.repeat(np.arange(len(GROUPS), dtype=np.int8), [len(array) for array in ids])
    groups = pa.DictionaryArray.from_arrays(pa.array(names), pa.array(GROUPS))
    return pa.table({"id": pa.concat_arrays(ids), "group": groups})


def _write_array(path: Path, array: np.ndarray) -> None:
    """Like `np.save`, but through a Python file, which reports a full disk as soon as it happens."""
    array = np.ascontiguousarray(array)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
        file.write(array.view(np.uint8).data)


def _read_table(path: Path, rows: int) -> tuple[pa.Table, Ids]:
    """A table whose first column is 'id', and those ids."""
    try:
        with pa.parquet.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read()
        if table.column_names[:1] != ["id"]:
            raise DataError("it does not start with a column 'id'")
        if table.num_rows != rows:
            raise DataError(f"it has {table.num_rows:,} rows, about.json says {rows:,}")
        return table, distinct_ids(table.column("id").combine_chunks())
    except (pa.ArrowException, OSError, DataError) as error:
        raise _damaged(path, error) from error


def _read_matrix(folder: Path, name: str, shape: tuple[int, int], nnz: int) -> sp.csr_array:
    indptr = _read_array(folder / f"{name}.indptr.npy", np.dtype(np.int64), shape[0] + 1)
    indices = _read_array(folder / f"{name}.indices.npy", np.dtype(np.int32), nnz)
    try:
        return checked_csr(indptr, indices, shape)
    except ValueError as error:
        part, _, reason = str(error).partition(": ")
        raise _damaged(folder / f"{name}.{part}.npy", reason) from error


def checked_csr(indptr: np.ndarray, indices: np.ndarray, shape: tuple[int, int]) -> sp.csr_array:
    """CSR of ones from index arrays that may be damaged; scipy would crash on them.

    A `ValueError` says which array is bad and why: "indptr: …" or "indices: …".
    """
    if indptr.shape != (shape[0] + 1,):
        raise ValueError(f"indptr: its shape is {indptr.shape}, not {(shape[0] + 1,)}")
    if indptr[0] != 0 or indptr[-1] != len(indices) or np.any(indptr[1:] < indptr[:-1]):
        raise ValueError("indptr: its values are not row starts")
    if len(indices) and (indices.min() < 0 or indices.max() >= shape[1]):
        raise ValueError(f"indices: it refers to items beyond the {shape[1]:,} there are")
    return binary_csr(indptr, indices, shape)


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
