"""The commands as a person or a program uses them: exit codes, JSON, messages."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
import typer

import macrid
from macrid import cli, runs
from macrid.cli.common import parse_ids
from macrid.data import store
from macrid.data.ids import Ids


@pytest.fixture
def run(trained, tmp_path):
    model, split = trained
    runs.save(model, tmp_path / "run", heldout={"validation": split.validation, "test": split.test})
    return tmp_path / "run"


@pytest.fixture
def prepared(shop_split, tmp_path):
    store.write(shop_split, tmp_path / "prepared")
    return tmp_path / "prepared"


@pytest.fixture
def events(tmp_path):
    random = np.random.default_rng(0)
    rows = [(f"u{u}", f"i{i}", random.integers(1, 6)) for u in range(60) for i in random.choice(40, 12, replace=False)]
    frame = pl.DataFrame(rows, schema=["userId", "itemId", "rating"], orient="row")
    frame.write_csv(tmp_path / "events.csv")
    pl.DataFrame({"itemId": [f"i{i}" for i in range(40)], "name": [f"Item <{i}>" for i in range(40)]}).write_csv(
        tmp_path / "items.csv"
    )
    return tmp_path / "events.csv"


def leaves(command, *path):
    """Paths of the commands that do something."""
    groups = getattr(command, "commands", None)
    return [path] if groups is None else [leaf for name, sub in groups.items() for leaf in leaves(sub, *path, name)]


@pytest.mark.parametrize("command", leaves(typer.main.get_command(cli.app)), ids=" ".join)
def test_every_command_has_help_with_an_example(invoke, command):
    code, out, _ = invoke(*command, "--help")
    assert code == 0
    assert re.search(rf"Example: .*macrid {' '.join(command)}\b", out)


def test_version_prints_the_version(invoke):
    assert invoke("--version")[:2] == (0, f"macrid {macrid.__version__}\n")


def test_wrong_usage_exits_with_2(invoke, run):
    assert invoke("train")[0] == 2
    assert invoke("nonsense")[0] == 2
    assert invoke("recommend", run)[0] == 2
    assert invoke("recommend", run, "--history", "a", "--input", "x.parquet", "--output", "y.parquet")[0] == 2
    assert invoke("recommend", run, "--input", "x.parquet")[0] == 2
    assert invoke("evaluate", run, "--split", "train")[0] == 2


def test_our_errors_are_one_line_on_standard_error_and_exit_1(invoke, tmp_path):
    code, out, err = invoke("evaluate", tmp_path / "nowhere", "--json")
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "nowhere" in err
    assert "Traceback" not in err


def test_a_file_becomes_a_run_that_recommends(invoke, events, tmp_path):
    code, out, err = invoke(
        "data", "prepare", events, "--out", tmp_path / "data", "--heldout", 8, "--min-rating", 2, "--items",
        tmp_path / "items.csv",
    )  # fmt: skip
    assert code == 0, err
    assert all(f"'{name}'" in err for name in ("userId", "itemId", "rating"))
    assert "60 users" in out
    code, out, err = invoke(
        "train", tmp_path / "data", "--out", tmp_path / "run", "--concepts", 2, "--dim", 8, "--epochs", 3, "--json"
    )
    assert code == 0, err
    report = json.loads(out)
    assert report["training"]["epochs"] == 3
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["test"] == report["test"]
    code, out, _ = invoke("evaluate", tmp_path / "run", "--json")
    assert code == 0
    assert json.loads(out)["metrics"] == report["test"]["metrics"]
    code, out, err = invoke("recommend", tmp_path / "run", "--history", "i1,i2,zz", "-n", 3, "--json")
    assert code == 0
    answer = json.loads(out)
    assert answer["unknown"] == ["zz"]
    assert "'zz'" in err
    assert [set(item) for item in answer["items"]] == [{"id", "title", "score", "concept"}] * 3
    assert answer["items"][0]["title"] == f"Item <{answer['items'][0]['id'][1:]}>"
    code, out, _ = invoke("recommend", tmp_path / "run", "--history", "i1", "-n", 3)
    assert "Item <" in out


def test_a_catalogue_name_can_be_prepared(invoke, tmp_path):
    code, _, err = invoke("data", "prepare", "shop", "--out", tmp_path / "shop", "--json")
    assert code == 0, err
    assert len(store.read(tmp_path / "shop").items) > 500


def test_data_list_names_every_data_set(invoke):
    from macrid.data import catalog

    code, out, _ = invoke("data", "list", "--json")
    assert code == 0
    assert [entry["name"] for entry in json.loads(out)] == catalog.names()
    assert "ml-1m-ge3" in invoke("data", "list")[1]


@pytest.mark.parametrize("source", ["ml-2m", "events.csv"])
def test_training_needs_a_prepared_folder_or_a_catalogue_name(invoke, tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "events.csv").write_text("user,item\n")
    code, _, err = invoke("train", source, "--out", "run")
    assert code == 1
    assert source in err


def test_evaluate_prints_the_documented_json(invoke, run, trained):
    model, split = trained
    code, out, _ = invoke("evaluate", run, "--split", "validation", "--json")
    answer = json.loads(out)
    assert code == 0
    assert (answer["split"], answer["users"], answer["skipped"]) == ("validation", 50, 0)
    truth = macrid.evaluate(model, split.validation)
    assert answer["metrics"]["ndcg@100"] == pytest.approx({"mean": truth["ndcg@100"].mean, "se": truth["ndcg@100"].se})
    assert list(answer["metrics"]) == ["ndcg@100", "recall@20", "recall@50"]
    assert list(json.loads(invoke("evaluate", run, "--metric", "ndcg@7", "--json")[1])["metrics"]) == ["ndcg@7"]
    assert "NDCG@100" in invoke("evaluate", run)[1]


def test_evaluate_on_other_data_needs_the_same_items(invoke, run, prepared, tmp_path, shop):
    scores = json.loads(invoke("evaluate", run, "--json")[1])
    assert json.loads(invoke("evaluate", run, "--data", prepared, "--json")[1]) == scores
    store.write(shop.split(heldout=100, seed=1), tmp_path / "other")
    code, _, err = invoke("evaluate", run, "--data", tmp_path / "other")
    assert code == 1
    assert str(tmp_path / "other") in err


def test_similar_prints_the_documented_json(invoke, run, trained):
    item = trained[0].items[4]
    code, out, _ = invoke("similar", run, item, "-n", 3, "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer["item"] == item
    assert len(answer["items"]) == 3
    assert invoke("similar", run, item)[0] == 0
    assert "'zz'" in invoke("similar", run, "zz")[2]


def test_include_and_exclude_reach_the_model(invoke, run, trained):
    a, b, c = trained[0].items[:3]
    ids = [item["id"] for item in json.loads(
        invoke("recommend", run, "--history", a, "--include", f"{b},{c}", "-n", 2, "--json")[1])["items"]]  # fmt: skip
    assert set(ids) == {b, c}
    code, out, err = invoke("recommend", run, "--history", a, "--exclude", b, "-n", 159, "--json")
    assert code == 0
    assert len(json.loads(out)["items"]) == 158
    assert "only 158 of 159 items" in err
    code, _, err = invoke("recommend", run, "--history", a, "--exclude", b, "-n", 159, "--strict")
    assert code == 1
    assert re.search(r"159 .*158 of 160", err)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_many_users_go_from_a_table_to_a_parquet(invoke, run, trained, tmp_path, kind):
    model, split = trained
    histories = {f"user-{u}": [model.items[i] for i in split.test.history[[u]].indices] for u in range(20)}
    histories["stranger"] = ["never-seen"]
    rows = [(user, item) for user, items in histories.items() for item in items]
    frame = pl.DataFrame(rows, schema=["user_id", "item_id"], orient="row")
    source = tmp_path / f"users.{kind}"
    getattr(frame, f"write_{kind}")(source)
    code, out, err = invoke(
        "recommend", run, "--input", source, "--output", tmp_path / "recs.parquet", "-n", 5, "--json"
    )
    assert code == 0, err
    assert json.loads(out) == {
        "output": str(tmp_path / "recs.parquet"), "users": 21, "left_out": 0, "unknown": 1,
        "rows": 105,
    }  # fmt: skip
    assert "'stranger'" in err
    table = pq.read_table(tmp_path / "recs.parquet").to_pylist()
    assert [row["user"] for row in table if row["fallback"]] == ["stranger"] * 5
    for user in ("user-0", "user-19"):
        rows = [row for row in table if row["user"] == user]
        alone = model.recommend(histories[user], 5)
        assert [row["rank"] for row in rows] == [1, 2, 3, 4, 5]
        assert [row["item"] for row in rows] == alone.ids
        assert [row["title"] for row in rows] == [item.title for item in alone]
    code, _, err = invoke("recommend", run, "--input", source, "--output", tmp_path / "recs.parquet")
    assert code == 1
    assert "--overwrite" in err


def test_items_rated_too_low_count_as_seen_but_not_as_history(invoke, events, tmp_path):
    arguments = ("--out", tmp_path / "data", "--heldout", 8, "--min-rating", 4, "--min-items", 1)
    assert invoke("data", "prepare", events, *arguments)[0] == 0
    assert (
        invoke("train", tmp_path / "data", "--out", tmp_path / "run", "--concepts", 2, "--dim", 8, "--epochs", 3)[0]
        == 0
    )
    code, _, err = invoke("recommend", tmp_path / "run", "--input", events, "--output", tmp_path / "o.parquet", "-n", 5)
    assert code == 0, err
    model = macrid.load(tmp_path / "run")
    frame = pl.read_csv(events)
    for user in ("u0", "u7"):
        events_of = frame.filter(pl.col("userId") == user)
        liked, seen = events_of.filter(pl.col("rating") >= 4)["itemId"].to_list(), events_of["itemId"].to_list()
        truth = model.recommend(liked, 5, exclude=[item for item in seen if item in model.items])
        assert pl.read_parquet(tmp_path / "o.parquet").filter(pl.col("user") == user)["item"].to_list() == truth.ids


def test_the_output_path_is_checked_before_any_work(invoke, run, events, tmp_path):
    assert invoke("recommend", run, "--input", events, "--output", tmp_path / "recs.csv")[0] == 2
    code, _, err = invoke("recommend", run, "--input", events, "--output", tmp_path / "no" / "recs.parquet")
    assert code == 1
    assert str(tmp_path / "no") in err


def test_a_misspelt_name_is_corrected(invoke, tmp_path):
    for command in (("train", "ml-1n"), ("data", "prepare", "ml-1n")):
        code, _, err = invoke(*command, "--out", tmp_path / "x")
        assert code == 1
        assert "ml-1m?" in err


def test_files_that_macrid_did_not_write_are_never_replaced(invoke, prepared, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    for command in (("train", prepared, "--epochs", 1), ("data", "prepare", "shop"), ("demo", "--no-serve")):
        code, _, err = invoke(*command, "--out", tmp_path / "mine", "--overwrite")
        assert code == 1
        assert "'thesis.txt'" in err
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_an_existing_run_is_replaced_only_with_overwrite(invoke, run, prepared):
    before = (run / "model.safetensors").read_bytes()
    code, _, err = invoke("train", prepared, "--out", run, "--epochs", 1, "--dim", 4)
    assert code == 1
    assert str(run) in err
    assert (run / "model.safetensors").read_bytes() == before
    assert invoke("train", prepared, "--out", run, "--epochs", 1, "--dim", 4, "--overwrite")[0] == 0
    assert macrid.load(run).settings.dim == 4


def test_a_finished_run_cannot_be_resumed(invoke, run, prepared):
    code, _, err = invoke("train", prepared, "--out", run, "--resume")
    assert code == 1
    assert str(run) in err


def test_bad_settings_stop_before_anything_is_read_or_written(invoke, tmp_path):
    for option, value in (
        ("--concepts=0", "concepts is 0"),
        ("--concepts=many", "'many'"),
        ("--dropout=1", "dropout is 1.0"),
        ("--model=svd++", "'svd++'"),
    ):
        code, _, err = invoke("train", "ml-nowhere", "--out", tmp_path / "run", option)
        assert code == 1
        assert value in err
    code, _, err = invoke("train", "shop", "--out", tmp_path / "run", "--learning-rate=-1")
    assert code == 1
    assert "learning_rate is -1.0" in err
    assert not (tmp_path / "run").exists()


def test_the_number_of_concepts_can_be_left_to_the_training(invoke, prepared, tmp_path):
    options = ("--concepts", "merge", "--merge-below", 0.9, "--dim", 8, "--epochs", 2, "--json")
    code, out, err = invoke("train", prepared, "--out", tmp_path / "run", *options)
    assert code == 0, err
    concepts = json.loads(out)["training"]["concepts"]
    assert 2 <= concepts < 20
    assert macrid.load(tmp_path / "run").network.concepts == concepts
    assert f"of {concepts} concepts in use" in err


def test_a_diverged_training_keeps_its_best_weights_as_a_run(invoke, prepared, tmp_path, monkeypatch):
    import torch

    from macrid.training import loop

    original, epochs = loop._run_epoch, []

    def poisoned(model, *args):
        epochs.append(1)
        if len(epochs) == 3:
            with torch.no_grad():
                model.network.item_vectors.fill_(float("nan"))
        return original(model, *args)

    monkeypatch.setattr(loop, "_run_epoch", poisoned)
    code, _, err = invoke("train", prepared, "--out", tmp_path / "run", "--dim", 8, "--epochs", 5)
    assert code == 1
    assert "nan in epoch 3" in err
    assert str(tmp_path / "run") in err
    assert invoke("evaluate", tmp_path / "run")[0] == 0


@pytest.mark.slow
def test_an_interrupted_training_keeps_its_best_and_can_be_resumed(prepared, tmp_path):
    command = [sys.executable, "-m", "macrid", "train", str(prepared), "--out", str(tmp_path / "run"), "--dim", "8"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [*command, "--epochs", "100000", "--patience", "100000"], stderr=subprocess.PIPE, text=True, env=environment
    )
    while "epoch   3" not in process.stderr.readline():
        pass
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "--resume" in err
    assert len(macrid.load(tmp_path / "run").log) >= 3
    done = subprocess.run(
        [*command, "--epochs", "1", "--patience", "100000", "--resume"],
        capture_output=True, text=True, env=environment, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "run" / "training").exists()
    assert (tmp_path / "run" / "metrics.json").exists()


def test_doctor_passes_on_this_machine(invoke):
    code, out, _ = invoke("doctor", "--json")
    assert code == 0
    checks = json.loads(out)
    assert checks["torch"]["ok"]
    assert "cpu" in checks["device"]["found"] or "cuda" in checks["device"]["found"]
    assert "python" in invoke("doctor")[1]


def test_doctor_finds_a_missing_data_folder(invoke, monkeypatch):
    monkeypatch.setenv("MACRID_DATA", "/no/such/folder")
    code, out, _ = invoke("doctor", "--json")
    assert code == 1
    assert not json.loads(out)["MACRID_DATA"]["ok"]


def test_importing_macrid_and_asking_for_help_do_not_load_torch():
    code = "import sys, macrid, macrid.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_a_command_starts_without_what_only_reports_and_tables_need():
    slow = ("matplotlib", "optuna", "pandas", "polars", "scipy.optimize", "scipy.stats", "sklearn")
    code = f"import sys, macrid.workflow, macrid.control; sys.exit(' '.join({{*{slow}}} & {{*sys.modules}}) or 0)"
    ended = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_resuming_into_a_folder_of_something_else_deletes_nothing(invoke, prepared, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.txt").write_text("years of work")
    code, _, err = invoke("train", prepared, "--out", tmp_path / "thesis", "--resume", "--epochs", 1, "--dim", 4)
    assert code == 1
    assert str(tmp_path / "thesis") in err
    assert (tmp_path / "thesis" / "thesis.txt").exists()


def test_the_working_folder_is_never_replaced(invoke, prepared, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for command, file in (
        (("train", prepared, "--epochs", 1), "config.json"),
        (("data", "prepare", "shop"), "about.json"),
    ):
        (tmp_path / "here" / file).write_text("{}")
        code, _, err = invoke(*command, "--out", ".", "--overwrite")
        assert code == 1
        assert "working or home directory" in err
        (tmp_path / "here" / file).unlink()


def test_an_earlier_run_stays_when_its_replacement_fails(invoke, prepared, tmp_path):
    out = tmp_path / "run"
    assert invoke("train", prepared, "--out", out, "--epochs", 2, "--dim", 4)[0] == 0
    before = (out / "model.safetensors").read_bytes()
    code, _, err = invoke(
        "train", prepared, "--out", out, "--epochs", 2, "--dim", 6, "--overwrite", "--learning-rate", 1e30
    )
    assert code == 1
    assert "learning rate" in err
    assert (out / "model.safetensors").read_bytes() == before
    assert invoke("evaluate", out)[0] == 0


def test_options_that_a_catalogue_name_would_ignore_are_refused(invoke, tmp_path):
    code, _, err = invoke("data", "prepare", "shop", "--heldout", 17, "--min-items", 20, "--out", tmp_path / "x")
    assert code == 1
    assert "--min-items, --heldout" in err


def test_markup_and_emoji_codes_in_ids_and_titles_are_shown_as_they_are(invoke, tmp_path):
    rows = [(f"[/red]u{u}", f"[/b]:apple:{i}") for u in range(40) for i in range(u % 5, 30, 2)]
    pl.DataFrame(rows, schema=["user", "item"], orient="row").write_csv(tmp_path / "[x] events.csv")
    assert invoke("data", "prepare", tmp_path / "[x] events.csv", "--out", tmp_path / "[d]", "--heldout", 5)[0] == 0
    code, out, err = invoke("train", tmp_path / "[d]", "--out", tmp_path / "[r]", "--epochs", 1, "--dim", 4)
    assert code == 0, err
    assert "[/b]:apple:" in out
    code, out, _ = invoke("recommend", tmp_path / "[r]", "--history", "[/b]:apple:4", "-n", 2)
    assert code == 0
    assert out.count("[/b]:apple:") == 2
    pl.DataFrame({"user": ["[/x]z"], "item": ["none"]}).write_csv(tmp_path / "in.csv")
    code, _, err = invoke(
        "recommend", tmp_path / "[r]", "--input", tmp_path / "in.csv", "--output", tmp_path / "o.parquet"
    )
    assert code == 0
    assert "('[/x]z') has no known item" in err


def test_ids_of_a_text_file_match_whatever_type_it_seems_to_have(invoke, tmp_path):
    for catalogue, history in ((["1", "2", "3", "abc"], ["1", "2"]), (["1", "2", "3", "4"], ["1", "new"])):
        rows = [(u, item) for u in range(30) for item in catalogue if (u + len(item)) % 4 != int(u % 4 == 0)]
        pl.DataFrame(rows, schema=["user", "item"], orient="row").write_csv(tmp_path / "e.csv")
        arguments = ("--heldout", 3, "--min-items", 1, "--overwrite", "--out", tmp_path / "d")
        assert invoke("data", "prepare", tmp_path / "e.csv", *arguments)[0] == 0
        model = macrid.MacridVAE(concepts=1, dim=2).fit(store.read(tmp_path / "d").train, epochs=1)
        model.save(tmp_path / "r", overwrite=True)
        pl.DataFrame({"user": [7] * len(history), "item": history}).write_csv(tmp_path / "in.csv")
        output = ("--output", tmp_path / "o.parquet", "--overwrite", "-n", 1, "--json")
        code, out, err = invoke("recommend", tmp_path / "r", "--input", tmp_path / "in.csv", *output)
        assert code == 0, err
        assert json.loads(out)["users"] == 1


def test_a_user_with_too_few_items_left_does_not_stop_the_others(invoke, run, trained, tmp_path):
    ids = list(trained[0].items)
    rows = [("glutton", item) for item in ids] + [("other", ids[0])]
    pl.DataFrame(rows, schema=["user", "item"], orient="row").write_parquet(tmp_path / "in.parquet")
    code, out, err = invoke(
        "recommend", run, "--input", tmp_path / "in.parquet", "--output", tmp_path / "o.parquet", "-n", 3, "--json"
    )
    assert code == 0, err
    assert json.loads(out)["users"] == 1
    assert "'glutton'" in err


def test_scores_of_nobody_are_null_in_json(invoke, trained, tmp_path):
    model, split = trained
    nothing = replace(split.test, target=split.test.target[:, :0].__class__(split.test.target.shape))
    runs.save(model, tmp_path / "run", heldout={"test": nothing})
    code, out, _ = invoke("evaluate", tmp_path / "run", "--json")
    assert code == 0
    assert json.loads(out)["metrics"]["ndcg@100"] == {"mean": None, "se": None}


def test_a_prepared_folder_survives_a_kill_between_two_renames(invoke, prepared, tmp_path):
    prepared.rename(tmp_path / ".prepared.previous")
    assert invoke("train", prepared, "--out", tmp_path / "run", "--epochs", 1, "--dim", 4)[0] == 0


def test_doctor_copes_with_a_relative_cache(invoke, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MACRID_CACHE", "nope/cache")
    assert invoke("doctor")[0] == 0


@pytest.mark.slow
def test_a_disk_that_fills_up_during_training_leaves_the_earlier_run(invoke, prepared, tmp_path):
    out = tmp_path / "run"
    assert invoke("train", prepared, "--out", out, "--epochs", 1, "--dim", 4)[0] == 0
    before = (out / "model.safetensors").read_bytes()
    command = [sys.executable, "-m", "macrid", "train", prepared, "--out", out, "--overwrite", "--epochs", "2"]
    limited = ["sh", "-c", 'ulimit -f 40 && exec "$@"', "sh", *command]  # 20 kB per file; the checkpoint needs more
    full = subprocess.run(limited, capture_output=True, text=True, timeout=120)
    assert full.returncode == 1, full.stderr
    assert str(out) in full.stderr
    assert "Traceback" not in full.stderr
    assert (out / "model.safetensors").read_bytes() == before
    assert invoke("evaluate", out)[0] == 0


@pytest.mark.parametrize(("name", "options"), [("ease", ["--regularisation", 50]), ("popularity", [])])
def test_models_without_epochs_become_runs_like_others(invoke, prepared, tmp_path, name, options):
    out = tmp_path / "run"
    code, printed, err = invoke("train", prepared, "--model", name, *options, "--device", "cpu", "--out", out)
    assert code == 0, err
    assert "NDCG@100" in printed
    assert "best epoch" not in printed
    assert "concepts in use" not in printed
    assert shlex.join(["macrid", "recommend", str(out)]) in printed
    report = json.loads((out / "metrics.json").read_text())
    assert set(report["training"]) == {"seconds", "peak_memory_mb", "device"}
    assert set(report["baselines"]) == {"EASE", "Popularity"} - {{"ease": "EASE"}.get(name, "Popularity")}
    model = macrid.load(out)
    assert model.training.device == "cpu"
    answer = json.loads(invoke("evaluate", out, "--json")[1])
    assert answer["metrics"] == report["test"]["metrics"]
    item = model.items[0]
    code, printed, _ = invoke("recommend", out, "--history", item, "-n", 3)
    assert code == 0
    assert "score" in printed
    assert "concept" not in printed
    assert "log p" not in printed
    items = json.loads(invoke("recommend", out, "--history", item, "-n", 3, "--json")[1])["items"]
    assert [entry["concept"] for entry in items] == [None] * 3
    assert invoke("similar", out, item, "-n", 3)[0] == (0 if name == "ease" else 1)
    output = tmp_path / "recs.parquet"
    pl.DataFrame({"user": ["a", "a"], "item": list(model.items[:2])}).write_csv(tmp_path / "in.csv")
    assert invoke("recommend", out, "--input", tmp_path / "in.csv", "--output", output, "-n", 3)[0] == 0
    assert pq.read_table(output).num_rows == 3
    assert "concept" not in pq.read_table(output).column_names


def test_baselines_are_scored_on_the_same_users_and_kept(invoke, prepared, shop_split, tmp_path, monkeypatch):
    quick = ("--epochs", 1, "--dim", 4, "--device", "cpu")
    code, printed, err = invoke("train", prepared, "--out", tmp_path / "run", *quick)
    assert code == 0, err
    expected = macrid.evaluate(macrid.EASE().fit(shop_split.train, device="cpu"), shop_split.test)
    kept = json.loads((tmp_path / "run" / "metrics.json").read_text())["baselines"]
    assert set(kept) == {"EASE", "Popularity"}
    assert kept["EASE"]["test"]["metrics"]["ndcg@100"]["mean"] == pytest.approx(expected["ndcg@100"].mean, abs=1e-6)
    assert set(kept["Popularity"]) == {"validation", "test"}
    assert re.search(rf"^test, EASE +{expected['ndcg@100']} ", printed, re.MULTILINE)
    monkeypatch.setattr("macrid.workflow.EASE_BASELINE_ITEMS", 10)
    report = json.loads(invoke("train", prepared, "--out", tmp_path / "many", *quick, "--json")[1])
    assert set(report["baselines"]) == {"Popularity"}
    report = json.loads(invoke("train", prepared, "--out", tmp_path / "none", *quick, "--no-baselines", "--json")[1])
    assert "baselines" not in report


@pytest.mark.parametrize(
    ("options", "value"),
    [
        (["--model", "ease", "--concepts", 7], "ease .*--concepts"),
        (["--model", "Popularity", "--prior-std", 1], "popularity .*--prior-std"),
        (["--regularisation", 3], "macridvae .*--regularisation"),
        (["--model", "ease", "--regularisation", 0], "regularisation .*0"),
        (["--model", "ease", "--l2", 300], "l2 .*ease"),
        (["--model", "ease", "--epochs", 0], "epochs .*0"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_read(invoke, tmp_path, options, value):
    code, _, err = invoke("train", "ml-nowhere", "--out", tmp_path / "run", *options)
    assert code == 1
    assert re.search(value, err)
    assert err.count("\n") == 1


def test_training_options_that_a_model_ignores_are_named(invoke, prepared, tmp_path):
    code, _, err = invoke(
        "train", prepared, "--model", "popularity", "--batch-size", 9, "--seed", 1, "--out", tmp_path / "run"
    )
    assert code == 0, err
    assert re.search(r"popularity .*--batch-size\n", err)


def test_the_help_of_train_puts_every_setting_in_its_panel_the_common_ones_first(invoke):
    from macrid.settings import PANELS, MacridVAESettings, TrainingSettings

    lines = invoke("train", "--help", columns=80)[1].splitlines()
    assert max(map(len, lines)) <= 80
    options, panel = {}, None
    for line in lines:
        if title := re.match(r"╭─ (\w+) ─", line):
            panel = title[1]
        elif option := re.match(r"│[ *]+--([\w-]+)", line):
            options[option[1].replace("-", "_")] = panel
    expected = {name: kind.panel(name) for kind in (MacridVAESettings, TrainingSettings) for name in kind.model_fields}
    assert {name: options.get(name) for name in expected} == expected
    assert [name for name in dict.fromkeys(options.values()) if name in PANELS] == list(PANELS)
    assert options["help"] == options["out"] == "Common"


def test_the_help_of_train_names_every_model(invoke):
    from macrid.models import MODELS

    text = " ".join(invoke("train", "--help")[1].split())
    assert [name for name in MODELS if name not in text] == []


def test_a_run_of_a_model_without_epochs_replaces_only_with_overwrite(invoke, run, prepared):
    command = ("train", prepared, "--model", "popularity", "--out", run)
    code, _, err = invoke(*command)
    assert code == 1
    assert str(run) in err
    assert invoke(*command, "--overwrite")[0] == 0
    assert isinstance(macrid.load(run), macrid.Popularity)


def test_options_override_a_config_file(invoke, prepared, tmp_path):
    from macrid.recipe import Recipe

    file = tmp_path / "best.json"
    Recipe(
        "macridvae", {"concepts": 3, "dim": 6, "beta": 0.4}, {"epochs": 2, "learning_rate": 0.01, "device": "cpu"},
        {"study": "s", "data": "shop", "score": 0.3},
    ).write(file)  # fmt: skip
    out = tmp_path / "run"
    command = ("train", prepared, "--config", file, "--out", out)
    code, _, err = invoke(*command, "--dim", 4, "--epochs", 1, "--seed", 5)
    assert code == 0, err
    model = macrid.load(out)
    assert (model.settings.concepts, model.settings.dim, model.settings.beta) == (3, 4, 0.4)
    assert (model.training.epochs, model.training.learning_rate, model.training.seed) == (1, 0.01, 5)
    assert len(model.log) == 1
    code, _, err = invoke(*command, "--model", "ease", "--overwrite")
    assert code == 1
    assert str(file) in err
    assert invoke(*command, "--model", "MacridVAE", "--overwrite")[0] == 0
    Recipe("ease", {"regularisation": 40}).write(file)
    assert invoke(*command, "--overwrite")[0] == 0
    assert macrid.load(out).settings.regularisation == 40


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (None, ""),
        ("{", "JSON"),
        ('{"model": "ease", "settings": {"concepts": 3}}', "'concepts'"),
        ('{"model": "macridvae", "training": {"epochs": "few"}}', "'few'"),
        ('{"model": "ease", "training": {"l2": 30}}', "l2"),
    ],
)
def test_a_bad_config_file_stops_before_data_is_read(invoke, tmp_path, content, value):
    file = tmp_path / "c.json"
    if content is not None:
        file.write_text(content)
    code, _, err = invoke("train", "ml-nowhere", "--config", file, "--out", tmp_path / "run")
    assert code == 1
    assert f"{file}: " in err
    assert value in err
    assert err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_commands_to_paste_quote_folders_with_spaces(invoke, tmp_path):
    events, folder = tmp_path / "my events.csv", tmp_path / "my data"
    events.write_text("user,item\n" + "".join(f"{user},{item}\n" for user in range(40) for item in range(user % 3, 20)))
    code, out, _ = invoke("data", "prepare", events, "--out", folder, "--heldout", 5)
    assert code == 0
    assert shlex.join(["macrid", "train", str(folder), "--out", "RUN"]) in out
    assert shlex.quote(str(events)) in invoke("train", events, "--out", tmp_path / "run")[2]
    assert shlex.quote(str(tmp_path / "no run")) in invoke("recommend", tmp_path / "no run", "--history", "1")[2]


def test_ids_on_the_command_line_may_begin_with_blanks_and_contain_commas():
    ids = Ids(["a", "  lead", "trail ", "b,c", "d"])
    assert parse_ids(["a,  lead,trail ", " d , a"], ids) == ["a", "  lead", "trail ", "d", "a"]
    assert parse_ids(["b,c", "a, unknown"], ids) == ["b,c", "a", "unknown"]
