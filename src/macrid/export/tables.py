"""Tables of items that go with exported models."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from macrid.data.tables import free_names
from macrid.models.base import Recommender

OWN_COLUMNS = ("position", "id", "concept", "membership", "popularity", "vector")


def items_table(model: Recommender) -> pa.Table:
    """One row per item, in the order of positions: position, id, title, concept, popularity, attributes.

    An attribute with the name of another column gets an underscore.
    """
    items = len(model.items)
    columns = {"position": pa.array(np.arange(items)), "id": model.items.array}
    attributes = {} if model.table is None else dict(zip(model.table.column_names, model.table.columns, strict=True))
    if "title" in attributes:
        columns["title"] = attributes.pop("title")
    concepts = model.concepts_of_items()
    if concepts is not None:
        columns["concept"] = pa.array(concepts.astype(np.int32))
    if len(model.popularity) == items:
        columns["popularity"] = pa.array(model.popularity)
    names = free_names(list(attributes), OWN_COLUMNS)
    return pa.table(columns | dict(zip(names, attributes.values(), strict=True)))
