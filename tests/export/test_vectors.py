"""The files for a vector database, and the recipe that makes the model's lists of them."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import macrid
from macrid.errors import MacridError
from macrid.export import graph, write_vectors
from macrid.export.checking import padded
from tests.export.making import ITEMS, Exported, fitted, histories, made, with_attributes

SCRIPT = Path(__file__).parents[2] / "examples" / "vector-database" / "recommend.py"


@pytest.fixture(scope="module")
def recipe():
    """The example, as a module."""
    spec = importlib.util.spec_from_file_location("vector_recipe", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_recipe(shop, model, matrix, n):
    """Lists are the model's; scores, but for a constant per user."""
    same = 0
    for user in range(matrix.shape[0]):
        positions, scores = shop.recommend(matrix[[user]].indices.astype(np.int64), n)
        expected, own = (part[0] for part in model.top(matrix[[user]], n))
        np.testing.assert_allclose(scores - scores[0], own - own[0], atol=1e-4)
        same += int((positions == expected).all())
    assert same >= 0.95 * matrix.shape[0]


@pytest.mark.parametrize("by_faiss", [False, True], ids=["numpy", "faiss"])
@pytest.mark.parametrize("linear", [False, True], ids=["plain", "neighbours"])
@pytest.mark.parametrize("assignment", ["hard", "soft"])
def test_the_recipe_gives_the_models_lists(recipe, tmp_path, assignment, linear, by_faiss):
    model = made(assignment=assignment, linear=linear, items=300)
    write_vectors(model, tmp_path / "vectors")
    check_recipe(recipe.Recommender(tmp_path / "vectors", by_faiss), model, histories(20, 300), 5)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (macrid.MacridVAE, {"similarity": "inner", "assignment": "soft", "linear": True}),
        (macrid.MacridVAE, {"preset": "paper", "hidden_layers": 1}),
        (macrid.MultVAE, {"hidden_layers": 1}),
        (macrid.MultDAE, {}),
    ],
)
@pytest.mark.parametrize("n", [3, ITEMS - 20])
def test_so_it_does_for_other_networks_and_long_lists(recipe, tmp_path, kind, options, n):
    model = made(kind, **options)
    write_vectors(model, tmp_path / "vectors")
    check_recipe(recipe.Recommender(tmp_path / "vectors"), model, histories(10), n)


@pytest.mark.parametrize("assignment", ["hard", "soft"])
def test_lists_are_proved_from_few_of_the_items(recipe, tmp_path, monkeypatch, assignment):
    model = made(assignment=assignment, items=2000)
    write_vectors(model, tmp_path / "vectors")
    shop, fetched = recipe.Recommender(tmp_path / "vectors"), []
    fetch = recipe.Concept.fetch
    monkeypatch.setattr(recipe.Concept, "fetch", lambda *args: fetched.append(len(args[1])) or fetch(*args))
    check_recipe(shop, model, histories(5, 2000), 5)
    assert 0 < max(fetched) < 200


def test_the_recipe_serves_weighted_encoders_too(recipe, tmp_path):
    model = made(assignment="soft", linear=True, items=300)
    write_vectors(model, tmp_path / "vectors", inputs=["weights"])
    check_recipe(recipe.Recommender(tmp_path / "vectors"), model, histories(20, 300), 5)


def test_an_empty_history_gets_what_is_popular(recipe, tmp_path):
    model = made()
    write_vectors(model, tmp_path / "vectors")
    positions, scores = recipe.Recommender(tmp_path / "vectors").recommend(np.array([-1, ITEMS + 3]), 5)
    popular = model.recommend([], 5)
    assert positions.tolist() == model.items.positions(popular.ids).tolist()
    np.testing.assert_allclose(scores, [item.score for item in popular], atol=1e-5)


def test_the_script_prints_ids_and_scores(recipe, tmp_path, monkeypatch, capsys):
    model = made(linear=True)
    write_vectors(model, tmp_path / "vectors")
    for options in ([], ["--faiss"]):
        history = ["item-1", "item-8"]
        args = [str(tmp_path / "vectors"), "--history", ",".join([*history, "nothing"]), "-n", "4", *options]
        monkeypatch.setattr(sys, "argv", ["recommend.py", *args])
        recipe.main()
        lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
        assert [line[0] for line in lines] == model.recommend(history, 4).ids


