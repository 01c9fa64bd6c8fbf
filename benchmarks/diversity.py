"""What diversity costs: accuracy against variety within lists and coverage of the catalogue, for d from 0 to 1.

    MACRID_DATA=… python -m benchmarks.diversity --device cuda --data ml-1m shop --seeds 3
    python -m benchmarks.diversity --quick                            # a small shop, in seconds
    python -m benchmarks.diversity --tables                           # table and picture of what was measured, in docs/

A model is trained once per data set and seed. Its test users get lists of 20 items at every d, by item vectors and by
attributes, and for comparison with at most k items per value of an attribute. Every rule is a line of
benchmarks/results/diversity.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "2000")

import numpy as np
import torch
from benchmarks.measuring import circumstances

import macrid
from macrid.control.choosing import mean_similarity
from macrid.control.engine import Answer, Engine, Question
from macrid.control.rulebook import rulebook_of, vector_rows
from macrid.control.rules import Rules
from macrid.data import catalog
from macrid.data.shop import generate
from macrid.data.split import HeldOut, Split
from macrid.evaluation.accuracy import ndcg, recall
from macrid.evaluation.lists import hits_of
from macrid.models.base import Recommender

RESULTS = Path(__file__).parent / "results" / "diversity.jsonl"
STEPS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
ATTRIBUTES = {"ml-1m": ("genres",), "ml-latest-small": ("genres",), "shop": ("category", "colour", "price")}
N, SHORT = 20, 10
LIMITS = (1, 2, 3)


def measure(data: str, seed: int, device: str, quick: bool) -> list[dict[str, Any]]:
    """Every rule for one training, the plain list first."""
    split = generate(users=600, items=200, seed=3).split(heldout=80) if quick else catalog.load_split(data)[0]
    model = train(split, seed, device, quick)
    attributes = ATTRIBUTES[data]
    by_attributes = ", ".join(attributes)
    ways: list[tuple[str, float, Rules]] = [("vectors", d, Rules(diversity=d)) for d in STEPS]
    ways += [(by_attributes, d, Rules(diversity=d, diversity_by=attributes)) for d in STEPS]
    ways += [(f"at most k per {attributes[0]}", k, Rules(at_most={attributes[0]: k})) for k in LIMITS]
    about = {
        "data": data,
        "seed": seed,
        "attribute": by_attributes,
        "items": len(model.items),
        "about": circumstances(),
    }
    rows = []
    for by, amount, rules in ways:
        rows.append({**about, "by": by, "amount": amount, **lists(model, split.test, rules, attributes)})
        shown = rows[-1]
        print(f"{data} seed {seed} {by:>24} {amount:<4g} ndcg@10 {shown['ndcg@10']:.4f}", file=sys.stderr)
    return rows


def train(split: Split, seed: int, device: str, quick: bool) -> Recommender:
    settings: dict[str, Any] = {"epochs": 8, "batch_size": 100} if quick else {}
    with warnings.catch_warnings(action="ignore"):
        return macrid.MacridVAE().fit(split.train, validation=split.validation, seed=seed, device=device, **settings)


def lists(model: Recommender, heldout: HeldOut, rules: Rules, attributes: tuple[str, ...]) -> dict[str, Any]:
    """Accuracy, variety and coverage of the lists of all users with something to predict."""
    users = np.flatnonzero(np.diff(heldout.target.indptr) > 0)
    histories = [heldout.history[[user]].indices.astype(np.int64) for user in users]
    questions = [Question(history, N, history, rules=(rules,)) for history in histories]
    start = time.perf_counter()
    answers = [answer for answer in Engine(model).answer(questions) if isinstance(answer, Answer)]
    took = time.perf_counter() - start
    assert len(answers) == len(users)
    positions = np.full((len(users), N), len(model.items))  # beyond the catalogue where a list is short
    for row, answer in zip(positions, answers, strict=True):
        row[: len(answer.ranking.positions)] = answer.ranking.positions
    target = heldout.target[users]
    hits = hits_of(torch.from_numpy(np.minimum(positions, len(model.items) - 1)), target)
    hits[torch.from_numpy(positions == len(model.items))] = 0
    targets = torch.from_numpy(np.diff(target.indptr).astype(np.int64))
    of_attribute = rulebook_of(model).apply([Rules(diversity=1, diversity_by=attributes)]).demands.rows
    assert of_attribute is not None
    shown = [answer.ranking.positions[:SHORT] for answer in answers]
    costs = [answer.cost for answer in answers if answer.cost is not None]
    scores = {"ndcg@10": ndcg(hits, targets, SHORT).numpy(), "recall@20": recall(hits, targets, N).numpy()}
    return {
        "users": len(users),
        **{name: float(values.mean()) for name, values in scores.items()},
        **{f"{name} se": float(values.std() / np.sqrt(len(values))) for name, values in scores.items()},
        "unlike_by_vectors": _unlike(shown, vector_rows(model)),
        "unlike_by_attribute": _unlike(shown, of_attribute),
        "coverage": len(np.unique(np.concatenate(shown))) / len(model.items),
        "kept": float(np.mean([cost.kept for cost in costs])) if costs else None,
        "score": float(np.mean([cost.score for cost in costs])) if costs else None,
        "items_per_list": float(np.mean([len(answer.ranking.positions) for answer in answers])),
        "ms_per_user": 1000 * took / len(users),
    }


def _unlike(lists: list[np.ndarray], rows: Any) -> float:
    """Intra-list diversity: 1 − the mean similarity of two items, over users."""
    return 1 - float(np.mean([mean_similarity(rows(positions)) for positions in lists]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["ml-1m", "shop"], choices=list(ATTRIBUTES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--quick", action="store_true", help="a small shop and few epochs; nothing is written")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--tables", action="store_true", help="rewrite table and picture from the results")
    asked = parser.parse_args()
    from benchmarks import diversity_report

    if asked.tables:
        diversity_report.write()
        return
    data, seeds = (["shop"], 1) if asked.quick else (asked.data, asked.seeds)
    rows = []
    for name in data:
        for seed in range(seeds):
            rows += measure(name, seed, asked.device, asked.quick)
            if not asked.quick:
                asked.out.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(diversity_report.curve(rows))


if __name__ == "__main__":
    main()
