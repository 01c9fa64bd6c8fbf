"""Commands called badly: every option with values nobody meant, and surroundings that fail: full or closed streams,
terminals that know ASCII only, a working directory that is gone, limits on files and memory.

Every command must end with exit code 0, 1 or 2, say in one line why if not 0, and never show a traceback.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.attacks import Outcome
from benchmarks.attacks.calling import Ending, call, preload, run

TIMES = 900
IN_SHELLS = 9  # of this many tries, one is in a shell
VALUES = ("", " ", "²", "٣", "007", "+5", "-1", "0", "1", "9" * 5_000, str(2**70), str(-(2**70)), "nan", "inf", "-inf",
          "1e999", "1_000", "0x10", "1.5", "\udcff", "\ud800", "a\nb", "\x1b[31m", "--", "💥", "\u202e", "None", "true",
          "../..", "/", "/dev/null", "/dev/full", "/proc/self/mem", "nowhere/x", "{}", "[]", "[" * 50_000, '"', "'",
          "a" * 100_000, "%s%n", "{0}", "e.csv", "run", "out", ",", ",,,", "=", "4=", "0.0=x", "²=x", "0=\udcff",
          "auto", "cuda:9", "ndcg@0", "ndcg@" + "9" * 30, "recall@²", "latin-1", "rot13", "utf-16", "~", "*",
          "a\\")  # fmt: skip
ID_OPTIONS = ("history", "item", "include", "exclude")
NOT_IDS = ("007", "٣", "+5", "²")
TRAINING = ("--epochs", 1, "--dim", 4, "--concepts", 2, "--neighbours", 0, "--no-baselines")
BASES: dict[str, tuple[Any, ...]] = {
    "data list": (),
    "data prepare": ("e.csv", "--out", "new", "--min-items", 1, "--heldout", 3),
    "train": ("out", "--out", "new", *TRAINING),
    "evaluate": ("run",),
    "recommend": ("run", "--history", "5", "-n", 3),
    "similar": ("run", "5"),
    "traverse": ("run", "--item", "5", "--dimension", 0),
    "steer": ("run", "--history", "5", "--concept", 0, "--dimension", 0, "--to", 0.1),
    "inspect": ("run",),
    "axes": ("run", "--by", "original"),
    "names": ("run",),
    "tune": ("nowhere", "--out", "new"),
    "serve": ("nowhere",),
    "reproduce": ("figure2", "--run", "nowhere", "--out", "new"),
    "doctor": (),
}
"""A good call of every command; those that would take long end at a folder that does not exist."""


def attack(times: int | None, seed: int) -> list[Outcome]:
    preload()
    count, draw = times or TIMES, random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_run(folder)
        outcomes = [_options(folder, draw, count - count // IN_SHELLS)]
        return [*outcomes, *_surroundings(folder, draw, count // IN_SHELLS)]


def make_run(folder: Path) -> None:
    """Events, a prepared folder and a run, with integers as ids."""
    draw = random.Random(0)
    rows = [f"{user},{item},{draw.randint(1, 5)}\n" for user in range(40) for item in draw.sample(range(20), 8)]
    (folder / "e.csv").write_text("user,item,rating\n" + "".join(rows))
    (folder / "i.csv").write_text("id,title\n" + "".join(f"{item},Café “{item}” 漢\n" for item in range(20)))
    made = [
        call(["data", "prepare", "e.csv", "--items", "i.csv", "--out", "out", "--heldout", 5], folder),
        call(["train", "out", "--out", "run", *TRAINING], folder),
    ]
    assert all(ending.code == 0 for ending in made), made
    shutil.copytree(folder / "run", folder / "kept")


def _options(folder: Path, draw: random.Random, times: int) -> Outcome:
    outcome = Outcome("every option of every command with odd values", "done, or refused in one line")
    cases = list(odd_calls())
    draw.shuffle(cases)
    for words, option, value, is_float in cases[:times]:
        for name in ("run", "new"):
            shutil.rmtree(folder / name, ignore_errors=True)
        shutil.copytree(folder / "kept", folder / "run")
        outcome.note(_judged(call(words, folder), option, value, is_float))
    return outcome


def odd_calls() -> Iterator[tuple[list[Any], str, str, bool]]:
    """All commands that take a value, with every option and argument in turn; the option, its value, and its type."""
    from typer.main import get_command

    from macrid.cli import app

    for name, base in BASES.items():
        command: Any = get_command(app)
        for part in name.split():
            command = command.commands.get(part)
        for option in command.params if command is not None else ():
            if getattr(option, "is_flag", False) or option.name == "help":
                continue
            for value in VALUES:
                words = [*name.split(), *base]
                if option.param_type_name == "argument":
                    words = [*name.split(), value, *base[1:]]
                else:
                    words += [max(option.opts, key=len), value]
                yield words, option.name, value, option.type_descriptor.annotation is float


def _judged(ending: Ending, option: str, value: str, is_float: bool) -> str | None:
    if (problem := ending.problem()) is not None:
        return problem
    if ending.code == 0 and option in ID_OPTIONS and value in NOT_IDS and value not in ending.err:
        return "silent: another id taken"
    if ending.code == 0 and is_float and value in ("nan", "inf", "-inf", "1e999"):
        return "silent: a number that is none taken"
    return None


LINES = (
    "macrid data list",
    "macrid data list --json",
    "macrid --help",
    "macrid --version",
    "macrid similar run 5",
    "macrid recommend run --history 5 --json",
    "macrid evaluate run",
    "macrid names run",
    "macrid data prepare e.csv --items i.csv --out new$RANDOM --heldout 5",
    "macrid similar run nothing",
    "macrid similar",
)
SURROUNDINGS: dict[str, tuple[str, dict[str, str | None]]] = {
    "a full standard output": ("{} > /dev/full", {}),
    "a full standard error": ("{} 2> /dev/full", {}),
    "both full": ("{} > /dev/full 2>&1", {}),
    "a closed standard output": ("{} >&-", {}),
    "a closed standard error": ("{} 2>&-", {}),
    "all streams closed": ("{} <&- >&- 2>&-", {}),
    "a reader that leaves": ("{} | head -c 1", {}),
    "a reader that never was": ("{} | true", {}),
    "an ASCII terminal": ("{}", {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}),
    "the C locale": ("{}", {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
    "a Latin-1 terminal": ("{}", {"PYTHONIOENCODING": "latin-1"}),
    "a deleted working directory": ("mkdir gone$$ && cd gone$$ && rmdir ../gone$$ && {}", {}),
    "a narrow terminal": ("{}", {"COLUMNS": "1", "TTY_COMPATIBLE": "1"}),
    "a terminal without a width": ("{}", {"COLUMNS": "-5", "LINES": "x", "TERM": "nonsense", "FORCE_COLOR": "1"}),
    "no home": ("{}", {"HOME": None, "XDG_CACHE_HOME": None}),
    "folders that do not exist": ("{}", {"HOME": "/nowhere", "MACRID_CACHE": "/dev/null/x", "MACRID_DATA": "/no"}),
    "variables that are no text": ("MACRID_DATA=$'\\xff' MACRID_CACHE=$'\\xfe' {}", {}),
    "arguments that are no text": ("{} $'\\xff\\xfe'", {}),
    "files that may not grow": ("ulimit -f 0; {}", {}),
    "few open files": ("ulimit -n 32; {}", {}),
    "little memory": ("ulimit -v 9000000; {} && macrid train out --out big$$ --hidden-layers 2 --width 21000", {}),
}  # fmt: skip
UNSEEN = ("a full standard error", "both full", "a closed standard error", "all streams closed")
LOSES = ("a full standard output", "both full")


def _surroundings(folder: Path, draw: random.Random, times: int) -> list[Outcome]:
    wanted = "done, or refused in one line; a result that is lost is an error"
    outcome = Outcome("commands in surroundings that fail", wanted)
    cases = [(name, line) for line in LINES for name in SURROUNDINGS]
    draw.shuffle(cases)
    for name, line in cases[:times]:
        form, environment = SURROUNDINGS[name]
        ending = run(form.format(line), folder, environment)
        problem = ending.problem()
        if name in UNSEEN and problem in ("refused without a word", "refused in other than one line"):
            problem = None
        if problem is None and "Broken pipe" in ending.err:
            problem = "complains of a broken pipe"
        if problem is None and name in LOSES and ending.code == 0:
            problem = "silent: the result is lost"
        outcome.note(problem and f"{problem}, {name}")
    return [outcome]
