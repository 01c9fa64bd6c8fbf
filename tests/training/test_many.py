"""Models trained side by side against the same models trained alone."""

import pytest
import torch

import macrid
from macrid.data.shop import generate
from macrid.errors import SettingsError
from macrid.models import layers, macridvae
from macrid.models.macridvae import MacridNetwork, Noise
from macrid.training import many
from macrid.training.many import fit_many
from tests.truth import DEVICE, assert_near, runs_kernels

SHAPE = {"concepts": 2, "dim": 4}
ALIKE = {"epochs": 3, "batch_size": 8, "device": DEVICE, "precision": "fp32", "learning_rate": 0.05}
ROUNDING = 1e-3  # relative, of some steps in single precision


@pytest.fixture(scope="module")
def split():
    return generate(users=26, items=42, seed=1).split(heldout=5)


@pytest.fixture
def together(monkeypatch):
    """fit_many by kernels on any device; nothing is random, so that models alone become the same."""
    monkeypatch.setattr(many, "_side_by_side", lambda device: True)
    monkeypatch.setattr(MacridNetwork, "draw_noise", lambda *_, **__: Noise())

    def fit(*args, **kwargs):
        with pytest.MonkeyPatch.context() as patch:
            for module in (layers, macridvae):
                patch.setattr(module, "backend_for", lambda tensor: "triton")
            return fit_many(*args, **kwargs)

    return fit


def assert_same_models(ours, alone):
    for name, value in ours.state().items():
        assert_near(value, alone.state()[name], ROUNDING, name)
    assert [record.epoch for record in ours.log] == [record.epoch for record in alone.log]
    for mine, theirs in zip(ours.log, alone.log, strict=True):
        assert mine.loss == pytest.approx(theirs.loss, rel=ROUNDING)
        assert mine.kl == pytest.approx(theirs.kl, rel=ROUNDING)
        assert mine.ndcg == pytest.approx(theirs.ndcg, abs=0.02)


@runs_kernels
@pytest.mark.filterwarnings("ignore::macrid.errors.CollapseWarning")
def test_models_side_by_side_become_what_they_become_alone_and_stop_when_they_do_alone(split, together):
    kinds = [{"beta": 0.5}, {"beta": 5.0, "prior_std": 0.3}, {"start": "random"}]
    trainings = [{"l2": 0.01, "patience": 1}, {"clip": 0.3, "beta_warmup": 2, "patience": 1}, {"learning_rate": 0.2}]
    trainings = [{**ALIKE, **own} for own in trainings]
    models, lonely = ([macrid.MacridVAE(**SHAPE, **kind) for kind in kinds] for _ in "ab")
    told = []
    together(
        models, split.train, validation=split.validation, training=trainings,
        on_epoch=lambda number, record: told.append((number, record.epoch)),
    )  # fmt: skip
    assert sorted(told) == [(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2), (2, 3)], "two of them must stop early"
    for model, other, training in zip(models, lonely, trainings, strict=True):
        assert_same_models(model, other.fit(split.train, validation=split.validation, **training))
        assert model.network.item_vectors.is_contiguous()


@runs_kernels
@pytest.mark.filterwarnings("ignore::macrid.errors.CollapseWarning", "ignore::RuntimeWarning")
def test_a_model_that_diverges_is_named_and_does_not_disturb_the_others(split, together):
    assert_first_diverges(together, split, DEVICE)


@pytest.mark.filterwarnings("ignore::macrid.errors.CollapseWarning")
def test_a_model_that_diverges_does_not_keep_a_cpu_from_the_others(split):
    assert_first_diverges(fit_many, split, "cpu")


def assert_first_diverges(fit, split, device):
    models = [macrid.MacridVAE(**SHAPE) for _ in "ab"]
    trainings = [{**ALIKE, "device": device, "learning_rate": rate} for rate in (1e38, 0.05)]
    errors = fit(models, split.train, validation=split.validation, training=trainings)
    assert "learning rate" in str(errors[0])
    assert errors[1] is None
    assert [len(model.log) for model in models] == [0, 3]
    assert all(torch.isfinite(value).all() for value in models[1].state().values())


@runs_kernels
def test_an_interruption_leaves_models_with_tensors_of_their_own_and_the_best_weights(split, together):
    models = [macrid.MacridVAE(**SHAPE) for _ in "ab"]

    def stop(number, record):
        if (number, record.epoch) == (1, 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        together(models, split.train, validation=split.validation, training=[ALIKE] * 2, on_epoch=stop)
    first, second = (model.network.item_vectors for model in models)
    assert first.untyped_storage().data_ptr() != second.untyped_storage().data_ptr()
    assert first.untyped_storage().nbytes() == first.numel() * 4


def test_on_a_cpu_models_are_fitted_one_after_the_other(split):
    training = {**ALIKE, "device": "cpu"}
    models, lonely = ([macrid.MacridVAE(**SHAPE, beta=beta) for beta in (0.1, 3.0)] for _ in "ab")
    fit_many(models, split.train, validation=split.validation, training=[training] * 2)
    for model, other in zip(models, lonely, strict=True):
        other.fit(split.train, validation=split.validation, **training)
        assert all(torch.equal(value, other.state()[name]) for name, value in model.state().items())


@pytest.mark.parametrize(
    ("kinds", "trainings", "told"),
    [
        ([{"dim": 4}, {"dim": 5}], [{}, {}], "must have the same dim, not 4, 5; group them by it"),
        ([{}, {}], [{"epochs": 2}, {"epochs": 3}], "must have the same epochs, not 2, 3"),
        ([{}, {}], [{}], "1 training settings were given for 2 models; give one for each"),
    ],
)
def test_models_that_do_not_fit_together_are_refused(split, kinds, trainings, told):
    models = [macrid.MacridVAE(**kind) for kind in kinds]
    with pytest.raises(SettingsError, match=told):
        fit_many(models, split.train, validation=split.validation, training=trainings)
