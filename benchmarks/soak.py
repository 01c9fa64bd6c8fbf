"""An hour of mixed requests at half of what the service can do, with reloads and killed processes on the way.

    python -m benchmarks.soak --minutes 60

First the most requests per second are measured with the same clients, which share the machine with the service. Times
are counted from when a request was due, so a stalled service cannot hide. A request that a killed process takes with it
is sent again, as clients do, and counted apart. Results go to benchmarks/results/soak.json, the table to docs/trust.md.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from array import array
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from benchmarks.serving import Running, made_run

RESULTS = Path(__file__).parent / "results" / "soak.json"
CLIENTS = 16
WORKERS = 2
AFTER_KILL = 5.0  # seconds in which lost connections are those of the killed process
SHAKEN = 30.0  # seconds that a kill is felt
RELOADS, KILLS = 30, 10  # in the whole time
FEWEST_SECONDS = 20  # between two reloads
WARM_UP = 0.2  # share of the time before memory counts
QUIET_END = 0.9  # share of the time after which nothing is reloaded or killed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--items", type=int, default=5_000)
    parser.add_argument("--rate", type=float, help="requests per second; half of the measured most if not given")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where results go")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made_run(folder / "one", asked.items)
        shutil.copytree(folder / "one", folder / "two")
        found = soaked(folder, asked.minutes * 60, asked.rate)
    asked.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(table(found))
    if asked.out == RESULTS:
        from benchmarks import attack

        attack.PAGE.write_text(attack.filled(attack.PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def soaked(folder: Path, seconds: float, rate: float | None) -> dict[str, Any]:
    """Serve folder/one, and folder/two in turn, and measure."""
    from benchmarks.measuring import circumstances

    with (folder / "log").open("w+", encoding="utf-8") as log:
        service = Running(folder / "one", WORKERS, log)
        with service as port:
            requests = mixed(folder / "one")
            most = rate * 2 if rate else asyncio.run(capacity(port, requests))
            print(f"{most:,.0f} requests/s at most; now {most / 2:,.0f} for {seconds / 60:g} minutes", flush=True)
            soak = Soak(folder, port, service.process.pid, requests, seconds, most / 2)
            asyncio.run(soak.run())
        log.seek(0)
        tracebacks = log.read().count("Traceback")
    return {**circumstances(), "workers": WORKERS, "most": most, "tracebacks": tracebacks, **soak.summary()}


def mixed(run: Path) -> list[bytes]:
    """Requests in the order in which they are sent, over and over: mostly recommendations."""
    from macrid.runs import load, read_histories

    draw, items, held = random.Random(0), load(run, "cpu").items, read_histories(run)
    assert held is not None
    histories = [[items[int(at)] for at in held.indices[a:b]] for a, b in itertools.pairwise(held.indptr)]
    move = {"concept": 0, "dimension": 0, "by": 0.2}
    requests: list[bytes] = []
    for history in draw.choices(histories, k=2_000):
        item, body = quote(str(draw.choice(items))), {"history": history, "n": 10}
        kinds = [
            (70, _post("/v1/recommend", body)),
            (10, _post("/v1/recommend", {**body, "moves": [move], "concept": 0})),
            (3, _post("/v1/recommend", {**body, "explain": True, "history": history[:20]})),
            (2, _post("/v1/recommend/batch", {"histories": [history, history[:3]], "n": 5})),
            (3, _post("/v1/encode", {"history": history})),
            (4, _get(f"/v1/items?q={item[:3]}")),
            (2, _get(f"/v1/items/{item}")),
            (2, _get(f"/v1/pictures/{item}")),
            (2, _get(f"/v1/similar?item={item}")),
            (1, _get("/v1/users?limit=20")),
            (1, _get("/v1/model")),
        ]
        requests += draw.choices([request for _, request in kinds], [weight for weight, _ in kinds])
    return requests


def _post(path: str, body: dict[str, Any]) -> bytes:
    content = json.dumps(body).encode()
    header = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return f"{header}content-length: {len(content)}\r\n\r\n".encode() + content


def _get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()


class Client:
    """One connection, opened again when lost."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, request: bytes) -> int:
        """The status of the response; an `OSError` or `EOFError` if the connection is lost."""
        try:
            if self._reader is None or self._writer is None:
                self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
            self._writer.write(request)
            header = (await self._reader.readuntil(b"\r\n\r\n")).lower()
            length = header.partition(b"content-length:")[2].partition(b"\r\n")[0]
            await self._reader.readexactly(int(length))
            if b"connection: close" in header:
                self.close()
            return int(header.split(None, 2)[1])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


async def capacity(port: int, requests: list[bytes], seconds: float = 20.0) -> float:
    """Requests per second that the clients get answered when each sends its next one at once."""
    count, queue = 0, itertools.cycle(requests)

    async def send(until: float) -> None:
        nonlocal count
        client = Client(port)
        while time.monotonic() < until:
            await client.ask(next(queue))
            count += 1
        client.close()

    for duration in (seconds / 4, seconds):  # the first warms up
        count = 0
        await asyncio.gather(*(send(time.monotonic() + duration) for _ in range(CLIENTS)))
    return count / seconds


