"""What rules can be about: the attributes of items, with kinds, ranges and frequent values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from macrid.control.columns import Column, NumberColumn
from macrid.control.rulebook import rulebook_of
from macrid.models.base import Recommender

MOST_VALUES = 50  # listed per attribute


def attributes_of(model: Recommender) -> list[dict[str, Any]]:
    """As the schema `ItemAttribute`."""
    return list(_attributes(model))


def _attributes(model: Recommender) -> Iterator[dict[str, Any]]:
    selector = rulebook_of(model).selector
    for name in selector.names:
        try:
            column = selector.column(name)
        except ValueError:  # a type that conditions cannot be about
            continue
        values = column.values()
        counts = np.bincount(values.indices, minlength=values.shape[1])
        texts = _truths(column) if column.kind == "boolean" else column.texts
        frequent = np.argsort(-counts, kind="stable")[: MOST_VALUES if texts else 0].tolist()
        yield {
            "name": name,
            "kind": column.kind,
            "missing": int((~column.known).sum()),
            "distinct": len(counts),
            **_range(column),
            "values": [{"value": texts[at], "items": int(counts[at])} for at in frequent if counts[at] > 1],
            "has_several": bool((np.diff(values.indptr) > 1).any()),
        }


def _truths(column: Column) -> list[str]:
    """The values of a column of booleans, in the order of `column.values()`."""
    assert isinstance(column, NumberColumn)
    return [str(bool(value)).lower() for value in np.unique(column.numbers[column.known])]


def _range(column: Column) -> dict[str, float | str | None]:
    """low, high and middle."""
    if not isinstance(column, NumberColumn) or column.kind == "boolean" or not column.known.any():
        return {"low": None, "high": None, "middle": None}
    known = column.numbers[column.known]
    if column.kind == "date":
        return {"low": _date(known.min()), "high": _date(known.max()), "middle": None}
    return {"low": float(known.min()), "high": float(known.max()), "middle": float(np.median(known))}


def _date(seconds: Any) -> str:
    return str(np.datetime64(int(seconds), "s")).removesuffix("T00:00:00")
