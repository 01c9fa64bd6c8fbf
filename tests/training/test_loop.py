"""Training: repeatable, stops in time, keeps the best, survives a kill."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace

import pytest
import torch

import macrid
from macrid.errors import CollapseWarning, DataError, RunError, SettingsError, TrainingError
from macrid.settings import ADDED, TrainingSettings
from macrid.training import checkpoint as checkpoints
from macrid.training import loop


def small(**settings):
    return macrid.MacridVAE(concepts=3, dim=8, **settings)


def weights(model):
    return {name: value.clone() for name, value in model.state().items()}


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def fit(model, split, **training):
    return model.fit(
        split.train, validation=split.validation, **{"epochs": 4, "batch_size": 60, "device": "cpu", **training}
    )


def test_the_same_seed_gives_exactly_the_same_model(shop_split):
    first, second, other = (fit(small(), shop_split, seed=seed) for seed in (5, 5, 6))
    assert same(weights(first), weights(second))
    assert not same(weights(first), weights(other))


def test_the_same_seed_gives_the_same_model_with_several_threads(shop_split):
    first, second = (
        macrid.MacridVAE(concepts=7, dim=8).fit(shop_split.train, epochs=6, batch_size=300, device="cpu") for _ in "ab"
    )
    assert same(weights(first), weights(second))


def test_the_best_weights_are_kept_not_the_last(shop_split):
    for seed in range(20):  # rounding decides which trainings get worse again
        model = fit(small(neighbours=0), shop_split, epochs=12, learning_rate=0.3, patience=12, average=1, seed=seed)
        scores = [record.ndcg for record in model.log]
        if max(scores) > scores[-1]:
            break
    assert max(scores) > scores[-1], "the test needs a training that gets worse again"
    assert macrid.evaluate(model, shop_split.validation)["ndcg@100"].mean == pytest.approx(max(scores))
    assert [r.epoch for r in model.log if r.best][-1] == scores.index(max(scores)) + 1


def test_training_stops_when_validation_no_longer_improves(shop_split):
    model = fit(small(), shop_split, epochs=100, learning_rate=0.2, patience=3)
    best = max(range(len(model.log)), key=lambda i: model.log[i].ndcg)
    assert len(model.log) == best + 1 + 3


def test_loss_falls_and_scores_rise(shop_split):
    model = fit(small(), shop_split, epochs=10)
    assert model.log[-1].loss < model.log[0].loss
    assert model.log[-1].ndcg > model.log[0].ndcg


def test_without_validation_all_epochs_run_and_the_last_weights_stay(shop_split):
    model = small().fit(shop_split.train, epochs=3, average=1, device="cpu")
    assert len(model.log) == 3
    assert all(record.ndcg is None for record in model.log)
    last = []
    again = small()
    again.fit(shop_split.train, epochs=3, average=1, device="cpu", on_epoch=lambda record: last.append(weights(again)))
    assert same(weights(model), last[-1])
    assert not same(weights(model), last[-2])


def test_beta_grows_over_its_warm_up(shop_split):
    seen = []
    model = small(beta=8.0)
    build = model._build

    def spy(items):
        network = build(items)
        original = network.loss
        network.loss = lambda histories, noise, beta: (seen.append(float(beta)), original(histories, noise, beta))[1]
        return network

    model._build = spy
    fit(model, shop_split, epochs=5, beta_warmup=4, batch_size=400)
    assert seen == [2.0, 4.0, 6.0, 8.0, 8.0]


def test_l2_makes_parameters_smaller(shop_split):
    plain, held = (fit(small(), shop_split, l2=l2, epochs=8) for l2 in (0.0, 1.0))
    assert held.network.context_vectors.norm() < plain.network.context_vectors.norm()


def test_the_default_batch_size_depends_on_the_number_of_users():
    assert TrainingSettings().users_per_step(5034) == 500
    assert TrainingSettings().users_per_step(503) == 101
    assert TrainingSettings(batch_size=32).users_per_step(503) == 32


@pytest.mark.parametrize(
    ("settings", "value"),
    [({"learning_rate": 0}, "learning_rate is 0"), ({"epochs": 0}, "epochs is 0"), ({"device": "tpu9"}, "'tpu9'"),
     ({"device": "meta"}, "'meta'"), ({"device": "cuda:99"}, "'cuda:99'"), ({"speed": 1}, "'speed'")],
)  # fmt: skip
def test_a_bad_training_setting_is_named(shop_split, settings, value):
    with pytest.raises(SettingsError, match=value):
        fit(small(), shop_split, **settings)


def test_validation_over_other_items_is_an_error(shop_split):
    with pytest.raises(DataError, match=r"\b160\b.*\b50\b"):
        small().fit(shop_split.train.matrix[:, :50], validation=shop_split.validation)


def test_validation_users_with_nothing_to_predict_are_an_error(shop_split):
    nothing = replace(shop_split.validation, target=shop_split.validation.target * 0)
    nothing.target.eliminate_zeros()
    with pytest.raises(DataError, match="validation"):
        small().fit(shop_split.train, validation=nothing)


def test_two_trainings_cannot_share_a_folder(shop_split, tmp_path):
    def second(record):
        with pytest.raises(RunError, match=re.escape(str(tmp_path))):
            fit(small(), shop_split, checkpoint=tmp_path)

    fit(small(), shop_split, checkpoint=tmp_path, epochs=1, on_epoch=second)


def test_a_folder_that_cannot_be_written_is_named(shop_split, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunError, match=re.escape(str(tmp_path / "file" / "training"))):
        fit(small(), shop_split, checkpoint=tmp_path / "file" / "training")


def test_starting_over_discards_the_earlier_checkpoint(shop_split, tmp_path):
    fit(small(), shop_split, checkpoint=tmp_path, epochs=2)
    fresh = fit(small(beta=2.0), shop_split, checkpoint=tmp_path, epochs=1)
    assert [r.epoch for r in fit(small(beta=2.0), shop_split, checkpoint=tmp_path, epochs=1, resume=True).log] == [1]
    assert len(fresh.log) == 1


def test_more_patience_lets_a_stopped_training_continue(shop_split, tmp_path):
    stopped = fit(small(), shop_split, checkpoint=tmp_path, epochs=60, learning_rate=0.2, patience=1)
    went_on = fit(small(), shop_split, checkpoint=tmp_path, epochs=60, learning_rate=0.2, patience=3, resume=True)
    assert len(went_on.log) > len(stopped.log)
    assert went_on.log[: len(stopped.log)] == stopped.log


def test_nan_stops_training_names_the_step_and_keeps_the_best_weights(shop_split):
    model, kept = small(), []

    def poison(record):
        if record.epoch == 2:
            kept.append(weights(model))
            with torch.no_grad():
                model.network.context_vectors[0] = float("nan")

    with pytest.raises(TrainingError, match=r"nan in epoch 3, step 1 of 5 \(step 11\b.*epoch 2\b"):
        fit(model, shop_split, average=1, on_epoch=poison)
    assert same(weights(model), kept[0])
    assert len(model.recommend([shop_split.items[0]], 3)) == 3


def test_a_divergence_in_the_first_epoch_names_the_step(shop_split):
    with pytest.raises(TrainingError, match=r"epoch 1, step .*learning rate"):
        fit(small(), shop_split, learning_rate=1e30)


def test_weights_that_overflow_in_the_last_step_of_an_epoch_are_an_error(shop_split):
    with pytest.raises(TrainingError, match=r"epoch 1\b"):
        fit(small(), shop_split, learning_rate=1e30, epochs=1, batch_size=1000)


class Collapsed(macrid.MacridVAE):
    """All prototypes but one point away from every item."""

    def _start(self, matrix, seed):
        super()._start(matrix, seed)
        with torch.no_grad():
            self.network.item_vectors.abs_()
            self.network.prototypes.copy_(-torch.ones_like(self.network.prototypes))
            self.network.prototypes[0] = 1


def test_a_collapse_warns(shop_split):
    with pytest.warns(CollapseWarning, match=r"1\.0 of 6 concepts"):
        Collapsed(concepts=6, dim=8).fit(shop_split.train, epochs=1)


def test_concepts_in_use_do_not_warn(shop_split):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(small(), shop_split, epochs=1)


def test_steps_and_epochs_are_reported(shop_split):
    steps, epochs = [], []
    fit(small(), shop_split, epochs=2, on_step=lambda done, total: steps.append((done, total)), on_epoch=epochs.append)
    assert steps == [(i, 5) for i in range(1, 6)] * 2
    assert "epoch   2  loss" in str(epochs[1])
    assert "validation NDCG@100" in str(epochs[1])


SCRIPT = """
import sys, time, macrid
from macrid.data.shop import generate
from macrid.training import loop
loop.CHECKPOINT_SECONDS = 0
split = generate(users=400, items=160, seed=3).split(heldout=50)
folder, resume, slow = sys.argv[1], sys.argv[2] == "resume", sys.argv[2] == "slow"
def tell(record):
    print(record.epoch, flush=True)
    if slow: time.sleep(0.2)
