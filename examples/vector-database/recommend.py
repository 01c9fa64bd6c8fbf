"""Recommendations from the files of `macrid export RUN --vectors DIR`, without macrid.

    python recommend.py DIR --history A,B,C -n 10
    python recommend.py DIR --history A,B,C -n 10 --faiss

`Concept.search` stands for the vector database: a search by inner product among the entries of one concept. Here it
compares all of them, or asks faiss. Lists are proved to be the model's: no item that was not found can score more.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import onnxruntime
import pyarrow.parquet as pq


class Concept:
    """The entries of one concept."""

    def __init__(self, positions: np.ndarray, vectors: np.ndarray, by_faiss: bool) -> None:
        order = np.argsort(positions)
        self.positions, self.vectors, self.index = positions[order], vectors[order], None
        if by_faiss and len(positions):
            import faiss

            self.index = faiss.IndexFlatIP(vectors.shape[1])
            self.index.add(self.vectors)

    def search(self, query: np.ndarray, count: int) -> tuple[np.ndarray, float]:
        """Positions with the largest inner products, and the last of these; -inf if there are no others."""
        if count >= len(self.positions):
            return self.positions, -np.inf
        if self.index is not None:
            values, places = self.index.search(query[None], count)
            return self.positions[places[0]], float(values[0, -1])
        products = self.vectors @ query
        places = np.argpartition(-products, count - 1)[:count]
        return self.positions[places], float(products[places].min())

    def fetch(self, positions: np.ndarray, query: np.ndarray) -> np.ndarray:
        """Inner products of some items, -inf for those without an entry here."""
        products = np.full(len(positions), -np.inf, dtype=np.float32)
        if len(self.positions):
            places = np.searchsorted(self.positions, positions).clip(max=len(self.positions) - 1)
            is_here = self.positions[places] == positions
            products[is_here] = self.vectors[places[is_here]] @ query
        return products


class Recommender:
    def __init__(self, folder: Path, by_faiss: bool = False) -> None:
        self.about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        self.encoder = onnxruntime.InferenceSession(folder / "encoder.onnx", providers=["CPUExecutionProvider"])
        entries = pq.read_table(folder / "entries.parquet").combine_chunks()
        positions, concept = (entries[name].to_numpy() for name in ("position", "concept"))
        vectors = entries["vector"].combine_chunks().flatten().to_numpy().reshape(len(positions), -1)
        members = [concept == k for k in range(self.about["concepts"])]
        self.concepts = [Concept(positions[each], vectors[each], by_faiss) for each in members]
        _, first = np.unique(positions, return_index=True)  # in the order of positions
        self.ids = entries["id"].take(first).to_pylist()
        self.position = {str(name): place for place, name in enumerate(self.ids)}
        self.popularity = entries["popularity"].to_numpy()[first]
        self.pairs = None
        if (folder / "neighbours.parquet").exists():
            table = pq.read_table(folder / "neighbours.parquet")
            self.pairs = [table[name].to_numpy() for name in ("item", "neighbour", "weight")]

    def recommend(self, history: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Positions of the n best items and their scores, for a history of positions; those in it are left out."""
        inputs = {"items": history[None]}
        if "weights" in {each.name for each in self.encoder.get_inputs()}:  # exported with --input weights
            inputs["weights"] = np.ones((1, len(history)), dtype=np.float32)
        queries, log_weights, is_empty = (part[0] for part in self.encoder.run(None, inputs))
        if is_empty:
            best = np.argsort(-self.popularity, kind="stable")[:n]
            return best, np.log((self.popularity[best] + 1) / (self.popularity + 1).sum())
        linear = self.linear(history)
        count = 2 * n + len(history)
        while True:
            found = [concept.search(query, count) for concept, query in zip(self.concepts, queries, strict=True)]
            candidates = np.unique(np.concatenate([*(positions for positions, _ in found), linear.nonzero()[0]]))
            candidates = candidates[~np.isin(candidates, history)]
            products = [c.fetch(candidates, query) for c, query in zip(self.concepts, queries, strict=True)]
            scores = self.merged(np.array(products), log_weights[:, None]) + linear[candidates]
            best = np.argsort(-scores, kind="stable")[:n]
            bound = self.merged(np.array([last for _, last in found]), log_weights)
            if bound == -np.inf or (len(best) == n and scores[best[-1]] >= bound):
                return candidates[best], scores[best]
            count *= 2

    def merged(self, products: np.ndarray, log_weights: np.ndarray) -> np.ndarray:
        """log sum_k exp(product_k / temperature + log weight_k); of the largest term only if an item has but one."""
        terms = products / self.about["temperature"] + log_weights
        if self.about["assignment"] == "hard":
            return terms.max(axis=0)
        return np.logaddexp.reduce(terms, axis=0)

    def linear(self, history: np.ndarray) -> np.ndarray:
        """What neighbours add, for every item."""
        sums = np.zeros(len(self.ids))
        if self.pairs is not None:
            item, neighbour, weight = self.pairs
            is_ours = np.isin(item, history)
            np.add.at(sums, neighbour[is_ours], weight[is_ours])
        return sums


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--history", required=True, help="ids of items, with commas")
    parser.add_argument("-n", type=int, default=10)
    parser.add_argument("--faiss", action="store_true", help="search with faiss")
    args = parser.parse_args()
    shop = Recommender(args.folder, args.faiss)
    known = [shop.position[name] for name in args.history.split(",") if name in shop.position]
    for position, score in zip(*shop.recommend(np.array(known, dtype=np.int64), args.n), strict=True):
        print(f"{shop.ids[position]}\t{score:.3f}")


if __name__ == "__main__":
    main()
