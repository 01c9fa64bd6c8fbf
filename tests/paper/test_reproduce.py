"""The whole paper on a small shop that stands in for its data sets."""

import json

import pytest

from macrid.data import catalog
from macrid.errors import DataError, MacridError
from macrid.models.multvae import MultVAE
from macrid.paper import figure4, table1
from macrid.paper.reproduce import Plan, Reproduction
from macrid.recipe import Recipe
from macrid.settings import ADDED

PLAN = Plan(
    data=("ml-1m", "netflix"), seeds=2, seeds_figure2=2, configurations=2, points=60,
    training={"epochs": 1, "device": "cpu"},
)  # fmt: skip


@pytest.fixture
def small(monkeypatch, shop_split):
    """Every data set is the shop, except for Netflix, which is missing; every model is small."""

    def load(name, **_):
        if name == "netflix":
            raise DataError(f"netflix: missing mv.tar in {catalog.cache_folder()}/netflix")
        return shop_split

    monkeypatch.setattr(catalog, "load", load)
    dims = {"popularity": {}, "ease": {}}
    monkeypatch.setattr(table1, "tuned", lambda data, model: Recipe(model, dims.get(model, {"dim": 8})))


@pytest.fixture
def two_methods(monkeypatch):
    monkeypatch.setattr(table1, "METHODS", {name: table1.METHODS[name] for name in ("popularity", "multvae")})


def work(out, progress=None, plan=PLAN):
    return Reproduction(out, plan, None if progress is None else lambda name, ready: progress.append((name, ready)))


def test_table_1_has_every_method_and_lists_missing_data(small, tmp_path):
    missing = []
    found = Reproduction(tmp_path, PLAN, on_missing=missing.append).run("table1")
    assert [(row["data"], row["method"], len(row["runs"])) for row in found["rows"]] == [
        ("ml-1m", "popularity", 1),
        ("ml-1m", "ease", 1),
        ("ml-1m", "multdae", 2),
        ("ml-1m", "multvae", 2),
        ("ml-1m", "macridvae-random", 2),
        ("ml-1m", "macridvae", 2),
    ]
    assert missing == [f"netflix: missing mv.tar in {catalog.cache_folder()}/netflix"]
    assert found["missing"] == {"netflix": "netflix: missing mv.tar in $MACRID_CACHE/netflix"}
    assert json.loads((tmp_path / "table1.json").read_text()) == found


