"""The search: totals, resumption, several processes, results."""

import json
import multiprocessing
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import optuna
import pytest

from macrid.data import store
from macrid.errors import SettingsError, StudyError, TrainingError
from macrid.models import model_class
from macrid.recipe import Recipe
from macrid.tuning import study as studies
from macrid.tuning import tune
from macrid.tuning.search import Search, Trained, train

EASE = {"model": "ease", "jobs": 2, "name": "s"}
SMALL = {"dim": 8, "hidden_layers": 0, "concepts": 2, "clip": 1.0}


def states(url, name="s"):
    storage = optuna.storages.RDBStorage(url)
    trials = optuna.load_study(study_name=name, storage=storage).get_trials()
    storage.engine.dispose()
    return Counter(trial.state.name for trial in trials), trials


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/study.db"


def test_the_total_includes_earlier_trials_and_the_best_stays(shop_split, url, here):
    seen = []
    best = tune(shop_split, **EASE, trials=6, storage=url, on_progress=seen.append)
    assert states(url)[0] == {"COMPLETE": 6}
    assert states(url)[1][0].params == {"regularisation": 300.0}
    assert [seen[0].done, seen[-1].done, seen[-1].best] == [0, 6, best]
    assert best.about["score"] == max(trial.value for trial in states(url)[1])
    assert tune(shop_split, **EASE, trials=6, storage=url) == best
    more = tune(shop_split, **EASE, trials=8, storage=url)
    assert states(url)[0] == {"COMPLETE": 8}
    assert more.about["score"] >= best.about["score"]


def test_the_same_seed_gives_the_same_trials(shop_split, tmp_path, here):
    drawn = []
    for name in ("a", "b"):
        tune(shop_split, "ease", trials=12, jobs=1, storage=f"sqlite:///{tmp_path}/{name}.db", name="s", seed=3)
        drawn.append([trial.params for trial in states(f"sqlite:///{tmp_path}/{name}.db")[1]])
    assert drawn[0] == drawn[1]


def test_another_data_set_is_rejected_and_nothing_changes(shop, shop_split, url, tmp_path, here):
    tune(shop_split, **EASE, trials=2, storage=url)
    before = (tmp_path / "study.db").read_bytes()
    for split, change in (
        (shop.split(heldout=40), {}),
        (shop_split, {"model": "macridvae"}),
        (shop_split, {"seed": 5}),
    ):
        with pytest.raises(StudyError, match="'s'"):
            tune(split, **{**EASE, **change}, trials=3, storage=url)
    assert (tmp_path / "study.db").read_bytes() == before


@pytest.mark.parametrize(("name", "value"), [("trials", 0), ("jobs", 0), ("confirm", -1), ("timeout", 0)])
def test_counts_that_are_too_small_are_rejected(shop_split, url, tmp_path, name, value):
    with pytest.raises(SettingsError, match=f"{name} is {value}"):
        tune(shop_split, **{**EASE, name: value}, storage=url)
    assert not (tmp_path / "study.db").exists()


def test_the_best_of_several_seeds_wins(shop_split, url, here):
    """The trial with the highest score was lucky."""

    def score(config):
        lucky = config.settings["concepts"] > 10
        return (0.9 if config.training["seed"] == 4 else 0.1) if lucky else 0.5

    here(score)
    seen = []
    best = tune(
        shop_split, "macridvae", trials=10, jobs=3, confirm=10, storage=url, seed=4, on_progress=seen.append,
        fixed={"hidden_layers": 0},
    )  # fmt: skip
    assert best.settings["concepts"] <= 10
    assert best.about["scores"] == [0.5, 0.5, 0.5]
    assert max(progress.unconfirmed for progress in seen) == 20
    assert seen[-1].unconfirmed == 0
    assert tune(shop_split, "macridvae", trials=10, confirm=10, storage=url, seed=4, fixed={"hidden_layers": 0}) == best


def test_failures_are_recorded_with_their_reasons_and_the_search_continues(shop_split, url, here):
    here(lambda config: TrainingError("it diverged") if config.settings["regularisation"] < 300 else 0.2)
    seen = []
    tune(shop_split, **EASE, trials=10, storage=url, on_progress=seen.append)
    counts, trials = states(url)
    assert counts["FAIL"] == seen[-1].failed > 0
    assert sum(counts.values()) == 10
    assert {trial.user_attrs.get("error") for trial in trials} == {"it diverged", None}


def test_pruned_trials_are_recorded_with_their_epoch(shop_split, url, here):
    here(lambda config: Trained(0.1, 4, pruned_at=10) if config.settings["regularisation"] < 300 else 0.2)
    seen = []
    tune(shop_split, **EASE, trials=10, storage=url, on_progress=seen.append)
    counts, trials = states(url)
    assert counts["PRUNED"] == seen[-1].pruned > 0
    assert {trial.user_attrs.get("pruned_at") for trial in trials} == {10, None}


