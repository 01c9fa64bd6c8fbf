"""Tables handed to a caller: Arrow, or a frame of a library that is installed only if somebody wants it."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal

import pyarrow as pa

from macrid.errors import MacridError, RequestError

Kind = Literal["arrow", "pandas", "polars"]


def to_frame(table: pa.Table, as_: Kind = "arrow") -> Any:
    """A `pyarrow.Table`, or a frame of pandas or polars."""
    if as_ == "arrow":
        return table
    if as_ not in ("pandas", "polars"):
        raise RequestError(f"as_ is {as_!r}; choose arrow, pandas or polars")
    try:
        library = import_module(as_)
    except ModuleNotFoundError:
        raise MacridError(f"{as_} is not installed; `pip install {as_}`, or take the Arrow table") from None
    return table.to_pandas() if as_ == "pandas" else library.from_arrow(table)
