"""Every file operation of every writer fails: with an error, as on a full disk, and with the end of the process."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from pathlib import Path

from benchmarks.attacks import Outcome
from tests.failing import operations, with_failure
from tests.writers import Writer, writers

import macrid
from macrid.data.shop import generate
from macrid.errors import MacridError

KINDS = {"error": "fails as on a full disk", "kill": "is the last before a kill"}


def attack(times: int | None, seed: int) -> list[Outcome]:
    """times: operations of each writer, all by default."""
    warnings.simplefilter("ignore")
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        split = generate(users=300, items=120, seed=seed).split(heldout=50)
        model = macrid.MacridVAE(concepts=3, dim=6)
        model.fit(split.train, validation=split.validation, epochs=3, batch_size=60, device="cpu")
        model.save(Path(folder) / "named")
        for name, writer in writers(model, split, Path(folder) / "named").items():
            for kind in KINDS:
                outcomes.append(_every_operation(name, writer, kind, times, Path(folder) / name / kind))
    return outcomes


def _every_operation(name: str, writer: Writer, kind: str, times: int | None, folder: Path) -> Outcome:
    outcome = Outcome(f"{name}: a file operation {KINDS[kind]}", "the old version or the new one; then it works")
    writer.prepare(folder / "template")
    counted = shutil.copytree(folder / "template", folder / "counted")
    count = operations(lambda: writer.write(counted))
    for number in range(0, count, max(1, count // (times or count))):
        place = shutil.copytree(folder / "template", folder / str(number))
        outcome.note(_problem(writer, kind, number, place))
        shutil.rmtree(place)
    return outcome


def _problem(writer: Writer, kind: str, number: int, place: Path) -> str | None:
    try:
        succeeded = with_failure(lambda: writer.write(place), number, kind, (MacridError, OSError))
        found = writer.read(place)
        if found != "new" and (succeeded or found != "old"):
            return f"{found} after it said it had succeeded"
        writer.write(place)
        return None if writer.read(place) == "new" else "the new version cannot be written afterwards"
    except Exception as error:
        return f"{type(error).__name__}: {str(error).replace(str(place), '…')[:60]}"
