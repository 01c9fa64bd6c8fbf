"""macrid inspect: its tables, its JSON, and what it leaves out."""

import copy
import json

import numpy as np
import pyarrow as pa
import pytest
import torch

import macrid
from macrid import cli, runs
from macrid.data.ids import Ids
from macrid.errors import RequestError
from macrid.evaluation.agreement import ari, effective_concepts, independence, nmi
from macrid.models.base import Recommender
from macrid.models.results import Posterior
from macrid.report import inspection


@pytest.fixture(scope="module")
def report(trained):
    model, split = trained
    return inspection.inspect(model, split.test.history)


class Plain(Recommender):
    """A model without concepts and components."""

    fit = scores = state = load_state = to = None

    def __init__(self, items=60):
        super().__init__()
        self.items, self.popularity = Ids.range(items), np.arange(items)
        random = np.random.default_rng(0)
        self.vectors = random.normal(size=(items, 4))
        self.table = pa.table({"price": self.vectors[:, 0], "kind": [f"{n % 3}" for n in range(items)]})

    def item_vectors(self):
        return torch.from_numpy(self.vectors)


class OneComponent(Plain):
    """A model with one component per user, without concepts."""

    has_components = True

    def __init__(self, std):
        super().__init__()
        self.std = std

    def posterior(self, histories):
        mean = np.random.default_rng(1).normal(size=(histories.shape[0], 1, 4)).astype(np.float32)
        return Posterior(mean, np.full_like(mean, self.std))


def test_the_json_has_the_documented_shape(invoke, trained_run, trained):
    model, split = trained
    code, out, err = invoke("inspect", trained_run, "--split", "test", "--json")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    concept_of = model.concepts_of_items()
    assert [entry["concept"] for entry in answer["concepts"]] == list(range(7))
    assert [entry["items"] for entry in answer["concepts"]] == np.bincount(concept_of, minlength=7).tolist()
    for share in ("share", "interactions"):
        assert sum(entry[share] for entry in answer["concepts"]) == pytest.approx(1)
    assert answer["effective_concepts"] == pytest.approx(effective_concepts(concept_of))
    components = model.posterior(split.test.history).mean
    assert answer["independence"] == pytest.approx(independence(components.reshape(50, -1)))
    assert answer["independence_per_concept"][3] == pytest.approx(independence(components[:, 3]))
    categories = model.table.column("category").to_numpy(zero_copy_only=False)
    assert answer["attributes"]["category"]["nmi"] == pytest.approx(nmi(concept_of, categories))
    assert {"nmi", "ari", "purity"} <= set(answer["attributes"]["price"])
    assert len(answer["dimensions"]) == 7 * 16
    assert set(answer["dci"]) >= {"disentanglement", "completeness", "informativeness"}


def test_typical_items_belong_to_their_concept(report, trained):
    model, _ = trained
    concept_of = model.concepts_of_items()
    titles = model.table.column("title").to_pylist()
    for entry in report["concepts"]:
        assert len(entry["typical"]) == min(3, entry["items"])
        for item in entry["typical"]:
            (position,) = model.items.positions([model.items.parse(item["id"])])
            assert concept_of[position] == entry["concept"]
            assert item["title"] == titles[position]


def test_popular_items_of_two_concepts_are_listed_with_both(report, trained):
    model, _ = trained
    membership = np.sort(model.membership(), axis=1)
    is_shared = membership[:, -2] >= 0.25 * membership[:, -1]
    assert len(report["shared_items"]) == min(10, is_shared.sum()) > 0
    popularity = []
    for item in report["shared_items"]:
        (position,) = model.items.positions([model.items.parse(item["id"])])
        popularity.append(model.popularity[position])
        assert [each["share"] for each in item["concepts"]] == pytest.approx(membership[position, [-1, -2]])
        for each in item["concepts"]:
            assert each["share"] == pytest.approx(model.membership()[position, each["concept"]])
    assert popularity == sorted(model.popularity[is_shared])[::-1][:10]


