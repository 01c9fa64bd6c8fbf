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
    internal = {"Decoder", "Histories", "Labels", "Pictures", "TrainingSettings"}  # for those who write a model
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


CODE = """
from typing import assert_type
import macrid
from macrid import EASE, MacridVAE, MultDAE, MultVAE, Popularity, Split
def check(split: Split) -> None:
    assert_type(MacridVAE(concepts="auto", dim=8, start="svd").fit(split.train, learning_rate=0.1), MacridVAE)
    assert_type(EASE(regularisation=3.0).fit(split.train, validation=split.validation, device="cpu"), EASE)
    MacridVAE(konzepte=3)  # error
    MacridVAE(concepts="many")  # error
    MultVAE(dim=3, beta=0.1)
    MultVAE(concepts=3)  # error
    MultDAE(beta=0.1)  # error
    EASE(dim=3)  # error
    Popularity(dim=3)  # error
    Popularity().fit(split.train, epochs=1)
    MacridVAE().fit(split.train, labels={}, on_epoch=print, learning_rte=0.1)  # error
    MultVAE().fit(split.train, precision="fp64")  # error
    EASE().fit(split.train, labels={})  # error
    macrid.Nonsense  # error
    assert_type(macrid.evaluate(EASE(), split.test), macrid.Evaluation)
    assert_type(macrid.steer(MacridVAE(), [1], concept=0, dimension=0, to=0.1), macrid.Steered)
"""


def test_a_type_checker_refuses_wrong_keywords_and_names(tmp_path):
    api = pytest.importorskip("mypy.api")
    (tmp_path / "code.py").write_text(CODE)
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\npython_version = 3.11\ncache_dir = /dev/null\nfollow_imports = silent\n"
        "[mypy-torch.*,numpy.*,scipy.*,pyarrow.*,pydantic.*,pydantic_core.*,safetensors.*]\nfollow_imports = skip\n"
    )  # what is skipped is not needed to know these signatures, and takes a minute to read
    out, err, _ = api.run(["--strict", "--config-file", str(tmp_path / "mypy.ini"), str(tmp_path / "code.py")])
    found = {int(line) for line in re.findall(r"code\.py:(\d+): error", out)}
    assert found == {at for at, line in enumerate(CODE.split("\n"), start=1) if "# error" in line}, out + err
