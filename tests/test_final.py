"""A final model, trained on everybody: what it knows, what was chosen before, and whose the scores are."""

import copy
import json

import numpy as np
import polars as pl
import pytest
import torch

import macrid
from macrid import final as finals
from macrid import runs
from macrid.concepts.meaning import meaning_of
from macrid.data import store
from macrid.data.everyone import everyone_of
from macrid.errors import RunError, SettingsError
from macrid.models.neighbours import USUAL, Neighbours

QUICK = {"concepts": 3, "dim": 6, "epochs": 3, "batch_size": 60, "seed": 4, "device": "cpu", "baselines": False}
MODELS = ("macridvae", "multvae", "multdae", "ease", "popularity")


@pytest.fixture(scope="module")
def data(shop):
    """A shop in which every eighth user has an item of their own."""
    shared = shop.interactions
    rows, columns = shared.pairs
    events = {
        "user": [*shared.users.take(rows), *shared.users[::8]],
        "item": [*shared.items.take(columns), *(f"own-{user}" for user in shared.users[::8])],
    }
    titles = pl.DataFrame({"item": [*{*events["item"]}], "title": [f"title of {item}" for item in {*events["item"]}]})
    return macrid.Interactions.read(pl.DataFrame(events), items=titles.sort("item"))


@pytest.fixture(scope="module")
def split(data):
    return data.split(50)


@pytest.fixture(scope="module")
def both(split, tmp_path_factory):
    """Two runs with the same settings: without and with a final model."""
    folder = tmp_path_factory.mktemp("final")
    return [macrid.train(split, folder / str(final), final=final, **QUICK) for final in (False, True)]


@pytest.fixture(scope="module")
def of_everybody(data, tmp_path_factory):
    """A run trained on data of which nobody is held out."""
    return macrid.train(data.split(0), tmp_path_factory.mktemp("all") / "run", **QUICK)


@pytest.mark.parametrize("model", MODELS)
def test_items_that_only_held_out_users_have_can_be_recommended(data, split, both, tmp_path, model):
    own = {name: value for name, value in QUICK.items() if name != "concepts"}
    if model in ("ease", "popularity"):
        own = {"device": "cpu", "baselines": False}
    run = both[1] if model == "macridvae" else macrid.train(split, tmp_path / "run", model=model, final=True, **own)
    lost = sorted({*data.items} - {*split.items})
    assert len(lost) > 5
    loaded = macrid.load(run.path, "cpu")
    for found in (run.model, loaded):
        assert {*found.items} == {*data.items}
        (item,) = found.recommend(found.items[:3], 1, include=[lost[0]])
        assert item.title == f"title of {lost[0]}"
    assert loaded.popularity.sum() == len(data)
    if model == "ease":
        expected = macrid.EASE().fit(everyone_of(split), device="cpu")
        assert torch.equal(loaded.weights, expected.weights)


def test_scores_are_those_of_the_model_without_the_held_out_users(both, data):
    first, final = both
    assert final.metrics["test"] == first.metrics["test"]
    assert final.metrics["validation"] == first.metrics["validation"]
    about = final.metrics["final"]
    assert about["scores_are_of"] == finals.SCORES_ARE_OF
    assert (about["users"], about["items"], about["interactions"]) == (len(data.users), len(data.items), len(data))
    assert about["epochs"] == final.metrics["training"]["best_epoch"]
    assert json.loads((final.path / "metrics.json").read_text()) == final.metrics
    assert [epoch.ndcg for epoch in final.model.log] == [epoch.ndcg for epoch in first.model.log]
    assert final.model.validation is None
    assert "final" not in first.metrics


def test_the_final_model_is_trained_like_the_first_but_on_everybody(both, split):
    first, final = both
    everyone = everyone_of(split)
    training = finals.training_of(first.model, first.metrics)
    expected = finals.successor(first.model, first.metrics).fit(everyone, **training.model_dump())
    finals.keep_numbers(expected, first.model)
    for name, tensor in expected.state().items():
        assert torch.equal(final.model.state()[name], tensor), name
    assert final.model.training == first.model.training


def test_nothing_is_chosen_on_users_who_are_now_trained_on(both, split):
    first, final = both
    weight = first.metrics["training"]["neighbours_weight"]
    assert weight > 0
    neighbours = Neighbours.fit(everyone_of(split).matrix, first.model.settings.neighbours, torch.device("cpu"))
    assert torch.equal(final.model.neighbours.weights, neighbours.times(weight).weights)
    settings = first.model.settings.model_dump()
    assert final.model.settings.model_dump() == settings


def test_it_is_trained_for_as_many_epochs_as_were_best(both):
    first, _ = both
    training = finals.training_of(first.model, {"training": {"best_epoch": 2}})
    assert training.epochs == 2
    assert training.model_copy(update={"epochs": 3}) == first.model.training


@pytest.mark.parametrize("concepts", ["auto", "merge"])
def test_the_number_of_concepts_is_that_of_the_first_model(split, tmp_path, concepts):
    settings = {**QUICK, "concepts": concepts}
    first = macrid.MacridVAE(concepts=concepts, dim=6)
    run = macrid.train(split, tmp_path / "run", model=first, final=True, **{
        name: value for name, value in settings.items() if name not in ("concepts", "dim")
    })  # fmt: skip
    assert run.model is not first
    assert run.model.settings.concepts == run.model.network.concepts == first.network.concepts
    assert macrid.load(run.path).network.concepts == first.network.concepts


