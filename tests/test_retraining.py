"""A training that starts from a run, from the command line and in Python, and the comparison of both runs."""

import json
import shutil

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import macrid
from macrid import runs
from macrid.data import store
from macrid.data.ids import Ids
from macrid.data.interactions import Interactions
from macrid.data.split import HeldOut, Split
from macrid.errors import DataError, RunError, SettingsError
from macrid.retraining import Earlier, held_out_before, trained_on_everybody
from tests.cli.conftest import invoke  # noqa: F401

QUICK = {"epochs": 3, "batch_size": 100, "device": "cpu"}


@pytest.fixture(scope="module")
def yesterday(shop_split, tmp_path_factory):
    """A run with a name and the ends of a dimension that a person chose: do not change it."""
    run = tmp_path_factory.mktemp("runs") / "yesterday"
    macrid.train(shop_split, run, concepts=5, dim=8, seed=1, baselines=False, **{**QUICK, "epochs": 8})
    names = runs.read_names(run).renamed(3, "mine")
    runs.write_names(lambda: names.renamed_dimension(0, 0, low="few", high="many"), run)
    return run


@pytest.fixture(scope="module")
def today(shop_split):
    """Without two items, with a new one, and with a few events less."""
    keep = np.arange(2, len(shop_split.items))
    ids = Ids([*list(shop_split.items.take(keep)), "brand-new"])

    def changed(matrix, share):
        matrix = sp.csr_array(sp.hstack([matrix[:, keep], matrix[:, [7]]]))
        kept = np.random.default_rng(0).random(matrix.nnz) >= share
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        return sp.csr_array((matrix.data[kept], (rows[kept], matrix.indices[kept])), shape=matrix.shape)

    def group(heldout):
        return HeldOut(changed(heldout.history, 0.02), changed(heldout.target, 0), heldout.users)

    table = shop_split.table.take([*keep, 7])
    train = Interactions(changed(shop_split.train.matrix, 0.02), shop_split.train.users, ids, table)
    return Split(train, group(shop_split.validation), group(shop_split.test))


@pytest.fixture(scope="module")
def retrained(yesterday, today, tmp_path_factory):
    """(the run, the notes of its training): do not change it."""
    run, notes = yesterday.parent / "today", []

    def listen(event):
        if event.phase == "note":
            notes.append(event.text)

    macrid.train(today, run, warm_start=yesterday, progress=listen, baselines=False, **QUICK)
    return run, notes


def test_settings_are_those_of_the_run_unless_given(retrained):
    config = runs.read_config(retrained[0])
    assert config["settings"]["dim"] == 8
    assert config["settings"]["concepts"] == 5
    assert (config["training"]["seed"], config["training"]["patience"], config["training"]["epochs"]) == (1, 2, 3)


def test_names_that_people_chose_are_there_and_what_changed_is_said(yesterday, retrained):
    run, notes = retrained
    names = runs.read_names(run)
    assert names.concepts[3].name == "mine"
    assert names.concepts[3].edited
    assert (names.dimensions[0].low, names.dimensions[0].high, names.dimensions[0].edited) == ("few", "many", True)
    about = runs.read_metrics(run)["warm_start"]
    assert (about["kept_items"], about["new_items"], about["dropped_items"]) == (158, 1, 2)
    assert about["held_out_before"] > 0.9
    assert any(note.startswith(f"warm start from {yesterday}: 158 items kept, 1 new, 2 dropped ('") for note in notes)
    assert any(note.startswith("kept 5 of 5 concepts") for note in notes)


def test_the_run_keeps_its_differences_from_the_earlier_one(yesterday, retrained):
    run, _ = retrained
    stored = runs.read_diff(run)
    assert stored["numbers"] == macrid.diff(yesterday, run, device="cpu")["numbers"]
    assert stored["ari"] > 0.8
    assert stored["accuracy"]["same_users"]
    assert stored["items"] == {"common": 158, "new": 1, "gone": 2}
    assert runs.examine(run) == {}


def test_a_final_model_is_not_compared_on_users_it_was_trained_on(yesterday, today, tmp_path):
    run = tmp_path / "run"
    macrid.train(today, run, warm_start=yesterday, final=True, baselines=False, **QUICK)
    accuracy = runs.read_diff(run)["accuracy"]
    scores = [runs.read_metrics(one)["test"]["metrics"]["ndcg@100"]["mean"] for one in (yesterday, run)]
    assert (accuracy["final"], accuracy["same_users"]) == (True, False)
    assert accuracy["change"] == scores[1] - scores[0]


