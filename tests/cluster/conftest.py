"""A run, and the events of many users, some of them odd."""

import numpy as np
import polars as pl
import pytest

from macrid import runs
from tests.cli.conftest import invoke  # noqa: F401


@pytest.fixture(scope="session")
def batch_run(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("batch") / "run"
    runs.save(trained[0], folder)
    return folder


@pytest.fixture(scope="session")
def events(trained):
    """Shuffled, with duplicates, a stranger, a glutton and an unknown item."""
    ids = list(trained[0].items)
    random = np.random.default_rng(5)
    rows = [(f"user-{u}", ids[i]) for u in range(150) for i in random.integers(0, len(ids), 1 + u % 9)]
    rows += [("stranger", "zz"), ("user-3", "zz"), *(("glutton", item) for item in ids[2:]), ("full", ids[0])]
    rows += [("full", item) for item in ids]
    order = random.permutation(len(rows))
    return pl.DataFrame([rows[place] for place in order], schema=["user", "item"], orient="row")
