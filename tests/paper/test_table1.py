import pytest

from macrid.models import model_class
from macrid.paper import table1
from macrid.recipe import Recipe
from macrid.settings import ADDED
from macrid.tuning.space import BUDGET_DIM

ITEMS = {"ml-latest-small": 5_168, "ml-1m": 3_502, "ml-1m-ge3": 3_605, "alishop-7c-4k": 19_362}


@pytest.mark.parametrize("data", ITEMS)
@pytest.mark.parametrize("model", ["macridvae", "multvae", "multdae", "ease"])
def test_tuned_settings_exist_and_are_valid(data, model):
    config = table1.tuned(data, model)
    assert config.model == model
    assert config.about["study"] == f"{data}-{model}"
    assert config.about["trials"] >= (24 if model == "ease" else 200)
    assert model != "macridvae" or ADDED.items() <= config.settings.items()


@pytest.mark.parametrize("data", ["ml-1m", "alishop-7c-4k"])
@pytest.mark.parametrize("model", ["macridvae", "multvae", "multdae"])
def test_tuned_models_have_about_two_tables_of_100_dimensions(data, model):
    config = table1.tuned(data, model)
    network = model_class(model)(**config.settings)._build(ITEMS[data])
    count = sum(parameter.numel() for parameter in network.parameters())
    assert count == config.about["parameters"]
    assert 0.95 < count / (2 * ITEMS[data] * BUDGET_DIM) < 1.05


def test_a_data_set_without_its_own_settings_uses_those_of_a_similar_one():
    assert table1.tuned("netflix", "macridvae") == table1.tuned("ml-1m", "macridvae")
    assert table1.tuned("alishop-7c", "macridvae") == table1.tuned("alishop-7c-4k", "macridvae")
    assert table1.tuned("ml-1m", "popularity") == Recipe("popularity")


def test_a_measurement_is_deterministic_for_a_seed(shop_split):
    config = Recipe("macridvae", {"dim": 8, "concepts": 7, "neighbours": 0}, {"epochs": 2, "device": "cpu"})
    first, again, other = (table1.measure(shop_split, config, seed) for seed in (0, 0, 1))
    assert first["test"] == again["test"] != other["test"]
    assert other["seed"] == 1
    assert first["users"] == 50
    assert first["parameters"] == 2 * 160 * 8 + 7 * 8 + 8 * 16 + 16 + 8 * 16 + 1
    assert table1.validation_score(shop_split, config, 1) == other["validation"]


def test_the_summary_is_the_mean_over_seeds():
    runs = [
        {"test": dict.fromkeys(table1.PAPER_METRICS, v), "se": dict.fromkeys(table1.PAPER_METRICS, 0.1)}
        for v in (0.2, 0.4)
    ]
    assert table1.summary(runs)["ndcg@100"] == (pytest.approx(0.3), pytest.approx(0.1))


def test_the_start_is_the_one_with_the_better_mean_on_validation_users():
    scores = {"svd-encoder": [0.5, 0.1, 0.1], "ease": [0.3, 0.3, 0.2]}
    config = Recipe("macridvae", {"start": "svd-encoder", "dim": 8}, {"l2": 0.1}, {"study": "s"})
    better = table1.with_better_start(config, lambda config, seed: scores[config.settings["start"]][seed])
    assert better == Recipe("macridvae", {"start": "ease", "dim": 8}, {"l2": 0.1}, {"study": "s", "starts": scores})
