"""The ten best of millions of items: scoring everything, an exact search with proof, an approximate one, in one run.

    python -m benchmarks.retrieval --items 5000000                       # generated; torch, numpy and scipy are enough
    python -m benchmarks.retrieval --items 10000000 --device cuda --questions 64
    python -m benchmarks.retrieval --items 5000000 --run runs/ml-1m      # grown from the items of a trained run
    python -m benchmarks.retrieval --items 1000000 --catalogue families --catalogue flat --catalogue uniform

How much a search saves depends on the catalogue, so there are three. families: some thousand kinds of items, each of
which splits into as many as needed in three steps, each time at half the distance. flat: the same kinds with noise of
half the distance to the nearest kind, which no grouping can resolve further. uniform: random directions, the worst
case, where everything is scored. With --run, kinds, concepts and users are those of a trained run.

Every way answers the same questions with the same threads, in turns; times are medians. On a busy machine, the ratios
of processor time are those of an idle one. Results go to benchmarks/results/retrieval.json, one entry per device and
catalogue.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

os.environ.setdefault("GOMP_SPINCOUNT", "2000")

import torch
from torch import Tensor

from macrid.ops.cells import Cells, arrange, group
from macrid.ops.search import Found, Question, exact, search
from macrid.ops.topk import Decoder, Mixture, top

RESULTS = Path(__file__).parent / "results" / "retrieval.json"
CONCEPTS, DIM, KINDS = 10, 100, 3500
TEMPERATURE, ASSIGNMENT = 0.05, 0.035  # what suits millions of items, see MacridVAESettings.suited_to
LISTED, RECALL = 10, 0.98
STEPS = 3
unit = torch.nn.functional.normalize


class World(NamedTuple):
    """Kinds of items, and users who know some of them."""

    kinds: Tensor  # (kinds, dim) of length 1
    prototypes: Tensor  # (concepts, dim) of length 1
    components: Tensor  # (users, concepts, dim) of length 1
    log_weights: Tensor  # (users, concepts)
    temperature: float
    assignment: float  # temperature


def generated(users: int, random: torch.Generator) -> World:
    """Kinds around ten prototypes, and users near some kinds, as similar to each other as in a run on ML-1M."""
    prototypes = unit(torch.randn(CONCEPTS, DIM, generator=random), dim=1)
    scale = torch.linspace(0, 1, DIM).mul(-3).exp()  # leading dimensions carry more, as in trained vectors
    of = torch.randint(CONCEPTS, (KINDS,), generator=random)
    kinds = unit(prototypes[of] + 1.6 * unit(torch.randn(KINDS, DIM, generator=random) * scale, dim=1), dim=1)
    components = torch.empty(users, CONCEPTS, DIM)
    for concept in range(CONCEPTS):
        members = kinds[of == concept]
        known = members[torch.randint(len(members), (users, 3), generator=random)].mean(dim=1)
        noise = unit(torch.randn(users, DIM, generator=random) * scale, dim=1)
        components[:, concept] = unit(unit(known, dim=1) + 0.6 * noise, dim=1)
    shares = torch.softmax(2 * torch.randn(users, CONCEPTS, generator=random), dim=1)
    log_weights = torch.log((shares + 0.02) / (1 + 0.02 * CONCEPTS))
    return World(kinds, prototypes, components, log_weights, TEMPERATURE, ASSIGNMENT)


def of_run(run: Path, users: int) -> World:
    """The items of a trained run, and the users it keeps, with the temperatures that suit millions of items."""
    import macrid

    model: Any = macrid.load(run, "cpu")
    encoded = model.network.encode(model.to_device(model.sample[:users]), model.decoder.log_assignment)
    prototypes = model.network.direction(model.network.prototypes.detach())
    return World(
        model.decoder.items, prototypes, encoded.mean, encoded.log_weights, TEMPERATURE, ASSIGNMENT
    )  # fmt: skip


def catalogue(kind: str, world: World, items: int, random: torch.Generator) -> Tensor:
    """(items, dim) of length 1"""
    dim = world.kinds.shape[1]
    if kind == "uniform":
        return unit(torch.randn(items, dim, generator=random), dim=1)
    similar = world.kinds @ world.kinds.t()
    nearest = (2 - 2 * similar.fill_diagonal_(-1).amax(dim=1)).clamp(min=0).sqrt()  # distance
    vectors, spread = world.kinds, nearest
    steps = STEPS if kind == "families" else 1
    for step in range(steps):
        left = items / len(vectors)
        count = items if step == steps - 1 else round(len(vectors) * left ** (1 / (steps - step)))
        parent = torch.arange(count) % len(vectors)
        spread = 0.5 * spread[parent]
        noise = torch.randn(count, dim, generator=random).mul_(spread[:, None] / math.sqrt(dim))
        vectors = unit(noise.add_(vectors[parent]), dim=1)
    return vectors


def measured(
    works: dict[str, Callable[[], object]], rounds: int, device: torch.device
) -> tuple[dict[str, float], dict[str, float]]:
    """Median seconds by the clock and of processor time, A B C, A B C, …; the first round warms up."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    worked: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(rounds + 1):
        for name, work in works.items():
            _wait(device)
            start, begun = time.perf_counter(), time.process_time()
            work()
            _wait(device)
            if turn:
                taken[name].append(time.perf_counter() - start)
                worked[name].append(time.process_time() - begun)
    return {name: median(times) for name, times in taken.items()}, {name: median(t) for name, t in worked.items()}


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def recall_of(positions: Tensor, best: Tensor) -> float:
    return float((positions[:, :, None] == best[:, None]).any(dim=1).float().mean())


