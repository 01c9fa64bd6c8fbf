"""The other side of the speed benchmarks must do the same work; all parts run on small shapes, and the report tells."""

import argparse
import importlib
import json
import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from benchmarks import epochs, extensions, growth, quality, report, sparse_catalogue, speed
from benchmarks.contenders import BF16, DENSE_LOOP, EXACT
from benchmarks.dense import DenseMacridVAE, PartitionDense, dense_rows, train_epoch
from benchmarks.measuring import exponent

import macrid
from macrid.models.macridvae import MacridNetwork
from macrid.settings import ADDED, MacridVAESettings
from tests.truth import histories_of


@pytest.mark.parametrize("path", sorted(Path(epochs.__file__).parent.glob("*.py")), ids=lambda path: path.stem)
def test_every_benchmark_finds_what_it_imports(path):
    importlib.import_module(f"benchmarks.{path.stem}")


@pytest.mark.parametrize("dense_class", [DenseMacridVAE, PartitionDense])
@pytest.mark.parametrize(("dropout", "hidden_layers"), [(0.0, 0), (0.0, 2), (0.5, 0)])
def test_dense_loss_and_every_gradient_equal_those_of_the_network(dense_class, dropout, hidden_layers):
    settings = MacridVAESettings.make(ADDED, concepts=3, dim=6, hidden_layers=hidden_layers, width=5, dropout=dropout)
    generator = torch.Generator().manual_seed(0)
    network = MacridNetwork(40, settings).double()
    network.initialise(generator)
    dense = dense_class(40, settings).double()
    dense.load_state_dict(network.state_dict())
    x = torch.rand(7, 40, generator=generator) < 0.2
    x[3] = False
    histories = histories_of(x)
    noise = network.draw_noise(histories, generator)
    keep = torch.zeros(x.shape, dtype=torch.float64)
    keep[histories.rows, histories.items] = noise.keep

    ours = network.loss(histories, noise, 0.7).total
    theirs = dense.loss(x.double(), 0.7, noise.gumbel, noise.normal, keep)
    ours.backward()
    theirs.backward()
    torch.testing.assert_close(theirs, ours, rtol=1e-5, atol=0)
    found = dict(dense.named_parameters())
    for name, parameter in network.named_parameters():
        torch.testing.assert_close(found[name].grad, parameter.grad, rtol=1e-5, atol=1e-5, msg=name)


def test_dense_rows_are_those_of_the_matrix():
    matrix = sp.random_array((20, 9), density=0.3, format="csr", rng=np.random.default_rng(0))
    starts, items = torch.from_numpy(matrix.indptr).long(), torch.from_numpy(matrix.indices)
    users = torch.tensor([4, 19, 0, 7])
    np.testing.assert_array_equal(dense_rows(starts, items, users, 9).numpy(), matrix.toarray()[users.numpy()] > 0)


@pytest.mark.parametrize("dense_class", [DenseMacridVAE, PartitionDense])
def test_dense_training_lowers_the_loss(dense_class, shop_split):
    matrix = shop_split.train.matrix
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = dense_class(matrix.shape[1], MacridVAESettings.make(concepts=3, dim=8))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = [train_epoch(model, optimiser, matrix, 64, generator, "cpu") for _ in range(8)]
    assert losses[-1] < losses[0] - 1


CPU = torch.device("cpu")
ABOUT = {
    "machine": {"cpu": "a slow CPU", "cores": 2, "gpu": None},
    "versions": {"macrid": "0", "torch": "2", "triton": "3"},
    "date": "2020-02-02",
}


@pytest.mark.parametrize("power", [0.97, 0, -0.5])
def test_the_exponent_of_a_power_law_is_found(power):
    sizes = np.array([2.0, 30.0, 400.0])
    assert exponent(sizes, 7 * sizes**power) == pytest.approx(power, abs=1e-9)


@pytest.mark.parametrize(("sizes", "values"), [([2], [1]), ([2, 2], [1, 3]), ([1, 2], [0, 1])])
def test_there_is_no_exponent_without_two_sizes_or_with_nothing_measured(sizes, values):
    assert exponent(sizes, values) is None