@dataclass(eq=False)
class Soak:
    """The clients, what disturbs the service meanwhile, and what is measured."""

    folder: Path
    port: int
    supervisor: int
    requests: list[bytes]
    seconds: float
    rate: float
    times: array[float] = field(default_factory=lambda: array("f"))
    """Milliseconds from when a request was due to its response."""
    calm: array[float] = field(default_factory=lambda: array("f"))
    """Those of them not soon after a kill."""
    errors: Counter[str] = field(default_factory=Counter)
    resent: int = 0
    reloads: int = 0
    kills: int = 0
    memory: list[tuple[float, float]] = field(default_factory=list)
    """Seconds since the start, MiB of all processes."""
    killed_at: float = 0.0

    async def run(self) -> None:
        self.began = time.monotonic()
        disturb = [asyncio.create_task(each) for each in (self._reload(), self._kill(), self._watch())]
        await asyncio.gather(*(self._send(place) for place in range(CLIENTS)))
        for task in disturb:
            task.cancel()

    def summary(self) -> dict[str, Any]:
        ordered, calm = sorted(self.times), sorted(self.calm)
        start = [size for at, size in self.memory if WARM_UP <= at / self.seconds < 2 * WARM_UP]
        end = [size for at, size in self.memory if at / self.seconds >= 1 - WARM_UP]
        return {
            "seconds": self.seconds, "rate": self.rate, "requests": len(ordered), "errors": dict(self.errors),
            "p50": ordered[len(ordered) // 2], "p99": ordered[int(len(ordered) * 0.99)], "worst": ordered[-1],
            "p99_calm": calm[int(len(calm) * 0.99)],
            "resent": self.resent, "reloads": self.reloads, "kills": self.kills,
            "memory_start": statistics.median(start), "memory_end": statistics.median(end), "memory": self.memory[::6],
        }  # fmt: skip

    async def _send(self, place: int) -> None:
        client = Client(self.port)
        for number in itertools.count(place, CLIENTS):
            due = self.began + number / self.rate
            if due > self.began + self.seconds:
                break
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            problem = await self._ask(client, self.requests[number % len(self.requests)])
            self.times.append((time.monotonic() - due) * 1e3)
            if due - self.killed_at > SHAKEN:
                self.calm.append(self.times[-1])
            if problem is not None:
                self.errors[problem] += 1
        client.close()

    async def _ask(self, client: Client, request: bytes) -> str | None:
        """What went wrong, if anything."""
        while True:
            try:
                status = await asyncio.wait_for(client.ask(request), 30)
                return None if status == 200 else f"status {status}: {request[:40]!r}"
            except TimeoutError:
                return "no response within 30 s"
            except (OSError, EOFError) as error:
                if time.monotonic() - self.killed_at > AFTER_KILL:
                    return type(error).__name__
                self.resent += 1

    async def _reload(self) -> None:
        """By request and by signal in turn, each time another run or a changed one."""
        while True:
            await self._pause(max(FEWEST_SECONDS, self.seconds / RELOADS))
            if self.reloads % 2:
                for run in (self.folder / "one", self.folder / "two"):
                    os.utime(run / "model.safetensors")
                os.kill(self.supervisor, signal.SIGHUP)
            else:
                client, name = Client(self.port), ("two", "one")[self.reloads // 2 % 2]
                if problem := await self._ask(client, _post("/v1/reload", {"run": name})):
                    self.errors[f"reload: {problem}"] += 1
                client.close()
            self.reloads += 1

    async def _kill(self) -> None:
        while True:
            await self._pause(max(2.5 * FEWEST_SECONDS, self.seconds / KILLS))
            self.killed_at = time.monotonic()
            os.kill(random.choice(workers_of(self.supervisor)), signal.SIGKILL)
            self.kills += 1

    async def _pause(self, seconds: float) -> None:
        """Wait; for ever, towards the end."""
        await asyncio.sleep(seconds)
        if time.monotonic() - self.began > QUIET_END * self.seconds:
            await asyncio.sleep(self.seconds)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(min(5.0, self.seconds / 60))
            sizes = [memory_of(pid) for pid in (self.supervisor, *workers_of(self.supervisor))]
            self.memory.append((time.monotonic() - self.began, sum(sizes)))
            if len(self.memory) % 24 == 0:
                at, size = self.memory[-1]
                errors = sum(self.errors.values())
                print(f"{at / 60:.0f} min: {len(self.times):,} requests, {errors} errors, {size:,.0f} MiB", flush=True)


def workers_of(supervisor: int) -> list[int]:
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text(encoding="ascii").split()
    return [int(pid) for pid in children if b"spawn_main" in _command(pid)]


def _command(pid: str) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def memory_of(pid: int) -> float:
    """MiB of a process that are its own: pages of files, such as torch's libraries, are shared with who knows whom."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss_Anon:"):
                return int(line.split()[1]) / 1024
    return 0.0


def table(found: dict[str, Any]) -> str:
    """One row for everything."""
    growth = found["memory_end"] / found["memory_start"] - 1
    errors = sum(found["errors"].values())
    what = f" ({'; '.join(found['errors'])})" if errors else ""
    lines = [
        f"{found['seconds'] / 60:g} minutes at {found['rate']:,.0f} requests/s, half of what {found['workers']}"
        f" processes can do on {found['machine']['cores']} cores shared with the clients; {found['reloads']} reloads"
        f" and {found['kills']} killed processes on the way. Calm: without the {SHAKEN:g} s after each kill, in which"
        " one process does the work of two while the other starts again.",
        "",
        "| requests | p50 ms | p99 ms | p99 calm | worst ms | errors | sent again after a kill | tracebacks"
        " | memory MiB | growth |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        f"| {found['requests']:,} | {found['p50']:.1f} | {found['p99']:.1f} | {found['p99_calm']:.1f}"
        f" | {found['worst']:,.0f} | {errors}{what} | {found['resent']} | {found['tracebacks']}"
        f" | {found['memory_start']:,.0f} → {found['memory_end']:,.0f} | {growth:+.1%} |",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
