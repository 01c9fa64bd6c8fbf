"""Several processes that train together, as torchrun would start them, for tests.

python -m tests.ranks tests.training.test_distributed:fit_all FOLDER
"""

import importlib
import os
import socket
import subprocess
import sys
from pathlib import Path


def run_in_processes(function, folder, processes=2, timeout=300):
    """Call `function(folder)` of a test module in so many processes, all of which must succeed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tests.ranks", f"{function.__module__}:{function.__name__}", str(folder)]
    shared = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    shared |= {"LOCAL_WORLD_SIZE": str(processes), "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    started = [
        subprocess.Popen(
            command, env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE, text=True,
        )
        for rank in range(processes)
    ]  # fmt: skip
    try:
        errors = [process.communicate(timeout=timeout)[1] for process in started]
        assert [process.returncode for process in started] == [0] * processes, "\n".join(errors)
    finally:
        for process in started:
            process.kill()
            process.wait()


if __name__ == "__main__":
    import warnings

    warnings.simplefilter("error")
    warnings.filterwarnings("ignore", category=DeprecationWarning, module="torch.*")
    module, name = sys.argv[1].split(":")
    getattr(importlib.import_module(module), name)(Path(sys.argv[2]))
