"""Training in several processes: who takes part, and what the first one tells the others.

    torchrun --nproc-per-node 4 -m macrid train ml-1m --out runs/ml-1m

torchrun starts the processes and ends all of them when one fails. They meet here, over gloo on CPUs and NCCL on GPUs.
The first process, rank 0, computes the start, writes checkpoints and the run, and reports; the others only train, and
wait for it in between, which has no time limit. What all do together (`macrid.training.mesh`) has one.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import scipy.sparse as sp
import torch
import torch.distributed as dist

from macrid.errors import DataError, SettingsError, TrainingError, first_line
from macrid.models.devices import choose_device
from macrid.settings import TrainingSettings
from macrid.training.checkpoint import fingerprint

if TYPE_CHECKING:
    from macrid.data.split import HeldOut
    from macrid.models.neural import NeuralRecommender

CODE_PLACE = re.compile(r"^\[[^\]]*\]\s*")  # in gloo's source, before its messages
TIMEOUT = timedelta(minutes=10)  # of anything that all processes do together
NO_LIMIT = timedelta(days=365)  # of waiting for what the first process does alone
SHORT = 5.0  # seconds to wait for the end of the first process, which may be due to the same error
LAUNCHED = "MACRID_LAUNCHED"
"""In the environment of processes whose launcher reports losses."""
ENVIRONMENT = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # set by torchrun


class LostError(TrainingError):
    """Another process of the training has died or cannot be reached."""


class RankError(TrainingError):
    """An error of one process that the first one does not have."""


class Ranks:
    """The processes that train together, as one of them sees them."""

    def __init__(self) -> None:
        self.rank, self.size = (dist.get_rank(), dist.get_world_size()) if is_joined() else (0, 1)
        self._tasks = self._shared = 0

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def announce(self, task: dict[str, Any] | None) -> None:
        """Tell the other processes what to do next; None: nothing is left."""
        if self.size > 1 and self.leads:
            _store().set(f"macrid/task/{self._tasks}", json.dumps(task))
            self._tasks += 1

    def tasks(self) -> Iterator[dict[str, Any]]:
        """What the first process announces, until nothing is left."""
        while True:
            key = f"macrid/task/{self._tasks}"
            _store().wait([key], NO_LIMIT)
            task = json.loads(_store().get(key))
            self._tasks += 1
            if task is None:
                return
            yield task

    @contextmanager
    def dismissed_at_the_end(self) -> Iterator[None]:
        """Let the other processes go when the first one is done, or cannot go on."""
        try:
            yield
        finally:
            with suppress(RuntimeError):  # nobody is left to be told
                self.announce(None)

    def share(self, value: Any) -> Any:
        """What the first process passes, in all processes, however long it takes to get there."""
        if self.size == 1:
            return value
        key = f"macrid/shared/{self._shared}"
        self._shared += 1
        if self.leads:
            _store().set(key, json.dumps(value))
            return value
        _store().wait([key], NO_LIMIT)
        return json.loads(_store().get(key))

    def has_ended(self, seconds: float = SHORT) -> bool:
        """Whether the first process says, soon, that nothing is left."""
        deadline, key = time.monotonic() + seconds, f"macrid/task/{self._tasks}"
        try:
            while time.monotonic() < deadline:
                for number in range(self._tasks, self._tasks + 2):  # it may have announced one more task before
                    key = f"macrid/task/{number}"
                    if _store().check([key]) and json.loads(_store().get(key)) is None:
                        return True
                time.sleep(0.1)
        except RuntimeError:  # it is gone
            return True
        return False


_current: Ranks | None = None


def is_joined() -> bool:
    return dist.is_available() and dist.is_initialized()


def current() -> Ranks:
    """The processes of the training that is going on."""
    return _current or Ranks()


def is_launched() -> bool:
    """Whether torchrun started this process together with others."""
    return all(name in os.environ for name in ENVIRONMENT) and int(os.environ["WORLD_SIZE"]) > 1


def join(device: str) -> Ranks:
    """Meet the other processes, if there are any; device: of the settings, where each takes its own GPU.

    Once for all trainings of a process: what processes have told each other would confuse them in another meeting.
    """
    global _current
    if _current is None and (is_launched() or is_joined()):
        if not is_joined():
            _meet(device)
            atexit.register(_part)
        _current = Ranks()
    return current()


def _part() -> None:
    with suppress(Exception):  # the others may be gone
        dist.destroy_process_group()


def _meet(device: str) -> None:
    backend = "gloo"
    if choose_device(device).type == "cuda" and ":" not in device:
        place, here = int(os.environ.get("LOCAL_RANK", "0")), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        if here > torch.cuda.device_count():
            raise SettingsError(
                f"{here} processes on a machine with {torch.cuda.device_count()} GPU(s); start as many as there are"
                " GPUs, or use --device cpu"
            )
        torch.cuda.set_device(place)
        backend = "nccl"
    try:
        dist.init_process_group(backend, timeout=TIMEOUT)
    except (dist.DistError, RuntimeError) as error:
        raise TrainingError(f"the processes of the training did not meet: {first_line(error)[:200]}") from error


@contextmanager
def losses_explained(ranks: Ranks) -> Iterator[None]:
    """Turn the errors of torch.distributed into a `LostError`."""
    try:
        yield
    except (dist.DistError, RuntimeError) as error:
        if ranks.size == 1 or not _is_loss(error):
            raise
        reason = CODE_PLACE.sub("", first_line(error)).partition(". ")[0]
        raise LostError(
            f"lost another process of the training ({reason[:200]}); its own message says why, and --resume"
            " continues from the last checkpoint"
        ) from error


def _is_loss(error: Exception) -> bool:
    """gloo has no class of its own for a connection that was closed."""
    words = ("gloo", "Connection", "closed by peer", "Timed out", "timed out", "timeout", "NCCL", "Broken pipe")
    return isinstance(error, dist.DistError) or any(word in str(error) for word in words)


def check_together(
    model: NeuralRecommender, matrix: sp.csr_array, validation: HeldOut | None, training: TrainingSettings
) -> None:
    """An error in all processes if they cannot train a model together."""
    has_shards = "concepts" in model.settings_class.model_fields
    users, items = matrix.shape
    check_possible(type(model).__name__, has_shards, users, items, training.item_shards)
    if current().size > 1:
        data = {"train": matrix} if validation is None else {"train": matrix, "validation": validation.target}
        shards = {"item shards": training.item_shards, "epochs and patience": (training.epochs, training.patience)}
        facts = fingerprint(data, {**model.settings.model_dump(), **training.model_dump(), **shards})
        interactions = facts.pop("interactions")
        others = hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()
        check_same({"interactions": interactions, "settings": others}, choose_device(training.device))


def check_possible(model: str, has_shards: bool, users: int, items: int, item_shards: int) -> None:
    """A `SettingsError` if so many processes cannot train a model together."""
    size = current().size
    if size == 1 and item_shards > 1:
        raise SettingsError(
            f"item_shards is {item_shards}, but there is one process; start {item_shards} with"
            f" macrid train --processes {item_shards}, or with torchrun"
        )
    if size % item_shards:
        raise SettingsError(
            f"item_shards is {item_shards}, but there are {size} processes; item_shards must divide their number"
        )
    if item_shards > 1 and not has_shards:
        raise SettingsError(f"{model} cannot divide its items; remove item_shards, or train a macridvae")
    if item_shards > items:
        raise SettingsError(f"item_shards is {item_shards}, but there are only {items:,} items; use fewer")
    if size // item_shards > users:
        raise SettingsError(f"{size} processes are more than the {users:,} train users can be divided over; use fewer")


def check_same(facts: dict[str, str], device: torch.device) -> None:
    """A `DataError` in all processes if some have other data or settings than the first; facts: digests (hex)."""
    own = torch.tensor([list(bytes.fromhex(digest)[:16]) for digest in facts.values()], device=device)
    everyone = [torch.empty_like(own) for _ in range(current().size)]
    dist.all_gather(everyone, own)
    different = {name: [] for name in facts}  # type: dict[str, list[int]]
    for rank, theirs in enumerate(everyone):
        for name, equal in zip(facts, (theirs == everyone[0]).all(dim=1).tolist(), strict=True):
            if not equal:
                different[name].append(rank)
    problems = [f"{_ranks(ranks)} different {name}" for name, ranks in different.items() if ranks]
    if problems:
        raise DataError(f"{' and '.join(problems)} from rank 0; give all processes the same")


def _ranks(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]} has"
    shown = ", ".join(map(str, ranks[:5])) + (", …" if len(ranks) > 5 else "")
    return f"ranks {shown} have"


def _store() -> Any:
    return dist.distributed_c10d._get_default_store()
