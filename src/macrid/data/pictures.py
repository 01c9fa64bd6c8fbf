"""Pictures of items for those who have no model at hand, such as a list of recommendations."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from macrid.data.ids import Id, Ids


class Pictures:
    """Draws items of the built-in shop, and no others. A copy or a pickle draws nothing, so lists stay small."""

    def __init__(self, items: Ids | None = None, table: pa.Table | None = None) -> None:
        self._items, self._table = items, table

    def of(self, item: Id) -> str | None:
        """SVG."""
        if self._items is None or self._table is None:
            return None
        from macrid.data.shop.assortment import picture_of

        return picture_of(self._items, self._table, item)

    def __reduce__(self) -> tuple[Any, ...]:
        return Pictures, ()


NO_PICTURES = Pictures()
