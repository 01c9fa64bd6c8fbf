"""A few facts about each item, short enough for a card: the year, the genres."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from macrid.control.thesaurus import YEAR
from macrid.control.vocabulary import key_of
from macrid.data.attributes import Attribute, is_date, kind_of, read_attributes, texts_of
from macrid.models.base import Recommender

MOST_GROUPS = 1  # attributes with values, such as genres
MOST_VALUES = 3  # of an attribute
LONGEST = 40  # characters of a value


class Facts:
    """Facts about the items of a model."""

    def __init__(self, model: Recommender) -> None:
        self._table = model.table
        attributes = {attribute.name: attribute for attribute in read_attributes(model.table)}
        numbers = [name for name, attribute in attributes.items() if attribute.numbers is not None]
        groups = sorted((a for a in attributes.values() if a.numbers is None), key=_usefulness, reverse=True)
        self._year = next((name for key in YEAR for name in numbers if key_of(name) == key), None)
        self._groups = [attribute.name for attribute in groups[:MOST_GROUPS]]

    def of(self, position: int) -> list[str]:
        """Such as ["1999", "Action, Sci-Fi"]; empty if nothing is known."""
        if self._table is None:
            return []
        facts = []
        if self._year is not None and (year := _year(self._cell(self._year, position))) is not None:
            facts.append(year)
        for name in self._groups:
            (values,) = texts_of(self._cell(name, position)) or [[]]
            if values:
                facts.append(", ".join(value[:LONGEST] for value in values[:MOST_VALUES]))
        return facts

    def _cell(self, name: str, position: int) -> pa.ChunkedArray:
        assert self._table is not None
        return self._table.column(name).slice(position, 1)


def _usefulness(attribute: Attribute) -> tuple[bool, float]:
    """Known for most items, and between too coarse and too fine to describe one."""
    counts = np.asarray((attribute.shares > 0).sum(axis=0)).ravel()
    share = counts / counts.sum()
    entropy = float(-(share * np.log(share, where=share > 0, out=np.zeros(len(share)))).sum())
    return len(attribute.values) <= len(attribute.items) / 10, entropy * len(attribute.items)


def _year(cell: pa.ChunkedArray) -> str | None:
    (value,) = cell.to_pylist()
    if value is None:
        return None
    if is_date(kind_of(cell)):
        return str(value.year)
    number: Any = float(value)
    return f"{number:.0f}" if np.isfinite(number) else None
