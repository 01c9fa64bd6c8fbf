"""Configs: what is written is read again, and what cannot be used is named with its file."""

import json

import pytest

from macrid.errors import MacridError, SettingsError
from macrid.recipe import Recipe


def test_what_is_written_is_read_again_with_its_notes(tmp_path):
    config = Recipe("macridvae", {"concepts": 5, "beta": 0.3}, {"epochs": 7, "seed": 2}, {"score": 0.4, "study": "a–b"})
    config.write(tmp_path / "best.json")
    assert Recipe.read(tmp_path / "best.json") == config
    assert list(json.loads((tmp_path / "best.json").read_text("utf-8"))) == [
        "model", "settings", "training", "score", "study",
    ]  # fmt: skip


def test_only_the_model_must_be_named(tmp_path):
    (tmp_path / "r.json").write_text('{"model": "ease"}')
    assert Recipe.read(tmp_path / "r.json") == Recipe("ease")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("concepts: 7", "not JSON"),
        ("\ud800", "not JSON"),
        ("[1]", "not a config"),
        ("{}", "not a config"),
        ('{"model": 3}', "not a config"),
        ('{"model": "svd++"}', "no model 'svd\\+\\+'"),
        ('{"model": "ease", "settings": [1]}', r"'settings' is \[1\]; it must be an object"),
        ('{"model": "ease", "training": null}', "'training' is None; it must be an object"),
        ('{"model": "macridvae", "settings": {"konzepte": 7}}', "no setting 'konzepte'; there are concepts"),
        ('{"model": "macridvae", "settings": {"concepts": "many"}}', "concepts is 'many'"),
        ('{"model": "macridvae", "settings": {"beta": NaN}}', "beta is nan"),
        ("[" * 100_000, "not a config, it is nested too deeply"),
        ('{"model": "ease", "about": ' + "[" * 9000 + "]" * 9000 + "}", "nested too deeply"),
        ('{"model": "macridvae", "training": {"epochs": 0}}', "epochs is 0; it must be at least 1"),
        ('{"model": "macridvae", "training": {"concepts": 3}}', "no setting 'concepts'"),
        ('{"model": "macridvae", "settings": {"epochs": 3}}', "'epochs' is a setting of the training"),
    ],
)
def test_what_cannot_be_used_is_one_line_that_names_the_file(tmp_path, text, told):
    path = tmp_path / "r.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(SettingsError, match=told) as error:
        Recipe.read(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [("settings", "concepts", "true"), ("settings", "beta", "false"), ("training", "epochs", "true"),
     ("training", "batch_size", "true"), ("training", "learning_rate", "true")],
)  # fmt: skip
def test_true_and_false_are_no_numbers(tmp_path, part, name, value):
    (tmp_path / "r.json").write_text(f'{{"model": "macridvae", "{part}": {{"{name}": {value}}}}}')
    with pytest.raises(
        SettingsError, match=f"{name} is {value.title()}; true and false are no values of this setting$"
    ):
        Recipe.read(tmp_path / "r.json")


def test_a_file_that_is_not_there_and_a_folder_are_told_apart(tmp_path):
    with pytest.raises(SettingsError, match="no such file"):
        Recipe.read(tmp_path / "none.json")
    with pytest.raises(SettingsError, match="cannot be read"):
        Recipe.read(tmp_path)


def test_a_config_that_cannot_be_written_leaves_what_was_there(tmp_path):
    with pytest.raises(MacridError, match="cannot be written"):
        Recipe("ease").write(tmp_path / "no" / "r.json")
    Recipe("ease").write(tmp_path / "r.json")
    with pytest.raises(TypeError):
        Recipe("ease", about={"what": object()}).write(tmp_path / "r.json")
    assert Recipe.read(tmp_path / "r.json") == Recipe("ease")
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]
