"""How a command ends, whatever happens: one line on standard error, an exit code, no traceback unless requested."""

from __future__ import annotations

import io
import os
import sys
import traceback
from contextlib import suppress

from rich.text import Text

from macrid.cli.common import error_console, one_line
from macrid.errors import MacridError
from macrid.explanations import DEBUG, explanation

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


def _discard_output() -> None:
    """What standard output could not take would otherwise be tried again, and reported, when Python ends."""
    try:
        flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, sys.stdout.fileno())
            os.close(devnull)
