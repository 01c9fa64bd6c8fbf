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
    result = run("table1", "--data", "ml-1m", "--quick", "--device", "cpu", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "β-MultVAE" in result.stdout
    assert "| MacridVAE |" in (tmp_path / "results.md").read_text(encoding="utf-8")


def test_json_holds_the_numbers(small, tmp_path):
    report = tmp_path / "page.md"
    result = run(
        "table1", "--data", "ml-1m", "--quick", "--device", "cpu", "--out", tmp_path / "o", "--report", report, "--json"
    )
    content = json.loads(result.stdout)
    assert content["report"] == str(report)
    assert {row["method"] for row in content["blocks"]["table1"]["rows"]} == set(table1.METHODS)
    assert report.exists()


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (["table2"], "'table2'"),
        (["all", "--data", "ml-2m"], "ml-2m"),
        (["all", "--seeds", "0"], "--seeds is 0"),
        (["all", "--device", "tpu"], "'tpu'"),
    ],
)
def test_a_bad_argument_is_named_and_nothing_is_written(words, value, tmp_path):
    result = run(*words, "--out", tmp_path / "o")
    assert isinstance(result.exception, MacridError)
    assert value in str(result.exception)
    assert not (tmp_path / "o").exists()
