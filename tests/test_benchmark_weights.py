"""The benchmark of weights runs from data to table, and measures nothing twice."""

import json
import sys

import numpy as np
import pandas as pd
from benchmarks import weights


def test_every_method_and_variant_is_measured_once(tmp_path, monkeypatch, capsys):
    random = np.random.default_rng(0)
    rows = 2_000
    frame = pd.DataFrame({"userId": random.integers(0, 60, rows), "movieId": random.integers(0, 40, rows)})
    frame["rating"] = random.choice([3.5, 4.0, 4.5, 5.0], rows)
    frame["timestamp"] = 10**9 + 86_400 * random.integers(0, 300, rows)
    folder = tmp_path / "data" / "ml-latest-small"
    folder.mkdir(parents=True)
    frame.to_csv(folder / "ratings.csv", index=False)
    (folder / "movies.csv").write_text("movieId,title\n1,One\n")
    monkeypatch.setenv("MACRID_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(weights, "REGULARISATION", (1, 100))
    out = tmp_path / "weights.jsonl"
    arguments = ["--data", "ml-latest-small", "--device", "cpu", "--seeds", "1", "--epochs", "1", "--half-lives", "50"]
    monkeypatch.setattr(sys, "argv", ["weights", *arguments, "--out", str(out)])
    weights.main()
    first = capsys.readouterr().out
    table = [line.split(" | ") for line in first.splitlines() if line.startswith("| ")][2:]
    assert [row[0].removeprefix("| ") for row in table] == [method for method in weights.METHODS for _ in range(4)]
    assert [row[1] for row in table[:4]] == ["none", "half-life 50 days", "rating", "rating × half-life 50 days"]
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 12
    means = {tuple(row["variant"]): row["mean_weight"] for row in rows if row["method"] == "MacridVAE"}
    assert [mean < 1 for mean in means.values()] == [False, True, True, True]
    weights.main()
    assert capsys.readouterr().out == first[first.index("ml-latest-small, before") :]
