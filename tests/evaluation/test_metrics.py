"""Every metric against its definition, written as loops over users and pairs of items."""

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import macrid
from macrid.data.ids import Ids
from macrid.data.split import HeldOut
from macrid.errors import SettingsError
from macrid.evaluation.beyond import catalogue_coverage, gini_index
from macrid.evaluation.metrics import DEFINITIONS, SETS, metric_names, parse, title_of
from macrid.evaluation.ranking import evaluate
from macrid.models.base import Recommender
from macrid.models.reference import Popularity

ACCURACY = [name for name, definition in DEFINITIONS.items() if definition.of == "accuracy"]
CATALOGUE = [name for name, definition in DEFINITIONS.items() if definition.of == "catalogue"]
CASES = {"seed": st.integers(0, 10_000), "users": st.integers(1, 9), "items": st.integers(4, 25),
         "k": st.integers(1, 30), "batch": st.sampled_from([1, 3, 500])}  # fmt: skip


class Drawn(Recommender):
    """A model of random numbers: scores with ties, vectors (one of them zero), concepts, popularity, attributes."""

    fit = state = load_state = to = None  # unused

    def __init__(self, seed: int, items: int) -> None:
        super().__init__()
        random = np.random.default_rng(seed)
        self.vectors = random.standard_normal((items, 3))
        self.vectors[random.integers(items)] = 0
        self.concepts = random.integers(0, 3, items)
        self.popularity = random.integers(0, 50, items)
        self.popularity[0] = 7
        texts = [
            random.choice(["", "a", "b", "a|b", "b|c", "c"], p=[0.2, 0.2, 0.2, 0.2, 0.1, 0.1]) for _ in range(items)
        ]
        texts[:4] = "a", "a|b", "b", "a"
        texts[4:] = [text if text in ("", "a", "b", "a|b") or items > 12 else "b" for text in texts[4:]]
        self.items, self.table = Ids.range(items), pa.table({"title": ["x"] * items, "tags": texts})

    def scores(self, histories):
        seeds = np.asarray(histories @ np.arange(1, histories.shape[1] + 1)).astype(int)
        rows = [np.random.default_rng(each).integers(0, 6, histories.shape[1]) for each in seeds]  # many ties
        return torch.from_numpy(np.stack(rows).astype(np.float64))

    def item_vectors(self):
        return torch.from_numpy(self.vectors)

    def concepts_of_items(self):
        return self.concepts


def drawn(seed, users, items):
    """A model and held-out users, some of them with nearly all items in their history."""
    random = np.random.default_rng(seed + 1)
    owned = random.random((users, items)) < random.choice([0.1, 0.4, 0.95], size=(users, 1))
    target = owned & (random.random((users, items)) < 0.4)
    parts = (sp.csr_array(part.astype(np.float32)) for part in (owned & ~target, target))
    return Drawn(seed, items), HeldOut(*parts, Ids([f"u{place}" for place in range(users)]))


def lists_of(model, group, k):
    """(ranking of unseen items, cut at k; history; target) of users with a target, as Python sees them."""
    history, target = group.history.toarray() > 0, group.target.toarray() > 0
    order = model.rank(group.history, min(k, history.shape[1]), hidden=group.history)[0].tolist()
    unseen = [[item for item in ranking if not history[u, item]][:k] for u, ranking in enumerate(order)]
    rows = zip(unseen, history, target, strict=True)
    return [(items, np.flatnonzero(own), {*np.flatnonzero(hidden)}) for items, own, hidden in rows if hidden.any()]


def accuracy_of(kind, ranking, target, k):
    hits = [rank for rank, item in enumerate(ranking, start=1) if item in target]
    possible = min(k, len(target))
    if kind == "ndcg":
        return sum(1 / math.log2(rank + 1) for rank in hits) / sum(1 / math.log2(r + 2) for r in range(possible))
    if kind == "map":
        return sum(place / rank for place, rank in enumerate(hits, start=1)) / possible
    return {
        "recall": len(hits) / possible,
        "recall_all": len(hits) / len(target),
        "precision": len(hits) / k,
        "mrr": 1 / hits[0] if hits else 0.0,
        "hit_rate": float(bool(hits)),
    }[kind]


@hypothesis_settings(max_examples=60, deadline=None)
@given(**CASES)
def test_accuracy_follows_its_definitions(seed, users, items, k, batch):
    model, group = drawn(seed, users, items)
    names = [f"{kind}@{k}" for kind in ACCURACY]
    result = evaluate(model, group, names, batch_size=batch)
    lists = lists_of(model, group, k)
    for kind, name in zip(ACCURACY, names, strict=True):
        expected = [accuracy_of(kind, ranking, target, k) for ranking, _, target in lists]
        np.testing.assert_allclose(result.per_user[name], expected, rtol=1e-12, err_msg=name)
    expected = [accuracy_of("mrr", ranking, target, items) for ranking, _, target in lists_of(model, group, items)]
    np.testing.assert_allclose(evaluate(model, group, "mrr").per_user["mrr"], expected, rtol=1e-12)


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else math.nan


