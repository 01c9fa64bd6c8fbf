"""The record of one epoch."""

from __future__ import annotations

from dataclasses import dataclass


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
