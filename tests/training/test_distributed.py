"""Several processes train as one does: over users, over items, and over both."""

import json

import numpy as np
import torch
from safetensors.torch import load_file, save_file

import macrid
from macrid.data.shop import generate
from tests.ranks import run_in_processes

PAPER, BEST = {"preset": "paper", "start": "random"}, {}
SAMPLED = {"likelihood": "sampled", "negatives": 24}


def shop():
    return generate(users=130, items=61, seed=3).split(heldout=20)


def fit(split, settings=(), training=(), **more):
    model = macrid.MacridVAE(**{"concepts": 3, "dim": 6, "neighbours": 0, **dict(settings)})
    chosen = {"epochs": 2, "batch_size": 25, "device": "cpu", "precision": "fp32", "seed": 4, **dict(training)}
    return model.fit(split.train, validation=split.validation, **chosen, **more)


CASES = {
    "users": (BEST, {}),
    "users, paper": (PAPER, {}),
    "users, sampled": (BEST, SAMPLED),
    "items": (BEST, {"item_shards": 2}),
    "items, paper": (PAPER, {"item_shards": 2}),
    "items, sampled": (BEST, {"item_shards": 2, **SAMPLED}),
    "items, paper, sampled": (PAPER, {"item_shards": 2, **SAMPLED}),
}


def write(model, folder, name):
    save_file(model.state(), folder / f"{name}.safetensors")
    (folder / f"{name}.json").write_text(json.dumps([record.ndcg for record in model.log]))


def fit_cases(folder):
    import torch.distributed as dist

    from macrid.training.distributed import joined

    split = shop()
    with joined("cpu") as ranks:
        for name, (settings, training) in CASES.items():
            model = fit(split, settings, training)
            if ranks.leads:
                write(model, folder, name)
        dist.barrier()


def assert_same(folder, name, model, tolerance=1e-5):
    found = load_file(folder / f"{name}.safetensors")
    assert found.keys() == model.state().keys()
    for key, value in model.state().items():
        torch.testing.assert_close(
            found[key], value, rtol=0, atol=tolerance, msg=lambda text, key=key: f"{name} {key}: {text}"
        )
    ndcg = json.loads((folder / f"{name}.json").read_text())
    np.testing.assert_allclose(ndcg, [record.ndcg for record in model.log], atol=1e-6)


def test_two_processes_give_the_weights_and_scores_of_one(tmp_path):
    assert run_in_processes(fit_cases, tmp_path) == [(0, "")] * 2
    split = shop()
    for name, (settings, training) in CASES.items():
        assert_same(tmp_path, name, fit(split, settings, {**training, "item_shards": 1}))
