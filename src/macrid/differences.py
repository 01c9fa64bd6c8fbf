"""Two runs compared: what moved between them, and whether the second may take the place of the first."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from macrid import runs
from macrid.data.ids import Ids
from macrid.data.split import HeldOut
from macrid.errors import RequestError, RunError
from macrid.evaluation.ranking import evaluate
from macrid.models.base import Recommender
from macrid.report import comparison
from macrid.report.comparison import Pair

FILE = "diff.json"
USERS = 1_000
MOST_EXAMPLES = 3
SAFE_ARI, SAFE_NAMES, SAFE_OVERLAP = 0.8, 0.8, 0.5
CLEARLY = 2.0  # standard errors
NUMBERS = (
    "ari", "nmi", "numbers_kept", "names_kept", "edited_lost", "knobs_kept", "overlap", "rbo", "same_top",
    "ndcg_before", "ndcg_after", "ndcg_change", "new_items", "gone_items",
)  # fmt: skip
"""What conditions can be about."""


def diff(
    before: str | PathLike[str],
    after: str | PathLike[str],
    *,
    users: int = USERS,
    histories: Any = None,
    device: str = "auto",
) -> dict[str, Any]:
    """How the second run differs from the first, as JSON: concepts, names, knobs, lists, accuracy, and a verdict.

    users: how many lists to compare at most. histories: of these users, lists of item ids; by default those of the
    held-out users of the second run.
    """
    if not isinstance(users, int) or users < 1:
        raise RequestError(f"users is {users!r}; give a whole number, at least 1")
    models = [runs.load(run, device) for run in (before, after)]
    chosen = None if histories is None else models[1].histories(histories)
    return compare(models[0], models[1], Path(before), Path(after), users, chosen)


def compare(
    first: Recommender,
    second: Recommender,
    before: Path,
    after: Path,
    users: int = USERS,
    histories: sp.csr_array | None = None,
) -> dict[str, Any]:
    """As `diff`, of models that are loaded. histories: users × items of the second model."""
    pair = Pair.of(first, second)
    result: dict[str, Any] = {"before": str(before), "after": str(after), "items": comparison.items(pair)}
    nothing = dict.fromkeys(("ari", "nmi", "numbers_kept", "names_kept", "edited_lost", "knobs_kept"))
    result |= {**nothing, "concepts": [], "knobs": []}
    if pair.spaces() is not None:
        result |= comparison.concepts(pair)
        result |= comparison.knobs(pair, result["concepts"])
    histories = runs.read_histories(after) if histories is None else histories
    result["lists"] = _lists(pair, histories, users)
    result["accuracy"] = _accuracy(pair, before, after)
    result["numbers"] = numbers_of(result)
    result["verdict"] = verdict(result)
    return result


def _lists(pair: Pair, histories: sp.csr_array | None, users: int) -> dict[str, Any]:
    if histories is None:
        return {"users": 0, "overlap": None, "rbo": None, "same_top": None, "new_items": None}
    if histories.shape[0] > users:
        histories = histories[np.sort(np.random.default_rng(0).choice(histories.shape[0], users, replace=False))]
    return comparison.lists(pair, histories)


def _accuracy(pair: Pair, before: Path, after: Path) -> dict[str, Any]:
    """Test scores of both runs; user by user if both hold out the same users, and no model was trained on them."""
    metrics = [runs.read_metrics(run) for run in (before, after)]
    scores = [(entry.get("test") or {}).get("metrics", {}).get("ndcg@100") for entry in metrics]
    means = [None if score is None else score["mean"] for score in scores]
    is_final = any(entry.get("final") for entry in metrics)
    result = {"ndcg_before": means[0], "ndcg_after": means[1], "same_users": False, "change": None, "se": None}
    result["final"] = is_final
    groups = None if is_final else _same_users(pair, before, after)
    if groups is not None:
        change = _ndcg(pair.after, groups[1]) - _ndcg(pair.before, groups[0])
        se = float(change.std(ddof=1) / np.sqrt(len(change)))
        return {**result, "same_users": True, "change": float(change.mean()), "se": se}
    if means[0] is not None and means[1] is not None:
        se = float(np.hypot(*(score["se"] for score in scores if score is not None)))
        return {**result, "change": means[1] - means[0], "se": se}
    return result


def _ndcg(model: Recommender, heldout: HeldOut) -> np.ndarray:
    return evaluate(model, heldout, ("ndcg@100",)).per_user["ndcg@100"]


def _same_users(pair: Pair, before: Path, after: Path) -> tuple[HeldOut, HeldOut] | None:
    """The test users that both runs hold out in the same order, each over its own items; None if they are others."""
    try:
        first, second = (runs.read_heldout(run, "test") for run in (before, after))
    except RunError:
        return None
    if first.history.shape[0] != second.history.shape[0]:
        return None
    whole = [sp.csr_array(group.history + group.target) for group in (first, second)]
    one, other = _ones(whole[0][:, pair.places]), _ones(whole[1][:, pair.kept])
    together = np.asarray(one.multiply(other).sum(axis=1)).ravel()
    either = np.diff(one.indptr) + np.diff(other.indptr) - together
    if not (together >= 0.5 * either).mean() > 0.95:
        return None
    has_target = np.flatnonzero((np.diff(first.target.indptr) > 0) & (np.diff(second.target.indptr) > 0))
    if len(has_target) < 2:
        return None
    ids = Ids.range(len(has_target))
    return (
        HeldOut(first.history[has_target], first.target[has_target], ids),
        HeldOut(second.history[has_target], second.target[has_target], ids),
    )


def _ones(matrix: sp.csr_array) -> sp.csr_array:
    matrix = sp.csr_array(matrix, copy=True)
    matrix.data = np.ones(matrix.nnz)
    return matrix


def numbers_of(result: dict[str, Any]) -> dict[str, float | None]:
    """The numbers that conditions can be about, None where unknown."""
    accuracy, listed, items = result["accuracy"], result["lists"], result["items"]
    known = {
        **{name: result[name] for name in ("ari", "nmi", "numbers_kept", "names_kept", "edited_lost", "knobs_kept")},
        **{name: listed[name] for name in ("overlap", "rbo", "same_top")},
        "ndcg_before": accuracy["ndcg_before"],
        "ndcg_after": accuracy["ndcg_after"],
        "ndcg_change": accuracy["change"],
        "new_items": items["new"],
        "gone_items": items["gone"],
    }
    return {name: known[name] for name in NUMBERS}


def verdict(result: dict[str, Any]) -> dict[str, Any]:
    """Whether the second run can take the place of the first without surprise, and why, in plain words."""
    good: list[str] = []
    bad: list[str] = []

    def judge(is_good: bool, text: str) -> None:
        (good if is_good else bad).append(text)

    ari, names, overlap = result["ari"], result["names_kept"], result["lists"]["overlap"]
    if ari is not None:
        judge(ari >= SAFE_ARI, f"concepts hold {'the same' if ari >= SAFE_ARI else 'other'} items (ARI {ari:.2f})")
        judge(result["numbers_kept"] == 1, f"{result['numbers_kept']:.0%} of the concepts keep number and colour")
    if names is not None:
        judge(names >= SAFE_NAMES, f"{names:.0%} of the names are kept")
    if result["edited_lost"]:
        lost = [
            row["name_before"]
            for row in result["concepts"]
            if row["edited"] and row["name_after"] != row["name_before"]
        ]
        bad.append(f"lost {len(lost)} names that a person chose, such as '{lost[0]}'")
    if result["knobs_kept"] is not None:
        share = result["knobs_kept"]
        judge(share >= SAFE_NAMES, f"{share:.0%} of the named dimensions mean the same")
    if overlap is not None:
        judge(
            overlap >= SAFE_OVERLAP,
            f"users keep {comparison.LIST * overlap:.1f} of their first {comparison.LIST} items",
        )
    change, se = result["accuracy"]["change"], result["accuracy"]["se"]
    if change is not None and se is not None:
        is_lower = change < -CLEARLY * se
        words = "clearly lower" if is_lower else "clearly higher" if change > CLEARLY * se else "within noise"
        judge(not is_lower, f"accuracy is {words} (NDCG@100 {change:+.4f} ± {se:.4f})")
    return {"safe": not bad, "for": good, "against": bad}
