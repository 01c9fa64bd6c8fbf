"""Labels for a few items: do the concepts of all the others follow, and what does it cost?

    python -m benchmarks.labels                       # AliShop-7C, labels for 0, 1 and 5 % of the items
    python -m benchmarks.labels --quick               # the built-in shop, with attributes, too
    python -m benchmarks.labels --seeds 5 --out benchmarks/results/labels.json

A seed is that of the labelled items. Shown are NMI of concepts and categories over the items without a label; the same
of a rule that knows the categories of all items but the one in question, from the train users' interactions; NDCG@100
of validation and test users; and, on the shop, the mean over categories and factors of Spearman's correlation between
a factor and its dimension, again over items without a label.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

os.environ.setdefault("GOMP_SPINCOUNT", "2000")

import numpy as np
from benchmarks.measuring import circumstances
from scipy.stats import spearmanr

import macrid
from macrid.data import catalog, shop
from macrid.data.split import Split
from macrid.evaluation.agreement import nmi
from macrid.training.supervision import spread


def labels_of(
    split: Split, chosen: np.ndarray, category: np.ndarray, factors: dict[str, np.ndarray]
) -> dict[str, dict]:
    """What `fit` is told about the chosen items."""
    found = {"concept": {split.items[i]: str(category[i]) for i in chosen}}
    for name, values in factors.items():
        found[name] = {split.items[i]: float(values[i]) for i in chosen if not np.isnan(values[i])}
    return found if len(chosen) else {}


def limit(split: Split, category: np.ndarray) -> float:
    """NMI of a rule that knows the categories of the other items; each tenth of the items is foretold from the rest."""
    codes = np.unique(category, return_inverse=True)[1]
    found = np.empty_like(codes)
    even = np.full((len(codes), codes.max() + 1), -np.log(codes.max() + 1))
    for turn in range(10):
        own = codes.copy()
        own[turn::10] = -1
        found[turn::10] = spread(split.train.matrix.astype(np.float64), own, even).argmax(axis=1)[turn::10]
    return nmi(found, codes)


def follows(model: macrid.MacridVAE, others: np.ndarray, category: np.ndarray, factors: dict[str, np.ndarray]) -> float:
    """Mean Spearman correlation of factor a with dimension a, within categories."""
    vectors = model.state()["item_vectors"].numpy()
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    found = []
    for dimension, values in enumerate(factors.values()):
        for name in np.unique(category):
            own = others[(category[others] == name) & ~np.isnan(values[others])]
            if len(own):
                found.append(spearmanr(vectors[own, dimension], values[own])[0])
    return float(np.mean(found)) if found else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the built-in shop instead of AliShop-7C")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.01, 0.05])
    parser.add_argument("--weights", type=float, nargs="+", default=[0.1])
    parser.add_argument("--shop", type=int, default=0, help="the seed of the shop")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    factors: dict[str, np.ndarray] = {}
    if options.quick:
        whole = shop.generate(seed=options.shop)
        split = whole.split()
        place = whole.interactions.items.positions(split.items)
        category = np.array(whole.category_names)[whole.category[place]]
        factors = {name: values[place] for name, values in whole.factors.items()}
    else:
        split = catalog.load("alishop-7c-4k")
        category = split.table.column("category").to_numpy(zero_copy_only=False).astype(str)
    most = limit(split, category)
    rows = []
    print(f"NMI if the categories of all other items were known: {most:.3f}")
    heads = {"labels": 7, "weight": 6, "seed": 4, "NMI": 6, "validation": 10, "test": 7, "factors": 7, "seconds": 7}
    print(" ".join(f"{name:>{width}}" for name, width in heads.items()))
    for share in options.shares:
        for weight in options.weights if share else options.weights[:1]:
            for seed in range(options.seeds):
                order = np.random.default_rng(seed).permutation(len(category))
                chosen, others = np.split(order, [round(share * len(category))])
                model = macrid.MacridVAE(concepts=len(np.unique(category)))
                model.fit(
                    split.train, validation=split.validation, seed=seed, label_weight=weight,
                    labels=labels_of(split, chosen, category, factors) or None,
                )  # fmt: skip
                agreement = nmi(model.concepts_of_items()[others], category[others])
                scores = [macrid.evaluate(model, group)["ndcg@100"].mean for group in (split.validation, split.test)]
                dimension = follows(model, others, category, factors)
                seconds = sum(record.seconds for record in model.log)
                row = {"share": share, "weight": weight, "seed": seed, "nmi": agreement, "validation": scores[0]}
                rows.append({**row, "test": scores[1], "factors": None if np.isnan(dimension) else dimension})
                print(
                    f"{share:>7.1%} {weight:>6g} {seed:>4} {agreement:>6.3f} {scores[0]:>10.4f} {scores[1]:>7.4f}"
                    f" {dimension:>7.2f} {seconds:>7.0f}",
                    flush=True,
                )
    if options.out is not None:
        name = "shop" if options.quick else "alishop-7c-4k"
        found = {"about": circumstances(), "data": name, "limit": most, "rows": rows}
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