@pytest.mark.parametrize("assignment", ["hard", "soft"])
def test_entries_have_what_a_database_stores(tmp_path, assignment):
    model = with_attributes(made(assignment=assignment))
    written = write_vectors(model, tmp_path / "vectors", digest="abc")
    table = pq.read_table(tmp_path / "vectors" / "entries.parquet")
    assert table.schema.field("vector").type == pa.list_(pa.float32(), 7)
    assert table.num_rows == written.entries == (ITEMS if assignment == "hard" else 4 * ITEMS)
    row = table.slice(17, 1).to_pylist()[0]
    position, concept = row["position"], row["concept"]
    assert row["id"] == model.items[position]
    assert (row["title"], row["price"], row["concept_"]) == (f"Item {position}", position, "x")
    assert row["popularity"] == model.popularity[position]
    if assignment == "hard":
        assert concept == model.concepts_of_items()[position]
        assert (row["membership"], row["vector"][-1]) == (1.0, 0.0)
    else:
        assert row["membership"] == pytest.approx(model.membership()[position, concept], abs=1e-6)
    np.testing.assert_allclose(row["vector"][:-1], model.decoder.items[position].numpy(), rtol=1e-6)
    about = json.loads((tmp_path / "vectors" / "about.json").read_text())
    assert about["temperature"] == model.settings.temperature
    assert (about["run_digest"], about["assignment"], about["neighbours"]) == ("abc", assignment, 0)
    assert not (tmp_path / "vectors" / "neighbours.parquet").exists()


def test_neighbours_are_a_table_of_their_weights(tmp_path):
    model = made(linear=True)
    written = write_vectors(model, tmp_path / "vectors")
    table = pq.read_table(tmp_path / "vectors" / "neighbours.parquet").to_pydict()
    assert written.neighbours == len(table["item"]) == len(model.neighbours.targets)
    dense = np.zeros((ITEMS, ITEMS))
    dense[table["item"], table["neighbour"]] = table["weight"]
    own = model.neighbours.scores(model.matrix([np.array([item]) for item in range(ITEMS)])).numpy()
    np.testing.assert_allclose(dense, own, atol=1e-6)


def test_the_encoder_is_a_valid_graph_that_gives_components(tmp_path, monkeypatch):
    model = made()
    monkeypatch.setattr(graph, "MOST_INSIDE", 1000)
    write_vectors(model, tmp_path / "vectors", inputs=["weights"])
    file = tmp_path / "vectors" / "encoder.onnx"
    assert file.with_name("encoder.onnx.data").exists()
    onnx.checker.check_model(str(file), full_check=True)
    matrix = histories(5)
    given = padded(matrix, weighted=True)
    queries, log_weights, is_empty = Exported(file).session.run(None, given)
    np.testing.assert_allclose(queries[..., :-1], model.posterior(matrix).mean, atol=1e-5)
    assert (queries[..., -1] == 1).all()
    assert log_weights.shape == (5, 4)
    assert not is_empty.any()


def test_an_earlier_export_is_replaced_only_if_asked_and_nothing_else_ever(tmp_path):
    write_vectors(made(linear=True), tmp_path / "vectors")
    with pytest.raises(MacridError, match=r"vectors: is not empty"):
        write_vectors(made(), tmp_path / "vectors")
    write_vectors(made(), tmp_path / "vectors", overwrite=True)
    assert not (tmp_path / "vectors" / "neighbours.parquet").exists()
    (tmp_path / "vectors" / "notes.txt").touch()
    with pytest.raises(MacridError, match=r"notes\.txt"):
        write_vectors(made(), tmp_path / "vectors", overwrite=True)


def test_models_without_vectors_and_unknown_inputs_are_refused(tmp_path, shop_split):
    with pytest.raises(MacridError, match=r"EASE has no vectors to store; MacridVAE"):
        write_vectors(fitted(macrid.EASE, shop_split), tmp_path / "vectors")
    with pytest.raises(MacridError, match=r"no input 'hidden'; choose from weights"):
        write_vectors(made(), tmp_path / "vectors", inputs=["hidden"])
    assert list(tmp_path.iterdir()) == []
