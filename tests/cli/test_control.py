"""macrid traverse, steer, axes, names, inspect --control and recommend --explain: their tables and JSON."""

import json
import re
import shlex
import shutil
from dataclasses import replace

import numpy as np
import pytest

import macrid
from macrid import manifest, runs
from macrid.concepts.effects import strongest_first
from macrid.concepts.meaning import meaning_of
from macrid.concepts.naming import find
from macrid.control.explain import explain
from tests.planted import SIZE, planted

HISTORY = "item-000,item-001,item-010,item-011,item-110,item-111"
KINDS = ["independence", "attributes"]


@pytest.fixture(scope="module")
def world_run(tmp_path_factory):
    """A run of the planted world, with names: do not change it."""
    folder = tmp_path_factory.mktemp("world") / "run"
    model, heldout = planted()
    meaning_of(model).names = find(model)
    runs.save(model, folder, heldout={"validation": heldout, "test": heldout})
    return folder


@pytest.fixture
def world(world_run, tmp_path):
    """A copy of it to change."""
    return shutil.copytree(world_run, tmp_path / "world")


@pytest.fixture
def run(trained_run, tmp_path):
    """A copy of the run of the trained model, without names, to change."""
    return shutil.copytree(trained_run, tmp_path / "run")


@pytest.fixture(scope="module")
def other_runs(trained, tmp_path_factory):
    """Of models without concepts."""
    folder, (_, split) = tmp_path_factory.mktemp("others"), trained
    kept = {"validation": split.validation, "test": split.test}
    runs.save(macrid.EASE().fit(split.train), folder / "ease", heldout=kept)
    runs.save(macrid.MultVAE(dim=16).fit(split.train, epochs=6, seed=1, device="cpu"), folder / "multvae", heldout=kept)
    return folder


def ids_of(model, count=6):
    return ",".join(map(str, model.items[:count]))


@pytest.mark.parametrize(
    "args",
    [
        ("traverse",),
        ("traverse", "--item", "item-000"),
        ("traverse", "--dimension", "size"),
        ("traverse", "--dimension", "size", "--item", "item-000", "--history", "item-001", "--concept", 0),
        ("traverse", "--dimension", "size", "--history", "item-001"),
        ("traverse", "--dimension", "size", "--item", "item-000", "--concept", 0),
        ("traverse", "--dimension", "size", "--item", "item-000", "--steps", "many"),
        ("steer",),
        ("steer", "--history", HISTORY),
        ("steer", "--history", HISTORY, "--concept", 0),
        ("steer", "--history", HISTORY, "--concept", 0, "--dimension", "size"),
        ("steer", "--history", HISTORY, "--dimension", "size", "--to", 0.1),
        ("steer", "--history", HISTORY, "--concept", 0, "--to", 0.1),
        ("steer", "--history", HISTORY, "--share", 0.1),
        ("steer", "--history", HISTORY, "--amount", 0.1),
        ("steer", "--history", HISTORY, "--moves", "[]", "--amount", 0.1),
        ("steer", "--history", HISTORY, "--concept", 0, "--dimension", "size", "--to", 0.1, "--by", 0.1),
        ("steer", "--history", HISTORY, "--towards", "size", "--away-from", "price"),
        ("steer", "--history", HISTORY, "--concept", 0, "--dimension", "size", "--to", "far"),
        ("steer", "--concept", 0, "--share", 0.5),
        ("axes",),
        ("axes", "--by", "magic"),
        ("traverse", "--item", "item-000", "--dimension", "1", "--hold", "size", "--no-hold"),
        ("traverse", "--history", "item-000", "--concept", "0", "--dimension", "1", "--hold", "size"),
        ("axes", "--by", "independence", "--attribute", "size"),
        ("inspect", "--beside", "x"),
        ("recommend", "--explain", "--input", "a.parquet", "--output", "b.parquet"),
    ],
)
def test_wrong_usage_exits_with_2(invoke, world_run, args):
    code, out, err = invoke(args[0], world_run, *args[1:])
    assert (code, out) == (2, "")
    assert "Usage: macrid" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("args", "value"),
    [
        (("traverse", "--item", "nope", "--dimension", 1), "'nope'"),
        (("traverse", "--item", "item-000", "--dimension", 77), "77"),
        (("traverse", "--item", "item-000", "--dimension", "weight"), "'weight'"),
        (("traverse", "--item", "item-000", "--dimension", 1, "--steps", 0), "steps is 0"),
        (("traverse", "--item", "item-000", "--dimension", 1, "--gamma", "nan"), "gamma nan"),
        (("traverse", "--item", "item-000", "--dimension", 1, "--hold", "weight"), "'weight'"),
        (("traverse", "--item", "item-000", "--dimension", "size", "--hold", "size"), "'size'"),
        (("traverse", "--item", "item-000", "--dimension", 1, "--out", "walk.doc"), "walk.doc: "),
        (("traverse", "--item", "item-000", "--dimension", 1, "--out", "no/where.html"), "no/where.html: "),
        (("steer", "--history", "nope", "--concept", 0, "--share", 0.5, "--strict"), "nope"),
        (("steer", "--history", HISTORY, "--concept", 9, "--share", 0.5), "9"),
        (("steer", "--history", HISTORY, "--concept", 0, "--share", 2), "2.0"),
        (("steer", "--history", HISTORY, "--concept", 0, "--dimension", 1, "--to", "nan"), "nan"),
        (("steer", "--history", HISTORY, "--towards", "weight"), "'weight'"),
        (("steer", "--history", HISTORY, "--towards", "maker"), "'maker'"),
        (("steer", "--history", HISTORY, "--towards", "colour"), "'colour'"),
        (("steer", "--history", HISTORY, "--moves", "{"), "--moves"),
        (("steer", "--history", HISTORY, "--moves", "{}"), "--moves"),
        (("steer", "--history", HISTORY, "--moves", '[{"towards": ["size"], "amount": 1}]'), "['size']"),
        (("steer", "--history", HISTORY, "--moves", '[{"concept": 0}]'), "{'concept': 0}"),
        (("steer", "--history", HISTORY, "-n", 0, "--concept", 0, "--share", 0.5), "n is 0"),
        (("axes", "--by", "attributes", "--attribute", "weight"), "'weight'"),
        (("names", "--set", "handbags"), "--set 'handbags'"),
        (("names", "--set", "9=handbags"), "9"),
        (("names", "--set", "0.9=handbags"), "9"),
        (("names", "--set", "0="), "name"),
        (("recommend", "--history", "nope", "--explain", "--strict"), "nope"),
    ],
)
@pytest.mark.parametrize("json_", [[], ["--json"]])
def test_our_errors_are_one_line_and_exit_1(invoke, world, tmp_path, monkeypatch, args, value, json_):
    monkeypatch.chdir(tmp_path)
    code, out, err = invoke(args[0], world, *args[1:], *json_, columns=80)
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert value in err