def test_the_parts_of_the_kl_add_up(report):
    for kl in (report["kl"], *report["kl_per_concept"]):
        parts = kl["mutual_information"] + kl["total_correlation"] + kl["dimension_wise_kl"]
        assert parts == pytest.approx(kl["kl"])
    per_concept = [kl["dimension_wise_kl"] for kl in report["kl_per_concept"]]
    assert report["kl"]["dimension_wise_kl"] == pytest.approx(sum(per_concept))
    assert sum(entry["kl"] for entry in report["dimensions"]) == pytest.approx(sum(per_concept))


def test_only_dimensions_that_match_an_attribute_are_assigned_one():
    model = OneComponent(std=0.5)
    inspected = inspection.inspect(model, np.zeros((20, 60)))["dimensions"]
    assert (inspected[0]["attribute"], inspected[0]["correlation"]) == ("price", pytest.approx(1))
    assert [entry["attribute"] for entry in inspected[1:]] == [None] * 3


def test_dimensions_behind_hidden_layers_match_no_attribute(trained):
    reference, split = trained
    prices = torch.tensor(reference.table.column("price").to_pylist())[:, None].expand(-1, 8)
    inspected = {}
    for layers in (0, 1):
        model = macrid.MultVAE(dim=8, hidden_layers=layers, width=12).fit(split.train, epochs=2, device="cpu")
        model.item_vectors = lambda: prices
        inspected[layers] = inspection.inspect(model, split.test.history)
    assert {entry["attribute"] for entry in inspected[0]["dimensions"]} == {"price"}
    assert {(entry["attribute"], entry["correlation"]) for entry in inspected[1]["dimensions"]} == {(None, None)}
    assert all(entry["kl"] > 0 for entry in inspected[1]["dimensions"])
    assert [any("hidden layers" in note for note in inspected[layers]["notes"]) for layers in (0, 1)] == [False, True]


def test_one_standard_deviation_of_zero_does_not_make_a_model_without_distribution():
    inspected = inspection.inspect(OneComponent(std=[0.5, 0.5, 0, 0.5]), np.zeros((20, 60)))
    assert inspected["kl"] is None
    assert any("standard deviation" in note for note in inspected["notes"])
    point = inspection.inspect(OneComponent(std=0), np.zeros((20, 60)))
    assert any("OneComponent" in note for note in point["notes"])


def test_concepts_of_items_are_computed_once(trained):
    model, _ = trained
    before = model.concepts_of_items()
    inspection.inspect(model, None)
    assert model.concepts_of_items() is before


def test_tables_fit_80_columns(invoke, trained_run):
    code, out, _ = invoke("inspect", trained_run, columns=80)
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "100 held-out users" in out
    for word in ("typical items", "category", "independence", "total correlation", "DCI completeness", "MIG"):
        assert word in out


def test_a_run_without_held_out_users_reports_the_rest(invoke, trained, tmp_path):
    runs.save(trained[0], tmp_path / "run")
    code, out, _ = invoke("inspect", tmp_path / "run", "--json")
    assert code == 0
    answer = json.loads(out)
    assert len(answer["concepts"]) == 7
    assert (answer["independence"], answer["kl"], answer["users"]) == (None, None, 0)
    assert "held-out users" in " ".join(answer["notes"])
    assert invoke("inspect", tmp_path / "run", "--split", "test")[0] == 1


def test_damaged_held_out_users_are_an_error(invoke, trained, tmp_path):
    model, split = trained
    runs.save(model, tmp_path / "run", heldout={"validation": split.validation, "test": split.test})
    (tmp_path / "run" / "heldout.safetensors").write_bytes(b"damaged")
    code, out, err = invoke("inspect", tmp_path / "run", columns=400)
    assert (code, out) == (1, "")
    assert "heldout.safetensors: " in err


