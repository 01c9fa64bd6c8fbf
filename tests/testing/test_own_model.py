"""The model of docs/own-model.md meets the contract, and a model that breaks it is found out."""

import re
from pathlib import Path

import pytest

from macrid.errors import SettingsError
from macrid.models import model_class
from macrid.testing import RecommenderContract, named_checkerboard

PAGE = Path(__file__).parents[2] / "docs" / "own-model.md"
page = {"__name__": __name__}
for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
    exec(code, page)
ItemCosine, TestItemCosine = page["ItemCosine"], page["TestItemCosine"]


def test_it_is_known_by_its_name_and_checks_its_settings():
    assert model_class("itemcosine") is ItemCosine
    with pytest.raises(SettingsError, match="-1"):
        ItemCosine(shrinkage=-1)
    with pytest.raises(SettingsError, match="shrinkge"):
        ItemCosine(shrinkge=1)


class Worse(ItemCosine):
    """Prefers what is least like the history."""

    def scores(self, histories):
        return -super().scores(histories)


class Contract(RecommenderContract):
    expected_ndcg = TestItemCosine.expected_ndcg

    @classmethod
    def make(cls):
        return Worse()


def test_a_model_that_ranks_badly_fails_the_contract():
    with pytest.raises(AssertionError):
        Contract().test_it_ranks_as_well_as_expected()
    model = Contract.fit(Contract.make(), named_checkerboard())
    with pytest.raises(AssertionError):
        Contract().test_the_missing_item_of_the_same_colour_comes_first_if_the_model_is_personal(model)