@pytest.mark.parametrize(
    "args",
    [
        ("traverse", "--item", "bag-0001", "--dimension", 1),
        ("steer", "--history", "bag-0001", "--concept", 0, "--share", 0.5),
        ("axes", "--by", "independence"),
        ("names",),
        ("inspect", "--control"),
    ],
)
@pytest.mark.parametrize("kind", ["ease", "multvae"])
def test_models_without_concepts_are_refused_in_one_line(invoke, other_runs, kind, args):
    code, out, err = invoke(args[0], other_runs / kind, *args[1:])
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert {"ease": "EASE", "multvae": "MultVAE"}[kind] in err


def test_a_walk_has_the_documented_json(invoke, world_run):
    code, out, err = invoke("traverse", world_run, "--item", "item-000", "--dimension", "size", "--json")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    result = macrid.traverse(macrid.load(world_run), "item-000", "size")
    assert answer == result.as_json()
    assert {"concept": 0, "dimension": SIZE}.items() <= answer.items()
    assert answer["range"] == [result.low, result.high]
    assert all({"id", "title", "value"} <= set(item) for item in answer["items"])


def test_a_walk_holds_what_is_asked_for(invoke, world_run):
    model = macrid.load(world_run)
    args = "traverse", world_run, "--item", "item-000", "--dimension", 4, "--json"
    for more, hold in (
        ((), True),
        (("--no-hold",), False),
        (("--hold", "price"), ["price"]),
        (("--hold", "price, size"), ["price", "size"]),
        (("--hold", "price", "--hold", "size"), ["price", "size"]),
    ):
        code, out, err = invoke(*args, *more)
        assert (code, err) == (0, "")
        assert json.loads(out) == macrid.traverse(model, "item-000", 4, hold=hold).as_json()
    assert json.loads(invoke(*args)[1])["held"] == ["size", "price"]
    assert json.loads(invoke(*args, "--no-hold")[1])["held"] == []


