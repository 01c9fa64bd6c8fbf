import numpy as np
import pytest

from macrid.paper import figure4
from macrid.recipe import Recipe

TUNED = {
    "macridvae": Recipe("macridvae", {"dim": 8, "concepts": 5, "beta": 2.0, "dropout": 0.3}, {"learning_rate": 0.01}),
    "multvae": Recipe("multvae", {"dim": 8, "beta": 0.1}, {"learning_rate": 0.01}),
}


@pytest.mark.parametrize("method", figure4.METHODS)
def test_configurations_are_drawn_reproducibly_from_the_papers_space(method):
    tuned = TUNED[method.split("-")[0]]
    drawn = figure4.configurations(method, tuned, 200)
    assert drawn == figure4.configurations(method, tuned, 300)[:200]
    betas = np.array([settings["beta"] for settings in drawn])
    assert (betas >= 0).all()
    assert (betas <= 100).all()
    if method == "multvae":
        assert np.median(betas) < 1
        assert all("prior_std" not in settings for settings in drawn)
    else:
        assert 40 < np.median(betas) < 60
        assert all(
            0.075 <= settings["prior_std"] <= 0.5 and settings["concepts"] == int(method[-1]) for settings in drawn
        )
        assert all(settings["dropout"] == 0.3 for settings in drawn)


def test_a_point_has_independence_and_accuracy(shop_split):
    tuned = TUNED["macridvae"]
    drawn = figure4.configurations("macridvae-7", tuned, 2)
    points = figure4.compute(shop_split, tuned, drawn, epochs=2, device="cpu")
    assert [point["beta"] for point in points] == [settings["beta"] for settings in drawn]
    for point in points:
        assert 0 < point["independence_per_concept"] < 1
        assert 0 < point["independence"] < 1
        assert 0 < point["ndcg@100"] < 1


def test_a_diverging_configuration_is_dropped(shop_split):
    tuned = Recipe("macridvae", {"dim": 8}, {"learning_rate": 1e30})
    drawn = figure4.configurations("macridvae-1", tuned, 1)
    assert figure4.compute(shop_split, tuned, drawn, epochs=3, device="cpu") == []
