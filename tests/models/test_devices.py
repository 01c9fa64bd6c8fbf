"""Choosing a device, and errors when it is too small."""

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
    ("training", "remedy"),
    [({}, r"8 GiB.*batch_size.*12.*\bdim\b.*likelihood='sampled'"),
     ({"likelihood": "sampled", "batch_size": 7}, r"8 GiB.*batch_size.*7.*negatives")],
)  # fmt: skip
def test_running_out_of_gpu_memory_names_the_settings_to_lower(model, training, remedy, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(total_memory=8 << 30))
    with pytest.raises(TrainingError, match=remedy), explained(model, TrainingSettings(**training), 60):
        raise torch.cuda.OutOfMemoryError("out of memory")


def test_kernels_too_large_for_a_gpu_name_dim(model):
    errors = pytest.importorskip("triton.runtime.errors")
    with pytest.raises(TrainingError, match="dim"), explained(model, TrainingSettings(), 60):
        raise errors.OutOfResources(300_000, 200_000, "shared memory")


def test_other_errors_pass_through(model):
    with pytest.raises(ZeroDivisionError), explained(model, TrainingSettings(), 60):
        raise ZeroDivisionError


@pytest.mark.parametrize(("shares", "largest"), [("off", 3), ("on", 4)])
def test_dim_is_limited_on_a_gpu_only_and_shares_need_one_more(model, shares, largest, monkeypatch):
    model.settings = model.settings.model_copy(update={"concept_shares": shares})
    monkeypatch.setattr(loop, "LARGEST_DIM", largest)
    loop.check_fits(model)
    monkeypatch.setattr(kernels, "serve", lambda tensor: True)
    with pytest.raises(SettingsError, match=r"dim is 4\b.*\b3\b"):
        loop.check_fits(model)
    monkeypatch.setattr(loop, "LARGEST_DIM", largest + 1)
    loop.check_fits(model)


def test_a_cpu_needs_no_context():
    with on_device(choose_device("cpu")):
        assert torch.zeros(1).device.type == "cpu"
