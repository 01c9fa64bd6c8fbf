"""Several processes that train together, as torchrun would start them, for tests.

python -m tests.ranks tests.training.test_distributed:fit_all FOLDER
"""

import importlib
import os
import socket
import subprocess
import sys
from pathlib import Path


def run_in_processes(function, folder, processes=2, timeout=120):
    """Call `function(folder)` of a test module in so many processes; their (exit code, standard error)."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tests.ranks", f"{function.__module__}:{function.__name__}", str(folder)]
    shared = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    shared |= {"LOCAL_WORLD_SIZE": str(processes), "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            command, env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE, text=True,
        )
        for rank in range(processes)
    ]  # fmt: skip
    try:
        return [
            (process.returncode, error) for process in started for error in [process.communicate(timeout=timeout)[1]]
        ]
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
