"""The space of the paper's supplement, to the last bound."""

import math

import numpy as np
import optuna
import pytest
import scipy.sparse as sp

from macrid.errors import SettingsError
from macrid.models.base import as_interactions
from macrid.models.macridvae import MacridVAE
from macrid.models.multvae import parameter_count
from macrid.settings import MacridVAESettings, TrainingSettings
from macrid.tuning.search import check_settings
from macrid.tuning.space import Range, config_of, default_point, draw, space_of, without


def test_the_space_is_the_papers_with_the_temperature():
    below_one = math.nextafter(1, 0)
    assert space_of("macridvae") == {
        "prior_std": Range(0.075, 0.5),
        "beta": Range(0.0, 100.0),
        "concepts": Range(1, 20),
        "learning_rate": Range(1e-8, 1.0, log=True),
        "l2": Range(1e-12, 1.0, log=True),
        "dropout": Range(0.05, below_one),
        "hidden_layers": Range(0, 3),
        "width": Range(50, 700, step=50),
        "temperature": Range(0.03, 0.3, log=True),
    }
    assert set(space_of("MultVAE")) == {"beta", "learning_rate", "l2", "dropout", "hidden_layers", "width"}
    assert set(space_of("multdae")) == {"learning_rate", "l2", "dropout", "hidden_layers", "width"}
    assert space_of("ease") == {"regularisation": Range(1.0, 10_000.0, log=True)}


@pytest.mark.parametrize("model", ["macridvae", "multvae", "multdae", "ease"])
def test_every_draw_is_in_the_space_and_makes_a_model(model):
    space, study = space_of(model), optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    for _ in range(40):
        values = draw(study.ask(), space)
        assert all(space[name].low <= value <= space[name].high for name, value in values.items())
        assert ("width" in values) == (values.get("hidden_layers", 0) > 0)
        assert values.get("width", 50) % 50 == 0
        config_of(model, values, {}, {}, items=30_000).check()


def test_the_first_point_is_the_defaults_moved_into_the_space():
    point = default_point("macridvae", space_of("macridvae"), {})
    defaults = {**MacridVAESettings().model_dump(), **TrainingSettings().model_dump(), **MacridVAE.training_defaults}
    assert point == {**{name: defaults[name] for name in point}, "l2": 1e-12, "concepts": 10}
    assert "width" not in point
    sparse = as_interactions(sp.random_array((40, 3000), density=0.002, format="csr", rng=np.random.default_rng(0)))
    suited = default_point("macridvae", space_of("macridvae"), {}, sparse)
    assert suited["temperature"] < point["temperature"]
    assert suited["dropout"] > point["dropout"]
    assert default_point("multvae", space_of("multvae"), {})["learning_rate"] == 1e-3
    assert default_point("ease", space_of("ease"), {}) == {"regularisation": 300.0}
    width = without(space_of("multdae"), "multdae", {"hidden_layers": 2})
    assert default_point("multdae", width, {})["width"] == 100


@pytest.mark.parametrize("model", ["multvae", "multdae"])
def test_the_baselines_use_the_parameter_budget(model):
    from macrid.models import model_class

    settings, items, refused = model_class(model).settings_class, 2000, 0
    for hidden_layers in range(4):
        for width in (50, 700):
            config = config_of(model, {"hidden_layers": hidden_layers, "width": width}, {}, {}, items)
            if config is None:
                refused += 1
                continue
            now = settings.make(config.settings)
            assert parameter_count(items, now) <= 2 * items * 100
            assert parameter_count(items, now.model_copy(update={"dim": now.dim + 1})) > 2 * items * 100
    assert refused == 2  # two or three layers of 700 by 700
    assert config_of(model, {"dropout": 0.5}, {"dim": 33}, {}, items).settings["dim"] == 33


def test_fixed_settings_are_not_searched():
    space = space_of("macridvae")
    assert set(without(space, "macridvae", {"hidden_layers": 0})) == {*space} - {"hidden_layers", "width"}
    assert set(without(space, "macridvae", {"hidden_layers": 2})) == {*space} - {"hidden_layers"}
    assert without(space, "macridvae", {"epochs": 5}) == space
    fixed = config_of("macridvae", {"beta": 2.0}, {"start": "random", "clip": 1.0}, {"epochs": 4}, 100)
    assert fixed.settings == {"start": "random", "beta": 2.0}
    assert fixed.training == {"epochs": 4, "clip": 1.0}


@pytest.mark.parametrize(
    ("model", "fixed", "training", "value"),
    [
        ("svd++", {}, {}, "'svd\\+\\+'"),
        ("popularity", {}, {}, "popularity"),
        ("ease", {"regularisation": 5}, {}, "regularisation"),
        ("ease", {"epochs": 5}, {}, "'epochs'.*regularisation"),
        ("macridvae", {"konzepte": 7}, {}, "'konzepte'.*concepts"),
        ("macridvae", {"seed": 7}, {}, "seed"),
        ("macridvae", {"beta": -1}, {}, "beta is -1"),
        ("macridvae", {"concepts": "many"}, {}, "concepts is 'many'"),
        ("macridvae", {"epochs": 5}, {"epochs": 6}, "epochs.*fixed"),
        ("macridvae", {}, {"l2": 0.1}, "l2.*searched"),
        ("macridvae", {}, {"epochs": 0}, "epochs is 0"),
        ("multvae", {"hidden_layers": 3, "width": 10**5}, {}, "hidden layers"),
    ],
)
def test_what_cannot_be_searched_is_an_error(model, fixed, training, value):
    with pytest.raises(SettingsError, match=value):
        check_settings(model, fixed, training)
