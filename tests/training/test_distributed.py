"""Several processes train as one does: over users, over items, and over both."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from safetensors.torch import load_file, save_file

import macrid
from macrid.data import store
from macrid.data.interactions import Interactions
from macrid.data.shop import generate
from macrid.errors import CollapseWarning, DataError, RunError, SettingsError
from macrid.models.macridvae import MacridNetwork
from macrid.ops import kernels
from macrid.settings import MacridVAESettings, TrainingSettings
from macrid.training import checkpoint as checkpoints
from macrid.training import cost, distributed, loop
from macrid.training.adam import Adam
from macrid.training.distributed import LostError, check_possible, join, losses_explained
from macrid.training.mesh import Mesh
from tests.ranks import run_in_processes
from tests.truth import in_single_precision, runs_kernels, use_kernels

PAPER = {"preset": "paper", "start": "random"}
SAMPLED = {"likelihood": "sampled", "negatives": 24}
ITEMS = {"item_shards": 2}


def split_of():
    """A small shop, with an odd number of items."""
    return generate(users=130, items=61, seed=3).split(heldout=20)


def weighted(split):
    values = np.random.default_rng(0).uniform(0.5, 3, split.train.matrix.nnz).astype(np.float32)
    matrix = sp.csr_array((values, split.train.matrix.indices, split.train.matrix.indptr), split.train.matrix.shape)
    return Interactions(matrix, split.train.users, split.train.items)


def labels(split):
    ids = list(split.items)
    return {
        "concept": {item: f"group {place % 2}" for place, item in enumerate(ids[:30])},
        "price": {item: float(place % 7) for place, item in enumerate(ids[5:40])},
    }


def fit(split, settings=(), training=(), kind=macrid.MacridVAE, **more):
    common = {"concepts": 3, "neighbours": 0} if kind is macrid.MacridVAE else {}
    model = kind(**{"dim": 6, **common, **dict(settings)})
    chosen = {"epochs": 2, "batch_size": 25, "device": "cpu", "precision": "fp32", "seed": 4, **dict(training)}
    data = more.pop("train", split.train)
    return model.fit(data, validation=split.validation, **chosen, **more)


CASES = {
    "users": ({}, {}),
    "users, paper": (PAPER, {}),
    "users, sampled": ({}, SAMPLED),
    "items": ({}, ITEMS),
    "items, paper": (PAPER, ITEMS),
    "items, sampled": ({}, ITEMS | SAMPLED),
    "items, paper, sampled": (PAPER, ITEMS | SAMPLED),
}


def train_cases(folder, cases):
    """In every process: train each case; the first process writes what came out."""
    ranks = join("cpu")
    for name, train in cases.items():
        model = train()
        if ranks.leads:
            save_file(model.state(), folder / f"{name}.safetensors")
            (folder / f"{name}.json").write_text(json.dumps(numbers(model)))
    torch.distributed.barrier()


def numbers(model):
    """What the log of a training says, by epoch."""
    return [[record.loss, record.kl, record.ndcg, record.effective_concepts or 0] for record in model.log]


def assert_same(folder, name, model, tolerance=1e-5):
    written, state = load_file(folder / f"{name}.safetensors"), model.state()
    assert written.keys() == state.keys()
    for key, value in state.items():
        torch.testing.assert_close(
            written[key], value, rtol=0, atol=tolerance, msg=lambda text, key=key: f"{name}, {key}: {text}"
        )
    log = json.loads((folder / f"{name}.json").read_text())
    np.testing.assert_allclose(log, numbers(model), rtol=1e-5, atol=1e-6, err_msg=name)


def small_cases(split):
    return {name: lambda case=case: fit(split, *case) for name, case in CASES.items()}


class Seen:
    """Stands in for Adam: keeps the gradients of a step, and their norm."""

    def __init__(self, network):
        self.network, self.gradients = network, {}

    def zero_grad(self):
        self.network.zero_grad()

    def step(self, clip, by_rows=None, rows=None, count=None, norm=None):
        for name, parameter in self.network.named_parameters():
            gradient = parameter.grad
            if parameter in (by_rows or {}):
                gradient = torch.zeros_like(parameter).index_add(0, rows, by_rows[parameter])
            self.gradients[name] = gradient.clone()
        if norm is None:
            norm = torch.nn.utils.get_total_norm(list(self.gradients.values()))
        self.gradients["norm"] = norm.clone()


def gradients(training, mesh=None, dtype=torch.float64, dropout=0.5, last=40):
    """Of one step with users up to the last."""
    split, settings = split_of(), TrainingSettings(**training, balance=0.3)
    chosen = MacridVAESettings(concepts=3, dim=5, hidden_layers=1, width=4, dropout=dropout)
    network = MacridNetwork(61, chosen).to(dtype)
    network.initialise(torch.Generator().manual_seed(0))
    torch.nn.init.normal_(network.whole, generator=torch.Generator().manual_seed(1))
    if mesh is not None:
        mesh.divide(network)
    seen, data = Seen(network), loop._data(weighted(split).matrix, torch.device("cpu"), settings, mesh)
    step = loop._step(network, seen, data, torch.Generator().manual_seed(2), settings, mesh)
    step.beta.fill_(0.7)
    loss = step(torch.arange(3, last))
    return seen.gradients | {"loss": loss}


def bytes_of_a_step(shards):
    """What an exact step hands to all-reduces."""
    sizes, all_reduce = [], torch.distributed.all_reduce
    with pytest.MonkeyPatch.context() as patch:
        spy = lambda tensor, *more, **named: (sizes.append(tensor.nbytes), all_reduce(tensor, *more, **named))[1]  # noqa: E731
        patch.setattr(torch.distributed, "all_reduce", spy)
        split = split_of()
        network = MacridNetwork(61, MacridVAESettings(concepts=3, dim=5))
        network.initialise(torch.Generator().manual_seed(0))
        mesh = Mesh(61, shards, torch.device("cpu"))
        mesh.divide(network)
        data = loop._data(split.train.matrix, torch.device("cpu"), TrainingSettings(), mesh)
        step = loop._step(network, Adam(network.parameters(), 1e-3), data, torch.Generator(), TrainingSettings(), mesh)
        step(torch.arange(40))
    return {"bytes": sum(sizes), "messages": len(sizes)}


def train_small_cases(folder):
    train_cases(folder, small_cases(split_of()))
    ranks = join("cpu")
    for likelihood in ("exact", "sampled"):
        for shards in (1, 2):
            training = {"likelihood": likelihood, "negatives": 24, "item_shards": shards}
            found = gradients(training, Mesh(61, shards, torch.device("cpu")))
            save_file(found, folder / f"{likelihood} {shards} {ranks.rank}.gradients")
    for shards in (1, 2):
        (folder / f"{shards}.bytes").write_text(json.dumps(bytes_of_a_step(shards)))
    torch.distributed.barrier()


def test_two_processes_give_the_weights_and_scores_of_one(tmp_path):
    run_in_processes(train_small_cases, tmp_path)
    split = split_of()
    for name, (settings, training) in CASES.items():
        assert_same(tmp_path, name, fit(split, settings, {**training, "item_shards": 1}))
    for likelihood in ("exact", "sampled"):
        whole = gradients({"likelihood": likelihood, "negatives": 24})
        for shards in (1, 2):
            assert_same_gradients(whole, [tmp_path / f"{likelihood} {shards} {rank}.gradients" for rank in (0, 1)])
    for shards in (1, 2):
        shape = cost.Shape(100, 61, 10, 40, 3, 5, processes=2, item_shards=shards)
        over_users, over_items, messages = cost.network(shape)
        sent = {"bytes": over_users + over_items, "messages": messages}
        assert json.loads((tmp_path / f"{shards}.bytes").read_text()) == sent


def gradients_by_kernels(folder):
    kernels.serve = lambda tensor: tensor.dtype != torch.float64
    warnings.simplefilter("ignore", RuntimeWarning)  # of the interpreter, about log2(0)
    ranks = join("cpu")
    for likelihood in ("exact", "sampled"):
        for shards in (1, 2):  # dropout follows positions among a process's own interactions
            training = {"likelihood": likelihood, "negatives": 24, "item_shards": shards}
            mesh = Mesh(61, shards, torch.device("cpu"))
            found = gradients(training, mesh, torch.float32, 0.5 if shards == 1 else 0.0, last=12)
            save_file(found, folder / f"{likelihood} {shards} {ranks.rank}.gradients")
    torch.distributed.barrier()


@runs_kernels
@pytest.mark.slow
def test_two_processes_have_the_gradients_of_one_by_kernels(tmp_path, monkeypatch):
    run_in_processes(gradients_by_kernels, tmp_path)
    use_kernels(monkeypatch, in_single_precision)
    for likelihood in ("exact", "sampled"):
        for shards in (1, 2):
            training = {"likelihood": likelihood, "negatives": 24}
            whole = gradients(training, None, torch.float32, 0.5 if shards == 1 else 0.0, last=12)
            files = [tmp_path / f"{likelihood} {shards} {rank}.gradients" for rank in (0, 1)]
            assert_same_gradients(whole, files, 1e-4)


def assert_same_gradients(whole, files, tolerance=1e-9):
    """Complete in every process, except those of tables with fewer rows, which follow one another."""
    parts = [load_file(file) for file in files]
    for name, gradient in whole.items():
        given = [part[name] for part in parts]
        is_divided = gradient.shape != given[0].shape
        for each in [torch.cat(given)] if is_divided else given:
            torch.testing.assert_close(
                each, gradient, rtol=tolerance, atol=tolerance, msg=lambda text, n=name: f"{n}: {text}"
            )


def hard_cases(split, divided):
    """divided: training settings of every case."""
    old = fit(split, {}, {"epochs": 1, "seed": 1})
    one_user_left = {"batch_size": (split.train.matrix.shape[0] - 1) // 2, **divided}
    merge = {"concepts": "merge", "merge_below": 0.9}
    return {
        "weights": lambda: fit(split, {}, divided, train=weighted(split)),
        "weights, sampled": lambda: fit(split, {}, divided | SAMPLED, train=weighted(split)),
        "a batch of one user": lambda: fit(split, {}, one_user_left),
        "a batch of one user, sampled": lambda: fit(split, {}, one_user_left | SAMPLED),
        "few draws": lambda: fit(split, {}, {**divided, **SAMPLED, "negatives": 1, "sampling": "uniform"}),
        "labels": lambda: fit(split, {}, divided, labels=labels(split)),
        "labels, sampled": lambda: fit(split, {}, divided | SAMPLED, labels=labels(split)),
        "merge": lambda: fit(split, merge, {**divided, "epochs": 4}),
        "hidden layers": lambda: fit(split, {"hidden_layers": 2, "width": 5}, divided),
        "inner products": lambda: fit(split, {"similarity": "inner", "assignment": "hard"}, divided),
        "clipping and l2": lambda: fit(split, {}, {**divided, "clip": 0.5, "l2": 0.01, "average": 1}),
        "auto": lambda: fit(split, {"concepts": "auto"}, divided),
        "warm start": lambda: fit(split, {}, divided, warm_start=old),
        "warm start, sampled": lambda: fit(split, {}, divided | SAMPLED, warm_start=old),
    }


def train_hard_cases(folder):
    split = split_of()
    by_users = {f"users, {name}": train for name, train in hard_cases(split, {}).items()}
    by_items = {f"items, {name}": train for name, train in hard_cases(split, ITEMS).items()}
    train_cases(folder, by_users | by_items | {"multvae": lambda: fit(split, kind=macrid.MultVAE)})
    with pytest.raises(SettingsError, match="cannot divide its items"):
        fit(split, kind=macrid.MultVAE, training=ITEMS)


def train_in_a_grid(folder):
    split = split_of()
    cases = hard_cases(split, ITEMS)
    chosen = ("weights", "weights, sampled", "a batch of one user", "a batch of one user, sampled", "labels", "merge")
    train_cases(folder, {name: cases[name] for name in chosen})


@pytest.fixture(scope="module")
def in_one_process():
    with warnings.catch_warnings(action="ignore", category=CollapseWarning):
        return {name: train() for name, train in hard_cases(split_of(), {}).items()}


@pytest.mark.slow
def test_every_kind_of_training_is_the_same_in_two_processes(tmp_path, in_one_process):
    run_in_processes(train_hard_cases, tmp_path)
    for name, model in in_one_process.items():
        assert_same(tmp_path, f"users, {name}", model, tolerance=1e-4)
        assert_same(tmp_path, f"items, {name}", model, tolerance=1e-4)
    assert_same(tmp_path, "multvae", fit(split_of(), kind=macrid.MultVAE))


@pytest.mark.slow
def test_four_processes_divide_users_and_items(tmp_path, in_one_process):
    run_in_processes(train_in_a_grid, tmp_path, processes=4)
    for file in tmp_path.glob("*.json"):
        assert_same(tmp_path, file.stem, in_one_process[file.stem], tolerance=1e-4)


def train_with_checkpoints(folder):
    split = split_of()
    long = {"epochs": 3}
    train_cases(
        folder,
        {
            "begun by one": lambda: fit(split, {}, long | ITEMS, checkpoint=folder / "one", resume=True),
            "begun by one, sampled": lambda: fit(
                split, {}, long | SAMPLED, checkpoint=folder / "one sampled", resume=True
            ),
            "begun by two": lambda: fit(split, {}, ITEMS | {"epochs": 1}, checkpoint=folder / "two"),
            "resumed by two": lambda: fit(split, {}, long, checkpoint=folder / "two", resume=True),
            "again by two": lambda: fit(split, {}, ITEMS | {"epochs": 2}, checkpoint=folder / "again"),
        },
    )


@pytest.mark.slow
def test_any_number_of_processes_resumes_the_checkpoint_of_any_other(tmp_path):
    split = split_of()
    fit(split, {}, {"epochs": 1}, checkpoint=tmp_path / "one")
    fit(split, {}, {"epochs": 1, **SAMPLED}, checkpoint=tmp_path / "one sampled")
    run_in_processes(train_with_checkpoints, tmp_path)
    whole = fit(split, {}, {"epochs": 3})
    assert_same(tmp_path, "begun by one", whole)
    assert_same(tmp_path, "begun by one, sampled", fit(split, {}, {"epochs": 3, **SAMPLED}))
    assert_same(tmp_path, "resumed by two", whole)
    parts = sorted(file.name for file in (tmp_path / "again" / checkpoints.FOLDER).iterdir())
    assert parts == ["2-1-of-2.safetensors", "2-2-of-2.safetensors"], "only those of the last epoch are kept"
    resumed = fit(split, {}, {"epochs": 3}, checkpoint=tmp_path / "again", resume=True)
    save_file(resumed.state(), tmp_path / "resumed by one.safetensors")
    (tmp_path / "resumed by one.json").write_text(json.dumps(numbers(resumed)))
    assert_same(tmp_path, "resumed by one", whole)


def test_a_checkpoint_whose_parts_are_missing_is_an_error(tmp_path):
    split = split_of()
    fit(split, {}, {"epochs": 1}, checkpoint=tmp_path)
    file = tmp_path / checkpoints.FILE
    with checkpoints._opened(file) as opened:
        meta = opened.meta | {"format": checkpoints.DIVIDED, "shards": ["1-1-of-1.safetensors"], "bounds": [0, 61]}
    save_file(load_file(file), file, {"macrid": json.dumps(meta)})
    with pytest.raises(RunError, match=re.escape(str(file))):
        fit(split, {}, {"epochs": 2}, checkpoint=tmp_path, resume=True)


def train_on_different_data(folder):
    split = split_of()
    ranks = join("cpu")
    matrix = split.train.matrix[ranks.rank :] if ranks.rank else split.train.matrix
    with pytest.raises(DataError, match="rank 1 has different interactions from rank 0"):
        macrid.MacridVAE(concepts=2, dim=4).fit(matrix, epochs=1, device="cpu")
    with pytest.raises(DataError, match="rank 1 has different settings from rank 0"):
        macrid.MacridVAE(concepts=2 + ranks.rank, dim=4).fit(split.train, epochs=1, device="cpu")
    with pytest.raises(SettingsError, match="2 processes are more than the 1 train users"):
        macrid.MacridVAE(concepts=2, dim=4).fit(split.train.matrix[:1], epochs=1, device="cpu")
    torch.distributed.barrier()


@pytest.mark.slow
def test_processes_with_different_data_or_too_few_users_are_an_error_in_all_of_them(tmp_path):
    run_in_processes(train_on_different_data, tmp_path)


@pytest.mark.parametrize(
    ("size", "sizes", "message"),
    [
        (1, {"item_shards": 2}, "there is one process; start 2"),
        (3, {"item_shards": 2}, "item_shards must divide their number"),
        (8, {"item_shards": 8, "items": 7}, "only 7 items"),
        (8, {"item_shards": 1, "users": 5}, "8 processes are more than the 5 train users"),
        (2, {"item_shards": 2, "has_shards": False}, "cannot divide its items"),
    ],
)
def test_an_impossible_number_of_processes_is_an_error_that_says_why(size, sizes, message, monkeypatch):
    ranks = distributed.Ranks()
    ranks.size = size
    monkeypatch.setattr(distributed, "_current", ranks)
    with pytest.raises(SettingsError, match=message):
        check_possible("MultVAE", **{"has_shards": True, "users": 100, "items": 50, **sizes})


def environment():
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def command(data, run, *more):
    small = ["--concepts", "2", "--dim", "4", "--batch-size", "20", "--neighbours", "0", "--no-baselines"]
    fixed = ["--device", "cpu", "--precision", "fp32", "--seed", "1", "--patience", "1000"]
    return [sys.executable, "-m", "macrid", "train", str(data), "--out", str(run), *small, *fixed, *more]


def process_of_rank(launcher, rank):
    """The process that a launcher has started for a rank."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == launcher and f"RANK={rank}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                    return int(folder.name)
            except OSError:  # it has ended meanwhile
                continue
    return None


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc")
@pytest.mark.slow
@pytest.mark.alone
def test_a_killed_process_ends_the_training_with_one_clear_line_and_it_can_be_resumed(tmp_path):
    data, run, epochs = tmp_path / "data", tmp_path / "run", ["--epochs", "4000"]
    store.write(split_of(), data)
    sharded = command(data, run, "--processes", "2", "--item-shards", "2", *epochs)
    with subprocess.Popen(sharded, env=environment(), stderr=subprocess.PIPE, text=True) as training:
        try:
            deadline = time.monotonic() + 100
            while not (run / "training" / checkpoints.FILE).exists():
                assert training.poll() is None, training.stderr.read()
                assert time.monotonic() < deadline
                time.sleep(0.05)
            os.kill(process_of_rank(training.pid, 1), signal.SIGKILL)
            killed = time.monotonic()
            errors = training.communicate(timeout=60)[1]
        finally:
            training.kill()
    assert time.monotonic() - killed < 30
    assert training.returncode == 1
    lines = [line for line in errors.splitlines() if not line.startswith(("epoch", str(data), "about"))]
    assert len(lines) == 1, errors
    assert re.match(r"error: process 1 was killed by SIGKILL.*continue with --resume", lines[0])

    progress = checkpoints.read_best(run / "training")[1]
    done = str(len(progress) + 5)
    again = subprocess.run(
        command(data, run, "--resume", "--epochs", done), env=environment(), capture_output=True, text=True, check=False
    )
    assert again.returncode == 0, again.stderr
    assert f"continuing after epoch {len(progress)}" in again.stderr
    assert len(macrid.load(run).log) == len(progress) + 5


