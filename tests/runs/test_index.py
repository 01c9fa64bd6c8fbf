"""The index of a run: written, read, and refused."""

import shutil
import warnings

import numpy as np
import pytest
import torch
from safetensors.torch import save as to_bytes

import macrid
from macrid import runs
from macrid.errors import IndexWarning, RequestError
from macrid.models import macridvae
from macrid.ops import search
from macrid.runs import folder


@pytest.fixture
def indexed(run):
    runs.write_index(run, macrid.load(run, "cpu"))
    return run


def test_a_run_with_an_index_gives_the_same_lists(run, monkeypatch, trained):
    monkeypatch.setattr(macridvae, "WORTHWHILE", 1)
    monkeypatch.setattr(macridvae, "DEEPEST", 1.0)
    for share in ("MOST_OPEN", "MOST_SCORED"):
        monkeypatch.setattr(search, share, 2.0)
    plain = macrid.load(run, "cpu")
    written = runs.write_index(run, macrid.load(run, "cpu"))
    model = macrid.load(run, "cpu")
    assert torch.equal(model.index.grouping.cell, written.grouping.cell)
    assert model.index.trial == written.trial
    histories = trained[1].test.history
    np.testing.assert_array_equal(plain.top(histories, 12)[0], model.top(histories, 12)[0])
    assert model.kept_cells is not None
    history = model.items[:4]
    assert [item.id for item in plain.recommend(history, 9)] == [item.id for item in model.recommend(history, 9)]


def test_an_index_of_another_run_is_refused_and_every_item_is_scored(indexed, tmp_path, trained):
    other = macrid.MacridVAE(concepts=7, dim=16, neighbours=0)
    other.fit(trained[1].train, epochs=1, device="cpu", seed=9)
    runs.save(other, tmp_path / "other")
    shutil.copy(indexed / runs.INDEX, tmp_path / "other" / runs.INDEX)
    with pytest.warns(IndexWarning, match="another run.*every item is scored.*macrid index"):
        model = macrid.load(tmp_path / "other", "cpu")
    assert model.index is None
    assert runs.INDEX in runs.examine(tmp_path / "other")
    runs.write_index(tmp_path / "other", model)
    assert runs.examine(tmp_path / "other") == {}


@pytest.mark.parametrize("damage", ["cut", "turned", "empty"])
def test_a_damaged_index_is_refused_and_the_run_still_opens(indexed, damage):
    file = indexed / runs.INDEX
    content = bytearray(file.read_bytes())
    content[-3] ^= 255
    file.write_bytes({"cut": bytes(content[: len(content) // 2]), "turned": bytes(content), "empty": b""}[damage])
    with pytest.warns(IndexWarning, match="damaged"):
        assert macrid.load(indexed, "cpu").index is None
    assert runs.INDEX in runs.examine(indexed)
    runs.accept(indexed)
    assert not file.exists()


def test_an_index_can_be_removed(indexed):
    assert runs.remove_index(indexed)
    assert not runs.remove_index(indexed)
    with warnings.catch_warnings(action="error"):
        assert macrid.load(indexed, "cpu").index is None
    assert runs.examine(indexed) == {}


def test_a_model_without_concepts_has_no_index(shop_split, tmp_path):
    model = macrid.Popularity().fit(shop_split.train)
    model.save(tmp_path / "run")
    with pytest.raises(RequestError, match="has no index"):
        runs.write_index(tmp_path / "run", model)


def test_a_run_that_was_replaced_meanwhile_keeps_its_own_index(indexed, monkeypatch):
    before = (indexed / runs.INDEX).read_bytes()
    model = macrid.load(indexed, "cpu")
    digests = iter(["old", "new"])
    monkeypatch.setattr(runs.index, "weights_digest", lambda path: next(digests))
    with pytest.raises(macrid.RunError, match="replaced since"):
        runs.write_index(indexed, model)
    assert (indexed / runs.INDEX).read_bytes() == before


@pytest.mark.parametrize("wrong", ["missing", "float", "negative", "short"])
def test_an_index_without_proper_parts_is_refused(indexed, wrong):
    """Such as one of an earlier version, which had cells only."""
    tensors, about = folder.tensors_of(indexed / runs.INDEX)
    part = tensors.pop("part")
    changed = {"float": part.float(), "negative": part - 1000, "short": part[1:].clone()}
    if wrong != "missing":
        tensors["part"] = changed[wrong]
    folder.put(indexed, lambda: {runs.INDEX: to_bytes(tensors, about)})
    with pytest.warns(IndexWarning, match="earlier version" if wrong == "missing" else "no proper parts"):
        assert macrid.load(indexed, "cpu").index is None