def test_a_walk_says_what_it_held_and_where_it_could_not(invoke, world_run):
    args = "traverse", world_run, "--item", "item-000", "--dimension", 4, "--steps", 30
    out = invoke(*args, columns=80)[1]
    assert out.splitlines()[2].rstrip() == "held: size, price"
    assert "also differs" in out.splitlines()[3]
    stops = macrid.traverse(macrid.load(world_run), "item-000", 4, 30).items
    differing = [stop for stop in stops if stop.differs]
    assert differing  # of 50 pairs, few have the start's size
    for stop in differing:
        line = next(line for line in out.splitlines() if stop.id in line)
        assert line.rstrip().endswith(", ".join(stop.differs))
    assert "also differs" not in invoke(*args, "--no-hold")[1]


def test_a_walk_from_a_history_shows_its_position(invoke, world_run):
    args = "traverse", world_run, "--history", HISTORY, "--concept", 1, "--dimension", SIZE
    answer = json.loads(invoke(*args, "--json")[1])
    assert answer["concept"] == 1
    assert not any(item["start"] for item in answer["items"])
    code, out, _ = invoke(*args, columns=80)
    assert code == 0
    assert f"{answer['start']:+.2f}" in out.splitlines()[1]


def test_a_walk_fits_80_columns(invoke, world_run):
    code, out, err = invoke("traverse", world_run, "--item", "item-000", "--dimension", "size", columns=80)
    assert (code, err) == (0, "")
    lines = [line.rstrip() for line in out.splitlines()]
    assert max(map(len, lines)) <= 80
    assert ": size, from " in lines[0]
    assert lines[1] == "concept 0, dimension 2, from -0.45 to +0.45"
    assert next(line for line in lines if line.endswith("start")).split()[1] == "item-000"
    assert "-0.00" not in out
    down = invoke("traverse", world_run, "--item", "item-000", "--dimension", 0, columns=80)[1]
    assert down.splitlines()[1].endswith("below")
    few = invoke("traverse", world_run, "--item", "item-000", "--dimension", "size", "--steps", 99, columns=80)[1]
    assert "50 of 99" in few


@pytest.mark.parametrize(("name", "begins"), [("walk.html", b"<!doctype html>"), ("walk.png", b"\x89PNG")])
def test_a_walk_is_drawn(invoke, trained, trained_run, tmp_path, name, begins):
    item = trained[0].items[0]
    args = "traverse", trained_run, "--item", item, "--dimension", 3, "--out", tmp_path / name
    code, out, err = invoke(*args, "--json")
    assert code == 0
    assert name in err
    drawn = (tmp_path / name).read_bytes()
    assert drawn.startswith(begins)
    if name == "walk.html":
        page = drawn.decode()
        assert page.count("<svg") == len(json.loads(out)["items"])  # pictures of the built-in shop
        assert json.loads(out)["items"][0]["title"] in page
        assert 'class="start"' in page


def test_a_steered_list_has_the_documented_json(invoke, world_run):
    args = "steer", world_run, "--history", HISTORY, "--concept", 0, "--dimension", "size", "--to", 0.1, "-n", 7
    code, out, err = invoke(*args, "--json")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    result = macrid.steer(macrid.load(world_run), HISTORY.split(","), concept=0, dimension=SIZE, to=0.1, n=7)
    assert [item["id"] for item in answer["items"]] == result.ids
    assert all(set(item) >= {"id", "title", "score", "concept"} for item in answer["items"])
    assert answer["unknown"] == []
    assert set(answer["moved"]) == {"in", "out", "up", "down"}
    assert answer["moves"] == [{"concept": 0, "dimension": "size", "to": 0.1}]
    assert answer["effects"][0]["after"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("args", "move"),
    [
        (("--concept", 0, "--dimension", 2, "--by", -0.1), {"concept": 0, "dimension": 2, "by": -0.1}),
        (("--towards", "size"), {"towards": "size", "amount": 1.0}),
        (("--away-from", "size", "--amount", 0.5), {"towards": "size", "amount": -0.5}),
        (("--towards", "size", "--concept", 1), {"towards": "size", "amount": 1.0, "concept": 1}),
        (("--concept", 1, "--share", 0.25), {"concept": 1, "share": 0.25}),
    ],
)
def test_every_kind_of_move_can_be_written(invoke, world_run, args, move):
    code, out, _ = invoke("steer", world_run, "--history", HISTORY, *args, "--json")
    assert code == 0
    (result,) = json.loads(out)["moves"]
    assert {name: value for name, value in result.items() if name not in ("axis", "name")} == move


