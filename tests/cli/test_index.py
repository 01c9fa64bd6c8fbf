"""macrid index: build, show, remove."""

import json
import shutil

import pytest


@pytest.fixture
def run(trained_run, tmp_path):
    return shutil.copytree(trained_run, tmp_path / "run")


def test_an_index_is_built_shown_and_removed(invoke, run):
    code, out, err = invoke("index", run)
    assert code == 0, err
    assert "exact index of 160 items" in out
    assert "proved at once" in out
    assert (run / "index.safetensors").exists()
    code, out, _ = invoke("doctor", run)
    assert code == 0
    assert "index.safetensors" in out
    assert "exact index; 64 users" in invoke("inspect", run)[1]
    code, out, _ = invoke("index", run, "--remove")
    assert "index removed" in out
    assert not (run / "index.safetensors").exists()


def test_an_index_that_is_slower_than_scoring_everything_says_so(invoke, run):
    _, out, _ = invoke("index", run)
    trial = json.loads(invoke("inspect", run, "--json")[1])["index"]["trial"]
    assert ("scoring every item is faster here" in out) == (trial["milliseconds"] > trial["everything"])


def test_an_approximate_index_reports_its_recall(invoke, run):
    code, out, err = invoke("index", run, "--approximate", "--recall", "0.9", "--json")
    assert code == 0, err
    facts = json.loads(out)
    assert (facts["kind"], facts["items"]) == ("approximate", 160)
    assert facts["trial"]["recall"] >= 0.9
    assert facts["probes"] >= 1
    assert json.loads(invoke("inspect", run, "--json")[1])["index"]["trial"] == facts["trial"]


def test_a_folder_that_is_no_run_is_one_clear_line(invoke, tmp_path):
    code, _, err = invoke("index", tmp_path / "nothing")
    assert code == 1
    assert "no such run" in err
