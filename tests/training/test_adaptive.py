"""Concepts that are alike are merged, and nothing else changes: known answers, and trainings on a small shop."""

import itertools
import json
import math
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch

import macrid
from macrid.data.shop import Laws, generate
from macrid.errors import RunError, SettingsError
from macrid.evaluation.agreement import nmi
from macrid.models.epoch import Epoch
from macrid.models.macridvae import MANY, MacridNetwork
from macrid.settings import MacridVAESettings
from macrid.training import checkpoint as checkpoints
from macrid.training import loop
from macrid.training.adam import Adam
from macrid.training.adaptive import SETTLED_AFTER, divergences, merge, merge_alike, settled

EASY = Laws(leak=0.02, strength=0.5)
TRAINING = {"epochs": 6, "batch_size": 60, "device": "cpu"}


@pytest.fixture(scope="module")
def split():
    return generate(users=600, items=200, seed=3, laws=EASY).split(heldout=50)


def adaptive(**settings):
    return macrid.MacridVAE(**{"concepts": "merge", "dim": 32, "neighbours": 0, **settings})


@pytest.mark.parametrize(
    ("counts", "is_settled"),
    [
        ([], False),
        ([20] * 9, False),  # nothing was merged yet
        ([7, 7, 7], False),
        ([7, 7, 7, 7], True),
        ([9, 7, 7, 7], False),
        ([9, 9, 9, 7], False),
        ([20, 9, 7, 7, 7, 7], True),
    ],
)
def test_the_number_is_final_three_epochs_after_the_last_merge(counts, is_settled):
    assert SETTLED_AFTER == 3
    assert settled(counts) == is_settled


def test_a_final_number_stays_however_long_training_runs(shop_split):
    model = macrid.MacridVAE(concepts="merge", dim=16)
    model.fit(shop_split.train, validation=shop_split.validation, epochs=40, patience=40, batch_size=60, device="cpu")
    counts = [record.concepts for record in model.log]
    first = next(epoch for epoch in range(len(counts)) if settled(counts[:epoch]))
    assert first < 30
    assert set(counts[first:]) == {counts[first]}


def test_a_concept_without_items_has_finite_divergences():
    assignment = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.0, 0.5]], dtype=torch.float64)
    assert divergences(assignment).isfinite().all()


def fit(model, split, **training):
    return model.fit(split.train, validation=split.validation, **{**TRAINING, **training})


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def timeless(log):
    return [replace(record, seconds=0.0) for record in log]


def handmade(angles, items=(0, 40, 120, 200, 300)):
    """Items and prototypes on a circle, by degrees; Adam has a moment of k + 1 for concept k."""
    network = MacridNetwork(len(items), MacridVAESettings.make(concepts=len(angles), dim=2))
    with torch.no_grad():
        for table, degrees in ((network.item_vectors, items), (network.prototypes, angles)):
            table.copy_(torch.tensor([[math.cos(math.radians(d)), math.sin(math.radians(d))] for d in degrees]))
    optimiser = Adam(network.parameters(), 0.1)
    rows = torch.arange(1.0, len(angles) + 1)[:, None].expand(-1, 2)
    moments = {"exp_avg": rows.clone(), "exp_avg_sq": rows.clone(), "step": torch.tensor(9.0)}
    optimiser.state[network.prototypes] = moments
    return network, optimiser


def degrees_of(network):
    x, y = network.prototypes.detach().double().T
    return (torch.atan2(y, x).rad2deg() % 360).tolist()


def test_divergences_equal_the_definition_in_float64():
    c = torch.rand(30, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64) ** 4
    c[:10, 2] = 0
    c[10:, 3] = 0  # nothing in common with concept 2
    distances = divergences(c).numpy()
    p = (c / c.sum(dim=0)).T.numpy()

    def kl(a, b):
        return sum(x * math.log(x / y) for x, y in zip(a, b, strict=True) if x > 0)

    for k, other in itertools.product(range(6), repeat=2):
        middle = (p[k] + p[other]) / 2
        assert distances[k, other] == pytest.approx((kl(p[k], middle) + kl(p[other], middle)) / 2, abs=1e-12)
    assert distances[2, 3] == pytest.approx(math.log(2))
    assert np.diag(distances) == pytest.approx(0, abs=1e-12)


