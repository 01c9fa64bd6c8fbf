"""Exact or sampled likelihood, by what a step of each would cost on this machine.

An exact step takes three products of users · concepts × items × dim (four on a GPU) and an exponential for each of the
logits; a sampled one does so for its negatives only, but gathers and updates single rows. Two rates turn operations
into seconds: of products and of exponentials, both measured once per process, in some milliseconds. The estimates are
rough, so sampling has to be several times faster, and exact training slow enough to matter.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import scipy.sparse as sp
import torch

if TYPE_CHECKING:
    from macrid.settings import TrainingSettings

Likelihood = Literal["exact", "sampled"]

FASTER = 2.5
"""How many times faster sampling has to be."""
LONG_HISTORIES = 30.0, 8.0
"""With more items per user than the first, how many times: how well sampling trains was measured for short ones."""
SLOW_EPOCH = 0.5
"""Seconds of an exact epoch below which sampling is not worth it."""
ENCODER = 60
"""Operations as costly as an exponential for every number of the components, in either kind of step."""
GATHERED = 24
"""The same for every number of a row that a sampled step gathers and updates."""
LOGIT = {"cpu": 2.5, "cuda": 0.0}
"""The same for every logit of an exact step: its exponential, and what else passes over it. Kernels hide that."""
MASKED = {"cpu": 4.5, "cuda": 0.0}
"""The same for every logit of a sampled step, which hides users' own items."""
PROBE = {"cpu": (448, 4096), "cuda": (4096, 8192)}
"""Rows and items of the product that is timed: enough to leave the cache, or to fill a GPU."""
STALLED = 5, 0.01
"""Where auto chose sampling, training also ends after so many epochs that raise the best score by less than this."""
SLOWEST = 2e9, 5e7
"""`Rates` that no machine in use falls below."""
PRODUCTS = {"cpu": 3, "cuda": 4}
SAMPLED_SECONDS = {"cpu": 0.0, "cuda": 5e-3}
"""What a sampled step takes at least: on a GPU it is not captured."""


@dataclass(frozen=True)
class Rates:
    """What a machine does in a second."""

    product: float
    """Multiplications and additions in products of the shape that a step takes."""
    exponential: float
    """Exponentials, with the passes over memory around them."""


@dataclass(frozen=True)
class Size:
    """What the cost of a step depends on."""

    users: int
    batch: int
    items: int
    per_user: float
    """Mean items of a history."""
    concepts: int
    dim: int
    negatives: int


@dataclass(frozen=True)
class Choice:
    """The likelihood to train with, and the predicted seconds of an epoch of each."""

    likelihood: Likelihood
    exact: float
    sampled: float


def choose(size: Size, rates: Rates, device: str = "cpu") -> Choice:
    """Sampled if exact epochs are slow and sampled ones much faster."""
    steps = max(1.0, size.users / size.batch)
    exact, sampled = (seconds * steps for seconds in step_seconds(size, rates, device))
    long, by_far = LONG_HISTORIES
    needed = by_far if size.per_user > long else FASTER
    is_sampled = exact >= SLOW_EPOCH and exact >= needed * sampled
    return Choice("sampled" if is_sampled else "exact", exact, sampled)


def step_seconds(size: Size, rates: Rates, device: str = "cpu") -> tuple[float, float]:
    """Predicted seconds of an exact step and of a sampled one."""
    rows = size.batch * size.concepts
    products = 2.0 * PRODUCTS[device] * rows * size.dim  # per item
    common = ENCODER * rows * size.dim / rates.exponential
    exact = size.items * (products / rates.product + LOGIT[device] * rows / rates.exponential)
    sampled = size.negatives * (products / rates.product + MASKED[device] * rows / rates.exponential)
    touched = min(size.items, size.batch * size.per_user + size.negatives)
    sampled += GATHERED * touched * size.dim / rates.exponential
    return common + exact, common + max(sampled, SAMPLED_SECONDS[device])


def settled(settings: TrainingSettings, likelihood: Likelihood, items: int) -> TrainingSettings:
    """With a choice made, for so many items."""
    return settings.model_copy(update={"likelihood": likelihood, "negatives": settings.negatives_of(items)})


def has_stalled(scores: Sequence[float | None]) -> bool:
    """Whether the last epochs of a training, given by its validation scores, were hardly worth their time."""
    epochs, gain = STALLED
    known = [score for score in scores if score is not None]
    return len(known) > epochs and max(known) < (1 + gain) * max(known[:-epochs])


def described(settings: TrainingSettings) -> dict[str, Any]:
    """What was settled, for metrics.json."""
    negatives = {"negatives": settings.negatives} if settings.likelihood == "sampled" else {}
    return {"likelihood": settings.likelihood, **negatives}


def likelihood_for(network: Any, matrix: sp.csr_array, settings: TrainingSettings, device: torch.device) -> Likelihood:
    """What the settings say, or where they leave it open, what suits the data and this machine."""
    if settings.likelihood != "auto":
        return settings.likelihood
    if not hasattr(network, "prototypes"):  # only a MacridVAE can sample
        return "exact"
    return choice_for(network, matrix, settings, device).likelihood


def choice_for(network: Any, matrix: sp.csr_array, settings: TrainingSettings, device: torch.device) -> Choice:
    """By the size of the data and the rates of this machine."""
    users, items = matrix.shape
    size = Size(
        users, settings.users_per_step(users), items, matrix.nnz / max(1, users), network.concepts,
        network.settings.dim, settings.negatives_of(items),
    )  # fmt: skip
    at_worst = choose(size, Rates(*SLOWEST), device.type)
    if at_worst.exact < SLOW_EPOCH:  # nothing to measure
        return at_worst
    return choose(size, measured_rates(device, network.precision), device.type)


@cache
def measured_rates(device: torch.device, precision: str) -> Rates:
    """Of this machine, on as many threads as torch uses: the best of several times."""
    kind = torch.bfloat16 if precision == "bf16" else torch.float32
    (rows, items), dim = PROBE[device.type], 100
    left, right = torch.zeros(rows, dim, device=device, dtype=kind), torch.zeros(dim, items, device=device, dtype=kind)
    product, logits = left @ right, torch.zeros(rows, items, device=device)
    products = _best(lambda: torch.mm(left, right, out=product), device)
    exponentials = _best(lambda: logits.copy_(product).softmax(dim=1), device)
    return Rates(2 * rows * dim * items / products, rows * items / exponentials)


def _best(work: Callable[[], object], device: torch.device, times: int = 5) -> float:
    taken = []
    for _ in range(times):
        _wait(device)
        started = time.perf_counter()
        work()
        _wait(device)
        taken.append(time.perf_counter() - started)
    return max(min(taken), 1e-9)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
