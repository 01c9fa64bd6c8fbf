"""Do new items reach the people who want them? A tenth of the items is held out of training, then placed.

    python -m benchmarks.cold --data shop ml-latest-small ml-1m --seeds 5 --device cuda
    python -m benchmarks.cold --data shop --quick          # a minute on a CPU
    python -m benchmarks.cold report                       # the tables of docs/new-items.md

Their events are removed from training, and from the histories of the test users, who are scored on the held-out items
they have: Recall@20 among the held-out items only, and in the whole catalogue. Beside the items placed by attributes,
and by 1, 3 and 10 events: a random order; the cosine of attributes, weighted by rarity, between the item and the sum
of the history; and a model trained on all events. `share` is how much of the first 20 places of the whole catalogue
held-out items take: as much as with a model trained on all events would be fair. Every line of
benchmarks/results/cold.jsonl is one data set and seed.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from benchmarks.cold_report import table, write
from benchmarks.measuring import circumstances

import macrid
from macrid.cold import Added, Placer, narrowed, widen
from macrid.cold.features import Features
from macrid.data.catalog import load_split
from macrid.data.interactions import Interactions
from macrid.data.shop import generate
from macrid.data.split import HeldOut, Split

RESULTS = Path(__file__).parent / "results" / "cold.jsonl"
HELD_OUT = 0.1  # of the items
EVENTS = (1, 3, 10)
LISTED = 20


def measure(name: str, seed: int, device: str, quick: bool) -> dict[str, Any]:
    """One data set and seed."""
    split = _split(name, seed, quick)
    settings = {"device": device, "seed": seed, **({"epochs": 15} if quick else {})}
    count = len(split.items)
    held_out = np.sort(np.random.default_rng(seed).permutation(count)[: round(HELD_OUT * count)])
    world = World(split, held_out)
    full = macrid.MacridVAE().fit(split.train, validation=split.validation, **settings)
    model = macrid.MacridVAE().fit(world.train, validation=world.validation, **settings)
    start = time.perf_counter()
    placer = Placer.fit(model)
    seconds = time.perf_counter() - start
    ways = {"random": world.score(np.random.default_rng(seed).random(world.targets.shape))}
    ways["content"] = world.score(world.content())
    for events in (0, *EVENTS):
        way = "attributes" if not events else f"attributes, {events} event{'s' * (events > 1)}"
        ways[way] = world.placed(placer, events, seed)
    ways[f"{EVENTS[-1]} events only"] = world.placed(placer, EVENTS[-1], seed, attributes=False)
    ways["trained"] = world.trained(full)
    return {
        "data": name, "seed": seed, "items": count, "held_out": len(held_out), "users": len(world.targets),
        "targets": int(world.targets.sum()), "fit_seconds": round(seconds, 2), "quick": quick,
        "strength": placer.strength.as_json(), "ways": ways, **circumstances(),
    }  # fmt: skip


def _split(name: str, seed: int, quick: bool) -> Split:
    if name == "shop":
        return generate(*((800, 400) if quick else (4000, 1200)), seed=seed).split(heldout=100 if quick else 400)
    return load_split(name)[0]


class World:
    """A split without some items, and those who want them."""

    def __init__(self, split: Split, held_out: np.ndarray) -> None:
        assert split.table is not None
        self.split, self.held_out = split, held_out
        self.kept = np.setdiff1d(np.arange(len(split.items)), held_out)
        matrix = sp.csr_array(split.train.matrix[:, self.kept])
        table = split.table.take(pa.array(self.kept))
        self.train = Interactions(matrix, split.train.users, split.items.take(self.kept), table)
        self.validation = HeldOut(
            sp.csr_array(split.validation.history[:, self.kept]),
            sp.csr_array(split.validation.target[:, self.kept]),
            split.validation.users,
        )
        everything = sp.csr_array(split.test.history + split.test.target)
        history, targets = sp.csr_array(everything[:, self.kept]), everything[:, held_out].toarray() > 0
        has_both = np.flatnonzero(targets.any(axis=1) & (np.diff(history.indptr) > 0))
        self.history, self.targets = sp.csr_array(history[has_both]), targets[has_both]

    def content(self) -> np.ndarray:
        """Cosines of attributes between histories and held-out items."""
        features = Features.fit(self.train.table)
        assert self.train.table is not None
        assert self.split.table is not None
        known, new = features.of(self.train.table)[0], features.of(self.split.table.take(pa.array(self.held_out)))[0]
        profiles, items = (self.history @ known).toarray(), new.toarray()
        lengths = np.linalg.norm(profiles, axis=1)[:, None] * np.linalg.norm(items, axis=1)
        return profiles @ items.T / np.maximum(lengths, 1e-12)

    def placed(self, placer: Placer, events: int, seed: int, attributes: bool = True) -> dict[str, float]:
        """With new items added to the model, as `macrid.add_items` does."""
        assert self.split.table is not None
        table = self.split.table.take(pa.array(self.held_out))
        if not attributes:
            table = pa.table({field.name: pa.nulls(len(table), field.type) for field in table.schema})
        owners, random = sp.csr_array(self.split.train.matrix[:, self.held_out].T), np.random.default_rng(seed)
        chosen = [random.permutation(part)[:events] for part in np.split(owners.indices, owners.indptr[1:-1])]
        pairs = np.concatenate(chosen), np.repeat(np.arange(len(chosen)), [len(part) for part in chosen])
        few = sp.csr_array(
            (np.ones(len(pairs[0]), np.float32), pairs), shape=(len(self.split.train.users), len(chosen))
        )
        placed = placer.place(table, self.train.matrix, few)
        added = Added.of(self.split.items.take(self.held_out), table, placed, placer.strength)
        model = narrowed(placer.model)
        widen(model, added)
        scores = model.scores(sp.csr_array((self.history.data, self.history.indices, self.history.indptr),
                                           shape=(len(self.targets), len(model.items)))).cpu().numpy()  # fmt: skip
        return self.score(scores[:, len(self.kept) :], scores[:, : len(self.kept)])

    def trained(self, full: Any) -> dict[str, float]:
        """A model that knew all items."""
        order = np.concatenate([self.kept, self.held_out])
        history = sp.hstack([self.history, sp.csr_array((len(self.targets), len(self.held_out)))], format="csr")
        scores = full.scores(sp.csr_array(history[:, np.argsort(order)])).cpu().numpy()[:, order]
        return self.score(scores[:, len(self.kept) :], scores[:, : len(self.kept)])

    def score(self, new: np.ndarray, known: np.ndarray | None = None) -> dict[str, float]:
        """From scores of held-out items and, for the whole catalogue, of the others: (users, items)."""
        found = {"recall@20": self._recall(np.argsort(-new, axis=1, kind="stable")[:, :LISTED])}
        if known is not None:
            known = np.where(self.history.toarray() > 0, -np.inf, known)
            best = np.argsort(-np.concatenate([new, known], axis=1), axis=1, kind="stable")[:, :LISTED]
            found |= {"whole": self._recall(best), "share": float((best < new.shape[1]).mean())}
        return found

    def _recall(self, best: np.ndarray) -> float:
        """Share of a user's held-out items, at most 20, that are among the best."""
        padded = np.pad(self.targets, ((0, 0), (0, max(0, int(best.max()) + 1 - self.targets.shape[1]))))
        hits = np.take_along_axis(padded, best, axis=1).sum(axis=1)
        return float((hits / np.minimum(LISTED, self.targets.sum(axis=1))).mean())


def main(arguments: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["measure", "report"], default="measure")
    parser.add_argument("--data", nargs="+", default=["shop", "ml-latest-small", "ml-1m"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--quick", action="store_true", help="a small shop and few epochs")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args(None if arguments is None else list(arguments))
    if given.what == "report":
        write()
        return
    lines = []
    for name in given.data:
        for seed in range(given.seeds):
            lines.append(measure(name, seed, given.device, given.quick))
            print(table([lines[-1]]), flush=True)
    if not given.quick:
        given.out.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    print(table(lines))


if __name__ == "__main__":
    main()
