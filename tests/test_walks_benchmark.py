"""What walks keep is measured by the items table alone, and the report puts both ways side by side."""

import copy

import numpy as np
import pytest
from benchmarks import walks
from benchmarks.control_report import walks as table

import macrid
from macrid.concepts.space import space_of

ABOUT = {
    "machine": {"cpu": "a slow CPU", "cores": 2, "gpu": None},
    "versions": {"torch": "2"},
    "date": "2020-02-02",
}


@pytest.fixture(scope="module")
def understood(trained):
    model = copy.deepcopy(trained[0])
    macrid.understand(model)
    return model


def test_the_judge_counts_equal_categories_near_numbers_and_shared_tags(understood):
    judge = walks.Judge(understood)
    entry = space_of(understood).meaning.dimensions[0].model_copy(update={"attribute": "tags: b", "kind": "tag"})
    judge.rows = [
        {"colour": "red", "size": 10.0, "tags": "a|b"},
        {"colour": "red", "size": 10.9, "tags": "a"},
        {"colour": "blue", "size": 11.1, "tags": "a|b|c"},
        {"colour": None, "size": None, "tags": "b"},
    ]
    judge.spreads["size", entry.concept] = 10.0
    kept = [[judge._kept(name, entry, 0, other) for name in ("colour", "size", "other tags")] for other in (1, 2, 3)]
    assert kept == [[1, 1, 1], [0, 0, 0.5], [0, 0, 0]]


def test_holding_keeps_more_and_no_more_than_is_possible(understood):
    measured = walks.measure(understood, starts=30, steps=5)
    plain, holding = measured["ways"].values()
    assert measured["walks"] > 20
    assert plain["kept"] + 0.05 < holding["kept"] <= measured["most_kept"] <= 1
    assert holding["kept_all"] >= plain["kept_all"]
    assert holding["moves"] > 0.8 * plain["moves"] > 0
    assert all(np.isfinite(value) for way in measured["ways"].values() for value in way.values())


def test_the_report_shows_both_ways_and_what_is_possible():
    way = {"kept": 0.4, "kept_all": 0.1, "moves": 0.9, "follows": 0.95, "cosine": 0.4, "kept_se": 0.004, "ms": 3.21}
    ways = {"the walk of the paper": way, "holding": {**way, "kept": 0.8}}
    found = {"starts": 200, "walks": 1234, "most_kept": 0.85, "ways": ways}
    speed = {"items": 20_000, "the walk of the paper": 3.0, "holding": 4.0}
    text = table({"about": ABOUT, "steps": 8, "data": {"shop": found}, "speed": speed})
    assert "| shop | the walk of the paper | 40 % | 10 % | .90 | .95 | .40 | 3.2 ms |" in text
    assert "| shop | holding | 80 % |" in text
    for part in ("1,234 on shop", "0.4 points", "85 % on shop", "20,000 items", "4.0 ms instead of 3.0", "a slow CPU"):
        assert part in text
