"""Callbacks: objects that follow a training, such as loggers for MLflow and TensorBoard.

    macrid.train("ml-1m", "run/", callbacks=[macrid.callbacks.TensorBoard("logs/")])
    with macrid.callbacks.MLflow("sqlite:///mlflow.db") as log:
        model.fit(split.train, validation=split.validation, on_epoch=log)

A callback that fails is left out of the rest of the training with a `CallbackWarning`; it never stops the training.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from os import PathLike
from types import TracebackType
from typing import Any, Self

from macrid.errors import CallbackWarning, MacridError, first_line
from macrid.models.epoch import Epoch

__all__ = ["Callback", "MLflow", "TensorBoard"]

NAMES = {"ndcg": "validation/ndcg@100"}  # of the fields of an epoch, where they differ
MOST_AT_ONCE = 100  # parameters or metrics in a request to MLflow


class Callback:
    """Override what you need. Also usable as `on_epoch`, as a context manager so that the end is noticed."""

    _watchers: Watchers | None = None

    def start(self, settings: Mapping[str, Any]) -> None:
        """Before the first epoch. settings: of the model, its training and its data."""

    def epoch(self, record: Epoch) -> None:
        """After each epoch."""

    def end(self, metrics: Mapping[str, Any] | None) -> None:
        """After everything. metrics: the content of metrics.json; None if the training was stopped."""

    def __call__(self, record: Epoch) -> None:
        if self._watchers is None:
            self._watchers = Watchers([self])
            self._watchers.tell("start", {})
        self._watchers.tell("epoch", record)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watchers is not None:
            self._watchers.tell("end", None if kind is not None else {})
            self._watchers = None


class Watchers:
    """Tells callbacks what happens; one that fails is told nothing more."""

    def __init__(self, callbacks: Iterable[Any]) -> None:
        self._working = list(callbacks)
        for callback in self._working:
            missing = [name for name in ("start", "epoch", "end") if not callable(getattr(callback, name, None))]
            if missing:
                raise MacridError(
                    f"callback {callback!r:.80} has no {missing[0]}(); derive it from macrid.callbacks.Callback"
                )

    def tell(self, what: str, about: Any) -> None:
        """what: start, epoch or end."""
        for callback in list(self._working):
            try:
                with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # within other libraries
                    getattr(callback, what)(about)
            except Exception as error:  # whatever it is, the training matters more
                self._working.remove(callback)
                when = "after an epoch" if what == "epoch" else f"at the {what}"
                warnings.warn(
                    f"{type(callback).__name__} failed {when}; training goes on without it: {first_line(error)[:200]}",
                    CallbackWarning,
                    stacklevel=3,
                )

    def listening(self, progress: Callable[[Any], None] | None) -> Callable[[Any], None]:
        """A function that reports progress, and epochs to the callbacks."""

        def tell(event: Any) -> None:
            if progress is not None:
                progress(event)
            if event.epoch is not None:
                self.tell("epoch", event.epoch)

        return tell


class TensorBoard(Callback):
    """Writes event files for TensorBoard: curves by epoch, and the settings and final scores."""

    def __init__(self, folder: str | PathLike[str]) -> None:
        """folder: of this training; TensorBoard compares the folders beside it."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ModuleNotFoundError as error:
            raise MacridError(
                f"TensorBoard needs {error.name}; install it with `pip install 'macrid[tensorboard]'`"
            ) from None
        self._folder, self._open, self._last = os.fspath(folder), SummaryWriter, 0
        self._writer: Any = None

    def start(self, settings: Mapping[str, Any]) -> None:
        self._writer = self._open(self._folder)
        rows = "\n".join(f"| {name} | {value} |" for name, value in flat(settings))
        self._writer.add_text("settings", f"| setting | value |\n| --- | --- |\n{rows}")

    def epoch(self, record: Epoch) -> None:
        self._last = record.epoch
        for name, value in scalars(record):
            self._writer.add_scalar(name, value, record.epoch)
        self._writer.flush()

    def end(self, metrics: Mapping[str, Any] | None) -> None:
        for name, value in scores(metrics or {}):
            self._writer.add_scalar(f"final/{name}", value, self._last)
        self._writer.close()


class MLflow(Callback):
    """Logs a run to MLflow: settings as parameters, curves by epoch, and the final scores."""

    def __init__(
        self,
        uri: str | None = None,
        experiment: str = "macrid",
        *,
        name: str | None = None,
        tags: Mapping[str, str] = {},
    ) -> None:
        """uri: of the tracking server or database, such as http://localhost:5000 or sqlite:///mlflow.db; by default
        MLflow's own, MLFLOW_TRACKING_URI. name: of the run.
        """
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # a training does not wait for minutes
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
        try:
            from mlflow.tracking import MlflowClient
        except ModuleNotFoundError as error:
            raise MacridError(f"MLflow needs {error.name}; install it with `pip install 'macrid[mlflow]'`") from None
        logging.getLogger("mlflow").setLevel(logging.WARNING)
        self._connect, self._uri, self._experiment, self._name = MlflowClient, uri, experiment, name
        self._tags, self._last = dict(tags), 0
        self._client: Any = None
        self.run_id: str | None = None

    def start(self, settings: Mapping[str, Any]) -> None:
        from mlflow.entities import Param

        client = self._client = self._connect(tracking_uri=self._uri)
        known = client.get_experiment_by_name(self._experiment)
        experiment = client.create_experiment(self._experiment) if known is None else known.experiment_id
        self.run_id = client.create_run(experiment, run_name=self._name, tags=self._tags).info.run_id
        params = [Param(_allowed(name), str(value)[:500]) for name, value in flat(settings)]
        for begin in range(0, len(params), MOST_AT_ONCE):
            client.log_batch(self.run_id, params=params[begin : begin + MOST_AT_ONCE])

    def epoch(self, record: Epoch) -> None:
        self._last = record.epoch
        self._log(scalars(record), record.epoch)

    def end(self, metrics: Mapping[str, Any] | None) -> None:
        self._log(scores(metrics or {}), self._last)
        self._client.set_terminated(self.run_id, "KILLED" if metrics is None else "FINISHED")

    def _log(self, values: Iterable[tuple[str, float]], step: int) -> None:
        import time

        from mlflow.entities import Metric

        now = int(1000 * time.time())
        logged = [Metric(_allowed(name), value, now, step) for name, value in values]
        for begin in range(0, len(logged), MOST_AT_ONCE):
            self._client.log_batch(self.run_id, metrics=logged[begin : begin + MOST_AT_ONCE])


def scalars(record: Epoch) -> Iterator[tuple[str, float]]:
    """The numbers of an epoch that are known, by name."""
    for name, value in asdict(record).items():
        if name not in ("epoch", "best") and value is not None:
            yield NAMES.get(name, name), float(value)


def scores(metrics: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The scores in the content of metrics.json, such as ("test/ndcg@100", 0.42)."""
    for name, value in flat(metrics):
        if isinstance(value, int | float) and not isinstance(value, bool) and not name.endswith("/se"):
            yield name.replace("/metrics/", "/").removesuffix("/mean"), float(value)


def flat(values: Mapping[str, Any], start: str = "") -> Iterator[tuple[str, Any]]:
    """Nested entries with their paths."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{start}{name}/")
        else:
            yield f"{start}{name}", value


def _allowed(name: str) -> str:
    """A name as MLflow accepts it."""
    text = name.replace("@", "_at_")
    return "".join(letter if letter.isalnum() or letter in "_-. :/" else "_" for letter in text)
