"""The whole paper on a small shop that stands in for its data sets."""

import json

import pytest

from macrid.data import catalog
from macrid.errors import DataError, MacridError
from macrid.models.multvae import MultVAE
from macrid.paper import figure4, table1
from macrid.paper.parts import Parts
from macrid.paper.reproduce import Plan, Reproduction
from macrid.recipe import Recipe

PLAN = Plan(
    data=("ml-1m", "netflix"), seeds=2, seeds_figure2=2, configurations=3, training={"epochs": 2, "device": "cpu"}
)


@pytest.fixture
def small(monkeypatch, shop_split):
    """Every data set is the shop, but Netflix, which is missing; every model is small."""

    def load(name, **_):
        if name == "netflix":
            raise DataError(f"netflix: missing mv.tar in {catalog.cache_folder()}/netflix")
        return shop_split

    monkeypatch.setattr(catalog, "load", load)
    dims = {"popularity": {}, "ease": {}}
    monkeypatch.setattr(table1, "tuned", lambda data, model: Recipe(model, dims.get(model, {"dim": 8})))


def work(out, told=None, plan=PLAN):
    return Reproduction(out, plan, None if told is None else lambda name, ready: told.append((name, ready)))


def test_table_1_has_every_method_and_says_what_is_missing(small, tmp_path):
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
    assert found["missing"] == {"netflix": "netflix: missing mv.tar in $MACRID_CACHE/netflix"}  # of no one machine
    assert json.loads((tmp_path / "table1.json").read_text()) == found


def test_an_interrupted_reproduction_computes_only_what_is_left(small, tmp_path, monkeypatch):
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


def test_other_data_and_other_defaults_are_computed_again(small, tmp_path, monkeypatch, shop):
    first = work(tmp_path).run("table1")["rows"][0]["runs"]
    monkeypatch.setattr(catalog, "load", lambda name, **_: shop.split(heldout=40))
    told = []
    assert work(tmp_path, told).run("table1")["rows"][0]["runs"] != first
    assert all(("table1/ml-1m.multvae.0", ready) in told for ready in (False, True))
    monkeypatch.setattr(MultVAE, "training_defaults", {"learning_rate": 0.02})
    told.clear()
    work(tmp_path, told).run("table1")
    assert {name for name, ready in told if not ready} == {
        "table1/ml-1m.multvae.0",
        "table1/ml-1m.multvae.1",
        "table1/netflix.multvae.0",
        "table1/netflix.multvae.1",
    }


def test_what_would_go_wrong_at_the_end_is_told_at_the_beginning(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(MacridError, match="file: cannot be written"):
        work(tmp_path / "file").prepare(["table1"], tmp_path / "results.md")
    with pytest.raises(MacridError, match="file: cannot be written"):
        work(tmp_path / "out").prepare(["table1"], tmp_path / "file" / "results.md")
    monkeypatch.setattr("macrid.paper.reproduce.find_spec", lambda name: None)
    work(tmp_path / "out").prepare(["table1"], tmp_path / "results.md")
    with pytest.raises(MacridError, match=r"figure2 needs matplotlib; install it with `pip install 'macrid\[plot\]'`"):
        work(tmp_path / "out").prepare(["figure2"], tmp_path / "results.md")


def test_tables_are_as_wide_as_the_budget_allows_for_the_items_at_hand():
    tuned = table1.tuned("ml-1m", "multdae")
    assert table1.fitted(tuned, 3_502).settings["dim"] == tuned.settings["dim"]
    small = table1.fitted(tuned, 160).settings["dim"]
    assert small < 100 < 2 * small


def test_the_number_of_parts_announced_is_that_computed(small, tmp_path):
    for block in ("table1", "figure4"):
        told = []
        plan = Plan(**{**PLAN.__dict__, "data": ("ml-1m",)})
        one = work(tmp_path, told, plan)
        one.run(block)
        assert sum(ready for _, ready in told) == one.parts_of(block)


def test_figures_are_drawn_and_their_numbers_written(small, tmp_path):
    figure2 = work(tmp_path).run("figure2")
    assert [run["seed"] for run in figure2["runs"]["inner"]] == [0, 1]
    assert "map" not in figure2["runs"]["cosine"][0]
    points = work(tmp_path).run("figure4")["points"]
    assert {method: len(own) for method, own in points.items()} == dict.fromkeys(figure4.METHODS, 3)
    for name in ("figure2.png", "figure4.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_settings_are_searched_for_again_when_asked(small, tmp_path, monkeypatch, shop_split):
    """Twice for a network, without and with long histories held back; what is better over all seeds is taken."""
    asked, scored = [], []

    def tune(split, model, *, storage, name, fixed, trials, **training):
        balance = training.get("balance", 0.0)
        asked.append((name, balance, fixed, storage, trials))
        about = {"score": 0.3 - balance, "scores": [0.1, 0.1 + balance]}
        return Recipe(model, dict(fixed or {}), {"balance": balance}, about)

    def validation_score(split, config, seed, **training):
        scored.append((config.settings["start"], seed))
        return 0.5 if config.settings["start"] == "ease" else 0.4

    monkeypatch.setattr("macrid.tuning.tune", tune)
    monkeypatch.setattr(table1, "validation_score", validation_score)
    plan = Plan(**{**PLAN.__dict__, "trials": 7})
    one, parts, told = work(tmp_path, plan=plan), Parts(tmp_path / "parts"), []
    one._on_part = lambda name, ready: told.append(name)
    better = one.config(parts, "ml-1m", "macridvae", shop_split)
    assert (better.settings, better.training) == ({"start": "ease"}, {"balance": 0.3})
    assert scored == [(start, seed) for start in ("svd-encoder", "ease") for seed in range(3)]
    storage, fixed = f"sqlite:///{tmp_path}/tuned/ml-1m.macridvae.db", {"start": "svd-encoder"}
    assert asked == [
        ("ml-1m-macridvae", 0.0, fixed, storage, 7),
        ("ml-1m-macridvae-balance", 0.3, fixed, storage, 7),
    ]
    assert told == ["search/ml-1m.macridvae"]
    assert Recipe.read(tmp_path / "tuned" / "ml-1m.macridvae.json") == better
    assert one.config(parts, "ml-1m", "macridvae", shop_split) == better
    assert len(asked) == 2  # kept
    assert work(tmp_path, plan=plan).config(parts, "ml-1m", "macridvae", shop_split) == better
    assert len(scored) == 6  # parts, so kept for the next run, too
    assert one.config(parts, "ml-1m", "popularity", shop_split) == Recipe("popularity")
    one.config(parts, "ml-1m", "ease", shop_split)
    assert [name for name, *_ in asked[4:]] == ["ml-1m-ease"]
