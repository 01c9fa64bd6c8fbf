"""Whether an ONNX file gives what the model gives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from macrid.data.interactions import are_weighted, binary_csr
from macrid.models.base import Recommender

CLOSE = 1e-4
AT_ONCE = 1 << 22  # scores of users × items × concepts
DEPTH = 100  # items of a list that are compared


@dataclass(frozen=True)
class Agreement:
    """Between a model and its ONNX file."""

    users: int
    difference: float
    """The largest, between the scores of an item or the scores at one place of both lists."""
    same_lists: float
    """Share of users with the same items in the same order; in other lists, items as good have changed places."""

    @property
    def is_close(self) -> bool:
        return self.difference <= CLOSE

    def __str__(self) -> str:
        return (
            f"{self.users:,} users, largest difference {self.difference:.1e}, {self.same_lists:.1%} of lists the same"
        )


def largest_difference(model: Recommender, file: Path, histories: sp.csr_array) -> Agreement | None:
    """Compare the lists of these users, none of them empty; None if onnxruntime is not installed or nobody is there."""
    try:
        import onnxruntime
    except ModuleNotFoundError:
        return None
    users = np.flatnonzero(np.diff(histories.indptr))
    if not len(users):
        return None
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    if "weights" not in {each.name for each in session.get_inputs()}:
        histories = binary_csr(histories.indptr, histories.indices, histories.shape)
    concepts = getattr(getattr(model, "settings", None), "concepts", 1)
    at_once = max(1, AT_ONCE // (len(model.items) * (concepts if isinstance(concepts, int) else 20)))
    if are_weighted(histories):
        at_once = 1  # the model takes the ratios of all weights, the graph those of one user's
    differences, same = [], 0
    for start in range(0, len(users), at_once):
        batch = histories[users[start : start + at_once]]
        difference, number = _compared(model, session, batch)
        differences.append(difference)
        same += number
    return Agreement(len(users), max(differences), same / len(users))


def padded(histories: sp.csr_array, weighted: bool = False) -> dict[str, np.ndarray]:
    """Histories as inputs of an exported graph: `items` and, if weighted, `weights`."""
    lengths = np.diff(histories.indptr)
    is_item = np.arange(lengths.max(initial=0)) < lengths[:, None]
    items = np.full(is_item.shape, -1, dtype=np.int64)
    items[is_item] = histories.indices
    if not weighted:
        return {"items": items}
    weights = np.ones(is_item.shape, dtype=np.float32)
    weights[is_item] = histories.data
    return {"items": items, "weights": weights}


def _compared(model: Recommender, session: Any, histories: sp.csr_array) -> tuple[float, int]:
    """The largest difference, and how many lists are the same."""
    n = min(DEPTH, int(model.items_left(histories, None).min()))
    users, items = histories.shape
    values = {
        **padded(histories, weighted=True),
        "n": np.array(n),
        "exclude_seen": np.array(True),
        "hidden": np.full((users, 1), -1),
        "allowed": np.ones(items, dtype=bool),
    }
    names = {each.name for each in session.get_inputs()}
    positions, scores = session.run(None, {name: value for name, value in values.items() if name in names})
    own_positions, own_scores = (part.cpu().numpy() for part in model.rank(histories, n, histories))
    at_theirs = np.take_along_axis(model.scores(histories).cpu().numpy(), positions, axis=1)
    difference = max(np.abs(scores - at_theirs).max(initial=0), np.abs(scores - own_scores).max(initial=0))
    return float(difference), int((positions == own_positions).all(axis=1).sum())
