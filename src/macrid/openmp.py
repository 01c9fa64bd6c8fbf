"""CPU cores, and the OpenMP settings that torch reads once, when it is loaded.

Idle torch threads should spin only briefly: long spinning makes training many times slower on shared cores, and no
spinning a fifth slower on free ones. `import macrid` sets this for the whole process, unless torch is already loaded, a
variable is set, or MACRID_OPENMP is "off".
"""

from __future__ import annotations

import os
import sys

SWITCH = "MACRID_OPENMP"
BRIEF = {"GOMP_SPINCOUNT": "2000", "KMP_BLOCKTIME": "1"}
"""Rounds of GNU's OpenMP, and milliseconds of LLVM's and Intel's."""
POLICY = "OMP_WAIT_POLICY"  # a choice for all of them

_note = "not set"


def spin_briefly() -> None:
    """Set what is not set, if torch will still read it."""
    global _note
    if os.environ.get(SWITCH, "").lower() == "off":
        _note = f"left alone, because {SWITCH} is off"
    elif POLICY in os.environ:
        _note = f"left alone, because {POLICY} is {os.environ[POLICY]}"
    elif "torch" in sys.modules:
        _note = "torch was loaded first and no longer reads them; import macrid before torch"
    else:
        ours = [name for name in BRIEF if name not in os.environ]
        os.environ.update({name: BRIEF[name] for name in ours})
        _note = f"{' and '.join(ours)} set by macrid; {SWITCH}=off leaves all alone" if ours else "set before macrid"


def described() -> str:
    """The settings in force, and who made them."""
    values = [f"{name}={os.environ[name]}" for name in (*BRIEF, POLICY) if name in os.environ]
    return f"{', '.join(values) or 'default settings'} ({_note})"


def cores() -> int:
    """The number of CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