def test_a_training_reports_its_best_score_and_stops_if_hopeless(shop_split):
    reports = []
    small = Recipe("macridvae", {"concepts": 2, "dim": 8}, {"epochs": 25, "patience": 100, "device": "cpu"})
    whole = train(shop_split.train, shop_split.validation, small, lambda *report: reports.append(report))
    assert [epoch for epoch, _ in reports] == [10, 20]
    assert 0 < reports[0][1] <= reports[1][1] <= whole.score
    assert whole.pruned_at is None
    assert whole.parameters > 2 * 160 * 8
    stopped = train(shop_split.train, shop_split.validation, small, lambda epoch, score: epoch == 20)
    assert (stopped.pruned_at, stopped.score) == (20, reports[1][1])


def test_a_model_without_epochs_is_trained_and_scored(shop_split):
    trained = train(shop_split.train, shop_split.validation, Recipe("ease"))
    assert 0 < trained.score < 1
    assert trained.parameters >= 160 * 160


def test_a_search_without_any_result_is_an_error_with_the_reason(shop_split, url, here):
    here(lambda config: TrainingError("it diverged"))
    with pytest.raises(StudyError, match="it diverged"):
        tune(shop_split, **EASE, trials=3, storage=url)


def test_models_beyond_the_budget_are_not_trained(shop_split, url, here):
    here(lambda config: 0.5)
    seen = []
    tune(shop_split, "multdae", trials=12, confirm=0, storage=url, name="s", on_progress=seen.append)
    pruned = [trial for trial in states(url)[1] if trial.state.name == "PRUNED"]
    assert len(pruned) == seen[-1].pruned > 0  # 160 items leave no room for wide layers
    assert all(trial.user_attrs["error"] for trial in pruned)


def test_no_training_starts_after_the_timeout(shop_split, url, here):
    def slow(config):
        time.sleep(0.3)
        return 0.5

    here(slow)
    tune(shop_split, **EASE, trials=1000, storage=url, timeout=0.5)
    assert 0 < states(url)[0]["COMPLETE"] < 10


def test_an_interruption_queues_running_trials_again(shop_split, url, here):
    def stop(progress):
        if progress.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(shop_split, **EASE, trials=6, storage=url, on_progress=stop)
    counts, trials = states(url)
    assert counts == {"COMPLETE": 2, "FAIL": 2, "WAITING": 2}
    interrupted = [trial.params for trial in trials if trial.state.name == "FAIL"]
    tune(shop_split, **EASE, trials=6, storage=url)
    counts, trials = states(url)
    assert counts == {"COMPLETE": 6, "FAIL": 2}
    assert [trial.params for trial in trials if trial.state.name == "COMPLETE"][2:4] == interrupted


def test_two_searches_share_the_total(shop_split, url, here, monkeypatch):
    """One begins a trial between the question of the other whether any is left and its asking for one."""
    one, other = (Search(shop_split, "ease", url, "s", {}, 0, {}) for _ in range(2))
    one.run(3, 1, 0)
    ask = studies.ask

    def asked_late(study):
        monkeypatch.setattr(studies, "ask", ask)
        other.run(4, 1, 0)
        return ask(study)

    monkeypatch.setattr(studies, "ask", asked_late)
    one.run(4, 1, 0)
    assert one.best() == other.best()
    assert states(url)[0] == {"COMPLETE": 4, "FAIL": 1}  # the surplus trial was queued again


def test_a_trial_taken_over_by_another_process_is_left_to_it(shop_split, url, here):
    search = Search(shop_split, "ease", url, "s", {}, 0, {})
    taken = []

    def score(config):
        if not taken:
            taken.append(search.study.tell(0, state=optuna.trial.TrialState.FAIL))
        return 0.5

    here(score)
    search.run(2, 1, 0)
    assert states(url)[0] == {"COMPLETE": 2, "FAIL": 1}


@pytest.mark.slow
def test_a_storage_that_disappears_loses_nothing(shop_split, postgres, database, here, monkeypatch):
    def stop(progress):
        if progress.done == 3:
            postgres.stop()

    with pytest.raises(StudyError, match=r"tuner:\*\*\*@127.0.0.1") as error:
        tune(shop_split, "ease", jobs=1, name="s", trials=6, storage=database, on_progress=stop)
    postgres.start()
    assert "open-sesame" not in str(error.value)
    assert states(database)[0] == {"COMPLETE": 3, "RUNNING": 1}
    monkeypatch.setattr(studies, "STALE", 1)
    time.sleep(1.5)
    tune(shop_split, "ease", jobs=1, name="s", trials=6, storage=database)
    assert states(database)[0] == {"COMPLETE": 6, "FAIL": 1}