def cosine(a, b):
    return float(a @ b) / (np.linalg.norm(a) * np.linalg.norm(b)) if a.any() and b.any() else 0.0


def tags_of(model, item):
    return {tag for tag in model.table["tags"][item].as_py().split("|") if tag}


def shares_of(items, groups):
    """Share of each group among items, of which each divides itself equally among its groups."""
    shares, known = {}, [item for item in items if groups(item)]
    for item in known:
        for group in groups(item):
            shares[group] = shares.get(group, 0) + 1 / len(groups(item)) / len(known)
    return shares


def divergence(history, ranking, groups):
    p, q = shares_of(history, groups), shares_of(ranking, groups)
    return sum(v * math.log(v / (0.99 * q.get(g, 0) + 0.01 * v)) for g, v in p.items()) if p and q else math.nan


@hypothesis_settings(max_examples=60, deadline=None)
@given(**CASES)
def test_novelty_diversity_and_calibration_follow_their_definitions(seed, users, items, k, batch):
    model, group = drawn(seed, users, items)
    kinds = ("novelty", "diversity", "diversity:tags", "calibration", "calibration:tags")
    result = evaluate(model, group, [f"{kind}@{k}" for kind in kinds], batch_size=batch)
    lists, total = lists_of(model, group, k), int(model.popularity.sum())

    def check(kind, expected):
        np.testing.assert_allclose(result.per_user[f"{kind}@{k}"], expected, rtol=1e-9, atol=1e-12, err_msg=kind)
        known = [value for value in expected if not math.isnan(value)]
        if known:
            metric = result[f"{kind}@{k}"]
            assert (metric.mean, metric.se) == (
                pytest.approx(np.mean(known)),
                pytest.approx(np.std(known) / len(known) ** 0.5),
            )

    check(
        "novelty", [mean(-math.log2(max(model.popularity[i], 1) / total) for i in ranking) for ranking, _, _ in lists]
    )
    pairs = [list(itertools.combinations(ranking, 2)) for ranking, _, _ in lists]
    check("diversity", [mean(1 - cosine(model.vectors[a], model.vectors[b]) for a, b in each) for each in pairs])

    def apart(a, b):
        return 1 - len(a & b) / (len(a) * len(b)) ** 0.5

    tagged = [[(tags_of(model, a), tags_of(model, b)) for a, b in each] for each in pairs]
    check("diversity:tags", [mean(apart(a, b) for a, b in each if a and b) for each in tagged])
    by_concept = [divergence(history, ranking, lambda i: {model.concepts[i]}) for ranking, history, _ in lists]
    check("calibration", by_concept)
    by_tag = [divergence(history, ranking, lambda i: tags_of(model, i)) for ranking, history, _ in lists]
    check("calibration:tags", by_tag)


def spread(kind, rankings, items):
    counts = [sum(item in ranking for ranking in rankings) for item in range(items)]
    if kind == "coverage":
        return sum(count > 0 for count in counts) / items
    return sum(abs(a - b) for a in counts for b in counts) / (2 * items * sum(counts)) if sum(counts) else math.nan


@hypothesis_settings(max_examples=60, deadline=None)
@given(**CASES)
def test_coverage_and_gini_have_the_error_of_leaving_out_each_user(seed, users, items, k, batch):
    model, group = drawn(seed, users, items)
    result = evaluate(model, group, [f"{kind}@{k}" for kind in CATALOGUE], batch_size=batch)
    rankings = [set(ranking) for ranking, _, _ in lists_of(model, group, k)]
    n = len(rankings)
    for kind in CATALOGUE if n else ():
        metric = result[f"{kind}@{k}"]
        without = [spread(kind, rankings[:u] + rankings[u + 1 :], items) for u in range(n)]
        if any(map(math.isnan, without)):
            continue
        assert metric.mean == pytest.approx(spread(kind, rankings, items), abs=1e-12)
        jackknife = sum((each - np.mean(without)) ** 2 for each in without) * (n - 1) / n
        assert metric.se == pytest.approx((jackknife * (n - 1) / n) ** 0.5, abs=1e-12)


@pytest.mark.parametrize("measure", [catalogue_coverage, gini_index])
def test_the_jackknife_error_is_about_that_of_drawing_other_users(measure):
    """And rather too large than too small (Efron and Stein, 1981)."""
    random, items, users = np.random.default_rng(0), 100, 60
    appeal = np.log(random.dirichlet(np.full(items, 0.3)) + 1e-12)
    draws = [np.argsort(-(appeal + random.gumbel(size=(users, items))), axis=1)[:, :5] for _ in range(200)]
    values = [measure(lists, items) for lists in draws]
    truth = np.std([value.mean() for value in values])
    assert 0.9 * truth < np.mean([value.std() for value in values]) / users**0.5 < 1.5 * truth