def test_moves_continue_from_an_earlier_answer(invoke, world_run):
    first = json.loads(invoke("steer", world_run, "--history", HISTORY, "--concept", 1, "--share", 0.7, "--json")[1])
    again = invoke("steer", world_run, "--history", HISTORY, "--moves", json.dumps(first["moves"]), "--json")[1]
    assert json.loads(again) == first
    more = ("--moves", json.dumps(first["moves"]), "--concept", 0, "--share", 0.6, "--json")
    both = json.loads(invoke("steer", world_run, "--history", HISTORY, *more)[1])
    assert both["moves"] == [*first["moves"], {"concept": 0, "share": 0.6}]
    assert both["shares"] == pytest.approx([0.6, 0.4], abs=1e-4)


def test_moves_beyond_real_users_are_warned_about_on_standard_error(invoke, world_run):
    args = "steer", world_run, "--history", HISTORY, "--concept", 0, "--dimension", "size", "--to", 0.95, "--json"
    code, out, err = invoke(*args)
    assert code == 0
    assert re.match(r"warning: 0\.95 .*concept 0, dimension 2 \(size\)", err)
    assert err.count("\n") == 1
    effect = json.loads(out)["effects"][0]
    assert effect["after"] == pytest.approx(effect["range"][1]) != 0.95
    _, out, err = invoke(*args, "--beyond")
    assert err.startswith("warning: 0.95 ")
    assert json.loads(out)["effects"][0]["after"] == pytest.approx(0.95)


def test_unknown_items_are_reported_on_standard_error_and_in_the_json(invoke, world_run):
    code, out, err = invoke("steer", world_run, "--history", f"{HISTORY},zz", "--concept", 0, "--share", 0.5, "--json")
    assert code == 0
    assert json.loads(out)["unknown"] == ["zz"]
    assert "'zz'" in err


def test_a_steered_list_fits_80_columns(invoke, world_run):
    args = "steer", world_run, "--history", HISTORY, "--towards", "size", "--amount", 0.5
    code, out, _ = invoke(*args, columns=80)
    assert code == 0
    answer = json.loads(invoke(*args, "--json")[1])
    lines = [line.rstrip() for line in out.splitlines()]
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["moved", "from", "to", "real", "users"]
    effect = answer["effects"][0]
    low, high = effect["range"]
    assert f"{effect['before']:+.2f}  {effect['after']:+.2f}  {low:+.2f} to {high:+.2f}" in lines[1]
    for item in answer["items"]:
        assert item["id"] in out
    assert out.count(" new ") == len(answer["moved"]["in"]) > 0
    gone = [change["title"] for change in answer["moved"]["out"]]
    assert ", ".join(gone) in " ".join(lines)
    same = invoke("steer", world_run, "--history", HISTORY, "--concept", 0, "--dimension", 2, "--by", 0, columns=80)[1]
    assert " new " not in same
    share = invoke("steer", world_run, "--history", HISTORY, "--concept", 1, "--share", 0.9, columns=80)[1]
    assert share.splitlines()[0].split() == ["moved", "from", "to"]
    assert "90%" in share.splitlines()[1]


@pytest.mark.parametrize("by", KINDS)
def test_turned_axes_change_no_score_and_original_undoes_them(invoke, world, by):
    before = json.loads(invoke("evaluate", world, "--json")[1])
    walk = "traverse", world, "--item", "item-000", "--dimension", SIZE, "--json"
    steps = invoke(*walk)[1]
    code, out, err = invoke("axes", world, "--by", by, "--always", "--json")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert (answer["by"], answer["in_use"]) == (by, [by, by])
    assert set(answer["evidence"]) == {"original", by}
    assert all(fit["strength"] > 0.5 for fit in answer["fits"])
    assert json.loads(invoke("evaluate", world, "--json")[1]) == before
    model = macrid.load(world)
    assert meaning_of(model).in_use == (by, by)
    assert not np.allclose(meaning_of(model).axes[by].rotation[0], np.eye(6), atol=0.1)
    assert invoke(*walk)[1] != steps
    code, out, _ = invoke("axes", world, "--by", "original", "--json")
    assert json.loads(out)["in_use"] == ["original", "original"]
    assert json.loads(invoke(*walk)[1])["items"] == json.loads(steps)["items"]
    assert by in meaning_of(macrid.load(world)).axes  # kept, though not in use


def test_chosen_attributes_get_axes(invoke, world):
    code, out, err = invoke("axes", world, "--by", "attributes", "--attribute", "size", "--always", "--json")
    assert (code, err) == (0, "")
    fits = json.loads(out)["fits"]
    assert {fit["attribute"] for fit in fits} == {"size"}
    walk = json.loads(invoke("traverse", world, "--item", "item-000", "--dimension", "size", "--json")[1])
    assert walk["dimension"] == fits[0]["dimension"]