def test_an_interrupted_warm_start_resumes_to_the_same_run(yesterday, today, retrained, tmp_path):
    def interrupt(event):
        if event.phase == "training" and event.epoch is not None and event.epoch.epoch == 2:
            raise KeyboardInterrupt

    options = {"warm_start": yesterday, "baselines": False, **QUICK}
    with pytest.raises(KeyboardInterrupt):
        macrid.train(today, tmp_path / "run", progress=interrupt, **options)
    with pytest.raises(RunError, match="different"):
        macrid.train(today, tmp_path / "run", resume=True, concepts=5, dim=8, baselines=False, **QUICK)
    macrid.train(today, tmp_path / "run", resume=True, **options)
    for name in ("model.safetensors", "names.json", "axes.safetensors"):
        assert (tmp_path / "run" / name).read_bytes() == (retrained[0] / name).read_bytes()


def test_a_run_can_be_replaced_by_its_own_successor(yesterday, today, tmp_path):
    run = shutil.copytree(yesterday, tmp_path / "run")
    macrid.train(today, run, warm_start=run, overwrite=True, baselines=False, **QUICK)
    assert runs.read_metrics(run)["warm_start"]["kept_items"] == 158


def test_users_that_were_trained_on_before_are_noticed(yesterday, today, retrained):
    old = macrid.load(yesterday, "cpu")
    others = HeldOut(today.train.matrix[:100], today.train.matrix[:100], Ids.range(100))
    assert held_out_before(yesterday, old, today) == 1
    assert held_out_before(yesterday, old, Split(today.train, others, others)) < 0.5


def test_scores_after_a_start_from_a_final_model_are_said_to_be_too_good(yesterday, today, shop_split, tmp_path):
    everybody, after, notes = tmp_path / "final", tmp_path / "after", []
    macrid.train(shop_split, everybody, concepts=5, dim=8, baselines=False, final=True, **QUICK)
    run = macrid.train(
        today, after, warm_start=everybody, baselines=False, **QUICK,
        progress=lambda event: notes.append(event.text) if event.phase == "note" else None,
    )  # fmt: skip
    assert run.metrics["warm_start"]["trained_on_everybody"]
    assert any("was trained on everybody, so scores on held-out users are too good" in note for note in notes)
    assert trained_on_everybody(after)
    assert not trained_on_everybody(yesterday)


def test_accuracy_of_a_final_model_is_not_measured_on_users_that_it_was_trained_on(yesterday, shop_split, tmp_path):
    everybody = tmp_path / "final"
    run = macrid.train(shop_split, everybody, concepts=5, dim=8, baselines=False, final=True, **QUICK)
    accuracy = macrid.diff(yesterday, everybody)["accuracy"]
    stored = run.metrics["test"]["metrics"]["ndcg@100"]["mean"]
    assert not accuracy["same_users"]
    assert accuracy["change"] == stored - accuracy["ndcg_before"]


