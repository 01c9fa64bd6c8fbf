"""Attack macrid and count what breaks: kills, crashes, bad files, bit flips, requests, connections.

python -m benchmarks.attack                  all attacks; a table, kept in benchmarks/results/attack.json
python -m benchmarks.attack kills flips      some of them
python -m benchmarks.attack --times 20       fewer tries of each
python -m benchmarks.attack --before CHECKOUT  the source of an earlier version, for the column "before"
python -m benchmarks.attack --report         write docs/trust.md from what is kept
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import soak
from benchmarks.measuring import circumstances, filled_from

ATTACKS = ("kills", "crashes", "flips", "files", "commands", "requests", "connections", "forks")
HERE = Path(__file__).parent
RESULTS = HERE / "results"
KEPT = RESULTS / "attack.json"
PAGE = HERE.parent / "docs" / "trust.md"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help=", ".join(ATTACKS))
    parser.add_argument("--times", type=int, help="tries of each attack; by default as many as docs/trust.md reports")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="attack this version instead")
    parser.add_argument("--report", action="store_true", help="only write docs/trust.md")
    arguments = parser.parse_args()
    if unknown := {*arguments.attacks} - {*ATTACKS}:
        parser.error(f"no attack {', '.join(sorted(unknown))}; there are {', '.join(ATTACKS)}")
    if arguments.before is not None:
        sys.exit(_again_with(arguments.before))
    if not arguments.report:
        for name in arguments.attacks or ATTACKS:
            began = time.monotonic()
            outcomes = import_module(f"benchmarks.attacks.{name}").attack(arguments.times, arguments.seed)
            _keep(name, [vars(outcome) for outcome in outcomes], time.monotonic() - began)
            print(table({"attacks": {name: _kept()["attacks"][name]}}), flush=True)
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def _again_with(checkout: Path) -> int:
    """This command with the source of another version; the attacks are these."""
    words = [word for word in sys.argv[1:] if word not in ("--before", str(checkout))]
    paths = [str((checkout / "src").resolve()), str(HERE.parent)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "MACRID_ATTACK": "before"}
    return subprocess.run([sys.executable, "-m", "benchmarks.attack", *words], env=environment).returncode


def _kept() -> dict[str, Any]:
    return json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {"attacks": {}}


def _keep(name: str, outcomes: list[dict[str, Any]], seconds: float) -> None:
    kept = _kept() | circumstances()
    entry = kept["attacks"].setdefault(name, {})
    entry[os.environ.get("MACRID_ATTACK", "after")] = {"seconds": round(seconds), "outcomes": outcomes}
    KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def table(found: dict[str, Any]) -> str:
    """A row per attack: tries and what went wrong, before and after."""
    lines = ["| attack | should | before: bad of tried | now: bad of tried |", "| --- | --- | --- | --- |"]
    for versions in found["attacks"].values():
        sides = {side: {each["name"]: each for each in entry["outcomes"]} for side, entry in versions.items()}
        names = dict.fromkeys(name for side in ("after", "before") for name in sides.get(side, {}))
        for name in names:
            before, after = (sides.get(side, {}).get(name) for side in ("before", "after"))
            lines.append(f"| {name} | {(after or before or {})['wanted']} | {_cell(before)} | {_cell(after)} |")
    return "\n".join(lines)


def _cell(outcome: dict[str, Any] | None) -> str:
    if outcome is None:
        return "not tried"
    bad = outcome["bad"]
    worst = "; ".join(f"{count} × {what}" for what, count in sorted(bad.items(), key=lambda pair: -pair[1])[:2])
    return f"{sum(bad.values()):,} of {outcome['tried']:,}" + (f" ({worst})" if bad else "")


def filled(text: str) -> str:
    """The page with its measured parts made anew."""
    return filled_from(text, RESULTS, {"attack": ("attack.json", table), "soak": ("soak.json", soak.table)})


if __name__ == "__main__":
    main()