def test_axes_fit_80_columns(invoke, world):
    code, out, _ = invoke("axes", world, "--by", "attributes", columns=80)
    assert code == 0
    table = out.splitlines()[:3]
    assert max(map(len, table)) <= 80
    assert table[0].split() == ["concept", "original", "attributes", "in", "use", "named"]
    assert shlex.join(["macrid", "inspect", str(world)]) in out


@pytest.mark.parametrize("args", [("axes", "--by", "independence"), ("names", "--set", "0=handbags")])
def test_a_run_that_cannot_be_written_is_named_and_unchanged(invoke, world, monkeypatch, args):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    before = {path.name: path.read_bytes() for path in world.iterdir()}
    monkeypatch.setattr(manifest, "write_atomically", refuse)
    code, out, err = invoke(args[0], world, *args[1:], columns=80)
    assert (code, out) == (1, "")
    assert err.startswith(f"error: {world}: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    assert "Permission denied" in err
    assert {path.name: path.read_bytes() for path in world.iterdir()} == before


def test_names_are_generated_and_kept_if_a_run_has_none(invoke, run):
    before = {path.name for path in run.iterdir()}
    code, out, err = invoke("names", run, "--json")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert [entry["concept"] for entry in answer["concepts"]] == list(range(7))
    assert len(answer["dimensions"]) == 7 * 16
    assert {path.name for path in run.iterdir()} == {*before, "names.json"}


def test_names_are_shown_with_the_share_of_choices_they_are_true_of(invoke, run):
    code, out, _ = invoke("names", run)
    assert code == 0
    named = [entry for entry in meaning_of(macrid.load(run)).names.concepts if entry.fit is not None]
    assert named
    for fit in (entry.fit for entry in named):
        assert f"{fit.share:.0%} of its choices, {fit.base:.0%} of all" in out
        assert f"{fit.held_out:.0%} on items" in out
    assert f"{named[0].fit.share:.0%} ({named[0].fit.base:.0%})" in invoke("inspect", run, columns=120)[1]


def test_names_set_by_hand_survive_regenerated_names_and_axes(invoke, world):
    args = ("--set", "1=handbags", "--set", "1.2=length", "--set", "1.5=light <-> heavy")
    code, _, err = invoke("names", world, *args)
    assert (code, err) == (0, "")

    def current():
        names = meaning_of(macrid.load(world)).names
        ends = names.dimension(1, 5)
        return names.concept_name(1), names.dimension(1, 2).name, (ends.low, ends.high)

    assert current() == ("handbags", "length", ("light", "heavy"))
    assert invoke("names", world, "--anew")[0] == 0
    assert current() == ("handbags", "length", ("light", "heavy"))
    assert invoke("axes", world, "--by", "independence", "--always")[0] == 0
    assert current()[0] == "handbags"
    assert invoke("axes", world, "--by", "original")[0] == 0
    assert current() == ("handbags", "length", ("light", "heavy"))
    walk = invoke("traverse", world, "--item", "item-150", "--dimension", "length", columns=80)[1]
    assert walk.startswith("handbags: length, from ")
    assert ", from light to heavy" in invoke("traverse", world, "--item", "item-150", "--dimension", 5, columns=80)[1]
    assert "handbags" in invoke("inspect", world, columns=80)[1]
    assert invoke("names", world, "--reset")[0] == 0
    assert current()[0] != "handbags"
    assert current()[1] == "size"


def test_a_name_set_by_somebody_else_meanwhile_is_kept(invoke, world, monkeypatch):
    load = runs.load

    def load_slowly(*args, **options):
        model = load(*args, **options)
        runs.write_names(lambda: runs.read_names(world).renamed(1, "theirs"), world)
        return model

    monkeypatch.setattr(runs, "load", load_slowly)
    assert invoke("names", world, "--set", "0=mine")[0] == 0
    assert [runs.read_names(world).concept_name(k) for k in (0, 1)] == ["mine", "theirs"]


def test_names_fit_80_columns(invoke, world):
    invoke("names", world, "--set", "0=handbags", "--set", "0.5=light <-> heavy")
    code, out, _ = invoke("names", world, columns=80)
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "set by hand" in out
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line[:1].isdigit() and "." in line[:4]}
    assert rows["0.5"][1:4] == ["–", "light", "heavy"]
    assert rows["1.2"][1] == "size"


