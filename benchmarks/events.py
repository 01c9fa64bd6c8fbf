"""What the event store costs: recommendations for known users with and without it, and how fast events are stored.

    python -m benchmarks.events --items 5000 --postgres postgresql://user@host/name

One run is served three times in this process: without a store, with SQLite and with PostgreSQL (if its URL is given;
better set as MACRID_EVENTS). Each answers the same requests one after the other, round by round; every user has events
in the stores. Times depend on what else the machine does, processor time hardly: the ratio is one of processor time of
this process, the smallest of all rounds. Results go to benchmarks/results/events.json; `python -m
benchmarks.serving_report` writes them into docs/serving.md.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.serving import made_run

RESULTS = Path(__file__).parent / "results" / "events.json"
PLAIN = "none"
USERS = 300
EVENTS = 20  # of every user


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, help="a run with held-out users; made from the built-in shop if not given")
    parser.add_argument("--items", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--postgres", default=os.environ.get("MACRID_EVENTS"), help="the URL of an empty database")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = asked.run or made_run(Path(folder) / "run", asked.items, epochs=2)
        stores = {PLAIN: None, "SQLite": f"sqlite:///{folder}/events.db"}
        if asked.postgres:
            stores["PostgreSQL"] = asked.postgres
        found = asyncio.run(measured(run, stores, asked.rounds))
    RESULTS.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(table(found))


async def measured(run: Path, stores: dict[str, str | None], rounds: int) -> dict[str, Any]:
    """Every service in every round."""
    from benchmarks.measuring import circumstances

    from macrid.serving.service import Service
    from macrid.settings import ServingSettings

    services = {name: Service(run, ServingSettings.make(events=url), None, _nothing) for name, url in stores.items()}
    rows: dict[str, dict[str, list[float]]] = {
        name: {"cpu": [], "wall": [], "look_up": [], "stored": []} for name in stores
    }
    for round_ in range(-1, rounds):  # the first one warms up
        for name, service in services.items():
            if stores[name] is not None and round_ < 1:
                rows[name]["stored"].append(statistics.median(await _store(service)))
            cpu, wall = await _ask(service)
            if round_ >= 0:
                rows[name]["cpu"].append(cpu)
                rows[name]["wall"].append(wall)
                rows[name]["look_up"].append(await _look_up(service))
    items = len(services[PLAIN].hosted.model.items)
    for service in services.values():
        service.close()
    return {**circumstances(), "items": items, "rounds": rounds, "users": USERS, "events": EVENTS, "stores": rows}


def _nothing() -> None:
    """Called on reload."""


async def _store(service: Any) -> list[float]:
    """Give every user events, one request each; the time of each in ms."""
    from macrid.data.eventlog import Event

    items, times = service.hosted.model.items, []
    for user in range(USERS):
        now = datetime.now(UTC)
        events = [
            Event(f"{now:%M%S%f}-{n}", str(items[(31 * user + 7 * n) % len(items)]), now) for n in range(EVENTS)
        ]  # fmt: skip
        began = time.perf_counter()
        await service.events.append(f"test-{user}", events)
        times.append(1e3 * (time.perf_counter() - began))
    return times


async def _ask(service: Any) -> tuple[float, float]:
    """Processor time and time of a recommendation in ms, the mean over all users."""
    from macrid.serving.recommending import recommend
    from macrid.serving.schemas.requests import RecommendRequest

    cpu, wall = time.process_time(), time.perf_counter()
    for user in range(USERS):
        await recommend(service.hosted, service, RecommendRequest(user=f"test-{user}"))
    return 1e3 * (time.process_time() - cpu) / USERS, 1e3 * (time.perf_counter() - wall) / USERS


async def _look_up(service: Any) -> float:
    """Processor time of looking up a user in µs, the mean over all users."""
    cpu = time.process_time()
    for user in range(USERS):
        await service.waiting_for_events(service.hosted.users.find, f"test-{user}")
    return 1e6 * (time.process_time() - cpu) / USERS


def table(found: dict[str, Any]) -> str:
    """The smallest processor times of all rounds, and the median time to store."""
    lines = [
        f"Processor time of the service for {found['users']} users one after the other, {found['items']:,} items, the"
        f" least of {found['rounds']} rounds; storing includes waiting for the disk:",
        "",
        f"| event store | look up a user, µs | recommend, ms | against none | store {found['events']} events, ms |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    plain = min(found["stores"][PLAIN]["cpu"])
    for name, row in found["stores"].items():
        look_up, cpu = min(row["look_up"]), min(row["cpu"])
        stored = f"{statistics.median(row['stored']):.1f}" if row["stored"] else ""
        lines.append(f"| {name} | {look_up:.0f} | {cpu:.2f} | {cpu / plain:.2f}× | {stored} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
