"""How long a training takes at most, estimated from its first steps."""

from __future__ import annotations

import time
from collections.abc import Callable

ENOUGH = 1.0  # seconds of steps to go by
SHORT = 10.0  # seconds that need no estimate


class Estimate:
    """Says once how long the rest of a training takes; it only watches, so training is the same with or without it.

    The first step is not counted, since it also loads and compiles. On a GPU, where steps are only queued, whole epochs
    are, from the second.
    """

    def __init__(self, say: Callable[[float, int], None], clock: Callable[[], float] = time.monotonic) -> None:
        """say: called with seconds and epochs left, unless the time is short."""
        self._say, self._clock = say, clock
        self._is_said = False
        self._begin: float | None = None
        self._steps = self._epochs = 0

    def after_step(self, steps: int, epochs: int, queued: bool = False) -> None:
        """steps: per epoch. epochs: left, with this one. queued: the step may not have run yet."""
        if self._begin is None:
            self._begin = self._clock()
            return
        self._steps += 1
        seconds = self._clock() - self._begin
        if not queued and seconds >= ENOUGH:
            self._tell(seconds / self._steps * steps * epochs, epochs)

    def after_epoch(self, seconds: float, epochs: int, queued: bool = False) -> None:
        """seconds: of this epoch. epochs: left after it."""
        self._epochs += 1
        if not queued or self._epochs > 1:
            self._tell(seconds * epochs, epochs)

    def _tell(self, seconds: float, epochs: int) -> None:
        if not self._is_said and seconds >= SHORT:
            self._say(seconds, epochs)
        self._is_said = True


def duration(seconds: float) -> str:
    """About so long, such as "0.4 s", "40 s", "3 min" or "2.5 h"."""
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 3 else f"{round(seconds / 5) * 5 if seconds > 10 else round(seconds)} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
