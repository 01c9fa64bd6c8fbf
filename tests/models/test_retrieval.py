"""A model with an index against the same model without one."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import macrid
from macrid.control.engine import Engine, Question
from macrid.control.moves import Move
from macrid.errors import RequestError
from macrid.models import macridvae, retrieval
from macrid.models.neighbours import Neighbours
from macrid.models.retrieval import build_index, question_of, vector_search
from macrid.ops import cells, search
from tests.models.test_top import histories, untrained

ITEMS = 3000


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(macridvae, "WORTHWHILE", 1)
    monkeypatch.setattr(search, "MOST_OPEN", 1.0)  # never score everything
    monkeypatch.setattr(search, "MOST_SCORED", 1.0)


def models(neighbours=True, **settings):
    """A model of random weights twice: without an index, and with."""
    plain = untrained(items=ITEMS, **settings)
    plain.popularity = np.ones(ITEMS, dtype=np.int64)
    plain.sample = histories(30, ITEMS, 0.004, seed=5)
    if neighbours:
        b = sp.random_array((ITEMS, ITEMS), density=0.004, format="csr", dtype=np.float32, rng=3)
        indptr, indices = torch.from_numpy(b.indptr.astype(np.int64)), torch.from_numpy(b.indices.astype(np.int32))
        plain.neighbours = Neighbours(indptr, indices, torch.from_numpy(4 * b.data - 1), ITEMS)
    indexed = copy.copy(plain)
    indexed.index = build_index(indexed)
    return plain, indexed


def same(one, other, log_z=0.25):
    """Items in the same order; scores up to the estimate of log Z."""
    np.testing.assert_array_equal(one[0], other[0])
    shift = other[1] - one[1]
    np.testing.assert_allclose(shift, np.broadcast_to(shift[:, :1], shift.shape), atol=1e-4)
    assert np.abs(shift).max() < log_z


@pytest.mark.parametrize("assignment", ["hard", "soft"])
@pytest.mark.parametrize("similarity", ["cosine", "inner"])
def test_an_index_changes_no_list(assignment, similarity):
    plain, indexed = models(assignment=assignment, similarity=similarity)
    some = histories(20, ITEMS, 0.004)
    chosen = np.random.default_rng(0).random(ITEMS)
    for candidates in (None, chosen < 0.6, chosen < 0.02):
        lists = (model.top(some, 15, candidates=candidates) for model in (plain, indexed))
        same(*lists, log_z=0.25 if similarity == "cosine" else 1.0)  # a few long vectors are most of Z
    assert indexed.kept_cells is not None
    assert plain.kept_cells is None


def test_filters_exclusions_and_moves_are_honoured_by_the_engine():
    plain, indexed = models()
    history, hidden = np.array([5, 70, 900]), np.arange(0, ITEMS, 2)
    moves = (Move(concept=1, dimension=2, by=0.6), Move(concept=2, share=0.5))
    questions = [
        Question(history, 10, history),
        Question(history, 10, hidden),
        Question(history, 10, history, moves=moves[:1], bounded=False),
        Question(history, 10, history, allowed=np.arange(ITEMS) % 40 == 0, moves=moves[:1], bounded=False),
        Question(history, 10, history, shares=True),
    ]
    for before, after in zip(Engine(plain).answer(questions), Engine(indexed).answer(questions), strict=True):
        assert before.ranking.positions.tolist() == after.ranking.positions.tolist()
        if before.shares is not None:
            np.testing.assert_allclose(after.shares, before.shares, atol=0.05)
    moved = Engine(indexed).ask(Question(history, 10, history, moves=moves))
    assert moved.shares[2] == pytest.approx(0.5, abs=0.05)


def test_new_weights_get_new_cells():
    plain, indexed = models(neighbours=False)
    some = histories(5, ITEMS, 0.004)
    indexed.top(some, 5)
    with torch.no_grad():
        plain.network.item_vectors.copy_(plain.network.item_vectors.flip(0))  # they share it
    same(plain.top(some, 5), indexed.top(some, 5))


def test_the_first_questions_and_long_lists_are_answered_without_the_index(monkeypatch):
    monkeypatch.setattr(macridvae, "WORTHWHILE", 4)
    _, indexed = models()
    assert indexed.arranged(2, 10) is None
    assert indexed.arranged(1, 10) is None
    assert indexed.arranged(1, ITEMS // 2) is None
    assert indexed.arranged(1, 10) is not None


def test_an_approximate_index_has_the_recall_it_was_built_for(monkeypatch):
    monkeypatch.setattr(cells, "PER_CELL", 10)
    plain, indexed = models(neighbours=False)
    indexed.index = build_index(indexed, approximate=True, recall=0.9)
    trial = indexed.index.trial
    assert trial["recall"] >= 0.9
    exact, found = (model.top(indexed.sample, 10)[0] for model in (plain, indexed))
    measured = np.mean([len({*a} & {*b}) / 10 for a, b in zip(exact.tolist(), found.tolist(), strict=True)])
    assert measured == pytest.approx(trial["recall"], abs=1e-3)
    few = build_index(indexed, approximate=True, recall=0.01)
    assert few.probes < indexed.index.probes


def test_an_approximate_index_needs_a_recall_and_somebody_to_measure_it_on():
    _, indexed = models(neighbours=False)
    with pytest.raises(RequestError, match="recall is 0"):
        build_index(indexed, approximate=True, recall=0)
    indexed.sample = None
    assert build_index(indexed).trial is None
    with pytest.raises(RequestError, match="no histories"):
        build_index(indexed, approximate=True)


def test_sparse_scores_of_neighbours_are_the_dense_ones():
    plain, _ = models()
    for some in (histories(7, ITEMS, 0.004), sp.csr_array((3, ITEMS), dtype=np.float32)):
        dense = plain.neighbours.scores(some).numpy()
        np.testing.assert_allclose(plain.neighbours.sparse_scores(some).toarray(), dense, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("assignment", ["hard", "soft"])
def test_vectors_and_queries_give_the_scores_of_the_model(assignment):
    plain, _ = models(neighbours=False, assignment=assignment)
    some = histories(6, ITEMS, 0.004)
    vectors, question = vector_search(plain), question_of(plain, some)
    products = vectors.queries(question.components) @ vectors.vectors.t()
    scores = vectors.scores(products, question.log_weights).log_softmax(dim=1)
    torch.testing.assert_close(scores, plain.scores(some), rtol=1e-4, atol=1e-4)


def test_items_added_later_are_found(trained, monkeypatch):
    monkeypatch.setattr(macridvae, "DEEPEST", 1.0)
    model = copy.copy(trained[0])
    base, model.index = copy.copy(model), build_index(model)
    network = model._build(len(model.items) + 1)
    state = dict(trained[0].network.state_dict())
    for name in ("item_vectors", "context_vectors"):  # the new item is the first one again
        state[name] = torch.cat([state[name], state[name][:1]])
    network.load_state_dict(state)
    model.network, model.items = network, macrid.Ids([*model.items, "new"])
    model.popularity, model.sample, model.table = np.append(model.popularity, 0), None, None
    model.kept_decoder = model.cached = None
    scores = model.scores(model.matrix([np.array([3, 4])]))[0]
    positions, _ = model.top(model.matrix([np.array([3, 4])]), len(base.items) - 5, exclude_seen=False)
    listed = positions[0].tolist()
    torch.testing.assert_close(scores[0], scores[-1])
    assert (0 in listed) == (len(base.items) in listed)


def test_small_runs_get_no_index_and_large_ones_do(monkeypatch, trained, tmp_path):
    from macrid import runs

    runs.save(trained[0], tmp_path / "small")
    runs.index_if_large(tmp_path / "small", trained[0])
    assert not (tmp_path / "small" / runs.INDEX).exists()
    monkeypatch.setattr(runs.index, "INDEXED_ITEMS", 100)
    runs.index_if_large(tmp_path / "small", copy.copy(trained[0]))
    assert (tmp_path / "small" / runs.INDEX).exists()
    assert retrieval.INDEXED_ITEMS > 100_000