def test_only_similar_concepts_are_merged():
    network, optimiser = handmade([0, 4, 120, 123, 240])
    assert merge_alike(network, optimiser, 0.5)
    between = degrees_of(network)
    assert len(between) == network.concepts == 3
    assert 0 < between[0] < 4
    assert 120 < between[1] < 123
    assert between[2] == pytest.approx(240, abs=1e-3)
    assert not merge_alike(network, optimiser, 0.5), "nothing is left to merge"


def test_equally_distant_concepts_are_not_merged_and_two_never_are():
    for angles in ([0, 120, 240], [0, 1]):
        network, optimiser = handmade(angles, items=range(0, 360, 10))
        assert not merge_alike(network, optimiser, 0.99)
        assert network.concepts == len(angles)


def test_a_threshold_of_0_merges_nothing():
    network, optimiser = handmade([0, 0.01, 120])
    assert not merge_alike(network, optimiser, 0.0)


def test_the_merged_prototype_is_weighted_by_mass_and_the_heavier_keeps_its_place_and_moments():
    network, optimiser = handmade([10, 120, 50, 240])
    with torch.no_grad():
        network.prototypes[2] *= 3
    before = network.prototypes.detach().clone()
    merge(network, optimiser, 0, 2, torch.tensor([1.0, 7.0, 3.0, 5.0]))
    first, second = before[0], before[2] / 3
    expected = 0.25 * first + 0.75 * second
    expected *= (0.25 * 1 + 0.75 * 3) / expected.norm()
    torch.testing.assert_close(network.prototypes.detach(), torch.stack([before[1], expected, before[3]]))
    state = optimiser.state[network.prototypes]
    assert state["exp_avg"][:, 0].tolist() == state["exp_avg_sq"][:, 1].tolist() == [2, 3, 4]
    assert state["step"] == 9


def test_merging_keeps_unit_length():
    network, optimiser = handmade([10, 50, 200])
    merge(network, optimiser, 0, 1, torch.tensor([5.0, 2.0, 1.0]))
    torch.testing.assert_close(network.prototypes.norm(dim=1), torch.ones(2))
    assert optimiser.state[network.prototypes]["exp_avg"][:, 0].tolist() == [1, 3]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.slow
def test_it_ends_at_the_true_number_on_an_easy_shop(split, seed):
    model = fit(adaptive(), split, seed=seed)
    assert model.network.concepts == 7
    assert nmi(model.concepts_of_items(), split.table.column("category").to_numpy(zero_copy_only=False)) > 0.85
    assert "of 7 concepts in use" in str(model.log[-1])


def test_every_epoch_records_the_number_and_the_best_weights_have_the_last_one(split, monkeypatch):
    ends = iter([12, 12, 9, 9, 9, 9])

    def shrink(network, optimiser, below):
        before, end = network.concepts, next(ends)
        while network.concepts > end:
            merge(network, optimiser, 0, 1, torch.ones(network.concepts))
        return network.concepts < before

    steps = []
    monkeypatch.setattr(loop.adaptive, "merge_alike", shrink)
    monkeypatch.setattr(loop, "Step", lambda *args, made=loop.Step: (steps.append(1), made(*args))[1])
    model = fit(adaptive(), split)
    assert [record.concepts for record in model.log] == [12, 12, 9, 9, 9, 9]
    assert len(steps) == 3, "a captured step is of one number of concepts"
    assert model.log[2].best, "earlier scores are those of other numbers of concepts"
    best = max(model.log[2:], key=lambda record: record.ndcg)
    assert best.epoch == max(record.epoch for record in model.log if record.best)
    assert len(model.state()["prototypes"]) == 9
    assert macrid.evaluate(model, split.validation)["ndcg@100"].mean == pytest.approx(best.ndcg)


