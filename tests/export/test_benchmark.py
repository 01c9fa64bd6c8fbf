"""benchmarks/exporting.py measures what it says, on a small model."""

from benchmarks import exporting

import macrid
from tests.export.making import histories, made


def test_agreement_sizes_and_speed_of_both_sides_are_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "TOGETHER", 10)
    row = exporting.measure(made(linear=True), histories(30), tmp_path, rounds=1)
    assert row["users"] == 30
    assert row["largest_difference"] < 1e-4
    assert row["recipe_same_lists"] > 0.9
    assert 0 < row["recipe_scored"] <= 1
    assert row["one_ratio"] == row["one_onnxruntime_ms"] / row["one_macrid_ms"]
    assert "recipe_scored" in exporting.measure(made(macrid.MultVAE), histories(30), tmp_path, rounds=1)
