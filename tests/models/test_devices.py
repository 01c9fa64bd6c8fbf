"""Where a model lives, and what is said when that is too small."""

from types import SimpleNamespace

import pytest
import torch

import macrid
from macrid.data.shop import generate
from macrid.errors import SettingsError, TrainingError
from macrid.models.devices import choose_device, explained, on_device
from macrid.ops import kernels
from macrid.settings import TrainingSettings
from macrid.training import loop


@pytest.fixture
def model():
    split = generate(users=60, items=42).split(heldout=5)
    return macrid.MacridVAE(concepts=2, dim=4).fit(split.train, epochs=1, device="cpu")


@pytest.mark.parametrize(
    ("training", "told"),
    [({}, "batch_size (now 12) or dim, or give likelihood='sampled'"),
     ({"likelihood": "sampled", "batch_size": 7}, "batch_size (now 7) or negatives")],
)  # fmt: skip
def test_a_gpu_whose_memory_is_too_small_is_named_with_what_to_lower(model, training, told, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=8 << 30))
    with pytest.raises(TrainingError) as raised, explained(model, TrainingSettings(**training), 60):
        raise torch.cuda.OutOfMemoryError("out of memory")
    assert "the memory of the GPU (8 GiB) is too small" in str(raised.value)
    assert told in str(raised.value)


def test_kernels_too_large_for_a_gpu_say_to_lower_dim(model):
    errors = pytest.importorskip("triton.runtime.errors")
    with pytest.raises(TrainingError, match="lower dim"), explained(model, TrainingSettings(), 60):
        raise errors.OutOfResources(300_000, 200_000, "shared memory")


def test_other_errors_are_left_as_they_are(model):
    with pytest.raises(ZeroDivisionError), explained(model, TrainingSettings(), 60):
        raise ZeroDivisionError


def test_more_dimensions_than_the_kernels_hold_are_refused_on_a_gpu_only(model, monkeypatch):
    loop.check_fits(model)
    monkeypatch.setattr(loop, "LARGEST_DIM", 3)
    loop.check_fits(model)
    monkeypatch.setattr(kernels, "serve", lambda tensor: True)
    with pytest.raises(SettingsError, match=r"dim is 4; on a GPU it may be at most 3; lower it, or train on the CPU"):
        loop.check_fits(model)


def test_a_cpu_needs_no_context():
    with on_device(choose_device("cpu")):
        assert torch.zeros(1).device.type == "cpu"
