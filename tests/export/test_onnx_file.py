"""An exported graph in onnxruntime gives the model's own lists and scores."""

import hashlib
import json
import os
import sys

import numpy as np
import onnx
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

import macrid
from macrid.control.engine import Engine, Question
from macrid.data.shop import generate
from macrid.errors import MacridError
from macrid.export import graph, largest_difference, onnx_file, write_onnx
from macrid.export.checking import padded
from tests.export.making import ITEMS, Exported, fitted, histories, made, with_attributes
from tests.truth import EXTENSIONS

DATA = os.environ.get("MACRID_DATA")
CLOSE = 1e-4
EVERY_INPUT = ("weights", "hidden", "allowed")


@pytest.fixture
def exported(tmp_path):
    """Write a model and open the file."""

    def export(model, **options):
        write_onnx(model, tmp_path / "model.onnx", overwrite=True, **options)
        return Exported(tmp_path / "model.onnx")

    return export


def check_lists(model, ask, matrix, n=20):
    """Scores equal those of the model at all positions, and lists are the same but for items as good."""
    positions, scores = ask(**padded(matrix), n=n)
    own_positions, own_scores = model.top(matrix, n)
    np.testing.assert_allclose(scores, own_scores, rtol=0, atol=CLOSE)
    at_theirs = np.take_along_axis(model.scores(matrix).numpy(), positions, axis=1)
    np.testing.assert_allclose(scores, at_theirs, rtol=0, atol=CLOSE)
    return (positions == own_positions).all(axis=1).mean()


@pytest.mark.parametrize("assignment", ["hard", "soft"])
@pytest.mark.parametrize("linear", [False, True], ids=["plain", "neighbours"])
@pytest.mark.parametrize("extensions", EXTENSIONS, ids=lambda each: "-".join(each.values()))
def test_lists_and_scores_are_the_models(exported, assignment, linear, extensions):
    model = made(assignment=assignment, linear=linear, **extensions)
    assert check_lists(model, exported(model), histories(40)) > 0.95


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (macrid.MacridVAE, {"preset": "paper"}),
        (macrid.MacridVAE, {"hidden_layers": 2, "width": 5}),
        (macrid.MacridVAE, {"similarity": "inner", "assignment": "soft"}),
        (macrid.MacridVAE, {"similarity": "inner", "assignment": "hard", "concepts": 1}),
        (macrid.MultVAE, {}),
        (macrid.MultVAE, {"hidden_layers": 2, "width": 5}),
        (macrid.MultDAE, {}),
        (macrid.MultDAE, {"hidden_layers": 1, "width": 5}),
    ],
)
def test_every_kind_of_network_gives_its_own_lists(exported, kind, options):
    model = made(kind, **options)
    assert check_lists(model, exported(model), histories(40)) > 0.95


@pytest.mark.parametrize("kind", [macrid.EASE, macrid.Popularity])
def test_baselines_give_their_own_scores(exported, kind, shop_split):
    model = fitted(kind, shop_split)
    check_lists(model, exported(model), shop_split.test.history)


def test_any_batch_of_histories_gives_what_each_gives_alone(exported):
    model = made(linear=True)
    ask = exported(model)
    matrix = histories(12)
    together = ask(**padded(matrix), n=15)
    for user in range(12):
        alone = ask([matrix[[user]].indices], n=15)
        np.testing.assert_allclose(together[1][user], alone[1][0], atol=1e-5)


