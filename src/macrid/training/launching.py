"""Starting the processes of a training on this machine, through torchrun's own launcher."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
from collections.abc import Sequence

from macrid.errors import SettingsError, TrainingError
from macrid.openmp import cores
from macrid.training.distributed import LAUNCHED

GRACE = 20  # seconds for the other processes to end after one has failed, or after Ctrl-C


def launch(processes: int, arguments: Sequence[str]) -> int:
    """Run `macrid` with these arguments in so many processes; returns the exit code.

    A process that fails by itself says why; one that was killed cannot, so that is a `TrainingError`.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    if os.environ.get("RANK"):
        raise SettingsError("torchrun has already started the processes; remove --processes, or torchrun")
    logging.disable()  # the launcher's own words; this process has nothing else to do
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores() // processes)))
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # and warnings about connections that others have closed
    os.environ[LAUNCHED] = "1"
    with tempfile.TemporaryDirectory(prefix="macrid-") as logs:
        config = LaunchConfig(
            min_nodes=1, max_nodes=1, nproc_per_node=processes, run_id="macrid", rdzv_backend="c10d",
            rdzv_endpoint="localhost:0", max_restarts=0, logs_specs=DefaultLogsSpecs(log_dir=logs),
            shutdown_timeout=GRACE,
        )  # fmt: skip
        try:
            elastic_launch(config, sys.executable)("-m", "macrid", *arguments)
        except ChildFailedError as error:
            codes = {rank: failure.exitcode for rank, failure in error.failures.items()}
            if max(codes.values()) > 0:  # those that the launcher then stopped did not fail
                codes = {rank: code for rank, code in codes.items() if code != -signal.SIGTERM}
            killed = {rank: -code for rank, code in codes.items() if code < 0}
            if killed:
                raise TrainingError(_about(killed)) from None
            return max(codes.values())
        except SignalException as stop:
            if stop.sigval == signal.SIGINT:
                return 130
            raise TrainingError(f"stopped by {signal.Signals(stop.sigval).name}; continue with --resume") from None
    return 0


def _about(killed: dict[int, int]) -> str:
    rank, number = next(iter(killed.items()))
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    cause = " (out of memory?)" if number == signal.SIGKILL else ""
    return f"process {rank} was killed by {name}{cause}, so the others were stopped; continue with --resume"