model = macrid.MacridVAE(concepts=3, dim=8)
settings = dict(epochs=12, batch_size=60, device="cpu", checkpoint=folder, resume=resume, on_epoch=tell)
model.fit(split.train, validation=split.validation, **settings)
model.save(folder + "/../run")
"""


@pytest.mark.slow
def test_a_killed_training_resumes_to_the_result_of_an_uninterrupted_one(tmp_path):
    def run(name, mode):
        (tmp_path / name).mkdir(exist_ok=True)
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / name / "training"), mode]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})

    whole, killed = run("whole", "plain"), run("killed", "slow")
    seen = [int(killed.stdout.readline()) for _ in range(5)]
    time.sleep(0.1)
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=30)
    assert not (tmp_path / "killed" / "run").exists()
    resumed = run("killed", "resume")
    epochs = [int(line) for line in resumed.communicate(timeout=120)[0].split()]
    whole.communicate(timeout=120)
    assert (whole.returncode, resumed.returncode) == (0, 0)
    assert epochs[0] in (seen[-1], seen[-1] + 1), "it must continue, not start over"
    first, second = (macrid.load(tmp_path / name / "run") for name in ("whole", "killed"))
    assert same(weights(first), weights(second))
    timeless = [[{**vars(r), "seconds": 0} for r in model.log] for model in (first, second)]
    assert timeless[0] == timeless[1]


def test_resuming_a_finished_training_changes_nothing(shop_split, tmp_path):
    first = fit(small(), shop_split, checkpoint=tmp_path)
    again = fit(small(), shop_split, checkpoint=tmp_path, resume=True)
    assert same(weights(first), weights(again))
    assert [r.epoch for r in again.log] == [1, 2, 3, 4]


def test_more_epochs_can_be_added_by_resuming(shop_split, tmp_path):
    whole = fit(small(), shop_split, epochs=6)
    fit(small(), shop_split, epochs=3, checkpoint=tmp_path)
    assert same(weights(whole), weights(fit(small(), shop_split, epochs=6, checkpoint=tmp_path, resume=True)))


def test_a_checkpoint_of_other_settings_or_data_is_an_error_that_names_them(shop_split, tmp_path):
    fit(small(), shop_split, checkpoint=tmp_path, epochs=1)
    with pytest.raises(RunError, match=r"beta.*5\.0.*3\.0.*seed.*0.*9"):
        fit(small(beta=3.0), shop_split, checkpoint=tmp_path, resume=True, seed=9)
    with pytest.raises(RunError, match="interactions"):
        small().fit(shop_split.validation.history, checkpoint=tmp_path, resume=True, batch_size=60)


def test_a_checkpoint_from_before_some_settings_existed_is_resumed(shop_split, tmp_path, monkeypatch):
    whole = fit(small(**ADDED), shop_split, epochs=4)
    of_today = checkpoints.fingerprint
    newer = ("likelihood", "negatives", "sampling", "precision", *ADDED)
    monkeypatch.setattr(
        checkpoints, "fingerprint", lambda *args: {k: v for k, v in of_today(*args).items() if k not in newer}
    )
    fit(small(**ADDED), shop_split, epochs=2, checkpoint=tmp_path)
    monkeypatch.setattr(checkpoints, "fingerprint", of_today)
    assert same(weights(whole), weights(fit(small(**ADDED), shop_split, epochs=4, checkpoint=tmp_path, resume=True)))
    with pytest.raises(RunError, match=r"likelihood.*'exact'.*'sampled'"):
        fit(small(**ADDED), shop_split, checkpoint=tmp_path, resume=True, likelihood="sampled")
    with pytest.raises(RunError, match=r"whole_history.*'off'.*'on'"):
        fit(small(), shop_split, checkpoint=tmp_path, resume=True)


def test_a_checkpoint_with_a_removed_setting_is_resumed_if_it_had_no_effect(shop_split, tmp_path, monkeypatch):
    of_today = checkpoints.fingerprint
    for removed in ({"total_correlation": 0.0}, {"total_correlation": 0.3}):
        with monkeypatch.context() as patch:
            patch.setattr(checkpoints, "fingerprint", lambda *args, old=removed: {**of_today(*args), **old})
            fit(small(), shop_split, epochs=1, checkpoint=tmp_path / str(removed["total_correlation"]))
    assert len(fit(small(), shop_split, epochs=2, checkpoint=tmp_path / "0.0", resume=True).log) == 2
    with pytest.raises(RunError, match=r"total_correlation.*0\.3"):
        fit(small(), shop_split, epochs=2, checkpoint=tmp_path / "0.3", resume=True)


def test_a_checkpoint_of_a_newer_format_or_other_validation_users_is_an_error(shop_split, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "FORMAT", 99)
    fit(small(), shop_split, checkpoint=tmp_path, epochs=1)
    monkeypatch.setattr(checkpoints, "FORMAT", 1)
    with pytest.raises(RunError, match=r"\b99\b"):
        fit(small(), shop_split, checkpoint=tmp_path, resume=True)
    fit(small(), shop_split, checkpoint=tmp_path, epochs=1)
    with pytest.raises(RunError, match="interactions"):
        small().fit(shop_split.train, validation=shop_split.test, checkpoint=tmp_path, resume=True, batch_size=60)


@pytest.mark.parametrize("damage", [b"", b"not a checkpoint", None])
def test_a_damaged_checkpoint_is_an_error(shop_split, tmp_path, damage):
    fit(small(), shop_split, checkpoint=tmp_path, epochs=1)
    file = tmp_path / checkpoints.FILE
    file.write_bytes(file.read_bytes()[:-100] if damage is None else damage)
    with pytest.raises(RunError, match=checkpoints.FILE):
        fit(small(), shop_split, checkpoint=tmp_path, resume=True)


def test_the_random_numbers_of_an_epoch_depend_on_seed_and_epoch_only():
    seeds = {loop.epoch_seed(seed, epoch) for seed in range(20) for epoch in range(20)}
    assert len(seeds) == 400
    assert loop.epoch_seed(3, 4) == loop.epoch_seed(3, 4)


def test_epochs_are_json(shop_split):
    model = fit(small(), shop_split, epochs=1)
    assert json.loads(json.dumps(vars(model.log[0])))["epoch"] == 1