@settings(max_examples=60)
@given(
    rows=st.lists(st.lists(st.integers(-3, ITEMS + 3) | st.sampled_from([2**62, -(2**63)]), max_size=12), min_size=1),
    n=st.integers(0, ITEMS + 5),
    exclude_seen=st.booleans(),
)
def test_histories_of_any_shape_are_answered_as_by_the_engine(any_history, rows, n, exclude_seen):
    """Unknown positions and repeated items included, and histories with nothing known in them."""
    model, ask = any_history
    length = max(map(len, rows))
    positions, scores = ask([[*row, *[-1] * (length - len(row))] for row in rows], n, exclude_seen)
    assert positions.shape == scores.shape == (len(rows), min(n, ITEMS))
    for row, items, values in zip(rows, positions, scores, strict=True):
        known = np.array(list(dict.fromkeys(item for item in row if 0 <= item < ITEMS)), dtype=np.int64)
        left = ITEMS - (len(known) if exclude_seen else 0)
        filled = min(n, left)
        assert (items[filled:] == -1).all()
        assert np.isneginf(values[filled:]).all()
        if filled:
            hidden = known if exclude_seen else known[:0]
            answer = Engine(model).ask(Question(known, filled, hidden))
            np.testing.assert_allclose(values[:filled], answer.ranking.scores, atol=CLOSE)
            assert not {*items[:filled].tolist()} & {*hidden.tolist()}
            assert len({*items[:filled].tolist()}) == filled


@pytest.fixture(scope="module")
def any_history(tmp_path_factory):
    model = made(linear=True)
    file = tmp_path_factory.mktemp("any") / "model.onnx"
    write_onnx(model, file)
    return model, Exported(file)


@pytest.mark.parametrize("shape", [(0, 0), (0, 4), (3, 0)])
@pytest.mark.parametrize("assignment", ["hard", "soft"])
def test_nobody_and_empty_histories_have_lists_too(exported, shape, assignment):
    model = made(linear=True, assignment=assignment)
    positions, scores = exported(model)(np.full(shape, -1), n=5)
    popular = model.recommend([], 5)
    expected = [model.items.positions(popular.ids).tolist()] * shape[0]
    assert positions.tolist() == expected
    np.testing.assert_allclose(scores, np.tile([item.score for item in popular], (shape[0], 1)), atol=1e-5)


def test_hidden_and_forbidden_items_are_left_out_and_scores_stay(exported):
    model = made(linear=True)
    ask = exported(model, inputs=("hidden", "allowed"))
    assert ask.names == ["items", "n", "exclude_seen", "hidden", "allowed"]
    matrix, seen = histories(20), histories(20, seed=2)
    allowed = np.random.default_rng(0).random(ITEMS) < 0.7
    hidden = padded(seen)["items"]
    hidden[:, 0] = np.where(np.arange(20) % 2, hidden[:, 0], ITEMS)  # unknown: ignored
    seen = model.matrix([row[(row >= 0) & (row < ITEMS)] for row in hidden])
    positions, scores = ask(**padded(matrix), n=8, exclude_seen=False, hidden=hidden, allowed=allowed)
    expected = model.top(matrix, 8, seen=seen, candidates=allowed)
    np.testing.assert_allclose(scores, expected[1], atol=CLOSE)
    assert (positions == expected[0]).all(axis=1).mean() > 0.9
    nothing = ask(**padded(matrix), n=3, hidden=hidden, allowed=np.zeros(ITEMS, dtype=bool))
    assert (nothing[0] == -1).all()


@pytest.mark.parametrize("kind", [macrid.MacridVAE, macrid.MultVAE])
def test_weights_of_interactions_count_by_their_ratios(exported, kind):
    model = made(kind, linear=kind is macrid.MacridVAE)
    ask = exported(model, inputs=("weights",))
    matrix = histories(20, weighted=True)
    expected = np.concatenate([model.top(matrix[[user]], 10)[1] for user in range(20)])
    given = padded(matrix, weighted=True)
    np.testing.assert_allclose(ask(**given, n=10)[1], expected, atol=CLOSE)
    np.testing.assert_allclose(ask(**given | {"weights": 7 * given["weights"]}, n=10)[1], expected, atol=CLOSE)
    equal = {**given, "weights": np.full_like(given["weights"], 3)}
    np.testing.assert_allclose(ask(**equal, n=10)[1], model.top(histories(20), 10)[1], atol=CLOSE)
    assert np.abs(model.top(histories(20), 10)[1] - expected).max() > 0.01


