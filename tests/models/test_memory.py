"""A training that cannot fit is refused before anything is allocated; one that fits never is."""

import re

import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

import macrid
from macrid.errors import SettingsError
from macrid.models import memory
from macrid.models.memory import PER_PARAMETER, size, training_bytes

MATRIX = sp.csr_array(sp.random_array((30, 20), density=0.5, random_state=0) > 0).astype("float32")


@pytest.mark.parametrize("model", [macrid.MacridVAE, macrid.MultVAE, macrid.MultDAE])
def test_a_network_far_too_wide_is_refused_with_a_width_that_fits(model, monkeypatch):
    monkeypatch.setattr(memory, "memory_left", lambda device: 2.0**30)
    monkeypatch.setattr(memory, "_swap", lambda: 0.0)
    with pytest.raises(SettingsError, match=r"width 1000000\b.* TiB .*1\.0 GiB is free .*width [\d,]+ would fit") as no:
        model(width=10**6, hidden_layers=2).fit(MATRIX, device="cpu")
    fitting = int(re.search(r"width ([\d,]+) would fit", str(no.value))[1].replace(",", ""))
    assert training_bytes(model(width=fitting, hidden_layers=2), 20) <= 2**30
    assert training_bytes(model(width=fitting + 1, hidden_layers=2), 20) > 2**30


@given(dim=st.integers(2, 50), width=st.integers(1, 50), layers=st.integers(0, 3), concepts=st.integers(1, 9))
def test_the_estimate_counts_the_parameters_that_are_built(dim, width, layers, concepts):
    model = macrid.MacridVAE(dim=dim, width=width, hidden_layers=layers, concepts=concepts, concept_shares="off")
    built = sum(parameter.numel() for parameter in model._build(17).parameters())
    assert training_bytes(model, 17) == PER_PARAMETER * built


def test_more_negatives_than_memory_are_refused(monkeypatch):
    monkeypatch.setattr(memory, "memory_left", lambda device: 2.0**30)
    with pytest.raises(SettingsError, match=r"negatives is 1,000,000,000.* GiB is free on cpu; lower it below"):
        macrid.MacridVAE().fit(MATRIX, device="cpu", likelihood="sampled", negatives=10**9)


def test_a_network_that_cannot_be_built_without_memory_is_not_checked(monkeypatch):
    def build(self, items):
        return torch.nn.Linear(int(torch.ones(1, device=torch.empty(0).device).item()), items)

    monkeypatch.setattr(macrid.MultDAE, "_build", build)
    assert training_bytes(macrid.MultDAE(), 5) is None


@pytest.mark.parametrize(
    ("count", "text"),
    [(3, "3 bytes"), (2048, "2 KiB"), (3 * 2**30, "3.0 GiB"), (2**42, "4.0 TiB"), (2**52, "4,096.0 TiB")],
)
def test_sizes_are_written_in_a_unit_that_suits_them(count, text):
    assert size(count) == text
