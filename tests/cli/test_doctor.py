"""macrid doctor: says what is wrong with a run or a prepared folder, and what to do."""

import copy
import json
import shutil

import pytest

import macrid
from macrid.data import store


@pytest.fixture
def run(trained_run, tmp_path):
    return shutil.copytree(trained_run, tmp_path / "run")


def test_doctor_finds_nothing_wrong_with_a_run_as_it_was_written(invoke, run):
    code, out, err = invoke("doctor", run)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == f"{run}: nothing is wrong"
    assert {line.split()[0] for line in out.splitlines()[:-1]} == {"ok"}


def test_doctor_names_every_damaged_file(invoke, run):
    content = bytearray((run / "heldout.safetensors").read_bytes())
    content[-1] ^= 1
    (run / "heldout.safetensors").write_bytes(content)
    (run / "log.jsonl").unlink()
    code, out, _ = invoke("doctor", run, "--json")
    assert code == 1
    wrong = {name: check["found"] for name, check in json.loads(out).items() if not check["ok"]}
    assert wrong.keys() == {"heldout.safetensors", "log.jsonl"}
    assert "SHA-256" in wrong["heldout.safetensors"]
    assert "missing" in wrong["log.jsonl"]
    assert invoke("doctor", run)[1].splitlines()[-1] == f"{run}: 2 problems"


def test_doctor_says_how_to_accept_edited_names_and_does_so(invoke, trained, tmp_path):
    run = tmp_path / "run"
    copy.deepcopy(trained[0]).save(run)
    text = (run / "names.json").read_text("utf-8")
    (run / "names.json").write_text(text.replace('"concept": 0', '"concept":  0'), "utf-8")
    code, out, _ = invoke("doctor", run)
    assert code == 1
    assert "edited since macrid wrote it; accept it with --accept" in out
    assert invoke("recommend", run, "--history", "bag-0001")[2].startswith("warning: ")
    assert invoke("doctor", run, "--accept")[0] == 0
    assert invoke("recommend", run, "--history", "bag-0001")[2] == ""


def test_doctor_does_not_accept_damage(invoke, run):
    (run / "items.parquet").write_bytes(b"PAR1")
    code, _, err = invoke("doctor", run, "--accept")
    assert code == 1
    assert "items.parquet" in err
    assert invoke("doctor", "--accept")[0] == 2


def test_doctor_checks_prepared_data(invoke, shop_split, tmp_path):
    store.write(shop_split, tmp_path / "data")
    assert invoke("doctor", tmp_path / "data")[0] == 0
    path = tmp_path / "data" / "train.indices.npy"
    path.write_bytes(path.read_bytes()[:-4] + bytes(4))
    code, out, _ = invoke("doctor", tmp_path / "data")
    assert code == 1
    assert "train.indices.npy" in out
    assert "macrid data prepare" in out


def test_doctor_mentions_an_interrupted_training(invoke, shop_split, tmp_path):
    def stop(event):
        if event.phase == "scoring":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        macrid.train(shop_split, tmp_path / "run", model="popularity", progress=stop)
    code, out, _ = invoke("doctor", tmp_path / "run")
    assert code == 0
    assert "--resume" in out


def test_doctor_says_that_a_run_does_not_exist(invoke, tmp_path):
    code, out, _ = invoke("doctor", tmp_path / "nowhere")
    assert code == 1
    assert "no such run" in out
