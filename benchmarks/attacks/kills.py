"""Kills, full disks and rivals: does `--resume` finish every training, with the same files as without the accident?"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from benchmarks.attacks import Outcome

import macrid
from macrid.data import store
from macrid.data.shop import generate
from macrid.errors import MacridError
from macrid.runs import read_heldout

TIMES = 240
QUICK = {"concepts": 3, "dim": 6, "epochs": 6, "batch_size": 100}
MODELS = {
    "macridvae": QUICK,
    "multvae": {"dim": 6, "epochs": 6, "batch_size": 100},
    "ease": {},
    "popularity": {},
}
PHASES = ("reading", "training", "computing", "scoring", "understanding", "comparing")
LIMIT = 120  # seconds for one training, before it counts as stuck


def attack(times: int | None, seed: int) -> list[Outcome]:
    """times: kills; a sixth as many full disks, rivals and kills of the command."""
    torch.set_num_threads(1)  # a process with one thread can be forked, which is quicker than starting Python anew
    warnings.simplefilter("ignore")
    chance, count = random.Random(seed), times or TIMES
    with tempfile.TemporaryDirectory() as folder:
        attacks = Attacks(Path(folder), chance)
        kills = {phase: Outcome(f"kill while {phase}, then --resume", "finished, every file equal") for phase in PHASES}
        for number in range(count):
            phase, problem = attacks.kill(number)
            kills[phase].note(problem)
        commands = Outcome("kill of `macrid train`, then `macrid train --resume`", "finished, every file equal")
        disks = Outcome("full disk at any file, then --resume", "an error in words; then finished, every file equal")
        rivals = Outcome("two trainings into one folder", "one is refused, the run is whole")
        for number in range(max(1, count // 6)):
            disks.note(attacks.full_disk(number))
            rivals.note(attacks.rivals())
            if number % 4 == 0:
                commands.note(attacks.kill_command())
        return [*(outcome for outcome in kills.values() if outcome.tried), commands, disks, rivals]


class Attacks:
    """Trainings of small models, what they lead to, and how long their phases take."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder, self.chance, self.data = folder, chance, folder / "data"
        store.write(generate(users=300, items=120, seed=0).split(heldout=50), self.data)
        self.expected, self.moments = {}, {}
        for model in MODELS:
            run, log = folder / f"whole-{model}", folder / f"whole-{model}.log"
            assert _in_child(lambda run=run, model=model, log=log: self._train(model, run, self._watch(log))) == 0
            self.expected[model] = contents(run)
            moments = [json.loads(line) for line in log.read_text().splitlines()]
            self.moments[model] = [
                (moment["phase"], number, after["at"] - moment["at"])
                for number, (moment, after) in enumerate(pairwise(moments))
            ]

    def kill(self, number: int) -> tuple[str, str | None]:
        """The phase that a training was killed in, and what went wrong when it was resumed."""
        model = ("macridvae", "macridvae", "multvae", "macridvae", "ease", "popularity")[number % 6]
        phases = sorted({phase for phase, *_ in self.moments[model]})
        phase = phases[number // 6 % len(phases)]
        _, event, seconds = self.chance.choice([moment for moment in self.moments[model] if moment[0] == phase])
        delay, run = self.chance.uniform(0, seconds), self.folder / "killed"
        has_earlier = number % 2 == 0
        if has_earlier:
            shutil.copytree(self.folder / "whole-popularity", run)
        _in_child(lambda: self._train(model, run, self._deadly(event, delay), overwrite=has_earlier))
        if has_earlier and contents(run) not in (self.expected["popularity"], self.expected[model]):
            return phase, "the earlier run is gone, and the new one is not there"
        problem = self._resumed(model, run)
        shutil.rmtree(run, ignore_errors=True)
        return phase, problem

    def full_disk(self, number: int) -> str | None:
        model = ("macridvae", "ease", "multvae")[number % 3]
        run, size = self.folder / "full", self.chance.choice([200, 800, 2_000, 8_000, 20_000, 60_000])
        error = self.folder / "error"
        error.unlink(missing_ok=True)

        def train() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
            try:
                self._train(model, run)
            except MacridError as message:
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
                error.write_text(str(message)[:150])
                raise SystemExit(1) from None

        code = _in_child(train)
        if code not in (0, 1) or (code == 1 and not error.read_text()):
            return f"exit code {code} on a full disk"
        problem = self._resumed(model, run)
        shutil.rmtree(run, ignore_errors=True)
        return problem

    def rivals(self) -> str | None:
        run = self.folder / "rivals"
        models = self.chance.sample(list(MODELS), 2)
        pids = [_fork(lambda model=model: self._train(model, run, overwrite=True)) for model in models]
        codes = [_wait(pid) for pid in pids]
        try:
            problem = None if 0 in codes else f"both failed: {codes}"
            if problem is None and not _is_whole(run):
                problem = "metrics of one beside weights of the other"
        except (OSError, MacridError) as error:
            problem = f"no run is left: {error}".replace(str(run), "…")[:90]
        shutil.rmtree(run, ignore_errors=True)
        return problem

    def kill_command(self) -> str | None:
        """The real command, killed at any time."""
        run = self.folder / "command"
        words = [word for name, value in QUICK.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        command = [
            sys.executable,
            "-m",
            "macrid",
            "train",
            str(self.data),
            "--out",
            str(run),
            "--device",
            "cpu",
            *words,
        ]
        started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ONE_THREAD)
        time.sleep(self.chance.uniform(2, 8))
        started.kill()
        started.wait()
        done = subprocess.run([*command, "--resume"], capture_output=True, text=True, env=ONE_THREAD, check=False)
        problem = self._difference("macridvae", run) if done.returncode == 0 else _last_line(done.stderr)
        shutil.rmtree(run, ignore_errors=True)
        return problem

    def _train(self, model: str, run: Path, progress: Callable[[Any], None] | None = None, **options: Any) -> None:
        macrid.train(self.data, run, model=model, progress=progress, device="cpu", **MODELS[model], **options)

    def _resumed(self, model: str, run: Path) -> str | None:
        """What went wrong, if anything did."""
        error = self.folder / "resume-error"
        error.unlink(missing_ok=True)

        def resume() -> None:
            try:
                self._train(model, run, resume=True)
            except BaseException as problem:
                error.write_text(f"{type(problem).__name__}: {problem}".replace(str(run), "…")[:90])
                raise

        if _in_child(resume) != 0:
            return f"not resumed: {error.read_text() if error.exists() else 'stuck'}"
        return self._difference(model, run)

    def _difference(self, model: str, run: Path) -> str | None:
        found, expected = contents(run), self.expected[model]
        if (run / "training").exists():
            return "unfinished"
        different = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
        return f"differs: {', '.join(different)}" if different else None

    def _watch(self, log: Path) -> Callable[[Any], None]:
        """Write down when each event of a training comes."""

        def watch(event: Any) -> None:
            if event.phase in PHASES:
                with log.open("a") as file:
                    file.write(json.dumps({"phase": event.phase, "at": time.monotonic()}) + "\n")

        return watch

    def _deadly(self, number: int, delay: float) -> Callable[[Any], None]:
        """Kill this process some seconds after an event, counted from 0."""
        count = 0

        def watch(event: Any) -> None:
            nonlocal count
            if event.phase in PHASES:
                if count == number:
                    threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
                count += 1

        return watch


ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
TIMES_OF_A_RUN = {"seconds", "peak_memory_mb"}


def contents(run: Path) -> dict[str, Any]:
    """The files of a run, without times and memory, which are never the same twice."""
    found: dict[str, Any] = {}
    for file in run.iterdir():
        if file.name == "log.jsonl":
            lines = [json.loads(line) for line in file.read_text().splitlines()]
            found[file.name] = [{name: line[name] for name in line.keys() - TIMES_OF_A_RUN} for line in lines]
        elif file.name == "metrics.json":
            metrics = json.loads(file.read_text())
            metrics["training"] = {name: metrics["training"][name] for name in {*metrics["training"]} - TIMES_OF_A_RUN}
            found[file.name] = metrics
        elif file.name == "axes.safetensors":
            from safetensors.numpy import load_file

            found[file.name] = {name: value.tobytes() for name, value in load_file(file).items()}
        elif file.name not in ("manifest.json", "training"):  # digests of the times; what is still to be done
            found[file.name] = file.read_bytes() if file.is_file() else "a folder"
    return found


def _is_whole(run: Path) -> bool:
    """Whether a run has the scores that its weights give."""
    kept = json.loads((run / "metrics.json").read_text())["test"]["metrics"]["ndcg@100"]["mean"]
    return abs(kept - macrid.evaluate(macrid.load(run, "cpu"), read_heldout(run, "test"))["ndcg@100"].mean) < 1e-6


def _fork(action: Callable[[], None]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        signal.alarm(LIMIT)
        action()
        code = 0
    except MacridError:
        pass
    except SystemExit as stop:
        code = int(stop.code or 0)
    except BaseException:
        traceback.print_exc()
        code = 3
    finally:
        os._exit(code)
    return 0


def _wait(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _in_child(action: Callable[[], None]) -> int:
    """The exit code of a process that does this, negative for a signal."""
    return _wait(_fork(action))


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no message"])[-1][:90]