def test_unnamed_dimensions_are_shown_by_their_ends(invoke, run):
    out = invoke("names", run, columns=80)[1]
    result = json.loads(invoke("names", run, "--json")[1])["dimensions"]
    known = {entry["concept"] for entry in result if entry["attribute"] not in (None, "popularity")}
    shown = [line.split()[0] for line in out.splitlines() if line[:1].isdigit() and "." in line[:4]]
    unnamed = [f"{e['concept']}.{e['dimension']}" for e in result if e["name"] is None and e["concept"] not in known]
    assert len(set(shown) & set(unnamed)) == 3 * (7 - len(known))  # the first few of a concept without names
    everything = invoke("names", run, "--all", columns=80)[1]
    assert sum(line[:1].isdigit() and "." in line[:4] for line in everything.splitlines()) == len(result)


def test_new_axes_have_new_effects(invoke, world):
    assert json.loads(invoke("inspect", world, "--json")[1])["knobs"] == []
    invoke("axes", world, "--by", "attributes")
    effects = meaning_of(macrid.load(world, "cpu")).effects
    assert {effect.name for effect in effects if effect.concept is None} >= {"size", "price"}
    shown = json.loads(invoke("inspect", world, "--json")[1])["knobs"]
    assert shown == [effect.model_dump(mode="json") for effect in strongest_first(effects)]


def test_names_measure_effects_where_a_run_has_none(invoke, world):
    assert "what the knobs do" not in invoke("names", world, columns=80)[1]
    code, out, err = invoke("names", world, "--effects", "--json")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    effects = strongest_first(meaning_of(macrid.load(world, "cpu")).effects)
    assert answer["effects"] == [effect.model_dump(mode="json") for effect in effects]
    assert json.loads(invoke("names", world, "--json")[1])["effects"] == answer["effects"]
    assert {effect.name for effect in effects} >= {"size", "price"}
    table = invoke("names", world, columns=80)[1]
    table = table[table.index("what the knobs do") :]
    assert max(map(len, table.splitlines())) <= 80
    for effect in effects[:3]:
        assert effect.span in table


def test_knobs_are_measured(invoke, world_run):
    code, out, err = invoke("inspect", world_run, "--control", "--json")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert [entry["concept"] for entry in answer["concepts"]] == [0, 1]
    control = answer["control"]
    sizes = [knob for knob in control["knobs"] if knob["name"] == "size"]
    assert {knob["concept"] for knob in sizes} == {None, 0, 1}
    assert all(knob["monotonicity"] > 0.9 for knob in sizes)
    assert set(control["mean"]) == {
        "monotonicity", "leakage", "drift", "moves", "retention", "overlap", "smoothness",
    }  # fmt: skip
    assert control["beside_mean"] is None
    assert json.loads(invoke("inspect", world_run, "--json")[1]) == {
        name: value for name, value in answer.items() if name != "control"
    }


def test_knob_measurements_fit_80_columns(invoke, world_run):
    code, out, _ = invoke("inspect", world_run, "--control", columns=80)
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    table = out[out.index("what the knobs do") :]
    for word in ("monot.", "size, all concepts", "size, 0", "mean of all knobs", "random directions"):
        assert word in table


@pytest.mark.slow
def test_another_model_is_measured_for_comparison(invoke, other_runs, run):
    names = json.loads(invoke("names", run, "--anew", "--json")[1])
    del names["effects"]
    for entry in names["dimensions"]:
        if entry["dimension"] == 0:
            entry |= {"name": "popularity", "attribute": "popularity", "kind": "popularity", "strength": 0.5}
    (run / "names.json").write_text(json.dumps(names))
    code, out, err = invoke("inspect", run, "--control", "--beside", other_runs / "multvae", "--json")
    assert code == 0, err
    assert json.loads(out)["control"]["beside_mean"]["overlap"] > 0
    code, out, err = invoke("inspect", run, "--control", "--beside", other_runs / "ease", "--json")
    assert (code, out) == (1, "")
    assert "EASE" in err


def test_control_needs_held_out_users(invoke, trained, tmp_path):
    runs.save(trained[0], tmp_path / "bare")
    code, out, err = invoke("inspect", tmp_path / "bare", "--control")
    assert (code, out) == (1, "")
    assert str(tmp_path / "bare") in err


def test_named_dimensions_are_shown_without_held_out_users(invoke, world_run, tmp_path):
    model = macrid.load(world_run)
    model.save(tmp_path / "bare")
    result = json.loads(invoke("inspect", tmp_path / "bare", "--json")[1])["dimensions"]
    assert len(result) == 12
    assert (result[SIZE]["name"], result[SIZE]["std"], result[SIZE]["kl"]) == ("size", None, None)
    assert "\ndimensions\n" in invoke("inspect", tmp_path / "bare", columns=80)[1]