def test_a_run_that_keeps_one_group_of_held_out_users_is_inspected_on_it(invoke, trained, tmp_path):
    model, split = trained
    runs.save(model, tmp_path / "run", heldout={"test": split.test})
    code, out, _ = invoke("inspect", tmp_path / "run", "--json")
    assert code == 0
    assert json.loads(out)["users"] == 50


def test_models_without_concepts_hide_what_does_not_apply(capsys):
    plain = inspection.inspect(Plain(), None)
    assert (plain["concepts"], plain["dimensions"], plain["effective_concepts"]) == ([], [], None)
    one = inspection.inspect(OneComponent(std=0.5), np.zeros((20, 60)))
    assert one["kl"]["users"] == 20
    assert one["attributes"] == {}
    point = inspection.inspect(OneComponent(std=0), np.zeros((20, 60)))
    assert point["kl"] is None
    assert point["independence"] == pytest.approx(one["independence"])
    for inspected in (plain, one, point):
        cli.inspect.show(inspected)
        assert "concept " not in capsys.readouterr().out


def test_without_scikit_learn_the_rest_is_reported(trained, monkeypatch):
    monkeypatch.setattr(inspection, "find_spec", lambda name: None)
    inspected = inspection.inspect(trained[0], None)
    assert inspected["dci"] is None
    assert inspected["mig"] is not None
    assert any("macrid[plot]" in note for note in inspected["notes"])


def test_collapse_and_empty_concepts_are_warned_about(trained, report, monkeypatch):
    assert report["warnings"] == []
    model, _ = trained
    monkeypatch.setattr(model, "concepts_of_items", lambda: np.repeat([2, 5], [150, len(model.items) - 150]))
    collapse, empty = inspection.inspect(model, None)["warnings"]
    assert "collapse" in collapse
    assert "0, 1, 3, 4, 6" in empty


def test_all_items_in_one_of_two_concepts_are_warned_about():
    report = {
        "concepts": [{"concept": 0, "items": 9}, {"concept": 1, "items": 0}],
        "effective_concepts": 1.0,
        "kl": None,
    }
    assert "1.0 of 2" in inspection._warnings(report)[0]


def test_many_users_and_items_are_sampled(monkeypatch, trained):
    monkeypatch.setattr(inspection, "MOST_USERS", 30)
    monkeypatch.setattr(inspection, "MOST_ITEMS", 100)
    monkeypatch.setattr(inspection, "MOST_FACTORS", 2)
    model, split = trained
    inspected = inspection.inspect(model, split.test.history)
    assert inspected["kl"]["users"] == inspected["users"] == 30
    assert "30 of 50 held-out users" in " ".join(inspected["notes"])
    assert len(inspected["dci"]["factors"]) == 2


def test_agreement_of_runs_is_the_ari_of_their_concepts_on_common_items(trained, tmp_path, capsys):
    model, split = trained
    other = macrid.MacridVAE(concepts=4, dim=8, neighbours=0).fit(split.train, epochs=1, seed=3, device="cpu")
    expected = ari(model.concepts_of_items(), other.concepts_of_items())
    assert 0 < expected < 1
    assert inspection.compare([model, other]) == {
        "runs": 2, "items": len(model.items), "ari": expected, "pairs": [expected],
    }  # fmt: skip
    assert inspection.compare([model, model, model])["ari"] == pytest.approx(1)


@pytest.mark.parametrize("problem", ["concepts", "items"])
def test_runs_that_cannot_be_compared_are_refused(trained, problem):
    stranger = copy.copy(trained[0])
    stranger.items = Ids([f"other {n}" for n in range(len(stranger.items))])
    with pytest.raises(RequestError):
        inspection.compare([trained[0], Plain() if problem == "concepts" else stranger])


def test_the_report_names_preset_neighbours_and_best_shares(report, trained):
    model = trained[0]
    best = model.membership().max(axis=1)
    assert (report["preset"], report["neighbours"]) == ("custom", 0)
    assert report["best_share"]["mean"] == pytest.approx(best.mean())