@pytest.mark.slow
def test_real_trainings_find_working_settings(shop_split, url):
    """One trial loses its process, and the rest of the search does not care."""
    killed = []

    def kill(progress):
        if progress.done == 1 and not killed:
            killed.extend(multiprocessing.active_children())
            killed[0].kill()

    best = tune(
        shop_split, "macridvae", trials=4, jobs=1, confirm=1, storage=url, name="s", fixed=SMALL, epochs=3,
        device="cpu", on_progress=kill,
    )  # fmt: skip
    counts, trials = states(url)
    assert counts == {"COMPLETE": 3, "FAIL": 1}
    assert "killed" in trials[1].user_attrs["error"]
    assert trials[0].params["learning_rate"] == model_class("macridvae").training_defaults["learning_rate"]
    assert len(best.about["scores"]) == 3
    assert "device" not in best.training
    model = model_class(best.model)(**best.settings)
    model.fit(shop_split.train, validation=shop_split.validation, device="cpu", **best.training)
    assert max(record.ndcg for record in model.log) == pytest.approx(best.about["score"], abs=1e-3)
    assert model.settings.concepts == 2


CALM = {"concepts": 1, "hidden_layers": 0, "dropout": 0.5, "learning_rate": 1e-3, "l2": 1e-6, "beta": 1.0}
SCRIPT = """
import multiprocessing, sys
from macrid.data import store
from macrid.tuning import tune
if __name__ == "__main__":
    tune(store.read(sys.argv[1]), "macridvae", trials=4, storage=sys.argv[2], name="s", jobs=1, confirm=0,
         fixed={fixed}, epochs=10**6, patience=10**6, device="cpu",
         on_progress=lambda progress: print(*[child.pid for child in multiprocessing.active_children()], flush=True))
"""


@pytest.mark.slow
def test_a_killed_search_continues(shop_split, url, tmp_path, here, monkeypatch):
    store.write(shop_split, tmp_path / "data")
    (tmp_path / "script.py").write_text(SCRIPT.format(fixed=CALM))
    options = {
        "model": "macridvae", "storage": url, "name": "s", "jobs": 1, "confirm": 0, "epochs": 10**6,
        "patience": 10**6, "device": "cpu", "fixed": CALM,
    }  # fmt: skip
    here(lambda config: 0.3 + 0.1 * config.settings["prior_std"])
    best = tune(shop_split, trials=2, **options)
    process = subprocess.Popen(
        [sys.executable, tmp_path / "script.py", tmp_path / "data", url], stdout=subprocess.PIPE, text=True
    )
    worker = int(next(line for line in process.stdout if line.strip()))
    while not any(trial.state.name == "RUNNING" and trial.intermediate_values for trial in states(url)[1]):
        assert process.poll() is None
        time.sleep(0.3)
    process.kill()
    process.communicate()
    end = time.monotonic() + 10
    while _is_alive(worker) and time.monotonic() < end:
        time.sleep(0.1)
    assert not _is_alive(worker)
    counts, trials = states(url)
    assert counts == {"COMPLETE": 2, "RUNNING": 1}
    monkeypatch.setattr(studies, "STALE", 1)
    time.sleep(2.1)  # SQLite counts whole seconds
    again = tune(shop_split, trials=3, **options)
    assert states(url)[0] == {"COMPLETE": 3, "FAIL": 1}
    assert states(url)[1][3].params == trials[2].params
    assert again.about["score"] >= best.about["score"]


def _is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_two_processes_share_a_database(shop_split, database, tmp_path):
    store.write(shop_split, tmp_path / "data")
    common = ["--model", "ease", "--trials", "8", "--jobs", "1", "--storage", database, "--json", "--out"]
    commands = [
        [sys.executable, "-m", "macrid", "tune", tmp_path / "data", *common, tmp_path / name] for name in ("a", "b")
    ]
    made = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for command in commands]
    outputs = [process.communicate(timeout=80) for process in made]
    assert [process.returncode for process in made] == [0, 0], outputs
    assert b"open-sesame" not in b"".join(out + err for out, err in outputs)
    answers = [json.loads(out) for out, _ in outputs]
    assert answers[0] == answers[1]
    assert answers[0]["trials"] == 8
    assert answers[0]["storage"] == database.replace("open-sesame", "***")
    counts, trials = states(database, "data-ease")
    assert counts["COMPLETE"] == 8
    values = [trial.params["regularisation"] for trial in trials if trial.state.name == "COMPLETE"]
    assert len({*values}) == 8
    assert values.count(300.0) == 1
    assert {*counts} <= {"COMPLETE", "FAIL"}  # a surplus trial may have been queued again
    assert (tmp_path / "a" / "best.json").read_bytes() == (tmp_path / "b" / "best.json").read_bytes()
