"""Errors that no part of macrid has explained, in words."""

from __future__ import annotations

import os
import sys

from macrid.errors import MacridError, first_line

DEBUG = "MACRID_DEBUG"


def explanation(error: BaseException) -> str:
    """What went wrong and what to do, for errors that no part of macrid has explained."""
    if isinstance(error, MacridError):
        return str(error)
    if _is_memory(error):
        free = "" if "CUDA" in str(error) else _free()
        return f"out of memory ({first_line(error)}){free}; use smaller settings or less data"
    if isinstance(error, RecursionError):
        return "a file or an option is nested too deeply; JSON may have a few hundred levels"
    if isinstance(error, OSError):
        is_path = isinstance(error.filename, str | bytes)
        place = os.fsdecode(error.filename) if is_path else "reading or writing failed"
        return f"{place}: {error.strerror or first_line(error)}"
    if isinstance(error, UnicodeError):
        return f"text that cannot be read or written ({first_line(error)})"
    if isinstance(error, OverflowError):
        return f"a number is too large ({first_line(error)})"
    kind = type(error).__name__
    return (
        f"unexpected {kind}: {first_line(error)}. Please report it; {DEBUG}=1 in the environment shows where it arose"
    )


def _is_memory(error: BaseException) -> bool:
    """torch has no class of its own for memory that a CPU lacks."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and ("allocate memory" in str(error) or "out of memory" in str(error))
    )


def _free() -> str:
    if "torch" not in sys.modules:
        return ""
    import torch

    from macrid.models.devices import memory_left
    from macrid.models.memory import size

    return f"; {size(memory_left(torch.device('cpu')))} is free"
