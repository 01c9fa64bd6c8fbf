"""The built-in shop, seed by seed: test NDCG@100 against the oracle's, NMI of concepts and categories, seconds.

    python -m benchmarks.shop --seeds 10

A seed is that of the shop and of the training, as in `macrid demo --seed`. Every seed is shown.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("GOMP_SPINCOUNT", "2000")

import numpy as np

import macrid
from macrid.data.shop import generate
from macrid.evaluation.agreement import nmi


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    print(f"{'seed':>4} {'NDCG@100':>9} {'oracle':>7} {'share':>6} {'NMI':>6} {'epochs':>6} {'seconds':>8}")
    shares, agreements = [], []
    for seed in range(parser.parse_args().seeds):
        shop = generate(seed=seed)
        split = shop.split()
        started = time.perf_counter()
        model = macrid.MacridVAE(concepts=len(shop.category_names))
        model.fit(split.train, validation=split.validation, seed=seed)
        seconds = time.perf_counter() - started
        score = macrid.evaluate(model, split.test)["ndcg@100"].mean
        oracle = shop.oracle(split.test, split.items)
        categories = shop.category[shop.interactions.items.positions(split.items)]
        shares.append(score / oracle)
        agreements.append(nmi(model.concepts_of_items(), categories))
        print(
            f"{seed:>4} {score:>9.4f} {oracle:>7.4f} {shares[-1]:>6.1%} {agreements[-1]:>6.3f} {len(model.log):>6}"
            f" {seconds:>8.1f}",
            flush=True,
        )
    print(f"share of the oracle: {np.mean(shares):.1%}, least {min(shares):.1%}")
    print(f"NMI at least 0.90: {sum(value >= 0.9 for value in agreements)} of {len(agreements)} seeds")


if __name__ == "__main__":
    main()
