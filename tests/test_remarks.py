"""What is said at the end of a training where a simple model is ahead, or was left out."""

import numpy as np
import pytest

import macrid
from macrid.remarks import lead, remarks_on

TRAINING = {"best_epoch": 3, "epochs": 20}


@pytest.fixture(scope="module")
def model(shop_split):
    return macrid.MacridVAE(concepts=2, dim=2, neighbours=0, start="random").fit(
        shop_split.train, validation=shop_split.validation, epochs=1, device="cpu"
    )


def test_a_lead_is_the_mean_of_the_differences_with_its_standard_error():
    ahead = lead(np.array([0.5, 0.3, 0.9]), np.array([0.4, 0.3, 0.2]))
    assert ahead["mean"] == pytest.approx(0.8 / 3)
    assert ahead["se"] == pytest.approx(np.std([0.1, 0.0, 0.7], ddof=1) / 3**0.5)
    assert lead(np.array([0.5]), np.array([0.4])) is None


@pytest.mark.parametrize(("mean", "is_said"), [(0.011, True), (0.01, False), (-0.2, False)])
def test_a_model_is_ahead_beyond_a_standard_error(model, mean, is_said):
    remarks = remarks_on(model, TRAINING, {"EASE": {"mean": mean, "se": 0.01}}, 8_000)
    assert len(remarks) == is_said
    if is_said:
        assert remarks[0].startswith("EASE is ahead by 0.0110 ± 0.0100 NDCG@100")
        assert "--model ease" in remarks[0]
        assert "--concepts" in remarks[0]
        assert "\n" not in remarks[0]


def test_two_models_ahead_are_one_line_with_the_better_first(model):
    leads = {"EASE": {"mean": 0.1, "se": 0.01}, "Popularity": {"mean": 0.2, "se": 0.01}}
    (remark,) = remarks_on(model, TRAINING, leads, 8_000)
    assert remark.startswith("Popularity is ahead by 0.2000 ± 0.0100 and EASE by 0.1000 ± 0.0100 NDCG@100")
    assert remark.endswith("--model popularity")


def test_more_epochs_are_suggested_only_where_the_last_was_the_best(model):
    leads = {"Popularity": {"mean": 1.0, "se": 0.1}}
    assert "--epochs" not in remarks_on(model, TRAINING, leads, 8_000)[0]
    assert "--epochs" in remarks_on(model, {"best_epoch": 20, "epochs": 20}, leads, 8_000)[0]


def test_nothing_is_suggested_that_a_model_does_not_have(shop_split):
    popularity = macrid.Popularity().fit(shop_split.train)
    (remark,) = remarks_on(popularity, {"seconds": 1}, {"EASE": {"mean": 1.0, "se": 0.1}}, 8_000)
    assert not any(word in remark for word in ("--epochs", "--concepts", "tune"))


def test_ease_left_out_for_its_size_is_said_unless_it_is_the_model(model, shop_split):
    (remark,) = remarks_on(model, TRAINING, {}, 100)
    assert "160 items are more than 100" in remark
    assert "macrid train --model ease" in remark
    assert not remarks_on(model, TRAINING, {}, 160)
    assert not remarks_on(macrid.EASE().fit(shop_split.train), {}, {}, 100)


def test_a_run_keeps_leads_and_remarks(shop_split, tmp_path):
    settings = {"concepts": 2, "dim": 2, "neighbours": 0, "start": "random", "epochs": 1, "device": "cpu"}
    run = macrid.train(shop_split, tmp_path / "run", **settings)
    scores = {"EASE": macrid.EASE().fit(shop_split.train), "own": run.model}
    per_user = {name: macrid.evaluate(each, shop_split.test).per_user["ndcg@100"] for name, each in scores.items()}
    assert run.metrics["leads"]["EASE"] == pytest.approx(lead(per_user["EASE"], per_user["own"]), abs=1e-6)
    assert run.metrics["remarks"][0].startswith("EASE is ahead by")
    none = macrid.train(shop_split, tmp_path / "none", baselines=False, **settings)
    assert not {"leads", "remarks"} & {*none.metrics}
