"""The benchmark of new items counts what it says."""

import numpy as np
from benchmarks.cold import World

from macrid.cold import Placer


def test_recall_of_held_out_items_is_counted_by_hand(shop_split):
    held_out = np.arange(0, len(shop_split.items), 10)
    world = World(shop_split, held_out)
    assert world.train.matrix.shape[1] == len(world.kept) == len(shop_split.items) - len(held_out)
    perfect = world.targets.astype(float)
    assert world.score(perfect)["recall@20"] == 1
    whole = world.score(perfect + 10, np.zeros(world.history.shape))
    assert whole["whole"] == 1
    assert whole["share"] == min(1, len(held_out) / 20)
    assert world.score(-perfect, np.ones(world.history.shape))["whole"] == 0


def test_placed_items_are_scored_by_the_model_that_has_them(trained, shop_split):
    """Nothing held out of training: its trained vectors would be found best, placed ones worse, but not at random."""
    model, split = trained
    held_out = np.arange(len(split.items) - 16, len(split.items))
    world = World(split, held_out)
    ours = world.trained(model)
    assert 0 < ours["recall@20"] <= 1
    assert 0 <= ours["share"] < 1
    assert Placer.fit(model).model is model