@pytest.mark.slow
def test_every_cpu_part_runs_and_its_report_says_that_it_was_quick(tmp_path):
    file = tmp_path / "cpu.json"
    parts = speed.parts(CPU, quick=True)
    assert speed.run(parts, file, quick=True)
    found = json.loads(file.read_text())
    assert set(found) == set(parts) == {"epoch", "wide", "growth", "recommend"}
    rows = {row["name"]: row for row in found["epoch"]["rows"]}
    assert rows[DENSE_LOOP]["speed_up"] == 1
    assert rows[EXACT]["speed_up"] == pytest.approx(rows[DENSE_LOOP]["seconds"] / rows[EXACT]["seconds"], rel=1e-2)
    assert {point["axis"] for point in found["growth"]["points"]} == set(growth.WORDS)
    page = report.text(report.read(tmp_path))
    assert page.count("A quick run on small shapes") == 4
    assert page.count("| not measured |") == len(report.TARGETS)  # small shapes meet no target
    assert "performance-cpu.png" in page
    assert "performance-gpu.png" not in page


@pytest.mark.slow
def test_the_gpu_parts_run_wherever_tensors_do():
    *_, epoch = epochs.on_gpu(True, CPU, compiled=False)
    assert [row["name"] for row in epoch["rows"] if "failed" in row] == []
    assert {row["batch"] for row in epoch["rows"] if row["name"] == "macrid, bf16"} == {100, 200, 400}
    assert all(row["speed_up"] > 0 for row in epoch["rows"])
    *_, large = speed.large(CPU, 500, shop=False, users=40, batch=20)
    assert [row["name"] for row in large["rows"]] == ["exact", "sampled, 8,192 negatives"]


def test_a_contender_that_fails_leaves_the_others_alone(capsys):
    def broken():
        raise RuntimeError("no such kernel")

    row = epochs._attempt("macrid, fp8", 512, broken)
    assert row["failed"] == "RuntimeError: no such kernel"
    assert "no such kernel" in capsys.readouterr().out


def test_a_part_measured_again_leaves_the_others_in_the_file(tmp_path):
    file = tmp_path / "results" / "cpu.json"
    speed.save(file, "epoch", {"rows": [1 / 3]})
    speed.save(file, "growth", {"points": []})
    speed.save(file, "epoch", {"rows": [2 / 3]})
    assert json.loads(file.read_text()) == {"epoch": {"rows": [0.6667]}, "growth": {"points": []}}


def test_growth_stops_in_time_and_names_what_it_left_out():
    *_, found = growth.measure(growth.QUICK, CPU, limit=-1)
    assert found["points"] == []
    assert "exact: 600 items" in found["left_out"]


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="no peak of memory to reset on this system")
@pytest.mark.slow
def test_memory_is_that_of_the_contender_alone(tmp_path):
    random = np.random.default_rng(0)
    sp.save_npz(tmp_path / "matrix.npz", sp.csr_array((random.random((80, 20_000)) < 0.01).astype(np.float32)))
    dense, ours = (epochs.child(name, str(tmp_path / "matrix.npz"), 80) for name in (DENSE_LOOP, EXACT))
    assert dense > 7 * 80 * 20_000 * 4 / 2**20  # an array of users × items for every concept at least
    assert 2 * 2 * 20_000 * 100 * 4 / 2**20 < ours < dense  # tables and their moments at least


def test_without_results_the_report_says_that_nothing_was_measured(tmp_path):
    page = report.text(report.read(tmp_path))
    assert page.count(report.NOT_MEASURED) == 9
    assert page.count("| not measured |") == len(report.TARGETS)
    assert ".png" not in page
    assert "**missed**" not in page


def test_the_report_shows_what_was_met_and_what_was_missed():
    def row(name, speed_up, memory_ratio):
        return {
            "name": name, "batch": 500, "seconds": 9 / speed_up, "speed_up": speed_up, "of_floor": None,
            "peak_mib": 100 * memory_ratio, "memory_ratio": memory_ratio,
        }  # fmt: skip

    epoch = {
        "measured": ABOUT,
        "shape": {"data": "ml", "users": 5, "items": 4, "interactions": 3, "concepts": 2, "dim": 1, "batch": 500},
        "floor": {"tflop": 1.0, "tflop_per_s": 2.0, "seconds": 0.5},
        "rows": [row(EXACT, 4.2, 0.3), row(BF16, 4.1, 0.3), row(report.SAMPLED, 7.9, 0.2), row(DENSE_LOOP, 1.0, 1.0)],
    }
    runs = [
        {"name": "exact, bf16", "seed": seed, "seconds": 10.0 + seed, "ndcg": 0.42, "se": 0.01, "epochs": 9}
        for seed in range(2)
    ]
    page = report.text({"cpu": {"epoch": epoch}, "accuracy-gpu": {"measured": ABOUT, "data": "ml-1m", "rows": runs}})
    assert "| CPU: an exact epoch against the dense loop | at least 3× | 4.2× | met |" in page
    assert "| CPU: the same in bf16, the default on this CPU | at least 4× | 4.1× | met |" in page
    assert "| CPU: a sampled epoch against the dense loop | at least 8× | 7.9× | **missed** |" in page
    assert "| CPU: its memory, as a part of the dense loop's | at most 0.5 | 0.30 | met |" in page
    assert (
        "| GPU: `macrid train ml-1m`, kernels compiled before, the slowest seed | at most 15 s | 11.0 s | met |" in page
    )
    assert "Measured 2020-02-02 on a slow CPU, 2 cores; macrid 0, torch 2, triton 3." in page
    assert "takes 2.14 s where the dense loop takes 9 s: 4.2×, with 30% of its memory." in page
    assert "| exact, bf16 | 2 | 0.4200 ± 0.0100 |" in page