def test_an_interrupted_reproduction_resumes(small, tmp_path, monkeypatch):
    measure, calls = table1.measure, []

    def interrupted(split, config, seed, **training):
        calls.append((config.model, seed))
        if config.model == "multvae" and len(calls) < 6:
            raise KeyboardInterrupt
        return measure(split, config, seed, **training)

    monkeypatch.setattr(table1, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        work(tmp_path).run("table1")
    assert not (tmp_path / "table1.json").exists()
    before = len(calls)
    work(tmp_path).run("table1")
    assert calls[before:] == [(model, seed) for model in ("multvae", "macridvae", "macridvae") for seed in (0, 1)]


def test_different_data_and_different_defaults_are_recomputed(small, two_methods, tmp_path, monkeypatch, shop):
    first = work(tmp_path).run("table1")["rows"][0]["runs"]
    monkeypatch.setattr(catalog, "load", lambda name, **_: shop.split(heldout=40))
    progress = []
    assert work(tmp_path, progress).run("table1")["rows"][0]["runs"] != first
    assert all(("table1/ml-1m.multvae.0", ready) in progress for ready in (False, True))
    monkeypatch.setattr(MultVAE, "training_defaults", {"learning_rate": 0.02})
    progress.clear()
    work(tmp_path, progress).run("table1")
    assert {name for name, ready in progress if not ready} == {
        "table1/ml-1m.multvae.0",
        "table1/ml-1m.multvae.1",
        "table1/netflix.multvae.0",
        "table1/netflix.multvae.1",
    }


def test_folders_and_packages_are_checked_before_any_work(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for out, page in (("file", "results.md"), ("out", "file/results.md")):
        with pytest.raises(MacridError, match="file: "):
            work(tmp_path / out).prepare(["table1"], tmp_path / page)
    monkeypatch.setattr("macrid.paper.reproduce.find_spec", lambda name: None)
    work(tmp_path / "out").prepare(["table1"], tmp_path / "results.md")
    with pytest.raises(MacridError, match=r"figure2 .*matplotlib.*pip install 'macrid\[plot\]'"):
        work(tmp_path / "out").prepare(["figure2"], tmp_path / "results.md")


def test_dimensions_follow_the_parameter_budget():
    tuned = table1.tuned("ml-1m", "multdae")
    assert table1.fitted(tuned, 3_502).settings["dim"] == tuned.settings["dim"]
    small = table1.fitted(tuned, 160).settings["dim"]
    assert small < 100 < 2 * small


def test_the_number_of_parts_is_known_in_advance(small, two_methods, tmp_path):
    for block in ("table1", "figure4"):
        progress = []
        plan = Plan(**{**PLAN.__dict__, "data": ("ml-1m",)})
        one = work(tmp_path, progress, plan)
        one.run(block)
        assert sum(ready for _, ready in progress) == one.parts_of(block)


@pytest.mark.slow
def test_figures_are_drawn_and_their_numbers_written(small, tmp_path):
    figure2 = work(tmp_path).run("figure2")
    assert [run["seed"] for run in figure2["runs"]["inner"]] == [0, 1]
    assert "map" not in figure2["runs"]["cosine"][0]
    points = work(tmp_path).run("figure4")["points"]
    assert {method: len(of_method) for method, of_method in points.items()} == dict.fromkeys(figure4.METHODS, 2)
    for name in ("figure2.png", "figure4.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_settings_are_tuned_again_on_request(small, tmp_path, monkeypatch, shop_split):
    """Twice for a network, with and without long histories weighed down; the better one over all seeds is used."""
    tuned, scored = [], []

    def tune(split, model, *, storage, name, fixed, trials, **training):
        balance = training.get("balance", 0.0)
        tuned.append((name, balance, fixed, storage, trials))
        about = {"score": 0.3 - balance, "scores": [0.1, 0.1 + balance]}
        return Recipe(model, dict(fixed or {}), {"balance": balance}, about)

    def validation_score(split, config, seed, **training):
        scored.append((config.settings["start"], seed))
        return 0.5 if config.settings["start"] == "ease" else 0.4

    monkeypatch.setattr("macrid.tuning.tune", tune)
    monkeypatch.setattr(table1, "validation_score", validation_score)
    plan = Plan(**{**PLAN.__dict__, "trials": 7})
    one, progress = work(tmp_path, plan=plan), []
    one._on_part = lambda name, ready: progress.append(name)
    better = one.config("ml-1m", "macridvae", shop_split)
    assert (better.settings, better.training) == ({**ADDED, "temperature": 0.1, "start": "ease"}, {"balance": 0.3})
    assert scored == [(start, seed) for start in ("svd-encoder", "ease") for seed in range(3)]
    storage, fixed = (
        f"sqlite:///{tmp_path}/tuned/ml-1m.macridvae.db",
        {**ADDED, "temperature": 0.1, "start": "svd-encoder"},
    )
    assert tuned == [
        ("ml-1m-macridvae", 0.0, fixed, storage, 7),
        ("ml-1m-macridvae-balance", 0.3, fixed, storage, 7),
    ]
    assert progress == ["search/ml-1m.macridvae"]
    assert Recipe.read(tmp_path / "tuned" / "ml-1m.macridvae.json") == better
    assert one.config("ml-1m", "macridvae", shop_split) == better
    assert len(tuned) == 2  # kept
    assert work(tmp_path, plan=plan).config("ml-1m", "macridvae", shop_split) == better
    assert len(scored) == 6  # kept for the next run as well
    assert one.config("ml-1m", "popularity", shop_split) == Recipe("popularity")
    one.config("ml-1m", "ease", shop_split)
    assert [name for name, *_ in tuned[4:]] == ["ml-1m-ease"]
