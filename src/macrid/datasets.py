"""Data sets by name: `macrid.datasets.load("ml-1m")` is a `Split`, downloaded first where that is allowed."""

from macrid.data.catalog import load, names

__all__ = ["load", "names"]
