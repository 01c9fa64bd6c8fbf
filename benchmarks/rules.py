"""What rules cost in time: one question and many at once, by each kind of rule, against the same without rules.

    python -m benchmarks.rules --items 20000 --users 500

The weights are random, for the time does not depend on what was learned; items have a price, a brand and tags. Ways
take turns, and ratios are of medians. Writes benchmarks/results/rules.json.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "2000")

import numpy as np
import pyarrow as pa
import torch
from benchmarks.measuring import circumstances, interleaved
from benchmarks.recommend import long_tailed, untrained

from macrid.control.engine import Engine, Question
from macrid.control.rules import Rules
from macrid.models.macridvae import MacridVAE

RESULTS = Path(__file__).parent / "results" / "rules.json"
N = 10
WAYS: dict[str, tuple[Rules, ...]] = {
    "no rules": (),
    "empty rules": (Rules(),),
    "where": (Rules(where="price < 30 and tags = 'tag 3'"),),
    "exclude, 1,000 ids": (Rules(exclude=tuple(range(1_000))),),
    "boosts": (Rules(boosts=({"where": "price < 30", "amount": 0.5},)),),  # type: ignore[arg-type]
    "pins": (Rules(pins=(11, 12, 13)),),
    "at most": (Rules(at_most={"brand": 1}),),
    "diversity": (Rules(diversity=0.3),),
    "diversity by attributes": (Rules(diversity=0.3, diversity_by=("tags", "price")),),
    "where and diversity": (Rules(where="price < 30", diversity=0.3),),
}


def with_attributes(items: int, device: str) -> MacridVAE:
    model, random = untrained(items, "soft", device), np.random.default_rng(0)
    tags = [[f"tag {tag}" for tag in row] for row in random.integers(0, 30, (items, 2))]
    brands = [f"brand {brand}" for brand in random.integers(0, 500, items)]
    model.table = pa.table({"price": random.gamma(2, 20, items), "brand": brands, "tags": tags})
    model.popularity = random.integers(1, 1_000, items)
    return model


def measure(items: int, users: int, rounds: int, device: str) -> dict[str, Any]:
    """Medians in milliseconds: of one question, and per user of many at once."""
    model = with_attributes(items, device)
    engine, histories = Engine(model), long_tailed(users, items)
    rows = [histories[[user]].indices.astype(np.int64) for user in range(users)]
    asked = {way: [Question(row, N, row, rules=rules) for row in rows] for way, rules in WAYS.items()}
    one = interleaved({way: lambda q=q: engine.ask(q[0]) for way, q in asked.items()}, 5 * rounds, torch.device(device))
    many = interleaved({way: lambda q=q: engine.answer(q) for way, q in asked.items()}, rounds, torch.device(device))
    return {
        "items": items,
        "users": users,
        "ways": {
            way: {"one_ms": 1000 * float(np.median(one[way])), "many_ms": 1000 * float(np.median(many[way])) / users}
            for way in WAYS
        },
        "about": circumstances(),
    }


def table(results: dict[str, Any]) -> str:
    """In Markdown, with ratios to no rules."""
    ways = results["ways"]
    plain = ways["no rules"]
    lines = ["| rules | one question | ratio | per user, many at once | ratio |", "| --- | --- | --- | --- | --- |"]
    for way, found in ways.items():
        ratios = (f"{found[key] / plain[key]:.2f}" for key in ("one_ms", "many_ms"))
        one, many = (f"{found[key]:.2f} ms" for key in ("one_ms", "many_ms"))
        lines.append("| " + " | ".join((way, one, next(ratios), many, next(ratios))) + " |")
    machine, versions = results["about"]["machine"], results["about"]["versions"]
    place = machine["gpu"] or f"{machine['cpu']}, {machine['threads']} thread{'s' * (machine['threads'] > 1)}"
    told = f"{results['items']:,} items, {results['users']:,} users, lists of {N}; medians. {place}"
    return "\n".join(lines) + f"\n\n{told}, torch {versions['torch']}, {results['about']['date']}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--users", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    results = measure(asked.items, asked.users, asked.rounds, asked.device)
    asked.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(table(results))


if __name__ == "__main__":
    main()
