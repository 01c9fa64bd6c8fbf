"""Recommend for many users at once, for one at a time, and for one at a time the dense way: users per second.

python -m benchmarks.recommend --users 10000 --items 20000 --device cpu

The weights are random, for the time does not depend on what was learned; histories have about 70 items, drawn
long-tailed. The dense way is that of public implementations: a row of all items per user, a loop over the concepts,
log-softmax, mask, top-k. All ways must agree on what they recommend.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any, NamedTuple

os.environ.setdefault("GOMP_SPINCOUNT", "2000")

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F

from macrid.data.ids import Ids
from macrid.data.interactions import csr_from_pairs
from macrid.models.macridvae import MacridNetwork, MacridVAE
from macrid.ops.vectors import EPSILON
from macrid.settings import ADDED

CONCEPTS, DIM, HISTORY, N = 7, 100, 70, 10


class Row(NamedTuple):
    """How fast one way of recommending is."""

    assignment: str
    way: str
    users: int
    seconds: float
    speed_up: float  # of all users at once over this way

    @property
    def users_per_second(self) -> float:
        return self.users / self.seconds


def measure(users: int, items: int, device: str, sample: int = 50) -> list[Row]:
    """All ways for soft and hard assignment; one user at a time for a sample of them."""
    histories = long_tailed(users, items)
    rows = []
    for assignment in ("soft", "hard"):
        model = untrained(items, assignment, device)
        model.top(histories[:1000], N)  # warm up
        seconds, found = timed(lambda model: model.top(histories, N)[0], model)
        at_once = seconds / users
        rows.append(Row(assignment, "all at once", users, seconds, 1.0))
        for way, answer in ONE_BY_ONE.items():
            few = [histories[[user]] for user in range(min(sample, users))]
            timed(answer, model, few[:5])  # warm up
            seconds, same = timed(answer, model, few)
            agreement = np.mean(same == found[: len(few)])
            assert agreement > 0.98, f"{way}, {assignment}: only {agreement:.1%} of the recommendations agree"
            rows.append(Row(assignment, way, len(few), seconds, seconds / len(few) / at_once))
    return rows


def timed(answer: Callable[..., np.ndarray], *arguments: Any) -> tuple[float, np.ndarray]:
    start = time.perf_counter()
    found = answer(*arguments)
    return time.perf_counter() - start, found


def untrained(items: int, assignment: str, device: str) -> MacridVAE:
    """A model with random weights, without the extensions to the paper, which `dense_top` lacks."""
    model = MacridVAE(concepts=CONCEPTS, dim=DIM, assignment=assignment, **ADDED)
    model.items = Ids.range(items)
    model.network = model._build(items)
    model.network.initialise(torch.Generator().manual_seed(0))
    return model.to(device)


def long_tailed(users: int, items: int, history: int = HISTORY) -> sp.csr_array:
    """Histories of about so many items, in which item i is drawn in proportion to 1 / (i + 10): users × items."""
    random = np.random.default_rng(0)
    share = np.cumsum(1 / (np.arange(items) + 10))
    rows = np.repeat(np.arange(users), 10 + random.poisson(random.exponential(1.05 * history - 10, users)))
    columns = np.searchsorted(share, random.random(len(rows)) * share[-1])
    once = np.unique(rows * items + columns)
    return csr_from_pairs(once // items, once % items, (users, items))


@torch.no_grad()
def dense_top(network: MacridNetwork, history: sp.csr_array) -> np.ndarray:
    """Positions of the best items for one user: (N,)."""
    s, device = network.settings, network.item_vectors.device
    x = torch.from_numpy(history.toarray().astype(np.float32)).to(device)  # (1, items)
    items, prototypes = (F.normalize(table, dim=1) for table in (network.item_vectors, network.prototypes))
    cates = torch.softmax(items @ prototypes.t() / s.temperature, dim=1)
    if s.assignment == "hard":
        cates = F.one_hot(cates.argmax(dim=1), s.concepts).to(x.dtype)
    probabilities = torch.zeros_like(x)
    for k in range(s.concepts):
        cates_k = cates[:, k].reshape(1, -1)
        hidden = F.normalize(x * cates_k, dim=1, eps=EPSILON) @ network.context_vectors
        z_k = F.normalize(network.layers[0](hidden)[:, : s.dim], dim=1, eps=EPSILON)
        probabilities += torch.exp(z_k @ items.t() / s.temperature) * cates_k
    log_p = F.log_softmax(torch.log(probabilities), dim=1)
    log_p[x > 0] = -torch.inf
    return log_p.topk(N, dim=1).indices[0].cpu().numpy()


ONE_BY_ONE: dict[str, Callable[[MacridVAE, list[sp.csr_array]], np.ndarray]] = {
    "one by one, top": lambda model, few: np.concatenate([model.top(one, N)[0] for one in few]),
    "one by one, recommend": lambda model, few: np.array([model.recommend(one.indices.tolist(), N).ids for one in few]),
    "one by one, dense": lambda model, few: np.stack([dense_top(model.network, one) for one in few]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--device", default="cpu")
    asked = parser.parse_args()
    print(f"{asked.items:,} items, {CONCEPTS} concepts, {DIM} dimensions, {N} recommended, on {asked.device}")
    print(f"{'assignment':<10}  {'way':<22} {'users':>9} {'seconds':>8} {'users/s':>9} {'at once is':>12}")
    for row in measure(**vars(asked)):
        print(
            f"{row.assignment:<10}  {row.way:<22} {row.users:>9,} {row.seconds:>8.2f} {row.users_per_second:>9,.0f}"
            f" {row.speed_up:>11.1f}×"
        )


if __name__ == "__main__":
    main()