@pytest.mark.slow
def test_an_error_of_all_processes_is_reported_once(tmp_path):
    store.write(split_of(), tmp_path / "data")
    wrong = command(tmp_path / "data", tmp_path / "run", "--processes", "2", "--labels", str(tmp_path / "none.csv"))
    result = subprocess.run(wrong, env=environment(), capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.count("error:") == 1, result.stderr
    assert "none.csv" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_model_without_epochs_takes_one_process(tmp_path):
    from typer.testing import CliRunner

    from macrid.cli import app

    result = CliRunner().invoke(app, ["train", "x", "--out", str(tmp_path), "--model", "ease", "--processes", "2"])
    assert isinstance(result.exception, SettingsError)
    assert "ease is not trained in epochs; remove --processes" in str(result.exception)


def test_a_lost_process_is_said_without_places_in_foreign_code():
    ranks = join("cpu")
    ranks.size = 2
    gloo = (
        "[/build/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:14752. This is typically caused"
        " by a remote worker crashing. Check the logs"
    )
    with pytest.raises(LostError) as raised, losses_explained(ranks):
        raise RuntimeError(gloo)
    assert str(raised.value).startswith(
        "lost another process of the training (Connection closed by peer [127.0.0.1]:14752); "
    )
    with pytest.raises(RuntimeError, match="shapes"), losses_explained(ranks):
        raise RuntimeError("shapes differ")
