"""NDCG and recall against loops over users."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from macrid.data.ids import Ids
from macrid.data.split import HeldOut
from macrid.errors import SettingsError
from macrid.evaluation.ranking import evaluate
from macrid.models.base import Recommender


class Fixed(Recommender):
    """A model with fixed scores for held-out users, identified by their histories."""

    fit = state = load_state = to = item_vectors = None  # unused

    def __init__(self, scores: np.ndarray, history: sp.csr_array) -> None:
        super().__init__()
        self.scores_of = {history[[u]].indices.tobytes(): scores[u] for u in range(len(scores))}

    def scores(self, histories):
        return torch.from_numpy(
            np.stack([self.scores_of[histories[[u]].indices.tobytes()] for u in range(histories.shape[0])])
        )


def heldout(history, target) -> HeldOut:
    history, target = (sp.csr_array(np.asarray(x, dtype=np.float32)) for x in (history, target))
    return HeldOut(history, target, Ids.range(history.shape[0]))


def naive(scores, history, target, kind, k):
    ranking = [i for i in np.argsort(-scores, kind="stable") if not history[i]]
    gains = [1.0 if target[i] else 0.0 for i in ranking[:k]]
    wanted = int(target.sum())
    if kind == "recall":
        return sum(gains) / min(k, wanted)
    dcg = sum(gain / np.log2(place + 2) for place, gain in enumerate(gains))
    return dcg / sum(1 / np.log2(place + 2) for place in range(min(k, wanted)))


@hypothesis_settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000), users=st.integers(1, 12), items=st.integers(6, 40), k=st.integers(1, 60),
    batch=st.sampled_from([1, 3, 500]), kind=st.sampled_from(["ndcg", "recall"]),
)  # fmt: skip
def test_every_user_scores_by_the_definition(seed, users, items, k, batch, kind):
    random = np.random.default_rng(seed)
    history = np.zeros((users, items))
    for u in range(users):
        history[u, random.choice(items, size=random.integers(1, items // 2 + 1), replace=False)] = 1
    history[:, :4] = [[(u >> bit) & 1 for bit in range(4)] for u in range(users)]  # every history is unique
    history[:, 4] = 1
    target = (random.random((users, items)) < 0.2) & (history == 0)
    scores = random.permuted(np.tile(np.arange(items, dtype=np.float64), (users, 1)), axis=1)
    group = heldout(history, target)
    result = evaluate(Fixed(scores, group.history), group, (f"{kind}@{k}",), batch_size=batch)
    expected = [naive(scores[u], history[u], target[u], kind, k) for u in range(users) if target[u].any()]
    assert result.users == len(expected)
    assert result.skipped == users - len(expected)
    np.testing.assert_allclose(result.per_user[f"{kind}@{k}"], expected, rtol=1e-12)
    if expected:
        assert result[f"{kind}@{k}"].mean == pytest.approx(np.mean(expected))
        assert result[f"{kind}@{k}"].se == pytest.approx(np.std(expected) / np.sqrt(len(expected)), abs=1e-12)


def test_users_with_nothing_to_predict_are_skipped_or_count_as_zero():
    group = heldout([[1, 0, 0, 0], [0, 1, 0, 0]], [[0, 1, 0, 0], [0, 0, 0, 0]])
    model = Fixed(np.array([[0, 9, 1, 2], [0, 1, 2, 3]], dtype=float), group.history)
    skipped = evaluate(model, group, ("ndcg@2",))
    assert (skipped.users, skipped.skipped, skipped["ndcg@2"].mean) == (1, 1, 1.0)
    counted = evaluate(model, group, ("ndcg@2",), nothing_to_predict="zero")
    assert (counted.users, counted.skipped, counted["ndcg@2"].mean) == (2, 1, 0.5)
    assert counted.per_user["ndcg@2"].tolist() == [1, 0]


def test_the_printed_result_shows_each_metric_with_its_standard_error():
    group = heldout([[1, 0, 0], [0, 1, 0]], [[0, 1, 0], [0, 0, 1]])
    model = Fixed(np.array([[0, 2, 1], [2, 0, 1]], dtype=float), group.history)
    text = str(evaluate(model, group, ("ndcg@100", "recall@1")))
    assert text.splitlines() == [
        "NDCG@100    0.8155 ± 0.1305",
        "Recall@1    0.5000 ± 0.3536",
        "(2 users; held-out users, 80 % of each history)",
    ]


def test_a_depth_beyond_the_catalogue_costs_nothing():
    group = heldout([[1, 0, 0]], [[0, 1, 0]])
    model = Fixed(np.array([[0, 1, 2]], dtype=float), group.history)
    assert evaluate(model, group, ("ndcg@3000000000",))["ndcg@3000000000"].mean == pytest.approx(1 / np.log2(3))


@pytest.mark.parametrize("name", ["ndcg", "ndcg@0", "auc@10", "recall@-1", "ndcg@1.5", "ndcg:genres@3", "mrr@0"])
def test_unknown_and_missing_metrics_are_refused(name):
    with pytest.raises(SettingsError, match=f"'{name}'"):
        evaluate(None, heldout([[1, 0]], [[0, 1]]), (name,))
    with pytest.raises(SettingsError):
        evaluate(None, heldout([[1, 0]], [[0, 1]]), ())
