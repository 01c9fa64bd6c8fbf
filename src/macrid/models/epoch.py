"""The record of one epoch, and how to show epochs on a bar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from macrid.progress import Bar


@dataclass(frozen=True)
class Epoch:
    """One line of log.jsonl; loss and KL are means per user."""

    epoch: int
    loss: float
    kl: float
    ndcg: float | None
    """Validation NDCG@100."""
    effective_concepts: float | None
    """Concepts in use: exp of the entropy of how items are divided among them."""
    best: bool
    seconds: float
    concepts: int | None = None
    """The number of concepts; None for models without concepts and in runs of earlier versions."""

    def __str__(self) -> str:
        parts = [f"epoch {self.epoch:>3}", f"loss {self.loss:9.2f}", f"KL {self.kl:8.2f}"]
        if self.ndcg is not None:
            parts.append(f"validation NDCG@100 {self.ndcg:.4f}{'*' if self.best else ' '}")
        if self.effective_concepts is not None:
            total = "" if self.concepts is None else f"of {self.concepts} "
            parts.append(f"{self.effective_concepts:.1f} {total}concepts in use")
        return "  ".join([*parts, f"{self.seconds:.1f} s" if self.seconds >= 1 else f"{self.seconds:.2f} s"])


OnEpoch = Callable[[Epoch], None] | None
OnStep = Callable[[int, int], None] | None


def summary(log: Sequence[Epoch]) -> str:
    """The latest epoch in a few words."""
    record = log[-1]
    parts = [f"loss {record.loss:.0f}", f"KL {record.kl:.0f}"]
    if record.ndcg is not None:
        parts.append(f"NDCG {record.ndcg:.3f} (best {[line.ndcg for line in log if line.best][-1]:.3f})")
    if record.effective_concepts is not None:
        parts.append(f"{record.effective_concepts:.1f} of {record.concepts} concepts")
    return " ".join(parts)


def shown_on(bar: Bar, model: Any, epochs: int, on_epoch: OnEpoch, on_step: OnStep) -> tuple[OnEpoch, OnStep]:
    """The same callbacks, and everything on a bar too. model: has a `log`."""
    place: tuple[str, int, int | None] = f"epoch 1/{epochs}", 0, None
    bar.show(*place)

    def show_epoch(record: Epoch) -> None:
        bar.show(*place, status=summary(model.log))
        if on_epoch is not None:
            on_epoch(record)

    def show_step(done: int, steps: int) -> None:
        nonlocal place
        before = len(model.log)
        place = f"epoch {before + 1}/{epochs}", before * steps + done, epochs * steps
        bar.show(*place, status=summary(model.log) if before else "")
        if on_step is not None:
            on_step(done, steps)

    return show_epoch, show_step
