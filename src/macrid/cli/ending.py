"""How a command ends, whatever happens: one line on standard error, an exit code, no traceback unless requested."""

from __future__ import annotations

import io
import os
import sys
import traceback
from contextlib import suppress

from rich.text import Text

from macrid.cli.common import error_console, one_line
from macrid.errors import MacridError, first_line

DEBUG = "MACRID_DEBUG"
INTERRUPTED = 130
LONGEST = 2_000  # characters of a message


def prepare_streams() -> None:
    """Let output that a terminal or a locale cannot show appear in escapes, and never write into a wrong file."""
    if os.name == "posix":  # a file opened later must not get the number of a closed standard stream
        while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
            pass
        os.close(descriptor)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="backslashreplace")


def check_working_folder() -> None:
    """Without one, libraries exit silently."""
    try:
        os.getcwd()
    except OSError:
        raise MacridError("the working directory no longer exists; change to another one") from None


def flush() -> None:
    """Write what is still buffered while an error can be reported."""
    if sys.stdout is not None:
        sys.stdout.flush()


def end(error: BaseException) -> int:
    """Say what went wrong; returns the exit code."""
    _discard_output()
    if isinstance(error, BrokenPipeError):  # the reader has seen enough
        return 1
    with suppress(OSError, ValueError):  # standard error may be full or closed, too
        if os.environ.get(DEBUG):
            traceback.print_exception(error)
        if isinstance(error, KeyboardInterrupt):
            error_console.print("interrupted")
        else:
            message = Text.assemble(("error: ", "bold red"), one_line(explanation(error), LONGEST))
            error_console.print(message, soft_wrap=True)
        sys.stderr.flush()
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1


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


def _discard_output() -> None:
    """What standard output could not take would otherwise be tried again, and reported, when Python ends."""
    try:
        flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, sys.stdout.fileno())
            os.close(devnull)