@pytest.mark.parametrize("assignment", ["hard", "soft"])
def test_the_graph_is_valid_and_small(tmp_path, assignment):
    model = made(assignment=assignment, linear=True, hidden_layers=1, items=400)
    write_onnx(model, tmp_path / "model.onnx", inputs=EVERY_INPUT)
    loaded = onnx.load(tmp_path / "model.onnx")
    onnx.checker.check_model(loaded, full_check=True)
    inferred = onnx.shape_inference.infer_shapes(loaded, check_type=True, strict_mode=True, data_prop=True)
    assert {value.name for value in inferred.graph.output} == {"positions", "scores"}
    assert [(each.domain, each.version) for each in loaded.opset_import] == [("", 18)]
    assert len(loaded.graph.node) < 160
    largest = max(int(np.prod(tensor.dims)) for tensor in loaded.graph.initializer)
    assert largest <= max(400 * 6, len(model.neighbours.targets))  # nothing of items × items
    every = {name: loaded.graph.doc_string.count(f"\n{name}: ") for name in (*EVERY_INPUT, "items", "n", "scores")}
    assert set(every.values()) == {1}


class GatherElements(OpRun):
    """The reference's own fails for more than 32 columns, which is the most that `np.choose` takes."""

    op_domain = ""

    def _run(self, data, indices, axis=None):
        return (np.take_along_axis(data, indices, axis),)


@pytest.mark.parametrize("assignment", ["hard", "soft"])
def test_another_runtime_gives_the_same_lists(tmp_path, assignment):
    """Every operator as its specification defines it, in Python."""
    model = made(assignment=assignment, linear=True, items=40)
    write_onnx(model, tmp_path / "model.onnx", inputs=EVERY_INPUT)
    runtime = ReferenceEvaluator(str(tmp_path / "model.onnx"), new_ops=[GatherElements])
    matrix = histories(4, 40, weighted=True)
    others = {"hidden": np.array([[-1], [3], [5], [40]]), "allowed": np.arange(40) % 5 > 0}
    given = padded(matrix, weighted=True) | {"n": np.array(7), "exclude_seen": np.array(True)} | others
    positions, scores = runtime.run(None, given)
    expected = Exported(tmp_path / "model.onnx").session.run(None, given)
    np.testing.assert_array_equal(positions, expected[0])
    np.testing.assert_allclose(scores, expected[1], atol=1e-5)


