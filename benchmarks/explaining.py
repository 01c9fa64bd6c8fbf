"""Accounts of places: their time against that of leave-one-out pulls, and how close their split is to Shapley values.

    python -m benchmarks.explaining --items 20000 --history 100
    python -m benchmarks.explaining --run runs/ml-1m

Without a run, the weights are random, for the time does not depend on what was learned; ways take turns, and ratios are
of medians. With a run: places of the history's items for the 1st and 20th item of the lists of test users, by four ways
of estimating what an item adds, against Shapley values from 200 orders. Errors are shares of the places to be divided.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ.setdefault("GOMP_SPINCOUNT", "2000")

import numpy as np
import torch
from benchmarks.measuring import interleaved
from benchmarks.rules import with_attributes

import macrid
from macrid.control.accounting import accounts_of
from macrid.control.engine import Engine, Question
from macrid.control.explain import explain
from macrid.control.moves import Move
from macrid.control.rules import Rules
from macrid.control.sources import popular_scores
from macrid.control.splitting import Crossing, additions_of_history, scores_among, split
from macrid.models.neighbours import Neighbours
from macrid.runs.heldout import read_histories

N = 24
RULES = Rules(where="price < 60", boosts=({"where": "price < 30", "amount": 0.5},), diversity=0.3)  # type: ignore[arg-type]
MOVES = (Move(concept=0, share=0.3), Move(concept=1, dimension=2, to=0.1), Move(concept=2, dimension=0, by=0.1))
ORDERS = 200


def times(items: int, length: int, rounds: int) -> str:
    """Medians in milliseconds."""
    model, random = with_attributes(items, "cpu"), np.random.default_rng(1)
    sources = torch.from_numpy(random.integers(0, items, (items, 128)))
    model.neighbours = Neighbours._from_columns(sources, torch.from_numpy(random.gamma(1, 0.1, (items, 128))).float())
    engine, history = Engine(model), random.choice(items, length, replace=False)
    asked = {
        "one item": (Question(history, N, history), 1),
        f"{N} items": (Question(history, N, history), N),
        "one item, 3 rules and 3 moves": (Question(history, N, history, moves=MOVES, rules=(RULES,)), 1),
    }
    ways = {}
    for name, (question, count) in asked.items():
        answer = engine.ask(question)
        chosen = answer.ranking.positions[:count]
        ways[name] = lambda q=question, a=answer, p=chosen: accounts_of(model, q, a, p)
    ids = [model.items[int(at)] for at in history]
    ways["the same with pulls"] = lambda: explain(model, ids, n=1)
    found = {way: 1000 * float(np.median(each)) for way, each in interleaved(ways, rounds, torch.device("cpu")).items()}
    pulls = found["the same with pulls"]
    lines = [f"| {way} | {ms:.0f} ms | {ms / pulls:.2f} |" for way, ms in found.items()]
    head = f"{items:,} items, a history of {length}, {torch.get_num_threads()} thread(s)"
    return "\n".join([head, "| accounts | time | ratio to pulls |", "| --- | --- | --- |", *lines])


def shapley(model: macrid.Recommender, history: np.ndarray, start: np.ndarray, orders: int, seed: int) -> np.ndarray:
    """Mean additions over random orders and their reverses: (history, items)."""
    random, columns = np.random.default_rng(seed), np.arange(len(model.items))
    total = np.zeros((len(history), len(columns)))
    for _ in range(orders // 2):
        order = random.permutation(len(history))
        for one in (order, order[::-1]):
            scores = scores_among(model, [history[one[:count]] for count in range(1, len(one) + 1)], columns, columns)
            total[one] += np.diff(scores - start, axis=0, prepend=0)
    return total / (2 * (orders // 2))


def agreement(run: Path, users: int) -> str:
    model = macrid.load(run, "cpu")
    histories = read_histories(run, "test")
    assert histories is not None
    start, errors = popular_scores(model).numpy(), dict[str, list[float]]()
    lengths, everything = np.diff(histories.indptr), np.arange(len(start))
    for user in np.flatnonzero((lengths >= 5) & (lengths <= 60))[:users]:
        history = histories[[user]].indices.astype(np.int64)
        end = scores_among(model, [history], everything, everything)[0]
        candidates = np.setdiff1d(everything, history)
        best = candidates[np.argsort(-end[candidates])]
        crossings = []
        for item in best[[0, 19]].tolist():
            was, now = (candidates[values[candidates] > values[item]] for values in (start, end))
            crossings.append(Crossing(item, np.setdiff1d(was, now), np.setdiff1d(now, was)))
        truth = shapley(model, history, start, ORDERS, 1)
        own = additions_of_history(model, history, start, end)(everything)
        alone = scores_among(model, [history[[at]] for at in range(len(history))], everything, everything) - start
        ways = {
            "both ends, as accounts do": own,
            "alone": alone,
            "left out": (len(history) * own - alone) / (len(history) - 1),
            "16 orders": shapley(model, history, start, 16, 2),
            f"{ORDERS} other orders": shapley(model, history, start, ORDERS, 3),
        }
        expected = split(lambda columns, table=truth: table[:, columns], crossings)
        for way, table in ways.items():
            for one, other in zip(split(lambda columns, t=table: t[:, columns], crossings), expected, strict=True):
                scale = np.abs(other.places).sum()
                if scale:
                    errors.setdefault(way, []).append(float(np.abs(one.places - other.places).sum() / scale))
    lines = [f"| {way} | {np.mean(each):.2f} | {np.median(each):.2f} |" for way, each in errors.items()]
    return "\n".join(["| split by | mean error | median |", "| --- | --- | --- |", *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--history", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--users", type=int, default=10)
    asked = parser.parse_args()
    print(times(asked.items, asked.history, asked.rounds) if asked.run is None else agreement(asked.run, asked.users))


if __name__ == "__main__":
    main()