def test_an_interruption_right_after_a_merge_leaves_the_best_weights_so_far(split, monkeypatch):
    def interrupt(network, optimiser, below):
        if len(model.log) == 2:
            merge(network, optimiser, 0, 1, torch.ones(network.concepts))
            raise KeyboardInterrupt
        return False

    monkeypatch.setattr(loop.adaptive, "merge_alike", interrupt)
    model = adaptive()
    with pytest.raises(KeyboardInterrupt):
        fit(model, split)
    assert model.network.concepts == model.log[-1].concepts == MANY
    assert len(model.recommend([split.items[0]], 3)) == 3


def test_a_loaded_model_recommends_the_same(split, tmp_path):
    model = fit(adaptive(), split)
    model.save(tmp_path / "run")
    again = macrid.load(tmp_path / "run", device="cpu")
    history = list(split.items[:3])
    assert again.network.concepts == model.network.concepts == 7
    assert again.settings.concepts == "merge"
    assert again.recommend(history, 5) == model.recommend(history, 5)
    assert again.log == model.log


@pytest.mark.slow
def test_a_run_whose_prototypes_contradict_its_settings_is_an_error(split, tmp_path):
    fit(adaptive(), split, epochs=1).save(tmp_path / "run")
    file = tmp_path / "run" / "config.json"
    config = json.loads(file.read_text())
    config["settings"]["concepts"] = 5
    file.write_text(json.dumps(config))
    with pytest.raises(RunError, match="run"):
        macrid.load(tmp_path / "run")


@pytest.mark.parametrize("stop", [1, 3])
def test_a_training_resumed_after_merges_equals_an_uninterrupted_one(split, tmp_path, monkeypatch, stop):
    def in_steps(network, optimiser, below):  # two concepts fewer each epoch, so that merges lie on both sides
        for _ in range(2):
            merge(network, optimiser, 0, 1, network.log_assignment().exp().sum(dim=0))
        return True

    monkeypatch.setattr(loop.adaptive, "merge_alike", in_steps)
    whole = fit(adaptive(), split)
    part = fit(adaptive(), split, epochs=stop, checkpoint=tmp_path)
    resumed = fit(adaptive(), split, checkpoint=tmp_path, resume=True)
    assert [record.concepts for record in whole.log] == [18, 16, 14, 12, 10, 8]
    assert part.network.concepts == 20 - 2 * stop
    assert same(whole.state(), resumed.state())
    assert timeless(whole.log) == timeless(resumed.log)


def test_a_checkpoint_from_before_there_was_a_threshold_is_resumed(split, tmp_path, monkeypatch):
    of_today = checkpoints.fingerprint
    monkeypatch.setattr(
        checkpoints, "fingerprint", lambda *args: {k: v for k, v in of_today(*args).items() if k != "merge_below"}
    )
    fit(adaptive(concepts=3), split, epochs=1, checkpoint=tmp_path)
    monkeypatch.setattr(checkpoints, "fingerprint", of_today)
    assert len(fit(adaptive(concepts=3), split, epochs=2, checkpoint=tmp_path, resume=True).log) == 2


def test_a_line_of_an_older_log_is_read():
    record = Epoch(1, 2.0, 1.0, 0.3, 6.8, True, 0.5, concepts=7)
    old = {name: value for name, value in asdict(record).items() if name != "concepts"}
    assert Epoch(**old).concepts is None
    assert "6.8 concepts in use" in str(Epoch(**old))
    assert "6.8 of 7 concepts in use" in str(record)


@pytest.mark.parametrize(
    ("settings", "values"),
    [({"concepts": "many"}, "concepts is 'many'.*'merge'"),
     ({"concepts": 0}, r"concepts is 0\b.*\b1\b.*'merge'"),
     ({"concepts": 1025}, r"concepts is 1025\b.*\b1,024\b.*'merge'"),
     ({"concepts": 0, "dim": 1}, r"concepts is 0\b.*\b1\b.*'merge'.*dim is 1\b.*\b2\b"),
     ({"merge_below": 1.0}, r"merge_below is 1\.0.*\b1\b"),
     ({"merge_below": -0.1}, r"merge_below is -0\.1.*\b0\b")],
)  # fmt: skip
def test_a_bad_value_is_named_once_with_its_limit(settings, values):
    with pytest.raises(SettingsError, match=f"^{values}$") as error:
        macrid.MacridVAE(**settings)
    assert all(str(error.value).count(f"{name} is") == 1 for name in settings)
