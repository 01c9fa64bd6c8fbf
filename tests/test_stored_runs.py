"""Runs written by earlier versions open, and answer as they did."""

import json
from pathlib import Path

import numpy as np
import pytest

import macrid
from macrid.concepts.meaning import meaning_of
from macrid.concepts.space import space_of
from macrid.runs import read_heldout
from macrid.settings import ADDED

RUN = Path(__file__).parent / "stored" / "run-0.1"  # written by macrid 0.1.0


@pytest.fixture(scope="module")
def model():
    return macrid.load(RUN, "cpu")


def test_a_stored_run_recommends_what_it_did(model):
    items = model.recommend(["bag-0001"], n=3)
    assert items.ids == ["case-0003", "shoe-0003", "shoe-0008"]
    np.testing.assert_allclose([item.score for item in items], [-0.651, -2.342, -2.607], atol=1e-3)


def test_a_stored_run_scores_what_it_did(model):
    stored = json.loads((RUN / "metrics.json").read_text())["test"]["metrics"]["ndcg@100"]["mean"]
    assert macrid.evaluate(model, read_heldout(RUN, "test"))["ndcg@100"].mean == pytest.approx(stored, abs=1e-6)


def test_a_stored_run_stays_without_the_extensions_that_came_later(model):
    assert {name: getattr(model.settings, name) for name in ADDED} == ADDED
    assert not {"whole", "share_power"} & model.state().keys()


def test_axes_that_are_no_longer_computed_stay_in_use_where_they_were(model):
    assert meaning_of(model).in_use == ("sparsity", "attributes")
    axes = space_of(model).axes(0)
    np.testing.assert_allclose(axes @ axes.T, np.eye(4), atol=1e-5)
    assert macrid.steer(model, ["bag-0001"], concept=0, dimension=1, by=0.1, n=3).ids
