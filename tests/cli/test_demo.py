"""The demo, on a shop small enough for a test."""

import json
import re
import sys

import pytest

import macrid
from macrid import cli
from macrid.data import shop


@pytest.fixture
def demo(capsys, monkeypatch, tmp_path):
    original = shop.generate
    monkeypatch.setattr(shop, "generate", lambda seed=0: original(users=500, items=200, seed=seed))
    monkeypatch.setenv("COLUMNS", "160")

    def run(*args):
        monkeypatch.setattr(sys, "argv", ["macrid", "demo", "--no-serve", "--out", str(tmp_path / "run"), *args])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        out, err = capsys.readouterr()
        return stop.value.code or 0, out, err

    return run


@pytest.mark.slow
def test_the_demo_trains_scores_against_the_oracle_and_replaces_its_own_run_but_nothing_else(demo, tmp_path):
    code, out, err = demo()
    assert code == 0, err
    assert re.search(r"NDCG@100 .*\d\d%", out)
    assert all(name in out for name in ("bags", "concept", "a test user"))
    assert len(macrid.load(tmp_path / "run").items) > 100
    code, out, err = demo("--json")
    assert code == 0, err
    report = json.loads(out)
    assert 0 < report["test"]["metrics"]["ndcg@100"]["mean"] <= report["oracle"]["ndcg@100"]
    assert 0 <= report["nmi"] <= 1
    kept = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert kept["oracle"] == report["oracle"]
    assert 0 < kept["baselines"]["EASE"]["test"]["metrics"]["ndcg@100"]["mean"] <= kept["oracle"]["ndcg@100"]
    (tmp_path / "run" / "config.json").unlink()
    code, _, err = demo()
    assert code == 1
    assert str(tmp_path / "run") in err
