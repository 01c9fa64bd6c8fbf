"""Forked processes: `os.fork`, `multiprocessing`, servers that load an app before they fork.

Of all threads only the forking one is copied. OpenMP would wait for the others for ever, but needs none for parallel
work on one thread; and nobody is left to release the locks that they held.
"""

from __future__ import annotations

import os
from threading import Lock
from typing import Any
from weakref import WeakSet

import torch

_locks: WeakSet[Any] = WeakSet()


def new_lock() -> Lock:
    """A lock that is free in a forked process."""
    lock = Lock()
    _locks.add(lock)
    return lock


def _reset() -> None:
    torch.set_num_threads(1)
    for lock in _locks:
        lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_reset)