def test_known_lists_have_known_coverage_and_gini():
    items = 8
    group = HeldOut(sp.csr_array((2, items), dtype=np.float32), sp.csr_array(np.eye(2, items)), Ids.range(2))
    model = Popularity().fit(sp.csr_array(np.tril(np.ones((items, items)))))  # item 0 first, for everyone
    result = evaluate(model, group, "coverage@2,gini@2,gini@8,hit_rate@1,hit_rate@2")
    assert [metric.mean for metric in result.metrics.values()] == [0.25, 0.75, 0, 0.5, 1]


def test_the_set_of_graph_papers_has_their_definitions():
    """As LightGCN's evaluation computes them: recall over the whole target, the ideal DCG over min(k, target)."""
    items, k = 60, 20
    random = np.random.default_rng(0)
    target = random.random((5, items)) < np.array([[0.02], [0.1], [0.5], [0.9], [1]])
    target[:, 0] = True
    group = HeldOut(sp.csr_array((5, items), dtype=np.float32), sp.csr_array(target.astype(np.float32)), Ids.range(5))
    model = Popularity().fit(sp.csr_array(np.tril(np.ones((items, items)))))
    result = evaluate(model, group, "graph")
    assert list(result.metrics) == ["recall_all@20", "ndcg@20"]
    gains, discount = target[:, :k], 1 / np.log2(np.arange(2, k + 2))
    np.testing.assert_allclose(result.per_user["recall_all@20"], gains.sum(1) / target.sum(1))
    ideal = np.arange(k) < target.sum(1)[:, None]
    np.testing.assert_allclose(result.per_user["ndcg@20"], (gains * discount).sum(1) / (ideal * discount).sum(1))


def test_sets_and_commas_are_spelt_out():
    assert metric_names("graph, ndcg@20,map@3") == ("recall_all@20", "ndcg@20", "map@3")
    assert metric_names(["paper", "ndcg@100", "coverage@5"]) == (*SETS["paper"], "coverage@5")
    for empty in ([], (), "", ","):
        with pytest.raises(SettingsError):
            [parse(name) for name in metric_names(empty)]


def test_titles_are_as_people_write_them():
    names = ("ndcg@100", "recall_all@20", "mrr", "hit_rate@1", "diversity:genres@10")
    assert [title_of(name) for name in names] == [
        "NDCG@100",
        "Recall (all)@20",
        "MRR",
        "Hit rate@1",
        "Diversity:genres@10",
    ]


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("diversity@3", "Popularity has no item vectors; name an attribute"),
        ("calibration@3", "Popularity has no concepts; name an attribute"),
        ("diversity:mood@3", "unknown attribute 'mood'; items have 'category'"),
        ("calibration:title@3", "unknown attribute 'title'"),
        ("coverage:mood@3", "takes no attribute; use coverage@3"),
    ],
)
def test_what_a_metric_lacks_is_said(metric, message, shop_split):
    with pytest.raises(SettingsError, match=message):
        evaluate(Popularity().fit(shop_split.train), shop_split.test, metric)


def test_an_attribute_without_groups_or_a_model_without_popularity_is_refused():
    model, group = drawn(1, 5, 20)
    model.table = model.table.append_column("link", pa.array([f"l{i}" for i in range(20)]))
    with pytest.raises(SettingsError, match="attribute 'link' defines no groups of items"):
        evaluate(model, group, "diversity:link@3")
    model.popularity = np.zeros(0)
    with pytest.raises(SettingsError, match="does not know how popular items are"):
        evaluate(model, group, "novelty@3")


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars"])
def test_a_frame_has_a_row_per_user_and_a_column_per_metric(kind):
    model, group = drawn(3, 9, 20)
    metrics = "ndcg@5,diversity@2,coverage@5"
    frame = macrid.evaluate(model, group, metrics, per_user=True, as_=kind)
    result = macrid.evaluate(model, group, metrics)
    columns = frame.column_names if kind == "arrow" else list(frame.columns)
    assert columns == ["user", "ndcg@5", "diversity@2", "coverage@5"]
    users = [f"u{u}" for u in range(9) if group.target[[u]].nnz]
    assert list(frame["user"].to_pylist() if kind == "arrow" else frame["user"]) == users
    np.testing.assert_array_equal(np.asarray(frame["ndcg@5"]), result.per_user["ndcg@5"])
    summary = result.to_frame("pandas", summary=True)
    assert summary["metric"].tolist() == metrics.split(",")
    assert summary["mean"].tolist() == [metric.mean for metric in result.metrics.values()]


def test_users_counted_as_zero_count_in_accuracy_only():
    model, group = drawn(5, 8, 20)
    target = group.target.toarray()
    target[0] = 0
    group = HeldOut(group.history, sp.csr_array(target), group.users)
    metrics = ("recall@5", "novelty@5", "coverage@5")
    skipped, zero = (evaluate(model, group, metrics, nothing_to_predict=how) for how in ("skip", "zero"))
    assert zero.users == 8
    assert zero["recall@5"].mean < skipped["recall@5"].mean
    assert zero["novelty@5"] == skipped["novelty@5"]
    assert zero["coverage@5"].mean == pytest.approx(skipped["coverage@5"].mean)
