"""The plots of a study."""

import numpy as np
import optuna
import pytest

pytest.importorskip("matplotlib")
from macrid.errors import MacridError
from macrid.pictures.drawing import save
from macrid.recipe import Recipe
from macrid.tuning import plots


@pytest.fixture(scope="module")
def study():
    """Only x decides; of 60 trials two are pruned, one failed and ten are hopeless."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study, random = optuna.create_study(direction="maximize", study_name="a$b"), np.random.default_rng(0)
    space = {name: optuna.distributions.FloatDistribution(0, 1) for name in ("x", "y")}
    for number in range(60):
        params = dict(zip(space, random.random(2), strict=True))
        state = {20: "PRUNED", 21: "PRUNED", 22: "FAIL"}.get(number, "COMPLETE")
        value = None if state == "FAIL" else 0.001 if number % 6 == 5 else 0.4 + 0.1 * params["x"]
        study.add_trial(
            optuna.trial.create_trial(
                state=optuna.trial.TrialState[state], params=params, distributions=space, value=value,
                user_attrs={"error": "it diverged"} if state == "FAIL" else {},
            )
        )  # fmt: skip
    return study


def test_history_shows_every_trial_and_the_best_so_far(study):
    chosen = Recipe("ease", about={"trial": 7, "score": 0.45, "scores": [0.45, 0.43, 0.44]})
    panel = plots.history(study, chosen).axes[0]
    lines = {line.get_label(): line.get_xydata() for line in panel.get_lines()}
    shown = {name: len(points) for name, points in lines.items()}
    below = [len(points) for name, points in lines.items() if name.startswith("_") and len(points) > 1]
    assert (shown["complete"], shown["pruned"], shown["failed"], below) == (47, 2, 1, [10])
    rising = lines["best so far"][:, 1]
    assert (np.diff(rising) >= 0).all()
    assert rising[-1] == study.best_value
    assert panel.get_title("right") == "chosen: trial 7, 0.4500, 0.4400 over 3 seeds"
    assert "60 trials: 57 complete, 2 pruned, 1 failed" in [text.get_text() for text in panel.texts]


def test_hopeless_trials_do_not_squash_the_scale(study):
    low, high = plots.history(study).axes[0].get_ylim()
    assert 0.2 < low < 0.41
    assert study.best_value < high < 0.55
    assert plots.sensible_range([0.3], []) == pytest.approx((0.285, 0.3225))
    low, _ = plots.sensible_range([0.2, 0.3, 0.4], [0.1])
    assert low < 0.1  # nothing is hopeless


def test_importance_finds_the_setting_that_decides(study):
    shares = plots.importances(study)
    assert list(shares) == ["x", "y"]
    assert shares["x"] > 0.8
    assert sum(shares.values()) == pytest.approx(1)
    labels = [text.get_text() for text in plots.importance(study).axes[0].texts]
    assert f"{shares['x']:.0%}" in labels


def test_pictures_are_written(study, tmp_path):
    save(plots.history(study), tmp_path / "history.png")
    save(plots.importance(study), tmp_path / "importance.png")
    for name in ("history.png", "importance.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    with pytest.raises(MacridError, match="nowhere"):
        save(plots.history(study), tmp_path / "nowhere" / "history.png")


def test_too_few_trials_or_settings_are_an_error(study):
    few = optuna.create_study(direction="maximize")
    with pytest.raises(MacridError):
        plots.history(few)
    few.add_trials(study.trials[:5])
    with pytest.raises(MacridError, match=r"\b20\b.*\b5\b"):
        plots.importances(few)
    one = optuna.create_study(direction="maximize")
    one.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=21)
    with pytest.raises(MacridError, match="one setting"):
        plots.importances(one)
    plots.history(one)


def test_without_matplotlib_the_error_names_the_extra(study, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(MacridError, match=r"macrid\[plot\]"):
        plots.history(study)
