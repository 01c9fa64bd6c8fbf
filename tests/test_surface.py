"""What `macrid` offers: its names, and the keyword arguments that an editor and a type checker see."""

import inspect
import re
from typing import get_type_hints

import pytest

from macrid import settings
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
    shown = inspect.signature(model).parameters
    assert {name: each.default for name, each in shown.items()} == {name: f.default for name, f in fields.items()}
    of_fit = {*inspect.signature(model.fit).parameters}
    assert {"train", "validation", *settings.TrainingSettings.model_fields} <= of_fit


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
"""


def test_a_type_checker_refuses_wrong_keywords_and_names(tmp_path):
    api = pytest.importorskip("mypy.api")
    (tmp_path / "code.py").write_text(CODE)
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\npython_version = 3.11\ncache_dir = /dev/null\nfollow_imports = silent\n"
        "[mypy-torch.*,numpy.*,scipy.*,pyarrow.*,pydantic.*,pydantic_core.*,safetensors.*]\nfollow_imports = skip\n"
    )  # what is skipped is not needed to know these signatures, and takes a minute to read
    out, err, _ = api.run(["--config-file", str(tmp_path / "mypy.ini"), str(tmp_path / "code.py")])
    found = {int(line) for line in re.findall(r"code\.py:(\d+): error", out)}
    assert found == {at for at, line in enumerate(CODE.split("\n"), start=1) if "# error" in line}, out + err
