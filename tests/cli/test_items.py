"""macrid items: add, list, remove."""

import json
import shutil

import pytest

NEW = "item_id,name,category,price,ean\nnew-1,Small red bag,bags,60,1\nnew-2,,,,2\n"


@pytest.fixture
def run(trained_run, tmp_path):
    return shutil.copytree(trained_run, tmp_path / "run")


@pytest.fixture
def table(tmp_path):
    (tmp_path / "new.csv").write_text(NEW)
    return tmp_path / "new.csv"


def test_items_are_added_listed_recommended_and_removed(invoke, run, table):
    code, out, err = invoke("items", "add", run, table)
    assert code == 0, err
    assert "1 item added" in out
    assert "strength" in out
    assert "'ean'" in err
    assert "'new-2'" in err
    code, out, _ = invoke("items", "list", run, "--json")
    (item,) = json.loads(out)["items"]
    assert (item["id"], item["title"], item["attributes"]) == ("new-1", "Small red bag", ["title", "category", "price"])
    _, out, _ = invoke(
        "recommend", run, "--history", "new-1", "-n", "1", "--keep-seen", "--include", "new-1", "--explain"
    )
    assert "new: placed by its attributes: title, category, price" in out
    _, out, _ = invoke("recommend", run, "--history", "new-1", "-n", "1", "--keep-seen", "--include", "new-1", "--json")
    assert json.loads(out)["items"][0]["new"] is True
    _, out, _ = invoke("doctor", run)
    assert "added.safetensors" in out
    assert invoke("items", "remove", run, "new-1", "--json")[1] == '{"removed": ["new-1"]}\n'
    assert "no items were added" in invoke("items", "list", run)[1]


def test_a_dry_run_reports_as_json_and_writes_nothing(invoke, run, table):
    code, out, _ = invoke("items", "add", run, table, "--dry-run", "--json")
    report = json.loads(out)
    assert (code, report["dry_run"], report["skipped"]) == (0, True, ["new-2"])
    assert 0 < report["strength"]["strength"] < 1
    assert not (run / "added.parquet").exists()


def test_mistakes_are_one_line(invoke, run, table, tmp_path):
    assert invoke("items", "add", run, table)[0] == 0
    code, _, err = invoke("items", "add", run, table)
    assert (code, err.count("\n")) == (1, 1)
    assert "--update" in err
    code, _, err = invoke("items", "add", run, tmp_path / "none.csv")
    assert (code, err.count("\n")) == (1, 1)
    table.write_text(NEW.replace("60", "cheap"))
    _, _, err = invoke("items", "add", run, table, "--update")
    assert "row 1: 'price' is 'cheap'" in err
