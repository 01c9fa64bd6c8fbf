"""OpenMP settings: made on import, before torch, and only where nobody else made them."""

import os
import subprocess
import sys

import pytest

NAMES = ("GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMP_WAIT_POLICY", "MACRID_OPENMP")
SHOW = "import os; print(*(os.environ.get(name) for name in {!r}), sep='|'); print(macrid.openmp.described())"


def run(code, **environment):
    """Standard output of a fresh Python, by line."""
    inherited = {name: value for name, value in os.environ.items() if name not in NAMES}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env={**inherited, **environment}, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("environment", "values", "note"),
    [
        ({}, "2000|1", "(GOMP_SPINCOUNT and KMP_BLOCKTIME set by macrid; MACRID_OPENMP=off leaves all alone)"),
        ({"GOMP_SPINCOUNT": "7"}, "7|1", "(KMP_BLOCKTIME set by macrid; MACRID_OPENMP=off leaves all alone)"),
        ({"GOMP_SPINCOUNT": "7", "KMP_BLOCKTIME": "0"}, "7|0", "GOMP_SPINCOUNT=7, KMP_BLOCKTIME=0 (set before macrid)"),
        ({"OMP_WAIT_POLICY": "active"}, "None|None", "OMP_WAIT_POLICY=active (left alone, because OMP_WAIT_POLICY is"),
        ({"MACRID_OPENMP": "off"}, "None|None", "default settings (left alone, because MACRID_OPENMP is off)"),
    ],
)
def test_threads_spin_briefly_unless_somebody_chose_otherwise(environment, values, note):
    code = "import sys, macrid, macrid.openmp; assert 'torch' not in sys.modules;" + SHOW.format(NAMES[:2])
    shown, described = run(code, **environment)
    assert shown == values
    assert note in described


@pytest.mark.slow
def test_nothing_is_set_once_torch_is_loaded_and_doctor_says_so():
    code = (
        "import sys, torch, macrid.cli; sys.argv = ['macrid', 'doctor', '--json']\n"
        "try: macrid.cli.main()\n"
        "except SystemExit as end: print(end.code)\n" + SHOW.format(NAMES[:2]).replace("macrid.openmp.described()", "")
    )
    report, code, shown, _ = run(code)
    assert shown == "None|None"
    assert "torch was loaded first and no longer reads them; import macrid before torch" in report


def test_torch_reads_what_was_set():
    """GNU's OpenMP prints the settings it starts with."""
    done = subprocess.run(
        [sys.executable, "-c", "import macrid; macrid.EASE"],
        env={**{name: value for name, value in os.environ.items() if name not in NAMES}, "OMP_DISPLAY_ENV": "verbose"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    if "GOMP_SPINCOUNT" not in done.stderr:
        pytest.skip("torch has another OpenMP here")
    assert "GOMP_SPINCOUNT = '2000'" in done.stderr
