"""What `benchmarks/attack.py` tries; a module per kind of attack, with a function `attack(times, seed)`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Outcome:
    """What came of one kind of attack, repeated."""

    name: str
    """In a few words, such as "kill while scoring, then --resume"."""
    wanted: str
    """What should happen, such as "the rest is finished, every file is equal"."""
    tried: int = 0
    bad: Counter[str] = field(default_factory=Counter)
    """How often something else happened, by what did."""

    def note(self, problem: str | None) -> None:
        """Count one try; None if it went as it should."""
        self.tried += 1
        if problem is not None:
            self.bad[problem] += 1
