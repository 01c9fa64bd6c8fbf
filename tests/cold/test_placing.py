"""Items placed by attributes and events."""

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch

import macrid
from macrid.cold import Placer, narrowed, widen
from macrid.cold.placing import event_means
from macrid.cold.widening import Added
from macrid.concepts.space import space_of
from macrid.data.ids import Ids


@pytest.fixture(scope="module")
def planted():
    """A model whose vectors are a linear function of two attributes and of nothing else."""
    random = np.random.default_rng(0)
    count, dim = 240, 8
    kinds, price = random.integers(0, 4, count), random.uniform(0, 1, count)
    matrix = sp.csr_array((random.random((60, count)) < 0.1).astype(np.float32))
    ids = Ids([f"i{place}" for place in range(count)])
    table = pa.table({"kind": [f"k{kind}" for kind in kinds], "price": price})
    data = macrid.Interactions(matrix, Ids.range(60), ids, table)
    model = macrid.MacridVAE(concepts=3, dim=dim, neighbours=0, start="random")
    model.fit(data, epochs=1, batch_size=60, device="cpu", seed=0)
    law = random.normal(size=(5, dim))
    vectors = np.concatenate([np.eye(4)[kinds], price[:, None]], axis=1) @ law
    with torch.no_grad():
        model.network.item_vectors.copy_(torch.from_numpy(vectors))
        model.network.context_vectors.copy_(torch.from_numpy(2 * vectors))
    model._forget()
    return model, law


def test_a_planted_law_is_recovered(planted):
    model, law = planted
    placer = Placer.fit(model)
    assert placer.strength.strength > 0.95
    assert placer.strength.concepts > 0.9
    kinds, price = [0, 1, 2, 3], [0.2, 0.5, 0.7, 0.4]
    placed = placer.place(pa.table({"kind": [f"k{kind}" for kind in kinds], "price": price}))
    truth = np.concatenate([np.eye(4)[kinds], np.array(price)[:, None]], axis=1) @ law
    contexts = torch.nn.functional.cosine_similarity(placed.context_vectors, torch.from_numpy(truth).float())
    assert contexts.min() > 0.97
    assert placed.how[0].attributes == ("kind", "price")
    assert "its attributes: kind, price; strength" in str(placed.how[0])


def test_attributes_without_meaning_have_no_strength(planted):
    model, _ = planted
    other = narrowed(model)
    random = np.random.default_rng(1)
    other.table = pa.table({"kind": [f"k{kind}" for kind in random.integers(0, 4, len(other.items))]})
    assert abs(Placer.fit(other).strength.strength) < 0.15


def test_an_item_with_fewer_known_attributes_is_placed_with_less_strength(planted):
    model, _ = planted
    random = np.random.default_rng(2)
    other = narrowed(model)
    noise = pa.array([f"n{value}" for value in random.integers(0, 4, len(model.items))])
    other.table = model.table.append_column("noise", noise)
    placer = Placer.fit(other)
    table = pa.table({"kind": ["k1", "k1", None], "price": [0.5, None, None], "noise": ["n1", "n1", "n1"]})
    everything, kind, none = (how.strength for how in placer.place(table).how)
    assert everything > kind > none
    assert none < 0.2


def test_an_item_that_nothing_is_known_about_says_so(planted):
    placed = Placer.fit(planted[0]).place(pa.table({"kind": ["unheard of"], "price": pa.nulls(1, pa.float64())}))
    assert placed.how[0].attributes == ()
    assert placed.how[0].strength == 0


def test_event_means_are_means_of_histories():
    directions = np.random.default_rng(0).normal(size=(4, 3))
    histories = sp.csr_array(np.array([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0], [1, 0, 0, 1]], dtype=np.float32))
    owners = sp.csr_array(np.array([[1, 0], [1, 0], [1, 0], [0, 0]], dtype=np.float32))
    counts, means = event_means(directions, histories, owners)
    assert counts.tolist() == [2, 0]  # the third user has no history
    assert np.allclose(means[0], (directions[:2].mean(axis=0) + directions[2]) / 2)
    counts, means = event_means(directions, histories[[0]], sp.csr_array(np.ones((1, 1))), np.array([1]))
    assert np.allclose(means[0], directions[0])  # without the item itself


def test_events_place_trained_items_better_the_more_there_are(trained):
    strength = Placer.fit(trained[0]).strength
    assert 0.2 < strength.strength < 1
    assert strength.concepts > strength.largest
    assert 0.5 < strength.found < strength.found_trained
    only = list(strength.events_only.values())
    assert only == sorted(only)


def test_a_wider_model_scores_trained_items_as_before_and_can_be_narrowed(trained):
    model, split = trained
    wide = narrowed(model)
    placer = Placer.fit(model)
    placed = placer.place(model.table.slice(0, 3))
    added = Added.of(Ids(["n1", "n2", "n3"]), model.table.slice(0, 3), placed, placer.strength)
    widen(wide, added)
    count = len(model.items)
    assert len(wide.items) == count + 3
    assert wide.table.num_rows == len(wide.popularity) == len(wide.network.item_vectors) == count + 3
    history = split.test.history[:5]
    longer = sp.csr_array((history.data, history.indices, history.indptr), shape=(5, count + 3))
    before, after = model.scores(history), wide.scores(longer)[:, :count]
    assert torch.allclose(before, after.log_softmax(dim=1), atol=1e-5)
    items = wide.recommend([model.items[0]], n=count)
    new = [item for item in items if item.new is not None]
    assert {item.id for item in new} == {"n1", "n2", "n3"}
    assert new[0].as_json()["new"] is True
    assert space_of(wide).concept_of.shape == (count + 3,)
    back = narrowed(wide)
    assert back.items == model.items
    assert torch.equal(back.scores(history), before)


@pytest.mark.parametrize("settings", [{"similarity": "inner"}, {"concept_shares": "off", "assignment": "hard"}])
def test_every_kind_of_model_takes_items(shop_split, settings):
    model = macrid.MacridVAE(concepts=3, dim=6, neighbours=0, start="random", **settings)
    model.fit(shop_split.train, epochs=1, batch_size=100, device="cpu", seed=0)
    wide, placer = narrowed(model), Placer.fit(model)
    placed = placer.place(model.table.slice(0, 2))
    widen(wide, Added.of(Ids(["n1", "n2"]), model.table.slice(0, 2), placed, placer.strength))
    assert len(wide.recommend(["n1"], n=5)) == 5


def test_neighbours_survive_widening(shop_split):
    model = macrid.MacridVAE(concepts=3, dim=6, neighbours=8)
    model.fit(shop_split.train, validation=shop_split.validation, epochs=1, batch_size=60, device="cpu", seed=0)
    if model.neighbours is None:
        model.neighbours = macrid.models.neighbours.Neighbours.fit(shop_split.train.matrix, 8, torch.device("cpu"))
    wide, placer = narrowed(model), Placer.fit(model)
    placed = placer.place(model.table.slice(0, 2))
    widen(wide, Added.of(Ids(["n1", "n2"]), model.table.slice(0, 2), placed, placer.strength))
    assert wide.neighbours.items == wide.neighbours.width == len(model.items) + 2
    assert wide.recommend([model.items[3], "n1"], n=5).ids
    back = narrowed(wide)
    for name, tensor in model.state().items():
        assert torch.equal(tensor, back.state()[name])
