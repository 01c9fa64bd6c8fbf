import pytest
import torch
from torch import nn

from macrid.training.average import Average


def layer(value: float) -> nn.Linear:
    network = nn.Linear(1, 1, bias=False)
    nn.init.constant_(network.weight, value)
    return network


def follow(epochs: float, values: list[float]) -> tuple[nn.Linear, Average]:
    network = layer(0.0)
    average = Average(network, epochs)
    for value in values:
        nn.init.constant_(network.weight, value)
        average.update()
    return network, average


def test_each_epoch_counts_its_share_and_earlier_ones_the_rest():
    network, average = follow(4, [1.0, 5.0, 2.0])
    with average.used():
        assert network.weight.item() == pytest.approx(0.75 * (0.75 * 1 + 0.25 * 5) + 0.25 * 2)


def test_training_weights_are_restored_even_after_an_error():
    network, average = follow(4, [1.0, 5.0])
    with pytest.raises(RuntimeError), average.used():
        raise RuntimeError
    assert network.weight.item() == 5.0


def test_an_average_over_one_epoch_does_nothing():
    network, average = follow(1, [1.0, 5.0])
    assert not average.weights
    with average.used():
        assert network.weight.item() == 5.0


def test_the_parameters_stay_the_same_tensors():
    network, average = follow(2, [1.0, 3.0])
    before = network.weight.data_ptr()
    with average.used():
        assert network.weight.data_ptr() == before
    assert network.weight.requires_grad
    assert torch.equal(network.weight, torch.tensor([[3.0]]))
