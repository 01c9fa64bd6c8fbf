"""What lists, walks, concepts and scores look like in a notebook, and as frames."""

import copy
import pickle

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

import macrid
from macrid.data.ids import Ids
from macrid.report.effects import measure_effects
from tests.test_markup import Reader


@pytest.fixture(scope="module")
def model(trained):
    """With names and effects."""
    model = copy.deepcopy(trained[0])
    macrid.understand(model)
    measure_effects(model, trained[1].validation)
    return model


@pytest.fixture(scope="module")
def history(model):
    return [model.items[place] for place in (3, 40, 80)]


def test_a_list_shows_a_picture_and_the_title_of_every_item(model, history):
    ranking = model.recommend(history, 6)
    html = ranking._repr_html_()
    assert html.count("<svg ") == 6
    for item in ranking:
        assert item.title in "".join(Reader(html).texts)
    assert model.similar_items(history[0], 3)._repr_html_().count("<svg ") == 3


def test_items_without_pictures_show_their_titles_and_nothing_of_them_runs():
    titles = ["<script>alert(1)</script>", "x' onclick='y", None]
    items = tuple(macrid.ScoredItem(f"i{place}", 0.5, title, place) for place, title in enumerate(titles))
    html = macrid.Recommendations(items)._repr_html_()
    assert not {"script", "svg"} & Reader(html).tags
    assert titles[0] in Reader(html).texts
    assert "i2" in Reader(html).texts


def test_a_copied_or_pickled_list_is_equal_and_does_not_carry_the_catalogue(model, history):
    ranking = model.recommend(history, 3)
    for other in (copy.deepcopy(ranking), pickle.loads(pickle.dumps(ranking))):
        assert other == ranking
        assert "<svg" not in other._repr_html_()
    assert len(pickle.dumps(ranking)) < 2000


def test_a_steered_list_marks_what_moved(model, history):
    steered = macrid.steer(model, history, concept=1, share=0.9)
    texts = Reader(steered._repr_html_()).texts
    assert any(text.startswith("concept 1, share: ") for text in texts)
    assert texts.count("new") == len(steered.moved["in"]) > 0
    assert sum(text[0] == "▲" for text in texts) == len(steered.moved["up"])


def test_a_walk_shows_both_ends_and_its_start_and_is_a_frame(model):
    named = next(entry for entry in model.meaning.names.dimensions if entry.name is not None and entry.concept == 1)
    item = model.items[int(np.flatnonzero(model.concepts_of_items() == 1)[0])]
    walk = macrid.traverse(model, item=item, dimension=named.dimension, steps=5, keep_start=True)
    html = walk._repr_html_()
    assert html.count("<svg ") == len(walk.items)
    texts = Reader(html).texts
    assert {*walk.ends, "start", f"concept 1, {named.name}"} <= {*texts}
    frame = walk.to_frame("pandas")
    assert frame.columns.tolist() == ["step", "item", "title", "value", "start"]
    assert frame["item"].tolist() == walk.ids
    assert frame["start"].sum() == 1


def test_a_model_shows_its_concepts_with_pictures(model):
    html = model._repr_html_()
    texts = " ".join(Reader(html).texts)
    for entry in model.meaning.names.concepts:
        assert f"{entry.concept}: {entry.name or 'like '}" in texts
    assert html.count("<svg ") == sum(min(8, n) for n in np.bincount(model.concepts_of_items(), minlength=7))
    unnamed = copy.deepcopy(model)
    unnamed.meaning = None
    assert "concept 0" in " ".join(Reader(unnamed._repr_html_()).texts)
    assert "not trained yet" in macrid.MacridVAE()._repr_html_()


def test_names_are_a_table_and_two_frames(model):
    names = model.meaning.names
    assert "bags" in Reader(names._repr_html_()).texts
    concepts, dimensions = (names.to_frame("polars", of=what) for what in ("concepts", "dimensions"))
    assert concepts["name"].to_list() == [entry.name for entry in names.concepts]
    assert concepts["typical"].to_list()[0] == [example.title for example in names.concepts[0].typical]
    assert dimensions.height == len(names.dimensions)
    assert dimensions["low"].to_list() == [entry.low for entry in names.dimensions]
    with pytest.raises(macrid.RequestError, match="choose concepts or dimensions"):
        names.to_frame(of="axes")


def test_knobs_are_a_frame_with_their_measured_effects(model, trained):
    frame = macrid.knobs(model, "pandas")
    effects = {(each.name, each.concept, each.dimension): each for each in model.meaning.effects}
    assert len(frame) == len(effects) > 5
    for row in frame.itertuples():
        place = (None, None) if np.isnan(row.concept) else (int(row.concept), int(row.dimension))
        effect = effects[(row.attribute, *place)]
        assert (row.moves, row.effect) == (pytest.approx(effect.moves), effect.text)
        if place[0] is not None:
            entry = model.meaning.names.dimension(*place)
            assert (row.name, row.low, row.high) == (entry.name, entry.low, entry.high)
            assert 0 < row.strength <= 1
    unmeasured = copy.deepcopy(model)
    unmeasured.meaning.effects = ()
    assert macrid.knobs(unmeasured)["moves"].null_count == len(frame)
    with pytest.raises(macrid.MacridError):
        macrid.knobs(macrid.Popularity().fit(trained[1].train))


def test_reasons_are_a_table_and_a_frame(model, history):
    reasons = macrid.explain(model, history, n=4, most=2)
    frame = reasons.to_frame("pandas")
    assert frame["rank"].tolist() == [1, 1, 2, 2, 3, 3, 4, 4]
    assert frame["raised_by"].tolist() == [pull.id for reason in reasons for pull in reason.pulls]
    assert frame["amount"].tolist() == [pull.amount for reason in reasons for pull in reason.pulls]
    assert reasons[0].item.title in Reader(reasons._repr_html_()).texts
    none = macrid.explain(model, history, n=4, most=0).to_frame()
    assert (none.num_rows, none["amount"].null_count) == (4, 4)
    assert macrid.explain(model, history, items=[]).to_frame().num_rows == 0


def test_scores_and_comparisons_are_tables(model, trained):
    result = macrid.evaluate(model, trained[1].test, "ndcg@10,coverage@5")
    texts = {*Reader(result._repr_html_()).texts}
    assert {"NDCG@10", f"{result['ndcg@10'].mean:.4f}", f"50 users; {result.protocol}"} <= texts
    compared = macrid.compare({"<b>": model, "same": model}, trained[1].test, "ndcg@10")
    assert {"same − <b>", "+0.0000", "1.000"} <= {*Reader(compared._repr_html_()).texts}


def test_interactions_are_a_frame_in_the_order_read():
    events = pa.table({"user": ["b", "a", "b", "a"], "item": [5, 6, 7, 5]})
    data = macrid.Interactions.read(events, min_items=1)
    assert data.to_frame().to_pydict() == events.to_pydict()
    weighted = macrid.Interactions(sp.csr_array(np.array([[0, 2.0], [3, 0]])), Ids(["a", "b"]), Ids(["x", "y"]))
    assert weighted.to_frame().to_pydict() == {"user": ["a", "b"], "item": ["y", "x"], "weight": [2.0, 3.0]}
    assert data.to_frame("polars").height == 4
