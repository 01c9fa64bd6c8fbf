"""What `macrid` offers: its names, and the keyword arguments that an editor and a type checker see."""

import ast
import inspect
import re
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

import macrid
from macrid import errors, settings
from macrid.models import MODELS

KINDS = ["MacridVAE", "MultVAE", "MultDAE", "EASE", "Popularity", "Training"]


@pytest.mark.parametrize("kind", KINDS)
def test_keyword_arguments_have_the_names_and_types_of_the_settings(kind):
    fields, keywords = getattr(settings, f"{kind}Settings"), getattr(settings, f"{kind}Keywords")
    types = get_type_hints(fields)
    assert get_type_hints(keywords) == {name: types[name] for name in fields.model_fields}
    assert not keywords.__required_keys__


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_signatures_show_every_setting_with_its_default(model):
    fields = model.settings_class.model_fields
    shown = {name: each for name, each in inspect.signature(model).parameters.items() if name != "preset"}
    assert {name: each.default for name, each in shown.items()} == {name: f.default for name, f in fields.items()}
    of_fit = {*inspect.signature(model.fit).parameters}
    assert {"train", "validation", *settings.TrainingSettings.model_fields} <= of_fit


def test_names_for_type_checkers_are_those_at_run_time():
    tree = ast.parse(Path(macrid.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name))
    assert {alias.name: line.module for line in block.body for alias in line.names} == {
        **macrid._HOME,
        "callbacks": "macrid",
        "datasets": "macrid",
    }
    of_errors = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert {*macrid.__all__} == {*macrid._HOME, *of_errors, "__version__", "callbacks", "datasets"}
    assert len(macrid.__all__) == len({*macrid.__all__})


def test_every_name_leads_to_what_it_says():
    names = {}
    exec("from macrid import *", names)
    assert {*macrid.__all__} <= {*names}
    assert [name for name in macrid._HOME if names[name].__name__ != name] == []
    with pytest.raises(AttributeError, match="Nonsense"):
        macrid.Nonsense  # noqa: B018


def test_what_public_functions_return_is_public():
    internal = {
        "Cells",
        "Decoder",
        "Histories",
        "Labels",
        "Pictures",
        "TrainingSettings",
    }  # for model authors
    returned = set()
    for name in macrid._HOME:
        thing = getattr(macrid, name)
        members = [value for key, value in vars(thing).items() if key[0] != "_"] if inspect.isclass(thing) else [thing]
        for member in members:
            function = getattr(member, "fget", None) or getattr(member, "__func__", member)
            words = re.findall(r"[A-Z]\w+", str(getattr(function, "__annotations__", {}).get("return")))
            kinds = {word: getattr(sys.modules[thing.__module__], word, None) for word in words}
            returned |= {word for word, kind in kinds.items() if getattr(kind, "__module__", "").startswith("macrid")}
    assert {"Steered", "Recommendations", "Evaluation", "Traversal", "Encoding"} <= returned
    assert returned - {*macrid.__all__} == internal
