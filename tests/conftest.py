"""A small shop, and a model trained on it once for all tests that only ask questions."""

import os
import signal
import threading

import pytest
from hypothesis import settings

from tests.postgres import database, event_database, event_store, postgres  # noqa: F401

os.environ.setdefault("GOMP_SPINCOUNT", "2000")  # as the command line does: tests share the cores with others
import torch

if not torch.cuda.is_available():  # kernels run in Triton's interpreter, to be chosen before they are imported
    os.environ.setdefault("TRITON_INTERPRET", "1")

settings.register_profile("shared machines", deadline=None)  # a first call may wait for others
settings.load_profile("shared machines")

for size in ("COLUMNS", "LINES"):  # of the terminal that tests run in; consoles would keep it
    os.environ.pop(size, None)

if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background


LONG = {
    f"test_{name}.py"
    for name in ("day", "search", "workflow", "benchmarks", "studio_views", "loop", "training", "studio_training")
}
"""Files that take half a minute or more."""


@pytest.hookimpl(trylast=True)  # after the order was shuffled
def pytest_collection_modifyitems(items):
    """Long files first, so that no process is left with one at the end."""
    items.sort(key=lambda item: item.path.name not in LONG)


@pytest.fixture
def by_kernels(monkeypatch):
    """Ops in single precision use kernels on a CPU, too."""
    from tests.truth import in_single_precision, use_kernels

    use_kernels(monkeypatch, in_single_precision)


@pytest.fixture(scope="session")
def shop():
    from macrid.data.shop import generate

    return generate(users=400, items=160, seed=3)


@pytest.fixture(scope="session")
def shop_split(shop):
    return shop.split(heldout=50)


@pytest.fixture(scope="session")
def trained(shop_split):
    """(model, split): do not change the model."""
    import macrid

    model = macrid.MacridVAE(concepts=7, dim=16, neighbours=0)
    model.fit(shop_split.train, validation=shop_split.validation, epochs=12, batch_size=50, seed=1, device="cpu")
    return model, shop_split
