"""From data to a run in Python: the same as on the command line, whole or as far as it came."""

import json
import shutil
from dataclasses import replace

import polars as pl
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

import macrid
from macrid import cli, runs, workflow
from macrid.concepts.meaning import meaning_of
from macrid.data import store
from macrid.errors import DataError, RunError, SettingsError
from macrid.recipe import PRESETS, Recipe
from macrid.settings import ADDED
from macrid.workflow import Progress

QUICK = {"concepts": 3, "dim": 6, "epochs": 2, "batch_size": 60, "seed": 4, "device": "cpu"}
COMPLETE = {
    "config.json", "model.safetensors", "items.parquet", "log.jsonl", "metrics.json", "axes.safetensors", "names.json",
    "effects.json", "heldout.safetensors",
}  # fmt: skip


@pytest.fixture(scope="module")
def prepared(shop_split, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "prepared"
    store.write(shop_split, folder, about={"min_rating": 4})
    return folder


def content(run):
    """What a run holds, without what differs from one time to the next."""
    found = {}
    for file in run.iterdir():
        if file.suffix == ".safetensors":
            with safe_open(file, "numpy") as opened:
                tensors = {name: value.tolist() for name, value in load_file(file).items()}
                found[file.name] = tensors, opened.metadata()
        elif file.suffix == ".jsonl":
            lines = [json.loads(line) for line in file.read_text().splitlines()]
            found[file.name] = [{**line, "seconds": 0} for line in lines]
        else:
            found[file.name] = file.read_bytes()
    if "metrics.json" in found:
        metrics = found["metrics.json"] = json.loads(found["metrics.json"])
        metrics["training"] |= {"seconds": 0, "peak_memory_mb": 0}
    return found


@pytest.mark.parametrize("model", ["macridvae", "multvae", "ease"])
def test_python_and_the_command_line_make_the_same_run(prepared, tmp_path, monkeypatch, capsys, model):
    settings = {"device": "cpu"} if model == "ease" else {**QUICK}
    if model == "multvae":
        settings["preset"] = "paper"
        del settings["concepts"]
    words = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    monkeypatch.setattr(
        "sys.argv", ["macrid", "train", str(prepared), "--model", model, "-o", str(tmp_path / "c"), *words]
    )
    with pytest.raises(SystemExit, match="0"):
        cli.main()
    run = macrid.train(prepared, tmp_path / "p", model=model, **settings)
    assert content(run.path) == content(tmp_path / "c")
    assert {file.name for file in run.path.iterdir()} == COMPLETE - (
        set() if model == "macridvae" else {"axes.safetensors", "names.json", "effects.json"}
    )
    assert json.loads((run.path / "metrics.json").read_text()) == run.metrics
    again = macrid.load(run.path, "cpu")
    history = list(run.model.items[:3])
    assert again.recommend(history, 5) == run.model.recommend(history, 5)
    assert again.min_rating == 4


def test_a_name_a_recipe_and_a_model_are_the_same_model(shop_split, tmp_path):
    own = {name: QUICK[name] for name in ("concepts", "dim")}
    training = {name: value for name, value in QUICK.items() if name not in own}
    kinds = {
        "name": ("macridvae", QUICK),
        "recipe": (Recipe("MacridVAE", {**own, "dim": 9}, training), {"dim": 6}),
        "model": (macrid.MacridVAE(**own), training),
    }
    found = [
        content(macrid.train(shop_split, tmp_path / name, model=model, baselines=False, **settings).path)
        for name, (model, settings) in kinds.items()
    ]
    assert found[0] == found[1] == found[2]
    assert "baselines" not in found[0]["metrics.json"]


def test_the_preset_of_the_paper_is_its_algorithm_and_named_settings_win(shop_split, tmp_path):
    run = macrid.train(shop_split, tmp_path / "run", preset="paper", baselines=False, **QUICK, average=2)
    settings, training = run.model.settings, run.model.training
    assert (settings.start, settings.assignment, settings.similarity) == ("random", "hard", "cosine")
    assert ADDED.items() <= settings.model_dump().items()
    assert (training.balance, training.average) == (0, 2)
    fields = {**type(settings).model_fields, **type(training).model_fields}
    assert PRESETS["paper"].keys() <= fields.keys()
    ease = macrid.train(shop_split, tmp_path / "ease", model="ease", preset="paper", baselines=False, device="cpu")
    assert ease.model.training == type(training)(device="cpu")


def test_progress_tells_every_phase_step_and_epoch_in_order(prepared, tmp_path):
    events = []
    macrid.train(prepared, tmp_path / "run", progress=events.append, **QUICK)
    phases = list(dict.fromkeys(event.phase for event in events if event.phase != "note"))
    assert phases == ["reading", "training", "scoring", "understanding", "comparing"]
    steps = [event for event in events if event.total is not None]
    assert [step.done for step in steps] == list(range(1, steps[0].total + 1))
    assert [event.epoch.epoch for event in events if event.epoch is not None] == [1, 2]
    assert all(isinstance(event, Progress) and event.text for event in events)


def test_no_callback_is_needed_and_nothing_is_printed(shop_split, tmp_path, capsys):
    macrid.train(shop_split, tmp_path / "run", model="popularity")
    assert capsys.readouterr() == ("", "")


def interrupt_at(phase, epoch=None):
    def watch(event):
        if event.phase == phase and (epoch is None or (event.epoch is not None and event.epoch.epoch == epoch)):
            raise KeyboardInterrupt

    return watch


@pytest.mark.parametrize(
    ("phase", "left"),
    [
        ("reading", None),
        ("training", {"training"}),
        ("scoring", {"training"}),
        ("understanding", COMPLETE - {"names.json", "effects.json"}),
        ("comparing", COMPLETE),
    ],
)
def test_an_interruption_leaves_what_was_done(prepared, tmp_path, monkeypatch, phase, left):
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        macrid.train(prepared, out, progress=interrupt_at(phase, 2 if phase == "training" else None), **QUICK)
    if left is None:
        assert not out.exists()
        return
    if phase == "training":
        left = {"training", "config.json", "model.safetensors", "items.parquet", "log.jsonl", "heldout.safetensors",
                "axes.safetensors"}  # fmt: skip
    assert {file.name for file in out.iterdir()} == left
    if "training" in left:
        resumed = macrid.train(prepared, out, resume=True, **QUICK)
        whole = macrid.train(prepared, tmp_path / "whole", **QUICK)
        assert content(resumed.path) == content(whole.path)
    else:
        assert "baselines" not in json.loads((out / "metrics.json").read_text())


def test_an_interruption_leaves_an_earlier_run_as_it_was(prepared, tmp_path):
    out = macrid.train(prepared, tmp_path / "run", **QUICK).path
    before = content(out)
    notes = []

    def watch(event):
        if event.phase == "note":
            notes.append(event.text)
        interrupt_at("training", 2)(event)

    with pytest.raises(KeyboardInterrupt):
        macrid.train(prepared, out, overwrite=True, progress=watch, **{**QUICK, "epochs": 5, "dim": 4})
    shutil.rmtree(out / "training")
    assert content(out) == before
    assert str(out / "training") in notes[-1]


def test_what_cannot_be_trained_is_refused_before_anything_is_read_or_written(shop_split, tmp_path):
    out = tmp_path / "run"
    for options, error, value in (
        ({"model": "svd++"}, SettingsError, r"svd\+\+"),
        ({"concepts": 0}, SettingsError, "concepts"),
        ({"colour": "red"}, SettingsError, "colour"),
        ({"model": "ease", "concepts": 3}, SettingsError, "concepts"),
        ({"model": "ease", "resume": True}, SettingsError, "ease"),
        ({"model": "multvae", "labels": {"concept": {}}}, SettingsError, "multvae"),
        ({"preset": "worst"}, SettingsError, "worst"),
        ({"preset": "paper", "model": macrid.MacridVAE()}, SettingsError, "paper"),
        ({"model": macrid.MacridVAE(), "concepts": 3}, SettingsError, "concepts"),
    ):
        with pytest.raises(error, match=value):
            macrid.train("no-such-data", out, **options)
    for data, value in (("no-such-data", "no-such-data"), (shop_split.train, "Interactions")):
        with pytest.raises(DataError, match=value):
            macrid.train(data, out)
    assert not out.exists()
    out.mkdir()
    (out / "thesis.txt").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(RunError, match=str(out)):
            macrid.train(shop_split, out, overwrite=overwrite)


def test_labels_given_in_python_reach_the_run(shop_split, tmp_path):
    category = shop_split.table.column("category").to_pylist()
    labels = {"concept": dict(zip(shop_split.items, category, strict=True))}
    settings = {**QUICK, "concepts": 7}
    run = macrid.train(shop_split, tmp_path / "run", labels=labels, baselines=False, **settings)
    names = meaning_of(macrid.load(run.path)).names
    assert {names.concept_name(k) for k in range(7)} == set(category)


@pytest.fixture(scope="module")
def saved(shop_split, tmp_path_factory):
    """(model, run): fitted and saved in Python."""
    model = macrid.MacridVAE(concepts=7, dim=16)
    model.fit(shop_split.train, validation=shop_split.validation, epochs=6, batch_size=50, seed=1, device="cpu")
    model.save(tmp_path_factory.mktemp("saved") / "run")
    return model, next(tmp_path_factory.getbasetemp().glob("saved*/run"))


def test_a_model_saved_in_python_is_a_complete_run(saved, shop_split):
    model, run = saved
    assert {file.name for file in run.iterdir()} == COMPLETE
    metrics = json.loads((run / "metrics.json").read_text())
    assert metrics["validation"] == macrid.evaluate(model, shop_split.validation).as_json()
    assert metrics["training"]["epochs"] == 6
    assert "test" not in metrics
    again = macrid.load(run, "cpu")
    assert meaning_of(again).names == meaning_of(model).names
    assert meaning_of(again).in_use == meaning_of(model).in_use
    assert (again.sample != shop_split.validation.history).nnz == 0


@pytest.mark.parametrize(
    "command",
    [
        "evaluate --split validation",
        "inspect",
        "names",
        "steer --history bag-0001 --concept 0 --dimension 0 --by 0",
    ],
)
def test_commands_work_on_a_run_saved_in_python(saved, monkeypatch, capsys, command):
    model, run = saved
    name, *options = command.split()
    monkeypatch.setattr("sys.argv", ["macrid", name, str(run), *options, "--json"])
    with pytest.raises(SystemExit, match="0"):
        cli.main()
    answer = json.loads(capsys.readouterr().out)
    if name == "evaluate":
        assert answer["metrics"] == macrid.evaluate(model, model.validation).as_json()["metrics"]


def test_a_run_saved_in_python_can_be_served(saved):
    from fastapi.testclient import TestClient

    from macrid.serving.app import create_app

    with TestClient(create_app(saved[1]), base_url="http://127.0.0.1") as client:
        card = client.get("/v1/model").json()
        users = client.get("/v1/users").json()
    assert card["metrics"]["validation"]["users"] == 50
    assert users["users"][0]["id"] == "validation-0"


def test_names_that_a_model_has_are_kept_when_it_is_saved(saved, tmp_path):
    model = macrid.load(saved[1], "cpu")
    meaning = meaning_of(model)
    entry = meaning.names.concepts[0].model_copy(update={"name": "mine"})
    meaning.names = replace(meaning.names, concepts=(entry, *meaning.names.concepts[1:]))
    model.save(tmp_path / "run")
    assert meaning_of(macrid.load(tmp_path / "run")).names == meaning.names


def test_the_threshold_of_ratings_is_kept_in_the_run(tmp_path):
    rows = [(u, i, 2 if (u + i) % 5 == 0 else 5) for u in range(40) for i in range(12) if (u + i) % 3]
    frame = pl.DataFrame(rows, schema=["user", "item", "rating"], orient="row")
    split = macrid.Interactions.read(frame, min_rating=3, min_items=1).split(4)
    macrid.Popularity().fit(split.train).save(tmp_path / "saved")
    trained = macrid.train(split, tmp_path / "trained", model="popularity")
    for run in (tmp_path / "saved", trained.path):
        assert runs.read_config(run)["data"]["min_rating"] == 3
        model = macrid.load(run)
        user = frame.filter(pl.col("user") == 1)
        low = set(user.filter(pl.col("rating") < 3)["item"]) & set(model.items)
        assert low
        assert not low & {*macrid.recommend_many(model, user, 2)["item"].to_pylist()}


def test_a_place_that_is_taken_is_found_out_before_the_work(saved, monkeypatch):
    monkeypatch.setattr(workflow, "evaluate", None)
    with pytest.raises(RunError, match=str(saved[1])):
        saved[0].save(saved[1])
