"""The cost model: what dividing users and items divides, and that it counts what is really there."""

from dataclasses import replace

import pytest

from macrid.models.macridvae import MacridNetwork
from macrid.settings import MacridVAESettings
from macrid.training import cost
from macrid.training.cost import Machine, Shape

SHAPE = Shape(users=10_000, items=50_000, per_user=40, batch=512, concepts=5, dim=16)
DIVIDED = {"processes": 8, "item_shards": 8}


def test_parameters_are_those_of_the_network():
    network = MacridNetwork(70, MacridVAESettings(concepts=5, dim=16))
    shape = replace(SHAPE, items=70)
    assert 2 * 70 * 16 + shape.shared_parameters == sum(p.numel() for p in network.parameters())
    paper = MacridNetwork(70, MacridVAESettings(concepts=5, dim=16, whole_history="off", concept_shares="off"))
    assert 2 * 70 * 16 + replace(shape, has_shares=False).shared_parameters == sum(
        p.numel() for p in paper.parameters()
    )


def test_one_process_sends_nothing():
    assert cost.network(SHAPE) == (0, 0, 0)


@pytest.mark.parametrize("likelihood", ["exact", "sampled"])
def test_dividing_items_divides_memory_and_dividing_users_does_not(likelihood):
    shape = replace(SHAPE, likelihood=likelihood)
    by_items, by_users = replace(shape, **DIVIDED), replace(shape, processes=8)
    assert cost.memory(by_items).state < 0.15 * cost.memory(shape).state
    assert cost.memory(by_users).state == cost.memory(shape).state


def test_divided_items_send_no_gradients_of_tables():
    more = replace(SHAPE, items=10 * SHAPE.items)
    assert cost.network(replace(more, **DIVIDED)) == cost.network(replace(SHAPE, **DIVIDED))
    assert (
        cost.network(replace(more, processes=8)).over_users > 9 * cost.network(replace(SHAPE, processes=8)).over_users
    )


def test_the_sum_over_items_is_divided_either_way():
    large = replace(SHAPE, items=1_000_000)
    whole = cost.operations(large, "cuda")
    for divided in (replace(large, processes=8), replace(large, **DIVIDED)):
        assert whole / 10 < cost.operations(divided, "cuda") < whole / 5


def test_a_sampled_step_does_not_grow_with_the_catalogue():
    sampled = replace(SHAPE, likelihood="sampled", items=10**6)
    more = replace(sampled, items=10**8)
    assert cost.operations(sampled) == cost.operations(more)
    assert cost.traffic(sampled) == cost.traffic(more)


def test_a_slower_network_costs_its_bytes():
    divided = replace(SHAPE, processes=2)
    fast, slow = (cost.seconds(divided, Machine(1e12, 1e11, speed)) for speed in (1e10, 1e9))
    assert slow - fast == pytest.approx(cost.network(divided).over_users * (1e-9 - 1e-10))


def test_the_memory_of_ten_million_items_on_one_card_is_what_was_measured():
    from benchmarks.distributed import on_one_card

    rows = [row for row in on_one_card() if "gib" in row]
    assert rows
    for row in rows:
        assert row["predicted_gib"] == pytest.approx(row["gib"], rel=0.15)


def test_a_hundred_million_items_need_several_cards():
    from benchmarks.distributed import extrapolated

    fits = {(row["items"], row["cards"]): row["fits"] for row in extrapolated() if row["likelihood"] == "sampled"}
    assert not fits[100_000_000, 1]
    assert fits[100_000_000, 8]
