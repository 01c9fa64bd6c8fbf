"""Kernels compiled before they are launched."""

import pytest
import torch

from macrid.data.shop import generate
from macrid.models.macridvae import MacridNetwork
from macrid.ops.ahead import compile_ahead, load_ahead
from macrid.ops.batches import DeviceHistories
from macrid.settings import MacridVAESettings, TrainingSettings
from macrid.training.adam import Adam
from macrid.training.step import Step

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_nothing_is_run_where_there_are_no_kernels():
    compile_ahead(lambda: pytest.fail("it was run"), torch.device("cpu"))


def test_nothing_is_loaded_where_there_are_no_kernels():
    assert load_ahead(torch.device("cpu")) is None


@needs_gpu
def test_what_kernels_need_is_loaded_in_a_thread():
    from triton.runtime.cache import triton_key

    thread = load_ahead(torch.device("cuda"))
    assert thread is not None
    thread.join(60)
    assert torch.cuda.is_initialized()
    assert triton_key.cache_info().currsize == 1


@needs_gpu
def test_a_rehearsed_step_compiles_its_kernels_and_changes_no_weight():
    device = torch.device("cuda")
    with device:
        network = MacridNetwork(200, MacridVAESettings(concepts=3, dim=20))
    network.initialise(torch.Generator(device).manual_seed(0))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    data = DeviceHistories(generate(400, 200).interactions.matrix, device)
    step = Step(network, Adam(network.parameters(), 1e-3), data, torch.Generator(device), TrainingSettings())
    calls = []
    compile_ahead(lambda: calls.append(step.rehearsal()(torch.arange(50, device=device))), device)
    assert len(calls) == 1
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    step(torch.arange(50, device=device))
    assert all(not torch.equal(value, before[name]) for name, value in network.state_dict().items() if value.numel())
    assert all(torch.isfinite(value).all() for value in network.state_dict().values())


@needs_gpu
def test_an_error_while_compiling_ahead_is_left_to_the_launch():
    compile_ahead(lambda: 1 / 0, torch.device("cuda"))
