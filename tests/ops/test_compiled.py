"""Kernels are compiled for GPUs that are not there: the interpreter that runs them in other tests takes more."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import macrid
from tests.truth import runs_kernels


@runs_kernels
@pytest.mark.slow
@pytest.mark.parametrize("capability", ["80", "90"])
def test_every_kernel_compiles_for_a_gpu(tmp_path, capability):
    sources = "".join(path.read_text("utf-8") for path in (Path(macrid.__file__).parent / "ops").glob("*_triton.py"))
    launched = set(re.findall(r"\b(_[a-z_]+)\[", sources)) & set(re.findall(r"@triton.jit.*\ndef (_\w+)", sources))
    assert "_positives_backward" in launched
    command = [sys.executable, "-m", "tests.ops.compiled", capability]
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {*done.stdout.split()} == launched
