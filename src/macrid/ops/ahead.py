"""Compile kernels before they are needed, many at a time.

Triton compiles a kernel when it is first launched, one after the other, which takes most of a first training on a new
machine. Here a function is run for the names and types of its kernels only: none is launched, and all are compiled in
parallel. On a machine that has them in its cache, they are just loaded.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import torch

from macrid.ops import kernels

MOST_THREADS = 16


def load_ahead(device: torch.device) -> threading.Thread | None:
    """Begin to load what kernels need on a GPU, in a thread: it takes about a second, in which data can be read."""
    if device.type != "cuda":
        return None
    thread = threading.Thread(target=_load_libraries, args=(device,), name="macrid-load-ahead", daemon=True)
    thread.start()
    return thread


def _load_libraries(device: torch.device) -> None:
    with suppress(Exception):  # it only saves time
        if kernels.serve(torch.ones(1, device=device)):
            from triton.runtime.cache import triton_key

            triton_key()  # a digest of Triton's own files, kept for the names of kernels in its cache


def compile_ahead(run: Callable[[], object], device: torch.device) -> None:
    """Compile and load all kernels that `run` would launch. Its results are meaningless: no kernel writes them."""
    if not kernels.serve(torch.empty(0, device=device)):
        return
    with suppress(Exception):  # it only saves time: what is missing is compiled when it is launched
        compiled: list[Any] = []
        with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1)) as threads:
            with _not_launched(threads, compiled):
                run()
            list(threads.map(lambda kernel: _load(kernel, device), compiled))


def _load(kernel: Any, device: torch.device) -> None:
    torch.cuda.set_device(device)  # of this thread
    with suppress(Exception):  # too large for the card: a smaller tile is tried when it is launched
        getattr(kernel, "result", lambda: kernel)()._init_handles()


@contextmanager
def _not_launched(threads: ThreadPoolExecutor, compiled: list[Any]) -> Iterator[None]:
    """Collect the kernels that would be launched, compiled by these threads."""
    from triton.runtime._async_compile import AsyncCompileMode
    from triton.runtime.jit import JITFunction

    launch = JITFunction.run

    def warm_up(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        kernel = launch(self, *args, grid=grid, warmup=True, **options)
        compiled.append(kernel)
        return kernel

    with AsyncCompileMode(threads, ignore_errors=True):
        JITFunction.run = warm_up
        try:
            yield
        finally:
            JITFunction.run = launch
