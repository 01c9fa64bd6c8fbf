"""Config files: they read back as written, and errors name the file and the setting."""

import json

import pytest

from macrid.errors import MacridError, SettingsError
from macrid.models.macridvae import MacridVAE
from macrid.models.reference import EASE
from macrid.recipe import PLAIN_TRAINING, PRESETS, Recipe, preset_of


def test_a_config_reads_back_as_written_with_its_notes(tmp_path):
    config = Recipe("macridvae", {"concepts": 5, "beta": 0.3}, {"epochs": 7, "seed": 2}, {"score": 0.4, "study": "a–b"})
    config.write(tmp_path / "best.json")
    assert Recipe.read(tmp_path / "best.json") == config
    assert list(json.loads((tmp_path / "best.json").read_text("utf-8"))) == [
        "model", "settings", "training", "score", "study",
    ]  # fmt: skip


def test_a_config_keeps_its_preset(tmp_path):
    Recipe("macridvae", {"dim": 8}, preset="paper").write(tmp_path / "paper.json")
    assert Recipe.read(tmp_path / "paper.json").preset == "paper"


def test_a_model_with_a_preset_has_its_settings_and_trains_as_it_says():
    model = MacridVAE(preset="paper", beta=7.0)
    chosen = {name: value for name, value in PRESETS["paper"].items() if name in type(model.settings).model_fields}
    assert chosen | {"beta": 7.0} == {name: getattr(model.settings, name) for name in chosen}
    assert model.training_defaults == {**PLAIN_TRAINING, "average": 1.0}
    assert MacridVAE().training_defaults != model.training_defaults


@pytest.mark.parametrize(
    ("model", "preset"),
    [
        (MacridVAE(preset="paper", concepts=3), "paper"),
        (MacridVAE(concepts=3, dim=8), "best"),
        (MacridVAE(neighbours=0), "custom"),
        (EASE(), None),
    ],
)
def test_the_preset_of_a_model_follows_from_its_settings(model, preset):
    assert preset_of(model.settings) == preset


def test_only_the_model_is_required(tmp_path):
    (tmp_path / "r.json").write_text('{"model": "ease"}')
    assert Recipe.read(tmp_path / "r.json") == Recipe("ease")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("concepts: 7", "JSON"),
        ('{"model": "macridvae", "preset": "worst"}', "'worst'"),
        ('{"model": "macridvae", "preset": ["best"]}', "best"),
        ("\ud800", "JSON"),
        ("[1]", "'model'"),
        ("{}", "'model'"),
        ('{"model": 3}', "'model'"),
        ('{"model": "svd++"}', "'svd\\+\\+'"),
        ('{"model": "ease", "settings": [1]}', r"'settings' is \[1\]"),
        ('{"model": "ease", "training": null}', "'training' is None"),
        ('{"model": "macridvae", "settings": {"konzepte": 7}}', "'konzepte'.* concepts, dim"),
        ('{"model": "macridvae", "settings": {"concepts": "many"}}', "concepts is 'many'"),
        ('{"model": "macridvae", "settings": {"concepts": true}}', "concepts is True"),
        ('{"model": "macridvae", "settings": {"beta": false}}', "beta is False"),
        ('{"model": "macridvae", "settings": {"beta": NaN}}', "beta is nan"),
        ('{"model": "macridvae", "training": {"batch_size": true}}', "batch_size is True"),
        ('{"model": "macridvae", "training": {"epochs": 0}}', "epochs is 0.* at least 1"),
        ('{"model": "macridvae", "training": {"concepts": 3}}', "'concepts'"),
        ('{"model": "macridvae", "settings": {"epochs": 3}}', "'epochs'"),
        ("[" * 100_000, "nested"),
        ('{"model": "ease", "about": ' + "[" * 9000 + "]" * 9000 + "}", "nested"),
    ],
)
def test_an_unusable_config_is_an_error_of_one_line_that_names_the_file(tmp_path, text, problem):
    path = tmp_path / "r.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(SettingsError, match=problem) as error:
        Recipe.read(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


def test_a_missing_file_and_a_folder_are_errors_that_name_them(tmp_path):
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(SettingsError, match=f"{path}: "):
            Recipe.read(path)


def test_a_failed_write_leaves_the_old_config(tmp_path):
    with pytest.raises(MacridError, match=r"r\.json"):
        Recipe("ease").write(tmp_path / "no" / "r.json")
    Recipe("ease").write(tmp_path / "r.json")
    with pytest.raises(TypeError):
        Recipe("ease", about={"what": object()}).write(tmp_path / "r.json")
    assert Recipe.read(tmp_path / "r.json") == Recipe("ease")
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]