def test_concepts_keep_their_numbers_and_scores_do_not_change(trained):
    first, split = trained
    final = copy.deepcopy(first)
    order = torch.tensor([3, 0, 6, 1, 2, 5, 4])
    final.network.prototypes.data = final.network.prototypes.data[order]
    final._forget()
    before = final.scores(split.test.history[:20])
    assert not np.array_equal(final.concepts_of_items(), first.concepts_of_items())
    finals.keep_numbers(final, first)
    assert torch.equal(final.network.prototypes, first.network.prototypes)
    np.testing.assert_array_equal(final.concepts_of_items(), first.concepts_of_items())
    torch.testing.assert_close(final.scores(split.test.history[:20]), before)


def test_labels_number_the_concepts_of_both_models(split, tmp_path):
    names = [f"{item}".split("-")[0] for item in split.items]
    labels = {"concept": dict(zip(split.items, names, strict=True))}
    count = len({*names})
    run = macrid.train(split, tmp_path / "run", labels=labels, final=True, **{**QUICK, "concepts": count})
    found = meaning_of(macrid.load(run.path)).names
    assert {found.concept_name(k) for k in range(count)} == {*names}


def test_a_folder_and_python_lead_to_the_same_final_model(both, split, tmp_path):
    store.write(split, tmp_path / "data")
    run = macrid.train(tmp_path / "data", tmp_path / "run", final=True, **QUICK)
    assert (run.path / "model.safetensors").read_bytes() == (both[1].path / "model.safetensors").read_bytes()
    assert run.model.items == both[1].model.items
    assert run.model.table == both[1].model.table


def test_a_run_with_a_final_model_is_complete(both, split):
    final = macrid.load(both[1].path, "cpu")
    meaning = meaning_of(final)
    assert runs.examine(both[1].path) == {}
    assert meaning.names is not None
    assert meaning.effects
    assert all(effect.retention is None for effect in meaning.effects)  # accuracy on users it was trained on
    heldout = runs.read_heldout(both[1].path, "test")
    assert heldout.history.shape == (50, len(final.items))
    np.testing.assert_array_equal(heldout.history.indices, split.test.history.indices)


def test_a_finished_final_training_is_resumed_to_itself_and_to_nothing_else(both, split):
    run = macrid.train(split, both[1].path, final=True, resume=True, **QUICK)
    assert run.metrics == both[1].metrics
    assert torch.equal(run.model.scores(run.model.matrix([np.arange(3)])), both[1].model.scores(
        both[1].model.matrix([np.arange(3)])
    ))  # fmt: skip
    for path, final in ((both[1].path, False), (both[0].path, True)):
        with pytest.raises(RunError, match="nothing to resume"):
            macrid.train(split, path, final=final, resume=True, **QUICK)


# Nobody held out


def test_without_validation_users_the_number_of_epochs_must_be_given(data, tmp_path):
    with pytest.raises(SettingsError, match=r"validation users.*--epochs"):
        macrid.train(data.split(0), tmp_path / "run", concepts=3)
    assert not (tmp_path / "run").exists()
    macrid.train(data.split(0), tmp_path / "ease", model="ease")


def test_a_run_without_held_out_users_says_that_it_has_no_scores(of_everybody, data):
    metrics = of_everybody.metrics
    assert not {"validation", "test", "baselines"} & {*metrics}
    assert metrics["remarks"] == ["nobody was held out, so there are no scores"]
    assert metrics["training"]["best_epoch"] == metrics["training"]["epochs"] == QUICK["epochs"]
    assert {*of_everybody.model.items} == {*data.items}
    with pytest.raises(RunError, match="nobody was held out"):
        runs.read_heldout(of_everybody.path, "test")


def test_a_run_without_held_out_users_has_names_effects_and_neighbours(of_everybody, data):
    model = macrid.load(of_everybody.path, "cpu")
    assert runs.examine(of_everybody.path) == {}
    assert meaning_of(model).names is not None
    assert meaning_of(model).effects
    assert model.sample.shape == (len(data.users), len(data.items))
    expected = Neighbours.fit(data.split(0).train.matrix, 128, torch.device("cpu")).times(USUAL)
    assert torch.equal(model.neighbours.weights, expected.weights)


def test_a_final_model_of_everybody_is_the_same_and_a_note_says_so(of_everybody, data, tmp_path):
    notes = []
    run = macrid.train(
        data.split(0), tmp_path / "run", final=True, progress=lambda event: notes.append(event.text), **QUICK
    )
    assert any("trained on everybody anyway" in note for note in notes)
    assert any("usual weight, 8" in note for note in notes)
    assert (run.path / "model.safetensors").read_bytes() == (of_everybody.path / "model.safetensors").read_bytes()


def test_an_interrupted_training_on_everybody_resumes_to_the_same_run(of_everybody, data, tmp_path):
    def stop(event):
        if event.phase == "understanding":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        macrid.train(data.split(0), tmp_path / "run", progress=stop, **QUICK)
    run = macrid.train(data.split(0), tmp_path / "run", resume=True, **QUICK)
    for name in ("model.safetensors", "names.json", "effects.json", "axes.safetensors", "heldout.safetensors"):
        assert (run.path / name).read_bytes() == (of_everybody.path / name).read_bytes(), name


@pytest.mark.parametrize("kind", ["both", "of_everybody"])
def test_both_can_be_served(kind, request):
    from fastapi.testclient import TestClient

    from macrid.serving.app import create_app

    run = request.getfixturevalue(kind)
    run = run[1] if kind == "both" else run
    with TestClient(create_app(run.path), base_url="http://127.0.0.1") as client:
        card = client.get("/v1/model").json()
        answer = client.post("/v1/recommend", json={"history": [str(run.model.items[0])], "n": 3}).json()
        assert client.get("/v1/users").status_code == 200
    assert len(answer["items"]) == 3
    assert card["items"] == len(run.model.items)
    if kind == "both":
        assert card["metrics"]["final"]["scores_are_of"] == finals.SCORES_ARE_OF
    else:
        assert "no scores" in card["metrics"]["remarks"][0]
