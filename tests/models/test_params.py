"""Models follow scikit-learn's conventions for settings, without needing scikit-learn."""

import numpy as np
import pytest

from macrid.errors import SettingsError
from macrid.models import MODELS
from macrid.models.macridvae import MacridVAE

sklearn = pytest.importorskip("sklearn.base")
GIVEN = {
    "macridvae": {"concepts": 3, "dim": 8, "beta": 2, "preset": "paper"},
    "multvae": {"dim": 8, "beta": 0.1},
    "multdae": {"dim": 8},
    "ease": {"regularisation": 77},
    "popularity": {},
}


@pytest.mark.parametrize("name", MODELS)
def test_a_clone_is_untrained_and_has_the_same_settings(name, shop_split):
    model = MODELS[name](**GIVEN[name]).fit(shop_split.train, device="cpu", epochs=1)
    params = model.get_params()
    assert {*params} >= {*model.settings_class.model_fields, *GIVEN[name]}
    assert {key: params[key] for key in GIVEN[name]} == GIVEN[name]
    other = sklearn.clone(model)
    assert type(other) is type(model)
    assert other is not model
    assert (other.given, other.settings) == (model.given, MODELS[name](**GIVEN[name]).settings)
    assert other.training_defaults == model.training_defaults
    assert len(other.items) == 0
    assert len(model.items) > 0
    assert sklearn.clone({"a": [model]}["a"])[0].given == model.given  # inside a list, as scikit-learn may pass it


def test_a_clone_leaves_to_the_data_what_was_left_to_it(shop_split):
    model = MacridVAE(dim=8, concepts=7, neighbours=0)
    first, second = (each.fit(shop_split.train, epochs=1, device="cpu") for each in (model, sklearn.clone(model)))
    assert first.settings == second.settings
    np.testing.assert_array_equal(first.scores(shop_split.test.history), second.scores(shop_split.test.history))


def test_parameters_are_set_and_checked():
    model = MacridVAE(preset="paper", dim=8)
    assert model.set_params(concepts=5, dim=16) is model
    assert (model.settings.concepts, model.settings.dim, model.settings.start) == (5, 16, "random")
    assert model.set_params(preset="best").settings.start == "svd-encoder"
    assert model.training_defaults == MacridVAE.training_defaults
    assert model.set_params().settings.dim == 16
    for wrong in ({"dim": 0}, {"konzepte": 3}, {"preset": "worst"}):
        with pytest.raises(SettingsError, match=next(iter(wrong))):
            model.set_params(**wrong)
    assert (model.settings.dim, model.given) == (16, {"preset": "best", "dim": 16, "concepts": 5})


def test_setting_parameters_forgets_the_training(shop_split):
    model = MODELS["ease"]().fit(shop_split.train)
    assert len(model.set_params().items) > 0
    assert len(model.set_params(regularisation=3).items) == 0
    assert model.fit(shop_split.train).recommend([model.items[0]], 3)


def test_a_pipeline_reaches_the_settings():
    pipeline = pytest.importorskip("sklearn.pipeline")
    steps = pipeline.Pipeline([("model", MODELS["multvae"](dim=8))])
    assert steps.get_params()["model__dim"] == 8
    assert steps.set_params(model__dim=4).named_steps["model"].settings.dim == 4
    assert sklearn.clone(steps).named_steps["model"].settings.dim == 4
