"""Compile every kernel for a GPU on a machine that has none, and print the names of those compiled.

    python -m tests.ops.compiled CAPABILITY          # 90 is an H100 or H200, 80 an A100

Tests on a CPU run kernels in Triton's interpreter, which takes much that the compiler refuses.
"""

import os
import sys

os.environ.pop("TRITON_INTERPRET", None)
import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from macrid.data.shop import generate
from macrid.models.macridvae import MacridNetwork
from macrid.ops import kernels
from macrid.ops.batches import DeviceHistories
from macrid.ops.rows_triton import add_rows
from macrid.ops.topk import Decoder, Mixture, top
from macrid.settings import ADDED, MacridVAESettings, TrainingSettings
from macrid.training.adam import Adam
from macrid.training.step import Step

CONCEPTS, DIM, ITEMS = 7, 100, 200
WAYS = (
    {"precision": "fp32"},
    {"precision": "tf32"},
    {"precision": "bf16"},
    {"precision": "bf16", "likelihood": "sampled", "negatives": 50},
)


class Absent:
    """The driver of a GPU that is not there."""

    def __init__(self, capability: int) -> None:
        self.target = GPUTarget("cuda", capability, 32)

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


def compile_only(capability: int) -> set[str]:
    """From here on, compile every kernel instead of launching it; returns the names of those compiled so far."""
    driver.set_active(Absent(capability))
    kernels.serve = lambda tensor: tensor.dtype != torch.float64
    compiled, launch = set(), JITFunction.run

    def run(self, *args, grid, warmup, **options):
        launch(self, *args, grid=grid, warmup=True, **options)
        compiled.add(self.__name__)

    JITFunction.run = run
    return compiled


def train(matrix, extensions, **training):
    """A step, whose numbers mean nothing."""
    settings = TrainingSettings.make(training)
    network = MacridNetwork(ITEMS, MacridVAESettings.make({"concepts": CONCEPTS, "dim": DIM, **extensions}))
    network.initialise(torch.Generator().manual_seed(0))
    network.precision = settings.precision
    data = DeviceHistories(matrix, torch.device("cpu"))
    Step(network, Adam(network.parameters(), 1e-3), data, torch.Generator(), settings)(torch.arange(64))


def recommend():
    """Likewise, with a linear part."""
    decoder = Decoder(torch.ones(ITEMS, DIM), torch.zeros(ITEMS, CONCEPTS), 0.1)
    linear, some = torch.zeros(5, ITEMS), torch.arange(5)
    add_rows(some, some, torch.arange(6), some.int(), torch.ones(5), linear)
    top(decoder, Mixture(torch.ones(5, CONCEPTS, DIM), torch.zeros(5, CONCEPTS), linear), 3)


def main() -> None:
    compiled = compile_only(int(sys.argv[1]))
    matrix = generate(400, ITEMS).interactions.matrix
    weighted = matrix * 1.0
    weighted.data[::2] = 0.5
    for way in WAYS:
        train(matrix, {}, **way)
    train(weighted, ADDED, precision="bf16")
    recommend()
    print(*sorted(compiled))


if __name__ == "__main__":
    main()