class Trial:
    """One catalogue on one device."""

    def __init__(self, kind: str, world: World, items: int, questions: int, device: torch.device) -> None:
        vectors = catalogue(kind, world, items, torch.Generator().manual_seed(1)).to(device)
        logits = torch.cat([part @ world.prototypes.t().to(device) for part in vectors.split(1 << 20)])
        log_c = (logits / world.assignment).log_softmax(dim=1)
        self.device, self.decoder = device, Decoder(vectors, log_c, world.temperature)
        z, log_w = world.components.to(device), world.log_weights.to(device)
        self.question, self.others = (Question(z[at], log_w[at]) for at in (slice(questions), slice(questions, None)))
        threads = torch.get_num_threads()
        torch.set_num_threads(os.cpu_count() or 1)  # to build only
        start = time.perf_counter()
        grouping = group(vectors)
        self.grouped = time.perf_counter() - start
        self.cells: Cells = arrange(self.decoder, grouping)
        self.arranged = time.perf_counter() - start - self.grouped
        torch.set_num_threads(threads)

    def everything(self, question: Question) -> tuple[Tensor, Tensor]:
        return top(self.decoder, Mixture(question.components, question.log_weights), LISTED)

    def search(self, question: Question, probes: int | None = None) -> Found:
        return search(self.decoder, self.cells, question, LISTED, probes=probes)

    def probes(self) -> int:
        """Cells to search for the recall wanted, chosen on other users."""
        best, probes = self.search(self.others).positions, 4
        while probes < len(self.cells) and recall_of(self.search(self.others, probes).positions, best) < RECALL + 0.002:
            probes = math.ceil(1.5 * probes)
        return probes

    def measure(self, rounds: int) -> dict[str, Any]:
        many, probes = self.question, self.probes()
        one = [many.take(slice(user, user + 1)) for user in range(min(8, len(many.components)))]
        ways: dict[str, Callable[[Question], Any]] = {
            "everything": self.everything,
            "exact": self.search,
            "approximate": lambda question: self.search(question, probes),
        }
        if (of_faiss := faiss_search(self)) is not None:
            ways["faiss"] = of_faiss
        alone = {name: (lambda way=way: [way(each) for each in one]) for name, way in ways.items()}
        single, single_cpu = measured(alone, rounds, self.device)
        batch, batch_cpu = measured(
            {name: (lambda way=way: way(many)) for name, way in ways.items()}, rounds, self.device
        )
        best, log_p = self.everything(many)
        found, rough = self.search(many), self.search(many, probes)
        rows = {}
        for name in ways:
            ms = 1000 * single[name] / len(one), 1000 * batch[name] / len(many.components)
            ratios = single["everything"] / single[name], batch["everything"] / batch[name]
            rows[name] = {"single_ms": ms[0], "batch_ms": ms[1], "single_times": ratios[0], "batch_times": ratios[1]}
            rows[name] |= {
                "single_processor_times": single_cpu["everything"] / single_cpu[name],
                "batch_processor_times": batch_cpu["everything"] / batch_cpu[name],
            }
        everything = len(self.decoder.items)
        rows["exact"] |= {
            "recall": recall_of(found.positions, best),
            "proved": 1.0,
            "proved_at_once": float(found.at_once.float().mean()),
            "scored_everything": float((found.compared == everything).float().mean()),
            "candidates": float(found.candidates.float().mean()),
            "compared": float(found.compared.float().mean()) / everything,
            "log_z_error": float((found.log_p - log_p).abs().mean()),
        }
        rows["approximate"] |= {"recall": recall_of(rough.positions, best), "probes": probes}
        if "faiss" in ways:
            rows["faiss"]["recall"] = recall_of(ways["faiss"](many), best)
        return {
            "items": everything, "questions": len(many.components), "listed": LISTED, "cells": len(self.cells),
            "group_s": self.grouped, "arrange_s": self.arranged, "index_gb": self.cells.bytes / 1e9,
            "items_gb": 4e-9 * self.decoder.items.numel(), "ways": rows,
        }  # fmt: skip


