"""Flipped bits, cut files and swapped files in runs and prepared folders: is each noticed when the folder is opened?"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

from benchmarks.attacks import Outcome

import macrid
from macrid.data import store
from macrid.data.shop import generate
from macrid.errors import MacridError
from macrid.runs import load, read_heldout

TIMES = 2_000


def attack(times: int | None, seed: int) -> list[Outcome]:
    """times: flips in all files of a run, and as many in a prepared folder."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        run, data = Path(folder) / "run", Path(folder) / "data"
        split = generate(users=300, items=120, seed=seed).split(heldout=50)
        store.write(split, data)
        quick = {"concepts": 3, "dim": 6, "epochs": 2, "batch_size": 60, "device": "cpu", "baselines": False}
        macrid.train(split, run, **quick)
        other = macrid.train(split, Path(folder) / "other", **quick | {"epochs": 3}).path
        return [
            _flips("a run, one bit flipped", run, _open_run, times or TIMES, chance),
            _flips("prepared data, one bit flipped", data, store.read, times or TIMES, chance),
            _cuts(run, times or 200, chance),
            _swaps(run, other),
            _crash(run),
        ]


def _open_run(run: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(run, "cpu")
        read_heldout(run, "test")


def _flips(name: str, folder: Path, read, times: int, chance: random.Random) -> Outcome:
    outcome = Outcome(name, "an error or a warning that names the folder")
    files = sorted(file for file in folder.iterdir() if file.is_file())
    for number in range(times):
        file = files[number % len(files)]
        content = file.read_bytes()
        changed = bytearray(content)
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
        file.write_bytes(changed)
        outcome.note(_unnoticed(folder, read, file.name))
        file.write_bytes(content)
    return outcome


def _cuts(run: Path, times: int, chance: random.Random) -> Outcome:
    outcome = Outcome("a run, one file cut short", "an error or a warning that names the folder")
    files = sorted(file for file in run.iterdir() if file.is_file())
    for number in range(times):
        file = files[number % len(files)]
        content = file.read_bytes()
        file.write_bytes(content[: chance.randrange(len(content))])
        outcome.note(_unnoticed(run, _open_run, file.name))
        file.write_bytes(content)
    return outcome


def _swaps(run: Path, other: Path) -> Outcome:
    outcome = Outcome("a file of another run of the same shape", "an error or a warning that names the folder")
    for file in sorted(run.iterdir()):
        content = file.read_bytes()
        if (other / file.name).exists() and (other / file.name).read_bytes() != content:
            shutil.copy(other / file.name, file)
            outcome.note(_unnoticed(run, _open_run, file.name))
            file.write_bytes(content)
    return outcome


CRASH = """
import sys
from safetensors.torch import load_file, save_file
file = sys.argv[1] + "/heldout.safetensors"
tensors = load_file(file)
tensors["test.history.indptr"] = tensors["test.history.indptr"] * 1_000_000
save_file(tensors, file)
from macrid import runs
try:
    from macrid.manifest import seal
    from pathlib import Path
    seal(Path(sys.argv[1]), runs.FILES)
except ImportError:
    pass
sys.argv = ["macrid", "evaluate", sys.argv[1]]
from macrid.cli import main
main()
"""


def _crash(run: Path) -> Outcome:
    outcome = Outcome("held-out users with impossible row starts, evaluated", "an error in one line")
    done = subprocess.run([sys.executable, "-c", CRASH, str(run)], capture_output=True, text=True, check=False)
    lines = done.stderr.strip().splitlines()
    outcome.note(None if (done.returncode, len(lines)) == (1, 1) else f"exit code {done.returncode}")
    return outcome


def _unnoticed(folder: Path, read, name: str) -> str | None:
    try:
        read(folder)
    except (MacridError, UserWarning) as error:
        return None if str(folder) in str(error) else f"{name}: the message does not name the folder"
    except Exception as error:
        return f"{name}: {type(error).__name__}"
    return f"{name}: not noticed"