def test_reasons_are_in_the_json(invoke, world_run):
    code, out, err = invoke("recommend", world_run, "--history", HISTORY, "--explain", "-n", 4, "--json")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    plain = json.loads(invoke("recommend", world_run, "--history", HISTORY, "-n", 4, "--json")[1])
    for item, same in zip(answer["items"], plain["items"], strict=True):
        assert {name: item[name] for name in ("id", "title", "concept")} == {
            name: same[name] for name in ("id", "title", "concept")
        }
        assert item["score"] == pytest.approx(same["score"], abs=1e-5)
        assert item["share"] == pytest.approx({0: 4 / 6, 1: 2 / 6}[item["concept"]])
        assert {pull["id"] for pull in item["pulls"]} <= set(HISTORY.split(","))
    expected = explain(macrid.load(world_run), HISTORY.split(","), n=4)
    assert [reason.as_json()["pulls"] for reason in expected] == [item["pulls"] for item in answer["items"]]


def test_reasons_fit_80_columns(invoke, world_run, other_runs, trained):
    code, out, _ = invoke("recommend", world_run, "--history", HISTORY, "--explain", columns=80)
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "because you have" in out
    assert "67%" in out
    assert "moved by" in out
    history = ids_of(trained[0])
    code, out, _ = invoke("recommend", other_runs / "ease", "--history", history, "--explain", columns=80)
    assert code == 0
    assert "because you have" not in out


def test_places_in_the_table_add_up_with_rules(invoke, world_run):
    rules = ("--exclude", "0,1,2", "--diversity", 0.4)
    code, out, _ = invoke("recommend", world_run, "--history", HISTORY, "--explain", "-n", 6, *rules, columns=160)
    assert code == 0
    answer = json.loads(invoke("recommend", world_run, "--history", HISTORY, "--explain", "-n", 6, *rules, "--json")[1])
    for rank, item in enumerate(answer["items"], start=1):
        account = item["account"]
        assert account["rank"] == rank
        assert account["stages"][0]["rank"] - rank == sum(part["places"] for part in account["parts"])
        for part in account["parts"]:
            assert part["rule" if part["kind"] == "rule" else "label"]
    changed = [part for item in answer["items"] for part in item["account"]["parts"] if part.get("rule") == "diversity"]
    assert any(f"{part['places']:+d}".replace("-", "−") + " diversity 0.4" in out for part in changed)


def test_an_unknown_item_is_reported_once_with_reasons(invoke, world_run):
    code, out, err = invoke("recommend", world_run, "--history", f"{HISTORY},zz", "--explain", "--json")
    assert code == 0
    assert err.count("'zz'") == 1
    assert json.loads(out)["unknown"] == ["zz"]


def test_markup_in_names_is_shown_verbatim(invoke, world):
    model = macrid.load(world)
    names = meaning_of(model).names.renamed(0, "[bold]x[/bold] :smile:")
    meaning_of(model).names = replace(names)
    runs.keep(model, world)
    for args in (("names",), ("inspect",), ("axes", "--by", "original")):
        assert "[bold]x[/bold] :smile:" in invoke(args[0], world, *args[1:])[1]


def test_wishes_in_words_steer(invoke, world_run):
    history = ["--history", HISTORY]
    code, out, err = invoke("steer", world_run, *history, "--words", "larger, under 0.2, flurb", "-n", 4, "--json")
    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert answer["words"]["moves"] == [{"towards": "size", "amount": 0.6}]
    assert answer["words"]["where"] == "price < 0.2"
    assert [entry["text"] for entry in answer["words"]["not_understood"]] == ["flurb"]
    by_hand = ["--towards", "size", "--amount", 0.6, "-n", 50, "--json"]
    expected = json.loads(invoke("steer", world_run, *history, *by_hand)[1])["items"]
    model = macrid.load(world_run)
    price = dict(zip(map(str, model.items), model.table.column("price").to_pylist(), strict=True))
    assert answer["items"] == [item for item in expected if price[item["id"]] < 0.2][:4]
    code, out, err = invoke("steer", world_run, *history, "--words", "larger, flurb", "-n", 4)
    assert code == 0
    assert "larger: higher size" in out
    assert "not understood: flurb" in err


