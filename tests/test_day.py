"""A day in a shop, as the example lives it, with a real PostgreSQL."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

from tests.cli.conftest import invoke  # noqa: F401
from tests.postgres import _created
from tests.serving.conftest import browser, visit  # noqa: F401

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "examples" / "day-in-a-shop" / "day.py"
LINK = ROOT / "src" / "macrid" / "serving" / "static" / "core" / "link.js"

pytestmark = pytest.mark.slow


def run(*options, **environment):
    command = [sys.executable, SCRIPT, *map(str, options)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", **environment}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)


@pytest.fixture(scope="module")
def day(postgres, tmp_path_factory):
    """The example, run once: its folder, its database and what it printed. Do not change them."""
    folder, database = tmp_path_factory.mktemp("day"), _created(postgres).replace("+psycopg", "")
    ended = run("--folder", folder, MACRID_DATABASE=database)
    log = folder / "service.log"
    assert ended.returncode == 0, ended.stdout + ended.stderr + (log.read_text() if log.exists() else "")
    return SimpleNamespace(folder=folder, database=database, out=ended.stdout, log=log.read_text())


def test_the_day_ends_well_and_nothing_was_lost(day):
    import psycopg

    assert day.out.endswith("Done\n")
    assert os.readlink(day.folder / "runs" / "current") == "day-2"
    stored = int(re.search(r"([\d,]+) events stored", day.out)[1].replace(",", ""))
    with psycopg.connect(day.database) as connection:
        (count,) = connection.execute("select count(*) from macrid_events where event_id like 'today-%'").fetchone()
    assert count == stored > 500
    assert int(re.search(r"([\d,]+) requests meanwhile, none failed", day.out)[1].replace(",", "")) > 50
    assert "Traceback" not in day.log
    assert "open-sesame" not in day.out + day.log  # the password


def test_a_closed_gate_stops_the_night(day, invoke):  # noqa: F811
    assert 0 < day.out.index("the gate is closed") < day.out.index("the service has swapped to day-2")
    assert len(re.findall(r"now serving .*day-2 ", day.log)) == 2  # each process once, after the real gate
    first, second = day.folder / "runs" / "day-1", day.folder / "runs" / "day-2"
    code, _, err = invoke("diff", first, second, "--fail-if", "ari < 1.1", "--device", "cpu")
    assert (code, err.strip().splitlines()[-1]) == (3, "failed: ari < 1.1")


def test_yesterdays_link_means_the_same_in_the_studio_today(day, visit):  # noqa: F811
    from tests.serving.browser import Site

    address = re.search(r"handbags, size: (\S+)", day.out)[1]
    query = urlsplit(address).query
    with Site(day.folder / "runs" / "current", users=str(day.folder / "users.csv"), events=day.database) as site:
        k, j = site.dimension("handbags", "size")
        state = read_link(f"?{query}")
        (move,) = state["moves"]
        assert (move["concept"], move["dimension"], move["name"], move["concept_name"]) == (k, j, "size", "handbags")
        assert state["run"] != site.get("/model")["run_id"]
        answer = site.post("/recommend", user=state["user"], moves=state["moves"], run=state["run"], n=24)
        assert (answer["warnings"], answer["moves"]) == ([], state["moves"])
        studio = visit(site, f"?{query}&concept={k}")
        wanted = site.recommended(user=state["user"], moves=state["moves"], run=state["run"])
        assert studio.shown() == wanted
        slider = studio.knob("handbags", "size")
        assert studio.value(slider) == pytest.approx(move["to"], abs=0.01)
        assert "carried over" not in studio.page.content()


def read_link(query):
    """The state of the page, by its own code."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    code = f"import {{ read }} from {json.dumps(LINK.as_uri())}; console.log(JSON.stringify(read({json.dumps(query)})))"
    done = subprocess.run(
        [node, "--input-type=module", "--eval", code], capture_output=True, text=True, check=True, timeout=60
    )
    return json.loads(done.stdout)


def test_a_database_that_cannot_be_reached_is_one_clear_line(tmp_path):
    ended = run("--database", "postgresql://nobody@127.0.0.1:1/none", "--folder", tmp_path)
    assert ended.returncode == 1
    assert re.fullmatch(r"error: connection .*127\.0\.0\.1.*\n", ended.stderr)
    ended = run("--folder", tmp_path, MACRID_DATABASE="")
    assert (ended.returncode, ended.stderr) == (1, "error: no database; set MACRID_DATABASE or give --database\n")


def test_every_command_in_the_docs_is_one_that_the_example_runs(day):
    page = (ROOT / "docs" / "production.md").read_text(encoding="utf-8")
    shown = [
        re.sub(r"\s+", " ", command.replace("\\\n", " ")).strip()
        for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL)
        for command in re.findall(r"^\$ (macrid (?:.*\\\n)*.*)$", block, re.MULTILINE)
    ]
    ran = {line.strip().removeprefix("$ ").replace("'", '"') for line in day.out.splitlines() if " $ macrid " in line}
    assert len(shown) == 7  # all but the drill
    assert [command for command in shown if command.replace("'", '"') not in ran] == []
