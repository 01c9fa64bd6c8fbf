"""A training that starts from an earlier run: what is read from it, and what is said about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from macrid import runs
from macrid.concepts.carrying import understand_anew
from macrid.data.ids import first_few
from macrid.data.interactions import Interactions
from macrid.data.split import HeldOut, Split
from macrid.differences import compare
from macrid.models.macridvae import MacridVAE
from macrid.models.warm import check_possible, digest_of, origin_of
from macrid.report.effects import measure_effects

ALIKE = 0.5  # of the items of two histories together that both have, if they are probably one user's
MOST_CHANGES = 10  # that are shown
MOSTLY = 0.9  # of the held-out users that should have been held out before


@dataclass(frozen=True)
class Earlier:
    """A run that a training starts from."""

    run: Path
    model: MacridVAE
    first: MacridVAE | None = None
    """The model before it, if it is a final one."""

    @classmethod
    def read(cls, run: str | PathLike[str]) -> Earlier:
        """On the CPU; an error if there can be no warm start from it."""
        model: Any = runs.load(run, "cpu")
        check_possible(model.settings, model)
        path = Path(run)
        path = path.resolve() if path.is_symlink() else path  # a link may lead elsewhere tomorrow
        return cls(path, model, runs.read_first(path, model))

    def start(self, final: bool) -> MacridVAE:
        """What a training starts from that is scored on held-out users. final: another one follows, on everybody.

        Final models start from final models, and those that are scored from those that were scored: the held-out users
        stay unseen.
        """
        return self.model if self.first is None or not final else self.first

    def facts(self, model: MacridVAE, split: Split, everyone: Interactions | None = None) -> dict[str, Any]:
        """What metrics.json says about a warm start before anything is named.

        everyone: what a final model is going to be trained on; items are then counted among all of them.
        """
        old, origin = self.model, origin_of(model.items if everyone is None else everyone.items, self.model)
        gone = np.setdiff1d(np.arange(len(old.items)), origin.places)
        return {
            "run": str(self.run),
            "weights": digest_of(old),
            "kept_items": len(origin.kept),
            "new_items": len(origin.new),
            "dropped_items": origin.dropped,
            "dropped": [str(old.items[position]) for position in gone[:5].tolist()],
            "concepts": [old.network.concepts, model.network.concepts],
            "concepts_renumbered": model.renumbered,
            "held_out_now": len(split.validation.users) + len(split.test.users),
            "held_out_before": held_out_before(self.run, old, split),
            "trained_on_everybody": trained_on_everybody(self.run, self.start(everyone is not None) is self.model),
        }

    def differences(self, model: MacridVAE, draft: Path, run: Path) -> dict[str, Any]:
        """Of a model that is saved as a draft of a run."""
        result = compare(self.model.to(str(model.device)), model, self.run, draft)
        return {**result, "after": str(run)}


def understood(
    model: MacridVAE,
    validation: HeldOut | None,
    histories: sp.csr_array | None = None,
    on_knobs: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Find axes and names and measure knobs, or carry them over after a warm start; what became of them, if so.

    on_knobs: called before knobs are measured.
    """
    old = model.started_from
    carried = understand_anew(model, histories)
    on_knobs()
    measure_effects(model, validation, earlier=old)
    return {} if carried is None else carried.as_json()


def held_out_before(run: Path, old: MacridVAE, split: Split) -> float | None:
    """The share of the held-out users that the earlier run held out, too; None if it keeps none.

    It has no ids of users, so histories are compared: those of one user share at least half of their items.
    """
    before = runs.read_histories(run)
    now = sp.csr_array(sp.vstack([split.validation.history, split.test.history]))
    places = origin_of(split.items, old).places
    if before is None or not now.shape[0]:
        return None
    kept = np.flatnonzero(places >= 0)
    now, before = _binary(now[:, kept]), _binary(before[:, places[kept]])
    together = sp.csr_array(now @ before.T)  # (users now, users before)
    sizes = [np.diff(each.indptr) for each in (now, before)]
    rows = np.repeat(np.arange(len(sizes[0])), np.diff(together.indptr))
    alike = together.data >= ALIKE * (sizes[0][rows] + sizes[1][together.indices] - together.data)
    return float(len(np.unique(rows[alike])) / now.shape[0])


def trained_on_everybody(run: Path, final: bool = True) -> bool:
    """Whether a run, or one that it started from, was trained on held-out users, too, or held out nobody.

    final: its final model is meant, if it has one, and not the one before.
    """
    metrics = runs.read_metrics(run)
    before = metrics.get("warm_start") or {}
    nobody_held_out = "training" in metrics and "test" not in metrics
    return (final and "final" in metrics) or nobody_held_out or bool(before.get("trained_on_everybody"))


def _binary(matrix: sp.csr_array) -> sp.csr_array:
    matrix = sp.csr_array(matrix, copy=True)
    matrix.data = np.ones_like(matrix.data)
    return matrix


def notes(about: dict[str, Any]) -> Iterator[str]:
    """What a person should know about a warm start, in a few lines; about: its facts, and what became of names."""
    counts = f"{about['kept_items']:,} items kept, {about['new_items']:,} new, {about['dropped_items']:,} dropped"
    dropped = about["dropped"]
    more = about["dropped_items"] - len(dropped)
    gone = f" ({first_few(dropped)}{f' and {more:,} more' if more > 0 else ''})" if dropped else ""
    yield f"warm start from {about['run']}: {counts}{gone}"
    if "names" in about:
        before, now = about["concepts"]
        matched = f"{about['concepts_matched']} of {before} concepts" if before == now else "no concepts"
        yield (
            f"kept {matched}, {about['names_kept']} of {about['names']} names and {about['dimensions_kept']} of"
            f" {about['dimensions']} named dimensions"
        )
        changes = about["changes"]
        yield from changes[:MOST_CHANGES]
        if len(changes) > MOST_CHANGES:
            yield f"{len(changes) - MOST_CHANGES} more changes are in metrics.json"
    share = about["held_out_before"]
    if about.get("trained_on_everybody") and about.get("held_out_now"):
        yield (
            f"{about['run']} was trained on everybody, so scores on held-out users are too good; for honest ones, train"
            " without --warm-start"
        )
    elif share is not None and share < MOSTLY:
        yield (
            f"only {share:.0%} of the held-out users were held out before; the others may have been trained on, and"
            " then scores are too good: hold out the same users each time"
        )