def test_words_can_name_the_history(invoke, world_run):
    model = macrid.load(world_run)
    title = model.table.column("title")[7].as_py()
    namesakes = np.flatnonzero([other == title for other in model.table.column("title").to_pylist()])
    code, out, _ = invoke("steer", world_run, "--words", f"like '{title}', larger", "--json")
    assert code == 0
    assert json.loads(out)["words"]["history"] == [model.items[namesakes[model.popularity[namesakes].argmax()]]]


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (["--words", "larger"], "no item is named"),
        (["--words", "like Alien"], "no item is called 'Alien'"),
        (["--history", HISTORY, "--words", "flurb"], "no attribute"),
        (["--history", HISTORY, "--words", "more"], "no wish"),
        (["--history", HISTORY, "--words", " "], "empty"),
    ],
)
def test_words_that_change_nothing_are_an_error(invoke, world_run, args, problem):
    code, out, err = invoke("steer", world_run, *args)
    assert (code, out) == (1, "")
    assert problem in err


def test_rules_on_the_command_line_are_those_of_python(invoke, trained_run, trained, tmp_path):
    model = trained[0]
    history = model.items[:3]
    given = ["recommend", trained_run, "--history", ",".join(history), "-n", 6]
    (tmp_path / "rules.json").write_text('{"where": "price < 90", "at_most": {"colour": 1}, "diversity": 0.9}')
    (tmp_path / "out.txt").write_text(f"{model.recommend(history, 1).ids[0]}\n")
    pin = model.items[100]
    options = ["--rules", tmp_path / "rules.json", "--exclude-file", tmp_path / "out.txt", "--pin", pin]
    options += ["--at-most", "category=2", "--boost", "price < 30:+0.5", "--diversity", 0.3, "--diversity-by", "colour"]
    code, out, err = invoke(*given, *options, "--where", "price > 1", "--json")
    assert (code, err) == (0, "")
    rules = {
        "where": "price < 90 and price > 1", "pins": [pin], "at_most": {"category": 2}, "diversity": 0.3,
        "diversity_by": "colour", "boosts": [{"where": "price < 30", "amount": 0.5}],
        "exclude": model.recommend(history, 1).ids,
    }  # fmt: skip
    expected = model.recommend(history, 6, rules=rules)
    content = json.loads(out)
    assert [item["id"] for item in content["items"]] == expected.ids
    assert content["diversity"] == pytest.approx(expected.diversity.as_json(), abs=1e-5)
    code, out, err = invoke(*given, *options)
    assert "diversity keeps" in out
    code, out, _ = invoke(*given, "--shelves", "--json")
    assert [shelf["concept"] for shelf in json.loads(out)["shelves"]] == [
        shelf.concept for shelf in model.recommend(history, 6, rules={"shelves": True}).shelves
    ]
    code, out, _ = invoke(*given, "--shelves")
    assert all(
        f"\n{shelf['name']} (" in out for shelf in json.loads(invoke(*given, "--shelves", "--json")[1])["shelves"]
    )
    code, out, _ = invoke(
        "steer",
        trained_run,
        "--history",
        ",".join(history),
        "--concept",
        1,
        "--share",
        0.5,
        "-n",
        6,
        *options,
        "--json",
    )
    rules["where"] = "price < 90"
    assert [item["id"] for item in json.loads(out)["items"]] == macrid.steer(
        model, history, n=6, concept=1, share=0.5, rules=rules
    ).ids


def test_fewer_items_and_unknown_histories_are_warnings_unless_strict(invoke, trained_run):
    given = ["recommend", trained_run, "--history", "gone", "-n", 3, "--where", "price < 0"]
    code, _, err = invoke(*given)
    assert code == 0
    assert [line.partition(";")[0] for line in err.splitlines()] == [
        "warning: ignored 1 unknown item: 'gone'",
        "warning: only 0 of 3 items: no more are left after rules",
        "warning: no known item in the history: these are the most popular items",
    ]
    code, _, err = invoke(*given, "--strict")
    assert code == 1
    assert "no known item in the history" in err


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--boost", "price"], 2, "CONDITION:AMOUNT"),
        (["--boost", "price <:1"], 1, "boosts[0].where, character 8"),
        (["--at-most", "colour"], 2, "ATTRIBUTE=NUMBER"),
        (["--at-most", "taste=2"], 1, "'taste' is not an attribute"),
        (["--diversity", "2"], 1, "diversity is 2; give a number from 0 to 1"),
        (["--where", "price <> "], 1, "where, character 10: a value is expected"),
        (["--rules", "none.json"], 1, "none.json: cannot be read"),
        (["--exclude-file", "none.txt"], 1, "none.txt: no such file"),
    ],
)
def test_a_wrong_rule_is_one_line(invoke, trained_run, options, code, words):
    found, _, err = invoke("recommend", trained_run, "--history", "bag-0001", *options)
    assert found == code
    assert words in " ".join(err.replace("│", " ").split())
