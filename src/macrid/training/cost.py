"""What a training step costs: operations, bytes moved in memory and between processes, memory of each process.

Letters as in docs/scaling.md: B users in a step, N items, K concepts, d dimensions, n interactions per user, S draws;
P processes in M item shards, so that P / M groups divide the users. All figures are of one process and one step.
Operations count a multiplication and an addition as two. `benchmarks/distributed.py` compares these with measurements.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from macrid.ops.partition import SCRATCH

NUMBER = 4  # bytes, in single precision
ADAM_NUMBERS = 7  # read or written per parameter: weight, both moments (twice each), gradient
STEP_TABLES = {"cpu": 7.0, "cuda": 3.5}
"""Copies of one table that an exact step makes: directions, padded or packed tables, gradients before their sum."""


@dataclass(frozen=True)
class Shape:
    """A training, and how it is divided."""

    users: int
    items: int
    per_user: float
    """Interactions per user [n]."""
    batch: int = 500
    concepts: int = 10
    dim: int = 100
    likelihood: Literal["exact", "sampled"] = "exact"
    negatives: int = 1024
    processes: int = 1
    item_shards: int = 1
    has_shares: bool = True
    """Concept shares add a dimension to every sum and product."""

    @property
    def groups(self) -> int:
        """Groups of processes that divide the users [P / M]."""
        return self.processes // self.item_shards

    @property
    def own_users(self) -> float:
        """Users of a step for one process [b]."""
        return self.batch / self.groups

    @property
    def width(self) -> int:
        """Dimensions of products and sums."""
        return self.dim + self.has_shares

    @property
    def own_items(self) -> float:
        return self.items / self.item_shards

    @property
    def rows(self) -> float:
        """Rows of the tables that a step of one process touches; sampled: at most, if all were distinct."""
        if self.likelihood == "exact":
            return self.own_items
        return min(self.items, self.batch * self.per_user + self.negatives) / self.item_shards

    @property
    def summed_items(self) -> float:
        """Items in the sum over items of one process: all of its own, or its draws."""
        return self.own_items if self.likelihood == "exact" else min(self.items, self.negatives) / self.item_shards

    @property
    def shared_parameters(self) -> int:
        """Those that every process has: prototypes, f_nn without hidden layers, W and gamma."""
        extensions = 2 * self.dim**2 + 1 if self.has_shares else 0
        return self.concepts * self.dim + 2 * self.dim * (self.dim + 1) + extensions


class Memory(NamedTuple):
    """Bytes of one process."""

    state: float
    """Weights, Adam's moments, gradients of whole tables, average and best weights."""
    interactions: float
    step: float
    """The most that one step needs beside these."""

    @property
    def total(self) -> float:
        return sum(self)


class Network(NamedTuple):
    """Bytes that one process hands to all-reduces in one step."""

    over_users: int
    """Gradients, between processes with the same items."""
    over_items: int
    """Sums, between processes with the same users."""
    messages: int


def operations(shape: Shape, device: str = "cpu") -> float:
    """Sum over items: 6 b K N/M d on a CPU in one sweep, 8 where logits are computed again (GPU, divided items)."""
    s = shape
    products = 3 if device == "cpu" and s.item_shards == 1 else 4
    pairs = s.own_users * s.per_user / s.item_shards * s.concepts * s.width
    over_items = 2 * products * s.own_users * s.concepts * s.summed_items * s.width
    encoder_and_positives = 12 * pairs
    assignment = 6 * s.rows * s.concepts * s.dim
    layers = 6 * s.own_users * (s.concepts + s.has_shares) * s.dim * 2 * s.dim
    adam = 12 * (2 * s.rows * s.dim + s.shared_parameters)
    return over_items + encoder_and_positives + assignment + layers + adam


def traffic(shape: Shape, device: str = "cpu") -> float:
    """Bytes read and written: Adam over all rows touched, and the tables that a step makes of them."""
    numbers = 2 * shape.rows * shape.dim
    return NUMBER * (ADAM_NUMBERS * numbers + 2 * STEP_TABLES[device] * shape.rows * shape.dim)


def network(shape: Shape) -> Network:
    """What is summed over processes. A ring sends and receives 2 (g − 1) / g of it among g processes."""
    s = shape
    users = items = messages = 0
    if s.groups > 1:
        users = NUMBER * (round(2 * s.rows * s.dim) + s.shared_parameters + 2)
        messages += 1
    if s.item_shards > 1:
        per_user = s.concepts * s.width + s.concepts + s.concepts * s.width + 2  # sums, squares; components; log Z
        items = NUMBER * (round(s.own_users) * per_user + s.concepts * s.dim + 2)
        messages += 7
    return Network(users, items, messages)


def memory(shape: Shape, device: str = "cpu", *, keeps_best: bool = True) -> Memory:
    """keeps_best: training keeps the average and the best weights as well, as `model.fit` does."""
    s = shape
    parameters = 2 * s.own_items * s.dim + s.shared_parameters
    copies = 3 + (s.likelihood == "exact") + 2 * keeps_best
    own = s.users * s.per_user / s.item_shards
    positions = s.item_shards > 1  # of an interaction in its whole history
    interactions = own * NUMBER * (1 + positions) + s.users * 8 * (2 if s.processes > 1 else 1)
    tables = STEP_TABLES[device] * s.rows * s.dim + (2 * s.rows * s.dim if s.likelihood == "sampled" else 0)
    assignments = 4 * s.rows * s.concepts + (s.items * s.concepts if s.likelihood == "exact" else 3 * s.items)
    components = 8 * s.own_users * s.concepts * s.width
    hidden = s.batch * s.summed_items if s.likelihood == "sampled" else 0.0  # bytes
    scratch = SCRATCH if device == "cpu" and s.likelihood == "exact" else 0
    step = NUMBER * (tables + assignments + components + scratch) + hidden
    return Memory(NUMBER * copies * parameters, interactions, step)


@dataclass(frozen=True)
class Machine:
    """One process's share of the hardware."""

    operations: float
    """Per second, in the products of this model."""
    memory: float
    """Bytes per second."""
    network: float = float("inf")
    """Bytes per second in and out, between processes."""
    latency: float = 0.0
    """Seconds per message."""
    overhead: float = 0.0
    """Seconds per step: launches of kernels, the interpreter."""


def seconds(shape: Shape, machine: Machine, device: str = "cpu") -> float:
    """Of one step, nothing overlapped."""
    sent = network(shape)
    over_users, over_items = (
        2 * (size - 1) / size * count
        for size, count in ((shape.groups, sent.over_users), (shape.item_shards, sent.over_items))
    )
    computing = operations(shape, device) / machine.operations + traffic(shape, device) / machine.memory
    return computing + (over_users + over_items) / machine.network + sent.messages * machine.latency + machine.overhead


def alone(shape: Shape) -> Shape:
    """The same training in one process."""
    return replace(shape, processes=1, item_shards=1)