def test_the_file_tells_where_it_comes_from_and_where_its_items_are(tmp_path):
    model = with_attributes(made())
    export = write_onnx(model, tmp_path / "model.onnx", digest="abc")
    props = {each.key: each.value for each in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert props["macrid_version"] == macrid.__version__
    assert (props["run_digest"], props["model"], props["items"]) == ("abc", "MacridVAE", str(ITEMS))
    assert json.loads(props["settings"])["dim"] == 6
    assert "logarithm" in props["score"]
    assert export.items == tmp_path / "model.items.parquet"
    assert export.size == (tmp_path / "model.onnx").stat().st_size
    assert props["items_file"] == export.items.name
    assert props["items_sha256"] == hashlib.sha256(export.items.read_bytes()).hexdigest()
    table = pq.read_table(export.items)
    assert table["position"].to_pylist() == list(range(ITEMS))
    assert table["id"].to_pylist() == list(model.items)
    assert table["concept"].to_pylist() == model.concepts_of_items().tolist()
    assert table["concept_"].to_pylist() == ["x"] * ITEMS  # an attribute of that name
    assert table["title"][3].as_py() == "Item 3"


def test_weights_that_do_not_fit_lie_beside_the_graph(tmp_path, monkeypatch):
    model = made(linear=True)
    monkeypatch.setattr(graph, "MOST_INSIDE", 1000)
    export = write_onnx(model, tmp_path / "model.onnx", check=histories(10))
    assert {file.name for file in tmp_path.iterdir()} == {"model.onnx", "model.onnx.data", "model.items.parquet"}
    assert export.agreement.is_close
    assert export.size == sum((tmp_path / name).stat().st_size for name in ("model.onnx", "model.onnx.data"))
    onnx.checker.check_model(str(tmp_path / "model.onnx"))
    assert check_lists(model, Exported(tmp_path / "model.onnx"), histories(40)) > 0.95
    monkeypatch.undo()
    write_onnx(model, tmp_path / "model.onnx", overwrite=True)
    assert {file.name for file in tmp_path.iterdir()} == {"model.onnx", "model.items.parquet"}


def test_a_file_that_disagrees_is_not_written(tmp_path, monkeypatch):
    good, other = made(), made(seed=5)
    (tmp_path / "model.onnx").write_text("old")
    monkeypatch.setattr(onnx_file, "score", lambda g, _, history: score(g, other, history))
    from macrid.export.decoder import score

    with pytest.raises(MacridError, match=r"model\.onnx: not written.*10 users, largest difference \d"):
        write_onnx(good, tmp_path / "model.onnx", overwrite=True, check=histories(10))
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]
    assert (tmp_path / "model.onnx").read_text() == "old"


def test_only_users_with_a_history_are_compared(tmp_path):
    model = made()
    empty = model.matrix([np.zeros(0, np.int64)] * 3)
    assert write_onnx(model, tmp_path / "model.onnx", check=empty).agreement is None
    some = model.matrix([np.zeros(0, np.int64), np.array([1, 2])])
    assert largest_difference(model, tmp_path / "model.onnx", some).users == 1


def test_without_onnxruntime_nothing_is_compared_and_without_onnx_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert write_onnx(made(), tmp_path / "model.onnx", check=histories(10)).agreement is None
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MacridError, match=r"needs onnx; .*pip install 'macrid\[export\]'"):
        write_onnx(made(), tmp_path / "other.onnx")
    assert not (tmp_path / "other.onnx").exists()


def test_a_model_of_ones_own_is_refused_by_name(tmp_path):
    class Own(macrid.Popularity.__bases__[0].__bases__[0]):
        fit = scores = state = load_state = to = item_vectors = None

    model = Own()
    model.items = made().items
    with pytest.raises(MacridError, match=r"Own cannot be exported; MacridVAE, MultVAE"):
        write_onnx(model, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"preset": "paper"}, {"assignment": "hard"}], ids=["best", "paper", "hard"])
def test_a_thousand_users_of_the_shop_get_their_lists(tmp_path, options):
    split = generate(users=1_500, seed=0).split(heldout=100)
    model = macrid.MacridVAE(**options).fit(split.train, validation=split.validation, epochs=1, device="cpu")
    assert (model.neighbours is None) == ("preset" in options)
    found = write_onnx(model, tmp_path / "model.onnx", check=split.train.matrix[:1000]).agreement
    assert (found.users, found.is_close) == (1000, True)
    assert found.same_lists > 0.98


@pytest.mark.slow
@pytest.mark.skipif(DATA is None, reason="MACRID_DATA is not set")
@pytest.mark.parametrize("options", [{}, {"preset": "paper"}], ids=["best", "paper"])
def test_a_thousand_users_of_movielens_get_their_lists(tmp_path, options):
    split = macrid.datasets.load("ml-1m")
    model = macrid.MacridVAE(**options).fit(split.train, validation=split.validation, epochs=1, device="cpu")
    assert (model.neighbours is None) == bool(options)
    found = write_onnx(model, tmp_path / "model.onnx", check=split.train.matrix[:1000]).agreement
    assert (found.users, found.is_close) == (1000, True)
    assert found.same_lists > 0.98
