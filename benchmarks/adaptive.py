"""The number of concepts found in training: `concepts="auto"`, which begins with 20, against the true number given.

    python -m benchmarks.adaptive --seeds 10                             # the built-in shop, 7 categories
    python -m benchmarks.adaptive --data alishop-7c-4k --seeds 1         # another of the catalogue

A seed is that of the training. Every seed is shown: concepts at the end and the epoch of the last merge, NMI with the
categories where there are any, validation NDCG@100, and NMI and NDCG@100 with the number given.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("GOMP_SPINCOUNT", "2000")

import macrid
from macrid.data import catalog
from macrid.data.split import Split
from macrid.evaluation.agreement import nmi

TRUE = 7


def measure(split: Split, seed: int, concepts: int | str, **settings: float) -> tuple[macrid.MacridVAE, float, float]:
    """The model, its NMI with the categories (NaN if there are none) and its validation NDCG@100."""
    model = macrid.MacridVAE(concepts=concepts, **settings)
    model.fit(split.train, validation=split.validation, seed=seed)
    agreement = float("nan")
    if split.table is not None and "category" in split.table.column_names:
        agreement = nmi(model.concepts_of_items(), split.table.column("category").to_numpy(zero_copy_only=False))
    return model, agreement, macrid.evaluate(model, split.validation)["ndcg@100"].mean


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="shop", help="a name of the catalogue")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--merge-below", type=float)
    options = parser.parse_args()
    settings = {} if options.merge_below is None else {"merge_below": options.merge_below}
    split = catalog.load(options.data)
    print(f"{'seed':>4} {'concepts':>8} {'merged':>6} {'epochs':>6} {'seconds':>7} {'NMI':>6} {'NDCG@100':>8}", end="")
    print(f" | with {TRUE}: {'NMI':>6} {'NDCG@100':>8}")
    ends = []
    for seed in range(options.first, options.first + options.seeds):
        model, agreement, score = measure(split, seed, "auto", **settings)
        ends.append(model.network.concepts)
        numbers = [20, *(record.concepts for record in model.log)]
        merged = max((epoch for epoch in range(1, len(numbers)) if numbers[epoch] != numbers[epoch - 1]), default=0)
        seconds = sum(record.seconds for record in model.log)
        row = f"{seed:>4} {ends[-1]:>8} {merged:>6} {len(model.log):>6} {seconds:>7.1f} {agreement:>6.3f} {score:>8.4f}"
        _, agreement, score = measure(split, seed, TRUE)
        print(f"{row} | {'':>7} {agreement:>6.3f} {score:>8.4f}", flush=True)
    print(f"{TRUE} ± 1 concepts: {sum(abs(end - TRUE) <= 1 for end in ends)} of {len(ends)} seeds")


if __name__ == "__main__":
    main()
