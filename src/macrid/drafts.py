"""A run in the making: what a training has done so far, kept in RUN/training until it replaces RUN.

Its files say which phases are done, so an interrupted training continues with the next one.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from macrid import runs
from macrid.data.everyone import over_more_items
from macrid.data.ids import Ids
from macrid.data.interactions import Interactions
from macrid.data.split import HeldOut, Split
from macrid.errors import MacridError, RunError
from macrid.files import Claim, remove_leftovers, replace_folder, writing
from macrid.models.base import Recommender
from macrid.models.macridvae import MacridVAE
from macrid.settings import TrainingSettings
from macrid.training import checkpoint

REMEDY = "free some space, then continue with --resume"


class Draft:
    """The run that a training is going to write."""

    def __init__(
        self,
        run: Path,
        model: Recommender,
        split: Split,
        origin: dict[str, Any],
        fingerprint: dict[str, Any],
        claim: Claim,
    ) -> None:
        """fingerprint: of data and settings. claim: of the folder `run`."""
        self.run, self.path, self.model = run, run / runs.TRAINING / runs.DRAFT, model
        groups = {"validation": split.validation, "test": split.test}
        self.heldout = {name: group for name, group in groups.items() if len(group.users)}
        self._table, self._origin, self._fingerprint, self._claim = split.table, origin, fingerprint, claim
        self._has_earlier = (run / "config.json").exists() and not is_unfinished(run)
        self._first: Recommender | None = None
        self.metrics: dict[str, Any] = {}

    @property
    def final_checkpoint(self) -> Path:
        """The folder for checkpoints of the training on everybody."""
        return self.path.parent / runs.FINAL

    def restore(self, training: TrainingSettings, everyone: Interactions | None = None) -> bool:
        """Restore the fitted model and its scores; False if there are none, or if it is to be trained longer.

        everyone: what the final model is trained on, if there is to be one.
        """
        try:
            config = runs.read_config(self.path)
        except RunError:  # not there yet, or damaged, and then made again
            return False
        checkpoint.check_belongs(self.path, config["fingerprint"], self._fingerprint)
        if any(config["training"].get(name) != getattr(training, name) for name in ("epochs", "patience")):
            return False
        try:
            runs.fill(self.model, self.path)
            metrics = runs.read_metrics(self.path)
        except RunError:
            return False
        if self.model.training is not None:  # what a final training goes by
            here = {"item_shards": training.item_shards}
            self.model.training = self.model.training.model_copy(update=here)
        is_final = everyone is not None and "final" in metrics
        table = everyone.table if everyone is not None and is_final else self._table
        if table is not None and not _are_equal(table, self.model.table):  # titles or attributes changed
            return False
        self.metrics = metrics
        self.model.validation = None if is_final else self.heldout.get("validation")
        if everyone is not None and is_final:
            self._widen(everyone)
        self.model.to(training.device)
        return True

    def start(self, metrics: dict[str, Any]) -> None:
        """Begin with a model that has just been fitted."""
        shutil.rmtree(self.final_checkpoint, ignore_errors=True)  # of another model
        self._start(metrics)

    def replace(self, model: Recommender, everyone: Interactions, **metrics: Any) -> None:
        """Go on with the final model, trained on everybody; the scores stay those of the first."""
        self._first, self.model = self.model, model
        self._widen(everyone)
        self._start(self.metrics | metrics)

    def _widen(self, everyone: Interactions) -> None:
        self._table = everyone.table
        items = len(everyone.items)
        self.heldout = {name: over_more_items(group, items) for name, group in self.heldout.items()}

    def _start(self, metrics: dict[str, Any]) -> None:
        self.metrics = metrics
        self._claim.confirm()
        self._save(self.path, remedy=REMEDY, overwrite=True)
        if isinstance(self.model, MacridVAE):
            self.model.sample = runs.read_sample(self.path)  # the same users as in a loaded run

    def put(self, **metrics: Any) -> None:
        """Keep the scores of another phase, and the model's axes and names."""
        self.metrics |= metrics
        self._claim.confirm()
        if (self.path / "config.json").exists():
            runs.keep(self.model, self.path, self.metrics, remedy=REMEDY)
        else:  # somebody deleted it
            self._save(self.path, remedy=REMEDY)

    def add(self, name: str, content: Any) -> None:
        """Keep one more JSON file."""
        self._claim.confirm()
        runs.add(self.path, name, content, remedy=REMEDY)

    def publish(self) -> None:
        """Replace RUN."""
        self.put()
        runs.index_if_large(self.path, self.model)
        runs.check_place(self.run, overwrite=True)
        with writing(self.run, RunError, REMEDY):
            remove_leftovers(self.path)
            replace_folder(self.path, self.run)

    def leave(self, note: Callable[[str], None]) -> None:
        """After an interruption: make RUN a run with the best weights so far, unless it holds an earlier one."""
        if not self.metrics and not any(record.best for record in self.model.log):
            return
        if self._has_earlier:
            note(f"{self.run}: still holds the earlier run; the best weights so far are in {self.path.parent}")
            return
        try:
            self._save(self.run, overwrite=True, keep_training=True, is_unfinished=True)
            note(f"the best weights so far are in {self.run}")
        except MacridError as error:
            note(f"the best weights so far could not be saved: {error}")

    def discard(self) -> None:
        """Forget an earlier training of the same run; its folder stays, as the mark of this one."""
        with writing(self.path.parent, RunError, "choose another folder"):
            for entry in self.path.parent.glob("*"):
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def _save(self, folder: Path, **options: Any) -> None:
        heldout = self.heldout or self._some_users()
        runs.save(
            self.model, folder, heldout=heldout, metrics=self.metrics or None, data=self._origin,
            fingerprint=self._fingerprint, first=self._first, **options,
        )  # fmt: skip

    def _some_users(self) -> dict[str, HeldOut]:
        """Train users whose range limits moves, where nobody is held out."""
        sample = getattr(self.model, "sample", None)
        if sample is None:
            return {}
        return {"train": HeldOut(sample, sp.csr_array(sample.shape, dtype=sample.dtype), Ids.range(sample.shape[0]))}


def _are_equal(one: pa.Table, other: pa.Table | None) -> bool:
    """Whether two tables are the same, with NaN equal to NaN."""
    if other is None or one.schema != other.schema:
        return False
    for left, right in zip(one.columns, other.columns, strict=True):
        is_floating = pa.types.is_floating(left.type) and len(left) == len(right)
        if not left.equals(right) and not (
            is_floating and np.array_equal(left.to_numpy(), right.to_numpy(), equal_nan=True)
        ):
            return False
    return True


@contextmanager
def begun(run: Path) -> Iterator[None]:
    """Mark a folder as being trained, so that a kill can be told from a finished run.

    The mark is the folder `training`, which is there until the run is complete. After an exception it is removed,
    unless something of this training is left.
    """
    with writing(run, RunError, "choose another folder"):
        (run / runs.TRAINING).mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # something is in it
            if not is_unfinished(run):
                (run / runs.TRAINING).rmdir()
                run.rmdir()
        raise


def is_unfinished(run: Path) -> bool:
    """Whether a run was left by an interrupted training."""
    try:
        return bool(runs.read_config(run).get("is_unfinished"))
    except RunError:
        return False
