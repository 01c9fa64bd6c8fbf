"""A shop run, trained well enough to have names, and its app."""

import os
import shutil

import pytest

from macrid import runs
from macrid.files import locked


@pytest.fixture(scope="session")
def shop_run(tmp_path_factory):
    """A run with names and held-out users; do not change it. Processes that test side by side share it."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "shop"
    folder.mkdir(exist_ok=True)
    with locked(folder):
        if not (folder / "run").exists():
            make_run(folder / "run")
    return folder / "run"


def make_run(folder):
    import macrid
    from macrid.data.shop import generate
    from macrid.report.effects import measure_effects

    split = generate(users=1200, items=500, seed=2).split(heldout=60)
    model = macrid.MacridVAE(concepts=7, dim=24)
    model.fit(split.train, validation=split.validation, epochs=25, batch_size=100, seed=1, device="cpu")
    macrid.understand(model)
    measure_effects(model, split.validation)
    metrics = {name: macrid.evaluate(model, getattr(split, name)).as_json() for name in ("validation", "test")}
    runs.save(
        model, folder, heldout={"validation": split.validation, "test": split.test}, metrics=metrics,
        data={"source": "folder", "path": "/somewhere"},
    )  # fmt: skip


@pytest.fixture(scope="session")
def shop_model(shop_run):
    return runs.load(shop_run, "cpu")


@pytest.fixture
def own_run(shop_run, tmp_path):
    """A copy that may be changed."""
    return shutil.copytree(shop_run, tmp_path / "run")


@pytest.fixture(scope="session")
def popularity_run(trained, tmp_path_factory):
    """A model without concepts, with integer ids and no titles."""
    import macrid

    model = macrid.Popularity().fit(trained[1].train.matrix)
    folder = tmp_path_factory.mktemp("popularity") / "run"
    runs.save(model, folder)
    return folder


@pytest.fixture(scope="session")
def client_of():
    """A function that makes a client for a run and settings, closed at the end."""
    from contextlib import ExitStack

    from starlette.testclient import TestClient

    from macrid.serving.app import create_app
    from macrid.settings import ServingSettings

    with ExitStack() as stack:

        def make(run, **settings):
            app = create_app(run, ServingSettings.make(settings))
            address = f"http://{settings.get('host', '127.0.0.1')}"
            return stack.enter_context(TestClient(app, base_url=address, raise_server_exceptions=False))

        yield make


@pytest.fixture(scope="session")
def client(client_of, shop_run):
    """A read-only client of the shop."""
    return client_of(shop_run, edits="no")


@pytest.fixture(scope="module")
def browser():
    """Per module: while it is open, its event loop runs in this thread and tests cannot run another."""
    from playwright.sync_api import sync_playwright

    from tests.serving.browser import chromium

    program = chromium()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", "/tmp")  # Chromium makes a socket, whose path is limited to about 100 characters
        with sync_playwright() as playwright:
            opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
            yield opened
            opened.close()


@pytest.fixture(scope="session")
def shop_site(shop_run):
    """The shop without renaming. Starts map and report, so that they are ready when needed."""
    from tests.serving.browser import Site

    with Site(shop_run, edits="no") as site:
        site.get("/map")
        site.get("/report")
        yield site


@pytest.fixture
def visit(browser):
    """A function that opens a `Studio` for a site and a query; checks at the end that no page had errors."""
    from tests.serving.browser import Studio

    opened = []

    def make(site, query="", *, ready=True, **options):
        opened.append(Studio(browser, site, query, **options))
        return opened[-1].open() if ready else opened[-1]

    yield make
    for studio in opened:
        studio.close()
