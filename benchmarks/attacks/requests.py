"""Requests that schemathesis makes up from the API's own description: valid, invalid, at every limit, in sequences."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from benchmarks.attacks import Outcome
from benchmarks.serving import Running, made_run

TIMES = 20_000
FIXED = 800  # requests of the phases that try every limit once
PER_EXAMPLE = 50  # requests per allowed example
LEFT_OUT = (
    "positive_data_acceptance",  # valid ids need not exist, and limits are settings
    "ensure_resource_availability",  # POST /v1/items skips items that nothing is known about
)


def attack(times: int | None, seed: int) -> list[Outcome]:
    """About so many requests to a service that may be edited."""
    times = times or TIMES
    answers = Outcome("generated requests", "no 5xx")
    remarks = Outcome("remarks of schemathesis about the responses", "none")
    with tempfile.TemporaryDirectory() as name:
        run, log = made_run(Path(name) / "runs" / "shop", 500), Path(name) / "log"
        while answers.tried < times:
            copy = shutil.copytree(run, Path(name) / "copy" / "shop")
            with log.open("a") as errors, Running(copy, 1, errors) as port:
                examples = max(1, (times - answers.tried - FIXED) // PER_EXAMPLE + 1)
                report = _generate(port, examples, seed + answers.tried)
                _count(
                    report, urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode(), answers, remarks
                )
            shutil.rmtree(copy)
        if "Traceback" in log.read_text(encoding="utf-8"):
            answers.bad["traceback in the log"] += log.read_text(encoding="utf-8").count("Traceback")
    return [answers, remarks]


def _generate(port: int, examples: int, seed: int) -> str:
    """What schemathesis reports."""
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", f"http://127.0.0.1:{port}/v1/openapi.json", "--checks", "all",
        "--exclude-checks", ",".join(LEFT_OUT), "--max-examples", str(examples), "--seed", str(seed), "--workers", "2",
        "--continue-on-failure", "--suppress-health-check", "all", "--no-color", "--generation-database", "none",
    ]  # fmt: skip
    environment = {**os.environ, "COLUMNS": "200"}
    with tempfile.TemporaryDirectory() as folder:  # schemathesis leaves files behind
        result = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=False)
    return result.stdout


def _count(report: str, metrics: str, answers: Outcome, remarks: Outcome) -> None:
    generated = re.search(r"([\d,]+) generated", report)
    assert generated is not None, report[-2000:]
    count = int(generated[1].replace(",", ""))
    answers.tried += count
    remarks.tried += count
    for status, times in re.findall(r'macrid_requests_total\{[^}]*status="(5\d\d)"\} (\S+)', metrics):
        answers.bad[f"status {status}"] += int(float(times))
    for title, times in re.findall(r"❌ (?:ST\d+ )?(.+): (\d+)$", report, re.MULTILINE):
        remarks.bad[title] += int(times)
