import json

import pytest
from typer.testing import CliRunner

from macrid.cli import app
from macrid.data import catalog
from macrid.errors import MacridError
from macrid.paper import table1
from macrid.recipe import Recipe


@pytest.fixture
def small(monkeypatch, shop_split):
    monkeypatch.setattr(catalog, "load", lambda name, **_: shop_split)
    dims = {"popularity": {}, "ease": {}}
    monkeypatch.setattr(table1, "tuned", lambda data, model: Recipe(model, dims.get(model, {"dim": 8})))


def run(*words):
    return CliRunner().invoke(app, ["reproduce", *map(str, words)])


def test_a_table_and_a_report_come_out(small, tmp_path):
    found = run("table1", "--data", "ml-1m", "--quick", "--device", "cpu", "--out", tmp_path)
    assert found.exit_code == 0, found.output
    assert "β-MultVAE" in found.stdout
    assert "| MacridVAE |" in (tmp_path / "results.md").read_text(encoding="utf-8")


def test_json_holds_the_numbers(small, tmp_path):
    report = tmp_path / "page.md"
    found = run(
        "table1", "--data", "ml-1m", "--quick", "--device", "cpu", "--out", tmp_path / "o", "--report", report, "--json"
    )
    content = json.loads(found.stdout)
    assert content["report"] == str(report)
    assert {row["method"] for row in content["blocks"]["table1"]["rows"]} == set(table1.METHODS)
    assert report.exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["table2"], "nothing is called 'table2'; there are table1, figure2, figure3, figure4 and all"),
        (["all", "--data", "ml-2m"], "ml-2m"),
        (["all", "--seeds", "0"], "--seeds is 0; it must be at least 1"),
        (["all", "--device", "tpu"], "device is 'tpu'"),
    ],
)
def test_a_mistake_is_one_clear_message(words, told, tmp_path):
    found = run(*words, "--out", tmp_path / "o")
    assert isinstance(found.exception, MacridError)
    assert told in str(found.exception)
    assert not (tmp_path / "o").exists()
