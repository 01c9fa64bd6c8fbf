"""A small shop run with names."""

import pytest

import macrid
from macrid import runs


@pytest.fixture(scope="session")
def shop_run(trained, tmp_path_factory):
    """Do not change it."""
    folder = tmp_path_factory.mktemp("assistant")
    runs.save(trained[0], folder / "plain")
    model = macrid.load(folder / "plain")
    macrid.understand(model)
    runs.save(model, folder / "shop")
    return folder / "shop"


@pytest.fixture(scope="session")
def shop_model(shop_run):
    return macrid.load(shop_run, "cpu")