def test_runs_that_cannot_be_started_from_are_refused(yesterday, today, shop_split, tmp_path):
    macrid.train(shop_split, tmp_path / "ease", model="ease", baselines=False, device="cpu")
    with pytest.raises(SettingsError, match="not of EASE"):
        macrid.train(today, tmp_path / "run", warm_start=tmp_path / "ease", **QUICK)
    with pytest.raises(SettingsError, match="ease has no warm start"):
        macrid.train(today, tmp_path / "run", model="ease", warm_start=yesterday)
    with pytest.raises(SettingsError, match="dim is 9, but 8"):
        macrid.train(today, tmp_path / "run", dim=9, warm_start=yesterday, **QUICK)
    with pytest.raises(RunError, match="no such run"):
        macrid.train(today, tmp_path / "run", warm_start=tmp_path / "nowhere", **QUICK)
    damaged = shutil.copytree(yesterday, tmp_path / "damaged")
    (damaged / "model.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(RunError, match=r"model\.safetensors"):
        macrid.train(today, tmp_path / "run", warm_start=damaged, **QUICK)
    ids = Ids([f"other-{i}" for i in range(len(today.items))])
    other = Split(Interactions(today.train.matrix, today.train.users, ids), today.validation, today.test)
    with pytest.raises(DataError, match=r"shares no item .*'other-0'"):
        macrid.train(other, tmp_path / "run", warm_start=yesterday, **QUICK)
    assert not (tmp_path / "run").exists()


def test_the_commands_train_compare_and_stop_a_pipeline(yesterday, today, retrained, tmp_path, invoke):  # noqa: F811
    store.write(today, tmp_path / "data")
    code, _, err = invoke(
        "train", tmp_path / "data", "--warm-start", yesterday, "-o", tmp_path / "run", "--no-baselines",
        "--epochs", 3, "--batch-size", 100, "--device", "cpu",
    )  # fmt: skip
    assert code == 0
    assert "158 items kept, 1 new, 2 dropped" in err
    code, out, err = invoke("diff", yesterday, tmp_path / "run", "--json", "--fail-if", "ari < .5", "--device", "cpu")
    assert code == 0
    assert json.loads(out)["failed"] is False
    code, out, err = invoke("diff", yesterday, tmp_path / "run", "--fail-if", "ari <= 1", "--device", "cpu")
    assert code == 3
    assert "failed: ari <= 1" in err
    assert "mine" in out
    code, out, err = invoke("diff", yesterday, tmp_path / "run", "--fail-if", "arj < 1")
    assert code == 1
    assert "did you mean 'ari'" in err


def test_models_without_concepts_are_compared_by_their_lists(shop_split, tmp_path, invoke):  # noqa: F811
    for name in ("a", "b"):
        macrid.train(shop_split, tmp_path / name, model="popularity", baselines=False)
    result = macrid.diff(tmp_path / "a", tmp_path / "b", users=10, device="cpu")
    assert result["lists"] == {"users": 10, "overlap": 1, "rbo": pytest.approx(1), "same_top": 1, "new_items": 0}
    assert result["ari"] is None
    code, out, _ = invoke("diff", tmp_path / "a", tmp_path / "b")
    assert code == 0
    assert "concept" not in out
    code, _, err = invoke("diff", tmp_path / "a", tmp_path / "b", "--fail-if", "ari < .8")
    assert code == 1
    assert "ari is unknown for these runs" in err


def test_scores_of_runs_that_were_trained_on_their_test_users_are_not_compared_user_by_user(
    yesterday, shop_split, tmp_path, invoke  # noqa: F811
):  # fmt: skip
    notes = []
    (tmp_path / "current").symlink_to(yesterday)
    for name, earlier, final in (("first", "current", True), ("second", "first", True), ("third", "first", False)):
        macrid.train(
            shop_split, tmp_path / name, warm_start=tmp_path / earlier, final=final, baselines=False,
            progress=lambda event: notes.append(event.text), **QUICK,
        )  # fmt: skip
    about = [runs.read_metrics(tmp_path / name) for name in ("first", "second", "third")]
    assert [each["warm_start"]["trained_on_everybody"] for each in about] == [False, False, True]
    all_items, gone = len(shop_split.everyone.items), len(shop_split.everyone.items) - len(shop_split.items)
    assert (about[1]["warm_start"]["kept_items"], about[1]["warm_start"]["dropped_items"]) == (all_items, 0)
    assert (about[2]["warm_start"]["kept_items"], about[2]["warm_start"]["dropped_items"]) == (all_items - gone, gone)
    assert about[0]["warm_start"]["run"] == str(yesterday)  # and not the link, which may lead elsewhere tomorrow
    assert [note for note in notes if note and "was trained on everybody" in note] == [
        f"{tmp_path / 'first'} was trained on everybody, so scores on held-out users are too good; for honest ones,"
        " train without --warm-start"
    ]
    stored = json.loads((tmp_path / "second" / "diff.json").read_text())
    means = [each["test"]["metrics"]["ndcg@100"]["mean"] for each in about]
    for result in (stored, macrid.diff(tmp_path / "first", tmp_path / "second", device="cpu")):
        assert (result["accuracy"]["final"], result["accuracy"]["same_users"]) == (True, False)
        assert result["accuracy"]["change"] == pytest.approx(means[1] - means[0])
    assert "before final training, so not paired" in invoke("diff", tmp_path / "first", tmp_path / "second")[1]


@pytest.mark.slow
def test_what_is_scored_starts_from_what_was_scored_and_the_final_model_from_the_final_one(shop_split, tmp_path):
    run = macrid.train(shop_split, tmp_path / "run", final=True, baselines=False, **QUICK)
    alone = macrid.train(shop_split, tmp_path / "alone", baselines=False, **QUICK)
    earlier = Earlier.read(tmp_path / "run")
    assert earlier.start(final=False) is earlier.model
    first = earlier.start(final=True)
    assert first.items == shop_split.items
    for name, weights in alone.model.network.state_dict().items():
        assert torch.equal(weights, first.network.state_dict()[name]), name
    assert not torch.equal(first.network.prototypes, run.model.network.prototypes)
    assert runs.examine(tmp_path / "run") == {}
    content = bytearray((tmp_path / "run" / "first.safetensors").read_bytes())
    content[-1] ^= 1
    (tmp_path / "run" / "first.safetensors").write_bytes(content)
    with pytest.raises(RunError, match=r"first\.safetensors"):
        Earlier.read(tmp_path / "run")
