"""macrid map: a picture of a run, and what it refuses."""

import json

import pytest
from PIL import Image

import macrid
from macrid import runs


def test_a_map_is_drawn_and_its_size_printed(invoke, trained_run, tmp_path):
    picture = tmp_path / "map.png"
    code, out, _ = invoke("map", trained_run, "--out", picture, "--items", 60, "--users", 20)
    assert code == 0
    assert out.startswith(f"{picture}: 60 items, 40 ")
    with Image.open(picture) as drawn:
        assert drawn.format == "PNG"


def test_json_positions_carry_item_ids(invoke, trained_run, tmp_path, trained):
    model, _ = trained
    code, out, _ = invoke("map", trained_run, "--out", tmp_path / "map.png", "--by", "category", "--users", 0, "--json")
    assert code == 0
    placed = json.loads(out)
    assert placed["items"]["id"] == list(model.items)
    assert placed["items"]["concept"] == model.concepts_of_items().tolist()
    assert placed["users"] == {"x": [], "y": [], "concept": []}
    assert set(placed["items"]) == {"id", "x", "y", "concept"}


def test_a_run_without_held_out_users_has_a_map_of_items(invoke, trained, tmp_path):
    model, _ = trained
    runs.save(model, tmp_path / "run")
    code, out, _ = invoke("map", tmp_path / "run", "--out", tmp_path / "map.png", "--items", 30)
    assert code == 0
    assert "30 items, 0 " in out


@pytest.mark.parametrize(
    ("options", "value"),
    [
        (["--by", "nothing"], "'nothing'"),
        (["--by", "title"], "title: "),
        (["--out", "."], ".: "),
        (["--out", "nowhere/map.png"], "nowhere/map.png: "),
    ],
)
def test_bad_options_are_refused_before_any_work(invoke, trained_run, tmp_path, monkeypatch, options, value):
    monkeypatch.chdir(tmp_path)
    code, out, err = invoke("map", trained_run, "--out", "map.png", *options)
    assert (code, out) == (1, "")
    assert value in err
    assert list(tmp_path.iterdir()) == []


def test_a_model_without_concepts_has_no_map(invoke, shop_split, tmp_path):
    model = macrid.Popularity()
    model.fit(shop_split.train)
    runs.save(model, tmp_path / "run")
    code, _, err = invoke("map", tmp_path / "run", "--out", tmp_path / "map.png")
    assert code == 1
    assert "Popularity" in err
