"""What the documents say is what the code does."""

import importlib
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_the_tables_of_settings_addresses_and_metrics_are_up_to_date():
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    assert generate.FILE.read_text(encoding="utf-8") == generate.text(), "run: python docs/generate.py"
    page = generate.SERVING.read_text(encoding="utf-8")
    assert page == generate.with_addresses(page), "run: python docs/generate.py"
    page = generate.METRICS.read_text(encoding="utf-8")
    assert page == generate.with_metrics(page), "run: python docs/generate.py"


@pytest.mark.parametrize("page", sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")]), ids=lambda p: p.name)
def test_every_link_to_a_file_leads_somewhere(page):
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_five_lines_of_the_readme_run(tmp_path, monkeypatch, shop, capsys):
    import pyarrow as pa
    import pyarrow.parquet as pq

    code = re.search(r"## Five lines of Python\n\n```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    rows, columns = shop.interactions.pairs
    names = {column: f"item-{column}" for column in set(columns.tolist())}
    pq.write_table(
        pa.table({"user_id": rows, "item_id": [names[c] for c in columns.tolist()], "rating": [5] * len(rows)}),
        tmp_path / "events.parquet",
    )
    monkeypatch.chdir(tmp_path)
    exec(code.replace("on_epoch=print", "epochs=2"), {})
    assert "NDCG@100" in capsys.readouterr().out


def test_the_catalogue_in_the_docs_is_the_one_in_the_code():
    from macrid.data import catalog

    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    for name in catalog.names():
        row = re.search(rf"^\| `{name}` \|(.*)$", page, re.MULTILINE)[1]
        expected = catalog.entry(name).expected
        if expected is not None:
            counts = (expected.users, expected.items, expected.interactions)
            assert [cell.strip() for cell in row.split("|")[:3]] == [f"{count:,}" for count in counts]


@pytest.mark.parametrize(
    "report",
    ["cold_report", "control_report", "diversity_report", "retraining_report", "serving_report", "studio_report"],
)
def test_the_tables_of_measurements_are_those_measured(report):
    own = importlib.import_module(f"benchmarks.{report}")
    text = own.FILE.read_text(encoding="utf-8")
    assert own.filled(text) == text
    assert "-->\n<!-- end -->" not in text  # every table is there