def faiss_search(trial: Trial) -> Callable[[Question], Tensor] | None:
    """One inverted file in 8 bits for all concepts, asked for each; None without faiss or on a GPU."""
    try:
        import faiss
    except ImportError:
        return None
    if trial.device.type != "cpu" or not WITH_FAISS:
        return None
    decoder, tau = trial.decoder, trial.decoder.temperature
    table = torch.cat([decoder.items, tau * decoder.log_assignment.clamp(min=-10)], dim=1).numpy()
    quantizer = faiss.IndexFlatIP(table.shape[1])
    index = faiss.IndexIVFScalarQuantizer(
        quantizer, table.shape[1], 4096, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
    )
    index.train(table[torch.randperm(len(table), generator=torch.Generator().manual_seed(0))[:160_000].numpy()])
    index.add(table)
    which = torch.eye(decoder.log_assignment.shape[1])

    def ask(question: Question) -> Tensor:
        z, log_w = question.components, question.log_weights
        assert log_w is not None
        queries = torch.cat([z, which.expand(len(z), -1, -1)], dim=2)
        _, found = index.search(queries.flatten(0, 1).numpy(), 5 * LISTED)
        lists = []
        for user, row in enumerate(torch.from_numpy(found).view(len(z), -1)):
            items = row[row >= 0].unique()
            lists.append(items[exact(decoder, z[user] / tau, log_w[user], items).topk(LISTED).indices])
        return torch.stack(lists)

    best, index.nprobe = trial.search(trial.others).positions, 8
    while index.nprobe < 1024 and recall_of(ask(trial.others), best) < RECALL:
        index.nprobe *= 2
    return ask


WITH_FAISS = True


def lines(kind: str, result: dict[str, Any]) -> Iterator[str]:
    yield (
        f"{kind}: {result['items']:,} items, {result['cells']:,} cells; grouped in {result['group_s']:.0f} s, arranged"
        f" in {result['arrange_s']:.1f} s; index {result['index_gb']:.2f} GB beside vectors of {result['items_gb']:.2f}"
    )
    for name, row in result["ways"].items():
        yield (
            f"  {name:<12} single {row['single_ms']:8.2f} ms {row['single_times']:6.1f}x   batch"
            f" {row['batch_ms']:8.2f} ms {row['batch_times']:6.1f}x   by processor time"
            f" {row['single_processor_times']:.1f}x and {row['batch_processor_times']:.1f}x"
            + (f"   recall {row['recall']:.4f}" if "recall" in row else "")
        )
    row = result["ways"]["exact"]
    yield (
        f"  proved at once {row['proved_at_once']:.0%}, everything scored {row['scored_everything']:.0%},"
        f" {row['candidates']:,.0f} candidates, {row['compared']:.2%} of items compared, log Z off by"
        f" {row['log_z_error']:.3f}"
    )


def main() -> None:
    global WITH_FAISS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=5_000_000)
    parser.add_argument("--questions", type=int, default=64)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--run", type=Path, help="grow the items of this run; generated by default")
    parser.add_argument("--catalogue", action="append", choices=["families", "flat", "uniform"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2, help="on a CPU")
    parser.add_argument("--no-faiss", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    WITH_FAISS = not options.no_faiss
    device, users = torch.device(options.device), 2 * options.questions
    world = of_run(options.run, users) if options.run else generated(users, torch.Generator().manual_seed(0))
    for kind in options.catalogue or ["families"]:
        result = Trial(kind, world, options.items, options.questions, device).measure(options.rounds)
        name = f"{device.type}, {options.run.name + ', ' if options.run else ''}{kind}, {options.items:,} items"
        print(*lines(name, result), sep="\n", flush=True)
        known = json.loads(options.out.read_text("utf-8")) if options.out.exists() else {}
        known[name] = json.loads(json.dumps(result), parse_float=lambda text: float(f"{float(text):.4g}"))
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
