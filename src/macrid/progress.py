"""Progress bars for Python: one updated display in a notebook, one line in a terminal, a last line elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeVar

from macrid import markup

SECONDS_BETWEEN = 0.2  # updates of a notebook
P = ParamSpec("P")
R = TypeVar("R")


class Bar(Protocol):
    """What is being done, how far it is, and how it goes."""

    def show(self, title: str, done: int = 0, total: int | None = None, status: str = "") -> None: ...
    def note(self, text: str) -> None:
        """Something to keep on view."""

    def close(self) -> None: ...


def is_notebook() -> bool:
    """Whether this is a Jupyter kernel, or one of its like."""
    ipython = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    kind = type(ipython)
    return kind.__name__ == "ZMQInteractiveShell" or "google.colab" in kind.__module__


def new_bar() -> Bar:
    return NotebookBar() if is_notebook() else LineBar()


class NotebookBar:
    """A display that is updated in place, which needs nothing but IPython."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._shown, self._begun = 0.0, time.monotonic()
        self._latest: tuple[str, int, int | None, str] | None = None
        self._notes: list[str] = []

    def show(self, title: str, done: int = 0, total: int | None = None, status: str = "") -> None:
        is_new = self._latest is None or (self._latest[0], self._latest[3]) != (title, status)
        self._latest = title, done, total, status
        if is_new or time.monotonic() - self._shown > SECONDS_BETWEEN:
            self._draw()

    def note(self, text: str) -> None:
        self._notes.append(text)
        self._draw()

    def close(self) -> None:
        if self._latest is not None:
            self._draw()

    def _draw(self) -> None:
        from IPython.display import HTML, display  # type: ignore[import-not-found, unused-ignore]

        title, done, total, status = self._latest or ("", 0, None, "")
        self._shown = time.monotonic()
        seconds = f"{self._shown - self._begun:,.0f} s"
        bar = markup.bar(title, done, total, f"{status}, {seconds}" if status else seconds)
        page = HTML(markup.fragment(*(markup.heading("", note) for note in self._notes), bar))
        if self._handle is None:
            self._handle = display(page, display_id=True)
        else:
            self._handle.update(page)


class LineBar:
    """A bar on standard error; where that is no terminal, only its last state is printed."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[status]}", markup=False),
            TimeElapsedColumn(),
        )
        self._console = Console(stderr=True, markup=False, emoji=False, highlight=False)
        self._progress = Progress(*columns, console=self._console)
        self._task = self._progress.add_task("", total=None, status="")

    def show(self, title: str, done: int = 0, total: int | None = None, status: str = "") -> None:
        self._progress.update(self._task, description=title, completed=done, total=total, status=status)
        self._progress.start()

    def note(self, text: str) -> None:
        self._console.print(text, soft_wrap=True)

    def close(self) -> None:
        if self._progress.live.is_started:
            self._progress.stop()


@contextmanager
def watched(progress: bool | None, is_watched: bool = False) -> Iterator[Bar | None]:
    """A bar if asked for, or by default in a notebook, unless the caller watches for themselves; None without one."""
    if progress or (progress is None and is_notebook() and not is_watched):
        bar = new_bar()
        try:
            yield bar
        finally:
            bar.close()
    else:
        yield None


def shows_progress(function: Callable[P, R]) -> Callable[P, R]:
    """For a function that tells `progress` its events: True, or None in a notebook, becomes a bar."""

    @wraps(function)
    def wrapper(*args: P.args, **keywords: P.kwargs) -> R:
        progress: Any = keywords.get("progress")
        if callable(progress):
            return function(*args, **keywords)
        with watched(progress) as bar:
            events = None if bar is None else Events(bar)
            keywords["progress"] = events
            result = function(*args, **keywords)
            if events is not None:
                events.finish()
            return result

    return wrapper


class Events:
    """Shows the events of a training, which have phase, text, done, total and epoch, on a bar."""

    def __init__(self, bar: Bar) -> None:
        self._bar, self._status = bar, ""
        self._done: tuple[str, int, int | None] = "", 0, None

    def __call__(self, event: Any) -> None:
        if event.phase == "note":
            self._bar.note(event.text)
        elif event.epoch is not None:  # its text says how it went
            self._status = event.text
            self._bar.show(*self._done, status=self._status)
        else:
            self._done = event.text, event.done, event.total
            self._bar.show(*self._done, status=self._status)

    def finish(self) -> None:
        self._bar.show("ready", 1, 1, self._status)
