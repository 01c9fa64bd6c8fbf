"""What every recommender must do, as tests for a model's test class to inherit.

Most use a checkerboard: even users have even items, odd users odd ones, and each lacks one item of their colour, which
is the right recommendation.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

from macrid.data.ids import Ids
from macrid.data.interactions import Interactions
from macrid.data.shop import generate
from macrid.errors import DataError, FallbackWarning, MacridError, RequestError, RulesWarning, UnknownItemsWarning
from macrid.evaluation.ranking import evaluate
from macrid.models.base import Recommender
from macrid.runs import load


def checkerboard(users: int = 40, items: int = 20) -> sp.csr_array:
    """Users × items; every user lacks one item of their colour."""
    board = np.zeros((users, items), dtype=np.float32)
    board[::2, ::2] = 1
    board[1::2, 1::2] = 1
    for user in range(users):
        board[user, (2 * (user // 2) + user % 2) % items] = 0
    return sp.csr_array(board)


def named_checkerboard() -> Interactions:
    """A checkerboard of users u-0 … u-39 and items i-0 … i-19."""
    matrix = checkerboard()
    users, items = (Ids([f"{kind}-{i}" for i in range(n)]) for kind, n in zip("ui", matrix.shape, strict=True))
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return Interactions.from_pairs(rows, matrix.indices, users, items)


class RecommenderContract:
    """Inherit it, define `make`, and override the rest where needed."""

    personal: ClassVar[bool] = True
    """Whether recommendations depend on the history; if not, there are no similar items either."""
    expected_ndcg: ClassVar[tuple[float, float] | None] = None
    """The range of NDCG@20 on a small shop of 400 users and 160 items; popularity has 0.41, a well-tuned EASE 0.59."""

    @classmethod
    def make(cls) -> Recommender:
        """An untrained model."""
        raise NotImplementedError

    @classmethod
    def fit(cls, model: Recommender, data: Interactions | sp.csr_array) -> Recommender:
        """Train it on at most a few hundred users, in seconds."""
        return model.fit(data)

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls) -> Recommender:
        return cls.fit(cls.make(), named_checkerboard())

    def test_the_missing_item_of_the_same_colour_comes_first_if_the_model_is_personal(self, model: Recommender) -> None:
        if not self.personal:
            scores = model.scores(model.histories([["i-0", "i-2"], ["i-1"]]))
            assert scores[0].tolist() == scores[1].tolist()
            return
        for colour in (0, 1):
            for missing in range(colour, 20, 2):
                history = [f"i-{i}" for i in range(colour, 20, 2) if i != missing]
                assert model.recommend(history, 1).ids == [f"i-{missing}"]

    def test_exactly_n_items_come_back_best_first_and_none_of_the_history(self, model: Recommender) -> None:
        history = ["i-0", "i-2", "i-4"]
        items = model.recommend(history, 17)
        assert len(items) == 17 == len(set(items.ids))
        assert not set(items.ids) & set(history)
        assert [item.score for item in items] == sorted((item.score for item in items), reverse=True)

    def test_seen_items_can_be_included(self, model: Recommender) -> None:
        assert len(model.recommend(["i-0", "i-2"], 20, exclude_seen=False)) == 20

    def test_requesting_more_items_than_are_left_gives_those_with_a_warning(self, model: Recommender) -> None:
        with pytest.warns(RulesWarning, match=r"\b17\b.*\b18\b"):
            assert len(model.recommend(["i-0", "i-2", "i-4"], 18)) == 17
        with pytest.raises(RequestError, match=r"\b18\b.*\b17\b.*\b20\b"):
            model.recommend(["i-0", "i-2", "i-4"], 18, strict=True)
        for n in (0, 2.5):
            with pytest.raises(RequestError, match=str(n)):
                model.recommend(["i-0"], n)  # type: ignore[arg-type]

    def test_include_and_exclude_limit_the_items(self, model: Recommender) -> None:
        assert set(model.recommend(["i-0"], 2, include=["i-3", "i-5"]).ids) == {"i-3", "i-5"}
        assert "i-2" not in model.recommend(["i-0"], 18, exclude=["i-2"]).ids
        with pytest.raises(RequestError, match=r"\b1\b.*\b20\b"):
            model.recommend(["i-0"], 2, include=["i-3", "i-5"], exclude=["i-5"], strict=True)
        with pytest.raises(RequestError, match=r"include.*'nope'"):
            model.recommend(["i-0"], 1, include=["nope"], strict=True)
        with pytest.warns(UnknownItemsWarning, match=r"include.*'nope'"):
            assert model.recommend(["i-0"], 1, include=["nope", "i-3"]).ids == ["i-3"]
        with pytest.warns(UnknownItemsWarning, match="'nope'"):
            assert len(model.recommend(["i-0"], 18, exclude=["i-2", "nope"])) == 18

    def test_unknown_items_are_named_and_ignored(self, model: Recommender) -> None:
        with pytest.warns(UnknownItemsWarning, match="'x9'.*'i-0'"):
            items = model.recommend(["i-0", "x9"], 3)
        assert items.unknown == ("x9",)
        assert items.items == model.recommend(["i-0"], 3).items

    def test_a_history_of_only_unknown_items_gets_what_is_popular_and_says_so(self, model: Recommender) -> None:
        with pytest.warns(UnknownItemsWarning, match="'x9', 7"), pytest.warns(FallbackWarning):
            items = model.recommend(["x9", 7], 3)
        assert items.fallback
        assert items.ids == model.recommend([], 3).ids
        popularity = model.popularity[model.items.positions(items.ids)]
        assert popularity.tolist() == sorted(model.popularity, reverse=True)[:3]
        with pytest.raises(RequestError, match="'x9', 7"):
            model.recommend(["x9", 7], 3, strict=True)

    def test_a_string_is_not_a_history(self, model: Recommender) -> None:
        with pytest.raises(RequestError, match=r"\['i-0'\]"):
            model.recommend("i-0", 3)
        with pytest.raises(RequestError):
            model.recommend([["i-0"]], 3)  # type: ignore[list-item]

    def test_an_empty_history_and_a_repeated_item_are_fine(self, model: Recommender) -> None:
        assert len(model.recommend([], 5)) == 5
        assert model.recommend(["i-0", "i-0"], 5).items == model.recommend(["i-0"], 5).items

    def test_a_batch_of_histories_gets_the_same_as_each_alone(self, model: Recommender) -> None:
        histories = [["i-0", "i-2"], ["i-1"], ["i-4", "i-6", "i-8"]]
        positions, scores = model.top(model.histories(histories), 4)
        for history, row, score in zip(histories, positions, scores, strict=True):
            alone = model.recommend(history, 4)
            assert [model.items[i] for i in row] == alone.ids
            assert score == pytest.approx([item.score for item in alone], rel=1e-4)

    def test_similar_items_have_the_same_colour_if_the_model_is_personal(self, model: Recommender) -> None:
        if not self.personal:
            with pytest.raises(RequestError):
                model.similar_items("i-0", 5)
            return
        for item in (0, 7):
            similar = model.similar_items(f"i-{item}", 5)
            assert {int(str(other).removeprefix("i-")) % 2 for other in similar.ids} == {item % 2}
            assert f"i-{item}" not in similar.ids
        with pytest.raises(RequestError, match="'zz'"):
            model.similar_items("zz")
        with pytest.raises(RequestError, match=r"\b20\b.*\b19\b"):
            model.similar_items("i-0", 20)

    def test_a_history_has_a_component_per_concept_if_the_model_has_components(self, model: Recommender) -> None:
        if not model.has_components:
            with pytest.raises(RequestError, match=type(model).__name__):
                model.encode(["i-0"])
            with pytest.raises(RequestError, match=type(model).__name__):
                model.posterior(model.histories([["i-0"]]))
            return
        encoding, posterior = model.encode(["i-0", "i-2"]), model.posterior(model.histories([["i-0", "i-2"]]))
        assert encoding.confidence.sum() == pytest.approx(2, rel=1e-4)
        assert encoding.components.shape == (len(encoding.confidence), posterior.mean.shape[2])
        np.testing.assert_allclose(posterior.mean[0], encoding.components, atol=1e-5)
        assert posterior.std.shape == posterior.mean.shape
        assert (posterior.std >= 0).all()

    def test_a_loaded_model_recommends_the_same(self, model: Recommender, tmp_path: Path) -> None:
        model.save(tmp_path / "run")
        again = load(tmp_path / "run", str(model.device))
        assert again.recommend(["i-0", "i-2"], 10).items == model.recommend(["i-0", "i-2"], 10).items
        assert again.settings == model.settings
        assert again.items == model.items
        np.testing.assert_array_equal(again.popularity, model.popularity)

    def test_it_ranks_as_well_as_expected(self) -> None:
        if self.expected_ndcg is None:
            pytest.skip("expected_ndcg is not set")
        split = generate(users=400, items=160, seed=3).split(heldout=50)
        ndcg = evaluate(self.fit(self.make(), split.train), split.test, ["ndcg@20"])["ndcg@20"].mean
        low, high = self.expected_ndcg
        assert low <= ndcg <= high

    def test_a_scipy_matrix_is_accepted_and_its_columns_are_integer_ids(self) -> None:
        model = self.fit(self.make(), checkerboard())
        assert model.recommend(np.array([0, 2, 4]), 3).ids == model.recommend([0, 2, 4], 3).ids
        with pytest.raises(RequestError, match=r"'0'.*0, 1, 2"):
            model.recommend(["0"], 3, strict=True)

    def test_the_input_matrix_is_not_modified_and_duplicates_count_once(self) -> None:
        matrix = sp.csr_array((np.array([1.0, 0.0, 1.0, 1.0]), np.array([0, 1, 2, 2]), np.array([0, 2, 4])), (2, 3))
        model = self.fit(self.make(), matrix)
        assert matrix.nnz == 4
        assert model.popularity.tolist() == [1, 0, 1]
        for bad in (np.nan, 0.0):
            with pytest.raises(DataError):
                self.fit(self.make(), sp.csr_array(np.array([[bad, 0.0]])))

    def test_histories_over_other_items_are_refused(self, model: Recommender) -> None:
        with pytest.raises(DataError, match=r"\b5\b.*\b20\b"):
            model.scores(sp.csr_array((2, 5), dtype=np.float32))

    def test_recommending_before_fit_is_an_error(self) -> None:
        with pytest.raises(MacridError, match=type(self.make()).__name__):
            self.make().recommend([1], 3)

    def test_known_items_cause_no_warning(self, model: Recommender) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.recommend(["i-0"], 3)
