"""What docs/export.md says is what happens."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

from macrid.export import write_onnx, write_vectors
from tests.export.making import Exported, made

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")


def test_the_python_of_the_page_prints_the_models_items(tmp_path, monkeypatch, capsys):
    model = made(linear=True)
    write_onnx(model, tmp_path / "shop.onnx")
    monkeypatch.chdir(tmp_path)
    exec(re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1], {})
    expected = model.recommend([model.items[position] for position in (3, 17, 4)], 10).ids
    assert re.findall(r'"(item-\d+)"', capsys.readouterr().out) == expected


def test_the_tables_name_every_input_output_and_column(tmp_path):
    model = made(linear=True)
    write_onnx(model, tmp_path / "shop.onnx", inputs=("weights", "hidden", "allowed"))
    write_vectors(model, tmp_path / "vectors", inputs=["weights"])
    session = Exported(tmp_path / "shop.onnx").session
    inputs, outputs = ([each.name for each in side] for side in (session.get_inputs(), session.get_outputs()))
    rows = re.findall(r"^\| `(\w+)` \| (?:int64|float32|bool)", PAGE, re.MULTILINE)
    assert sorted(rows) == sorted([*inputs, *outputs])
    files = re.findall(r"^\| `(\w+\.\w+)` \|", PAGE, re.MULTILINE)
    assert sorted(files) == sorted(file.name for file in (tmp_path / "vectors").iterdir())
    row = re.search(r"^\| `entries\.parquet` \|.*$", PAGE, re.MULTILINE)[0]
    columns = pq.read_schema(tmp_path / "vectors" / "entries.parquet").names
    assert {*columns} <= {*re.findall(r"`(\w+)`", row)}


def test_the_example_runs_as_the_page_says(tmp_path):
    model = made(linear=True)
    write_vectors(model, tmp_path / "shop-vectors")
    line = re.search(r"^\$ python (examples/vector-database/.*)$", PAGE, re.MULTILINE)[1]
    script, folder, *options = shlex.split(line.replace("bag-0001,bag-0012", "item-1,item-12"))
    command = [sys.executable, ROOT / script, tmp_path / folder, *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert [row.split("\t")[0] for row in ended.stdout.splitlines()] == model.recommend(["item-1", "item-12"], 10).ids