def test_the_report_names_the_sizes_along_which_time_grows_too_fast():
    def page(power):
        points = [
            {"axis": "items", "size": size, "mode": "exact", "milliseconds": size**power, "scratch_mib": 1.0,
             "interactions": 9.0}
            for size in (10, 100, 1000)
        ]  # fmt: skip
        part = {"measured": ABOUT, "base": {"items": 100}, "precision": "fp32", "points": points, "left_out": []}
        return report.text({"cpu": {"growth": part}})

    assert "Along no axis does time grow faster" in page(1.0)
    assert "along: items (exact: M^1.30)." in page(1.3)


def test_the_picture_of_growth_is_small(tmp_path):
    plots = pytest.importorskip("benchmarks.plots")
    pytest.importorskip("matplotlib")
    points = [
        {"axis": axis, "size": size, "mode": mode, "milliseconds": size**0.9, "scratch_mib": 3.0, "interactions": size}
        for axis in growth.WORDS for mode in growth.MODES for size in (10, 100, 1000)
    ]  # fmt: skip
    plots.draw({"points": points}, tmp_path / "growth.png")
    assert 5_000 < (tmp_path / "growth.png").stat().st_size < 150_000


def test_the_page_on_performance_is_up_to_date():
    assert report.FILE.read_text(encoding="utf-8") == report.text(report.read()), "run: python -m benchmarks.report"


def test_a_subsample_has_a_tenth_of_the_users_and_the_items_they_have(shop_split):
    small = quality.subsampled(shop_split, seed=1)
    users = len(shop_split.train.users)
    assert small.train.matrix.shape[0] == len(small.train.users) == round(users / 10)
    assert (np.bincount(small.train.matrix.indices, minlength=len(small.items)) > 0).all()
    places = {user: place for place, user in enumerate(shop_split.train.users)}
    for row, user in enumerate(small.train.users):
        whole = shop_split.train.matrix[[places[user]]].indices
        kept = [small.items[item] for item in small.train.matrix[[row]].indices]
        assert sorted(kept) == sorted(shop_split.items[item] for item in whole)
    assert len(small.test.users) == len(shop_split.test.users)
    assert small.test.history.shape[1] == small.validation.target.shape[1] == len(small.items)


@pytest.mark.slow
def test_what_extensions_cost_is_told_with_ratios(shop_split, monkeypatch):
    monkeypatch.setattr(extensions.catalog, "load", lambda name: shop_split)
    monkeypatch.setattr(extensions, "PRESETS", ("best",))
    monkeypatch.setattr("macrid.models.neighbours.CANDIDATES", 8)
    small = partial(macrid.MacridVAE, concepts=3, dim=4)
    fit = macrid.MacridVAE.fit
    monkeypatch.setattr(macrid.MacridVAE, "fit", lambda self, *data, **more: fit(self, *data, **{**more, "epochs": 2}))
    monkeypatch.setattr(extensions.macrid, "MacridVAE", small)
    row = extensions.measured("shop", "cpu", seeds=1)
    assert set(row["control"]) <= {"with", "without"}
    assert 0 <= row["neighbours"]["in_common"] <= 1
    row["training"]["paper"] = {**row["training"]["best"], "per_epoch": row["training"]["best"]["per_epoch"] / 2}
    content = {"about": extensions.circumstances(), "rows": [row]}
    assert "2.00×" in extensions.training_table(content)
    assert all("shop" in table(content) for table in extensions.TABLES.values() if row["recommending"])


@pytest.mark.slow
def test_the_sparse_catalogue_reports_a_whole_training_by_phases():
    asked = argparse.Namespace(users=300, items=160, seed=0, set=["epochs=2", "dim=8"])
    found = sparse_catalogue.child(asked)
    assert found["training"]["likelihood"] == "exact"
    assert len(found["curve"]) == found["training"]["epochs"] == 2
    assert {"training", "scoring", "understanding"} <= found["phases"].keys()
    assert 0.8 * found["seconds"] < sum(found["phases"].values()) <= found["seconds"]
