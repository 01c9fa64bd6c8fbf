"""Runs to save, load and damage."""

import pytest

import macrid
from macrid import manifest, runs


@pytest.fixture
def run(trained, tmp_path):
    model, split = trained
    runs.save(
        model, tmp_path / "run", heldout={"validation": split.validation, "test": split.test}, data={"source": "x"}
    )
    return tmp_path / "run"


@pytest.fixture(scope="session")
def whole(shop_split, tmp_path_factory):
    """A run with every kind of file."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    macrid.train(
        shop_split, folder, concepts=3, dim=6, epochs=2, batch_size=60, device="cpu", baselines=False, start="random"
    )
    manifest.update(folder, {"map.safetensors": b"x" * 50, "inspection.json": "{}"}, runs.FILES)
    return folder
