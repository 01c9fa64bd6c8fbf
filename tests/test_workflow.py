"""From data to a run in Python: the same as on the command line, whole or as far as it came."""

import copy
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import torch

import macrid
from macrid import cli, runs, workflow
from macrid.concepts.meaning import meaning_of
from macrid.data import store
from macrid.errors import DataError, RunError, SettingsError
from macrid.fitting import Progress
from macrid.recipe import PRESETS, Recipe
from macrid.settings import ADDED

QUICK = {"concepts": 3, "dim": 6, "epochs": 2, "batch_size": 60, "seed": 4, "device": "cpu"}
COMPLETE = {
    "config.json", "model.safetensors", "items.parquet", "log.jsonl", "metrics.json", "axes.safetensors", "names.json",
    "effects.json", "heldout.safetensors", "manifest.json",
}  # fmt: skip


@pytest.fixture(scope="module")
def prepared(shop_split, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "prepared"
    store.write(shop_split, folder, about={"min_rating": 4})
    return folder


def content(run):
    """What a run holds, without what differs from one time to the next."""
    found = {}
    assert runs.examine(run) == {}
    for file in run.iterdir():
        if file.name in ("manifest.json", "training"):
            continue
        if file.suffix == ".jsonl":
            lines = [json.loads(line) for line in file.read_text().splitlines()]
            found[file.name] = [{**line, "seconds": 0} for line in lines]
        else:
            found[file.name] = file.read_bytes()
    if "metrics.json" in found:
        metrics = found["metrics.json"] = json.loads(found["metrics.json"])
        metrics["training"] |= {"seconds": 0, "peak_memory_mb": 0}
        if "final" in metrics:
            metrics["final"]["seconds"] = 0
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


@pytest.mark.slow
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


def interrupt_at(phase, epoch=None, text=None):
    def watch(event):
        is_epoch = epoch is None or (event.epoch is not None and event.epoch.epoch == epoch)
        if event.phase == phase and is_epoch and (text is None or text in event.text):
            raise KeyboardInterrupt

    return watch


PHASES = [
    ("reading", None),
    ("training", None),
    ("scoring", None),
    ("understanding", "naming"),
    ("understanding", "knobs"),
    ("comparing", "EASE"),
    ("comparing", "Popularity"),
]


@pytest.fixture(scope="module")
def uninterrupted(prepared, tmp_path_factory):
    """Models and the runs that they lead to."""
    folder = tmp_path_factory.mktemp("whole")
    settings = {"macridvae": QUICK, "popularity": {"device": "cpu"}, "final": {**QUICK, "final": True}}
    return {
        name: (own, content(macrid.train(prepared, folder / name, model=KINDS.get(name, name), **own).path))
        for name, own in settings.items()
    }


KINDS = {"final": "macridvae"}
FINAL_PHASES = [("comparing", "EASE"), ("final", None), ("understanding", "naming"), ("understanding", "knobs")]


@pytest.mark.parametrize(
    ("model", "phase", "text"),
    [(model, *phase) for model in ("macridvae", "popularity") for phase in PHASES]
    + [("final", *phase) for phase in FINAL_PHASES],
)
@pytest.mark.slow
def test_a_training_interrupted_in_any_phase_resumes_to_the_same_run(
    prepared, tmp_path, uninterrupted, model, phase, text
):
    settings, expected = uninterrupted[model]
    model = KINDS.get(model, model)
    out, epoch = tmp_path / "run", 2 if phase in ("training", "final") else None
    left_by_final = ("final", "understanding") if "final" in settings else ()
    try:
        macrid.train(prepared, out, model=model, progress=interrupt_at(phase, epoch, text), **settings)
        assert model == "popularity"  # it has fewer phases
    except KeyboardInterrupt:
        if phase == "reading":
            assert not out.exists()
        else:
            assert runs.examine(out) == {}
            assert runs.read_config(out)["is_unfinished"]
            assert (out / "training" / "final" / "checkpoint.safetensors").exists() == (phase in left_by_final)
            with pytest.raises(RunError, match="--resume, or start over with --overwrite"):
                macrid.train(prepared, out, model=model, **settings)
    done = []
    resumed = macrid.train(
        prepared, out, model=model, resume=True, progress=lambda event: done.append(event.phase), **settings
    )
    assert content(resumed.path) == expected
    assert not (out / "training").exists()
    if phase in ("understanding", "comparing", "final"):
        assert not {"training", "scoring"} & {*done}
    if phase == "understanding":
        assert "final" not in done
    again = macrid.load(out, "cpu")
    history = list(resumed.model.items[:3])
    assert again.recommend(history, 5) == resumed.model.recommend(history, 5)


@pytest.mark.slow
def test_a_resumed_training_keeps_the_settings_that_suit_the_data(tmp_path):
    random = np.random.default_rng(0)
    rows = [(user, user % 400 * 8 + item) for user in range(800) for item in random.choice(8, 6, replace=False)]
    split = macrid.Interactions.read(pl.DataFrame(rows, schema=["user", "item"], orient="row")).split(20)
    whole = macrid.train(split, tmp_path / "whole", **QUICK)
    assert whole.model.settings.temperature < 0.1
    with pytest.raises(KeyboardInterrupt):
        macrid.train(split, tmp_path / "run", progress=interrupt_at("scoring"), **QUICK)
    assert content(macrid.train(split, tmp_path / "run", resume=True, **QUICK).path) == content(whole.path)


def test_watching_the_time_changes_no_number(prepared, shop_split, tmp_path, monkeypatch):
    monkeypatch.setattr("macrid.training.estimate.ENOUGH", 0)
    monkeypatch.setattr("macrid.training.estimate.SHORT", 0)
    notes = []
    run = macrid.train(prepared, tmp_path / "run", progress=lambda event: notes.append(event.text), **QUICK)
    assert (
        sum(
            bool(re.match(r"about .+ per epoch, .+ s for 2 epochs at most; stops 10 epochs after", note))
            for note in notes
        )
        == 1
    )
    training = {name: value for name, value in QUICK.items() if name not in ("concepts", "dim")}
    alone = macrid.MacridVAE(concepts=3, dim=6).fit(shop_split.train, validation=shop_split.validation, **training)
    for name, tensor in alone.state().items():
        assert torch.equal(run.model.state()[name], tensor), name


def test_an_interrupted_run_has_what_was_done_so_far(prepared, tmp_path):
    def left(phase, text=None, epoch=None):
        out = tmp_path / f"{phase}{text}"
        with pytest.raises(KeyboardInterrupt):
            macrid.train(prepared, out, progress=interrupt_at(phase, epoch, text), **QUICK)
        return {file.name for file in out.iterdir()}

    first = COMPLETE - {"metrics.json", "names.json", "effects.json"} | {"training"}
    assert left("training", epoch=2) == first
    assert left("scoring") == first | {"metrics.json"}
    assert left("comparing") == COMPLETE | {"training"}


KILLED = """
import os, sys
import macrid
from macrid.fitting import Progress

def watch(event):
    if event.phase == sys.argv[3] and (event.phase not in ("training", "final") or event.epoch is not None):
        os.kill(os.getpid(), 9)

macrid.train(sys.argv[1], sys.argv[2], progress=watch, **eval(sys.argv[4]))
"""


@pytest.mark.parametrize(
    ("model", "phase"), [("macridvae", "training"), ("macridvae", "comparing"), ("final", "final")]
)
@pytest.mark.slow
def test_a_killed_training_resumes_to_the_same_run(prepared, tmp_path, uninterrupted, model, phase):
    settings, expected = uninterrupted[model]
    out = tmp_path / "run"
    command = [sys.executable, "-c", KILLED, str(prepared), str(out), phase, repr(settings)]
    assert subprocess.run(command, check=False).returncode == -9
    with pytest.raises(RunError, match=r"unfinished.*--resume"):
        macrid.load(out)
    assert content(macrid.train(prepared, out, resume=True, **settings).path) == expected
    assert sorted(file.name for file in tmp_path.iterdir() if not file.name.endswith(".partial")) == ["run"]


@pytest.mark.parametrize("phase", ["reading", "scoring"])
@pytest.mark.slow
def test_a_killed_overwrite_leaves_the_earlier_run_and_resumes(prepared, tmp_path, uninterrupted, phase):
    settings, expected = uninterrupted["popularity"]
    out = macrid.train(prepared, tmp_path / "run", model="ease", device="cpu").path
    earlier = content(out)
    options = repr({**settings, "model": "popularity", "overwrite": True})
    command = [sys.executable, "-c", KILLED, str(prepared), str(out), phase, options]
    assert subprocess.run(command, check=False).returncode == -9
    assert content(out) == earlier
    assert content(macrid.train(prepared, out, model="popularity", resume=True, **settings).path) == expected


def test_a_folder_is_marked_as_unfinished_from_first_to_last(prepared, tmp_path):
    out = macrid.train(prepared, tmp_path / "run", model="popularity").path
    marked = []

    def watch(event):
        marked.append((out / "training").is_dir())

    macrid.train(prepared, out, overwrite=True, progress=watch, **QUICK)
    assert {*marked} == {True}
    assert not (out / "training").exists()


def test_a_finished_training_is_resumed_to_itself(prepared, tmp_path, uninterrupted):
    settings, expected = uninterrupted["macridvae"]
    run = macrid.train(prepared, tmp_path / "run", **settings)
    notes = []
    again = macrid.train(prepared, run.path, resume=True, progress=lambda event: notes.append(event.text), **settings)
    assert notes[-1].endswith("training is finished")
    assert again.metrics == run.metrics
    assert content(again.path) == expected
    history = list(run.model.items[:3])
    assert again.model.recommend(history, 5) == run.model.recommend(history, 5)
    for other in ({"epochs": 3}, {"dim": 7}, {"seed": 5}):
        with pytest.raises(RunError, match=r"finished.*--overwrite"):
            macrid.train(prepared, run.path, resume=True, **{**settings, **other})


def test_a_draft_of_other_data_or_settings_is_not_resumed(prepared, shop_split, tmp_path):
    for model, settings, other in (
        ("macridvae", QUICK, {"dim": 7}),
        ("ease", {"device": "cpu"}, {"regularisation": 3}),
    ):
        out = tmp_path / model
        with pytest.raises(KeyboardInterrupt):
            macrid.train(prepared, out, model=model, progress=interrupt_at("comparing"), **settings)
        with pytest.raises(RunError, match=f"different {next(iter(other))} "):
            macrid.train(prepared, out, model=model, resume=True, **{**settings, **other})
        fewer = replace(shop_split, test=shop_split.validation)
        with pytest.raises(RunError, match="different interactions"):
            macrid.train(fewer, out, model=model, resume=True, **settings)


@pytest.mark.slow
def test_a_resumed_training_may_run_for_longer(prepared, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        macrid.train(prepared, tmp_path / "run", progress=interrupt_at("comparing"), **QUICK)
    longer = {**QUICK, "epochs": 4}
    resumed = macrid.train(prepared, tmp_path / "run", resume=True, **longer)
    assert resumed.metrics["training"]["epochs"] == 4
    assert content(resumed.path) == content(macrid.train(prepared, tmp_path / "whole", **longer).path)


@pytest.mark.parametrize(
    ("model", "phase"), [("macridvae", "scoring"), ("ease", "comparing"), ("popularity", "reading")]
)
def test_no_other_training_gets_into_the_folder_from_first_to_last(prepared, tmp_path, model, phase):
    settings = QUICK if model == "macridvae" else {"device": "cpu"}
    refused = []

    def intrude(event):
        if event.phase == phase and not refused:
            with pytest.raises(RunError, match=rf"in use by another process \({os.getpid()}\)") as error:
                macrid.train(prepared, tmp_path / "run", model="popularity", overwrite=True)
            refused.append(error)

    macrid.train(prepared, tmp_path / "run", model=model, progress=intrude, **settings)
    assert refused
    assert [file.name for file in tmp_path.iterdir()] == ["run"]


def test_no_model_is_saved_into_a_folder_that_is_being_trained(prepared, shop_split, tmp_path):
    model = macrid.Popularity().fit(shop_split.train)

    def intrude(event):
        if event.phase == "scoring":
            with pytest.raises(RunError, match="in use by another process"):
                model.save(tmp_path / "run", overwrite=True)

    macrid.train(prepared, tmp_path / "run", model="ease", progress=intrude, baselines=False, device="cpu")
    assert isinstance(macrid.load(tmp_path / "run"), macrid.EASE)


@pytest.mark.parametrize("phase", ["training", "understanding"])
def test_a_folder_deleted_meanwhile_is_made_again(prepared, tmp_path, uninterrupted, phase):
    settings, expected = uninterrupted["macridvae"]
    out = tmp_path / "deep" / "run"
    deleted = []

    def delete(event):
        if event.phase == phase and (phase != "training" or event.epoch is not None) and not deleted:
            shutil.rmtree(out.parent)
            deleted.append(phase)

    run = macrid.train(prepared, out, progress=delete, **settings)
    assert deleted
    assert content(run.path) == expected


def test_a_file_put_into_the_folder_meanwhile_is_not_deleted(prepared, tmp_path, uninterrupted):
    settings, expected = uninterrupted["macridvae"]
    out = tmp_path / "run"

    def put(event):
        if event.phase == "comparing":
            (out / "thesis.txt").write_text("years of work")

    with pytest.raises(RunError, match=r"thesis\.txt.*move it"):
        macrid.train(prepared, out, progress=put, **settings)
    (out / "thesis.txt").rename(tmp_path / "thesis.txt")
    assert content(macrid.train(prepared, out, resume=True, **settings).path) == expected


def test_leftovers_of_a_kill_never_block_an_overwrite(prepared, tmp_path):
    out = macrid.train(prepared, tmp_path / "run", model="popularity").path
    for name in (".names.json.0123abcd.partial", ".model.safetensors.next", "..names.json.next.0123abcd.partial"):
        (out / name).write_text("half")
    macrid.train(prepared, out, model="popularity", overwrite=True)
    assert not list(out.glob(".*"))


def test_leftovers_of_a_kill_do_not_get_into_the_run(prepared, tmp_path):
    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        macrid.train(prepared, out, model="popularity", progress=interrupt_at("comparing"))
    (out / "training" / "draft" / ".axes.safetensors.0123abcd.partial").write_text("half")
    (out / "training" / "draft" / ".draft.0123abcd.partial").mkdir()
    (out / "training" / ".draft.0123abcd.partial").mkdir()
    macrid.train(prepared, out, model="popularity", resume=True)
    assert not list(out.glob(".*"))


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
    assert content(out) == before
    assert str(out / "training") in notes[-1]


def test_an_interruption_leaves_an_earlier_run_without_scores(prepared, shop_split, tmp_path):
    macrid.Popularity().fit(shop_split.train).save(tmp_path / "run")
    before = content(tmp_path / "run")
    assert "metrics.json" not in before
    with pytest.raises(KeyboardInterrupt):
        macrid.train(prepared, tmp_path / "run", model="popularity", overwrite=True, progress=interrupt_at("comparing"))
    assert content(tmp_path / "run") == before


def test_a_training_that_fails_before_its_first_step_leaves_no_mark(prepared, tmp_path, uninterrupted):
    settings, expected = uninterrupted["macridvae"]
    out = macrid.train(prepared, tmp_path / "run", **settings).path
    with pytest.raises(KeyboardInterrupt):
        macrid.train(prepared, out, overwrite=True, progress=interrupt_at("training"), **settings)
    assert content(out) == expected
    assert not (out / "training").exists()


@pytest.mark.slow
def test_a_disk_too_full_for_checkpoints_leaves_the_best_weights_and_training_starts_again(
    prepared, tmp_path, uninterrupted, monkeypatch
):
    settings, expected = uninterrupted["macridvae"]

    def refuse(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("macrid.training.checkpoint.write_atomically", refuse)
        full.setattr("macrid.training.loop.CHECKPOINT_SECONDS", 0)
        with pytest.raises(RunError, match=r"No space left.*--resume"):
            macrid.train(prepared, tmp_path / "run", **settings)
    assert runs.read_config(tmp_path / "run")["is_unfinished"]
    assert content(macrid.train(prepared, tmp_path / "run", resume=True, **settings).path) == expected


def test_a_missing_number_among_the_attributes_does_not_undo_what_was_done(shop_split, tmp_path):
    train, numbers = shop_split.train, pa.array([float("nan"), *range(len(shop_split.items) - 1)], pa.float64())
    table = train.table.append_column("worth", numbers)
    split = replace(shop_split, train=macrid.Interactions(train.matrix, train.users, train.items, table))
    with pytest.raises(KeyboardInterrupt):
        macrid.train(split, tmp_path / "run", model="popularity", progress=interrupt_at("comparing"))
    phases = []
    macrid.train(
        split, tmp_path / "run", model="popularity", resume=True, progress=lambda event: phases.append(event.phase)
    )
    assert "computing" not in phases
    assert "comparing" in phases


def test_own_files_in_a_folder_called_training_are_never_deleted(prepared, trained, tmp_path):
    own = tmp_path / "project" / "training" / "ratings.csv"
    own.parent.mkdir(parents=True)
    own.write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(RunError, match=r"training: contains 'ratings\.csv'"):
            macrid.train(prepared, tmp_path / "project", model="popularity", overwrite=overwrite)
        with pytest.raises(RunError, match=r"training: contains 'ratings\.csv'"):
            copy.deepcopy(trained[0]).save(tmp_path / "project", overwrite=overwrite)
    assert own.read_text() == "years of work"


def test_a_model_is_not_saved_over_an_interrupted_training(prepared, shop_split, tmp_path):
    model = macrid.Popularity().fit(shop_split.train)
    with pytest.raises(KeyboardInterrupt):
        macrid.train(prepared, tmp_path / "run", model="ease", progress=interrupt_at("comparing"), device="cpu")
    for file in runs.FILES:
        (tmp_path / "run" / file).unlink(missing_ok=True)
    with pytest.raises(RunError, match="holds an interrupted training"):
        model.save(tmp_path / "run")
    model.save(tmp_path / "run", overwrite=True)
    assert not (tmp_path / "run" / "training").exists()


def test_the_working_directory_is_not_replaced(prepared, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for resume in (False, True):
        with pytest.raises(RunError, match="working or home directory"):
            macrid.train(prepared, ".", model="popularity", resume=resume)
    assert list(tmp_path.glob("**/*")) == [tmp_path / "here"]


def test_what_cannot_be_trained_is_refused_before_anything_is_read_or_written(shop_split, tmp_path):
    out = tmp_path / "run"
    for options, error, value in (
        ({"model": "svd++"}, SettingsError, r"svd\+\+"),
        ({"concepts": 0}, SettingsError, "concepts"),
        ({"colour": "red"}, SettingsError, "colour"),
        ({"model": "ease", "concepts": 3}, SettingsError, "concepts"),
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
