"""Controllability in a world with known answers, and against slow loops over users."""

import copy
import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import rankdata, spearmanr

import macrid
from macrid.concepts.axes import use
from macrid.concepts.directions import Direction, along, directions_towards
from macrid.concepts.meaning import Axes, Fit, meaning_of
from macrid.concepts.naming import find
from macrid.concepts.space import space_of
from macrid.data.attributes import Column, named_column
from macrid.data.ids import Ids
from macrid.data.split import HeldOut
from macrid.errors import DataError, MacridError, RequestError
from macrid.evaluation.agreement import scores_of
from macrid.report import controllability
from macrid.report.controllability import measure
from macrid.report.knobs import Knob, attribute_knobs, named_knobs
from tests.planted import PRICE, SIZE, TASTE, planted


@pytest.fixture(scope="module")
def world():
    model, heldout = planted()
    columns = [named_column(model, name) for name in ("size", "price")]
    return model, heldout, columns


def knob(model, column, dimension, concept=0, ends=(-0.4, 0.4)):
    vector = np.eye(6, dtype=np.float32)[dimension]
    return Knob((Direction(concept, dimension, vector, *ends),), column)


def test_a_direction_of_one_attribute_moves_it_steadily_and_leaks_nothing(world):
    model, heldout, columns = world
    found = measure(model, heldout, [knob(model, columns[0], SIZE)], columns=columns).knobs[0]
    assert (found.name, found.concept, found.dimension, found.users) == ("size", 0, SIZE, 60)
    assert found.monotonicity > 0.95
    assert found.leakage == 0  # lists contain whole pairs, so their mean price does not change
    assert found.drift == 0
    assert found.moves > 1.5


def test_a_direction_between_two_attributes_leaks(world):
    model, heldout, columns = world
    vector = (np.eye(6)[SIZE] + np.eye(6)[PRICE]).astype(np.float32) / np.sqrt(2, dtype=np.float32)
    both = Knob((Direction(0, None, vector, -0.4, 0.4),), columns[0])
    found = measure(model, heldout, [both], columns=columns).knobs[0]
    assert found.leakage > 0.3
    assert found.drift > 0.5


def test_a_reversed_direction_moves_its_attribute_down(world):
    model, heldout, columns = world
    down = Knob((Direction(0, SIZE, -np.eye(6, dtype=np.float32)[SIZE], -0.4, 0.4),), columns[0])
    found = measure(model, heldout, [down], columns=columns).knobs[0]
    assert found.monotonicity < -0.95
    assert found.moves < -1.5
    assert found.leakage == 0


def test_an_unrelated_direction_does_not_move_an_attribute(world):
    model, heldout, columns = world
    found = measure(model, heldout, [knob(model, columns[0], PRICE)], columns=columns).knobs[0]
    assert abs(found.monotonicity) < 0.25
    assert abs(found.moves) < 0.25


def test_random_directions_do_less_than_a_knob(world):
    model, heldout, columns = world
    found = measure(model, heldout, [knob(model, columns[0], SIZE)], columns=columns)
    assert 0 <= found.random < 0.9 < found.mean("monotonicity")


def test_a_knob_that_changes_nothing_keeps_everything(world, monkeypatch):
    model, heldout, columns = world
    monkeypatch.setattr(controllability, "placed", lambda components, *_: components)
    found = measure(model, heldout, [knob(model, columns[0], SIZE)], columns=columns).knobs[0]
    assert (found.retention, found.overlap, found.smoothness) == (1, 1, 1)
    assert (found.monotonicity, found.moves, found.leakage) == (0, 0, None)


def test_a_knob_of_several_concepts_moves_all_of_them_and_lists_all_items(world):
    model, heldout, columns = world
    joint = Knob(tuple(knob(model, columns[0], SIZE, k).directions[0] for k in (0, 1)), columns[0])
    found = measure(model, heldout, [joint], columns=columns)
    assert (found.knobs[0].concept, found.knobs[0].dimension) == (None, None)
    assert found.knobs[0].monotonicity > 0.95
    assert found.random is None  # only measured for knobs of one concept


def test_named_knobs_come_from_axes_and_from_names(world):
    model = copy.deepcopy(world[0])
    assert named_knobs(model) == []
    rotation = np.broadcast_to(np.eye(6, dtype=np.float32)[[SIZE, 0, 1, 3, 4, 5]], (2, 6, 6))
    use(model, Axes("attributes", rotation, fits=(Fit(0, 0, "size", 0.9, 0.005), Fit(1, 0, "size", 0.9, 0.005))))
    assert [(knob.concept, knob.column.name) for knob in named_knobs(model)] == [(0, "size"), (1, "size")]
    model = copy.deepcopy(world[0])
    meaning_of(model).names = find(model)
    falling = meaning_of(model).names.dimension(0, SIZE).model_copy(update={"direction": -1})
    dimensions = list(meaning_of(model).names.dimensions)
    dimensions[SIZE] = falling
    meaning_of(model).names = type(meaning_of(model).names)(meaning_of(model).names.concepts, tuple(dimensions))
    named = {(knob.concept, knob.dimension): knob for knob in named_knobs(model)}
    assert named[1, SIZE].column.name == named[0, SIZE].column.name == "size"
    assert named[1, SIZE].directions[0].vector[SIZE] == 1
    assert named[0, SIZE].directions[0].vector[SIZE] == -1  # so that the attribute grows
    plain, turned = along(space_of(model), 0, SIZE), named[0, SIZE].directions[0]
    assert (turned.low, turned.high) == (-plain.high, -plain.low)
    assert {knob.is_reversed for knob in (named[0, SIZE], named[1, SIZE])} == {True, False}
    assert named[0, SIZE].axis == meaning_of(model).names.dimension(0, SIZE).axis


def test_attribute_knobs_move_as_moves_towards_the_attribute_do(world):
    model = world[0]
    size, price = attribute_knobs(model)
    assert [knob.column.name for knob in (size, price)] == ["size", "price"]
    assert size.directions == tuple(directions_towards(space_of(model), "size"))
    assert (size.concept, size.dimension, size.axis) == (None, None, "")


def test_an_attribute_that_one_concept_predicts_still_lists_all_items(world):
    model, heldout, columns = world
    column = replace(columns[0], values=np.where(np.arange(200) < 100, columns[0].values, 0.0))
    general = Knob(knob(model, column, SIZE).directions, column, is_general=True)
    found = measure(model, heldout, [general, knob(model, column, SIZE)], columns=columns).knobs
    assert [effect.concept for effect in found] == [None, 0]
    assert found[0].moves < found[1].moves  # half of the listed items belong to the other concept


def test_ends_are_in_the_units_of_the_attribute_and_in_the_order_of_the_dimension(world):
    model, heldout, columns = world
    up = knob(model, columns[0], SIZE)
    found = measure(model, heldout, [up], columns=columns).knobs[0]
    assert -0.5 < found.low < -0.2
    assert 0.2 < found.high < 0.5
    assert not found.is_share
    again = measure(model, heldout, [replace(up, is_reversed=True)], columns=columns).knobs[0]
    assert (again.low, again.high) == (found.high, found.low)
    assert again.moves == found.moves
    large = Column("size: large", "size", "tag", (columns[0].values > 0.2).astype(float))
    share = measure(model, heldout, [knob(model, large, SIZE)], columns=columns).knobs[0]
    assert (share.is_share, share.low) == (True, 0)
    assert share.high > 0.9


def test_only_the_most_popular_items_of_a_large_catalogue_are_listed(world, monkeypatch):
    model, heldout, columns = world
    monkeypatch.setattr(controllability, "MOST_LISTED", 60)
    listed = []
    moving = controllability._Decoded.moving

    def listing(self, users, items):
        listed.append(items)
        return moving(self, users, items)

    monkeypatch.setattr(controllability._Decoded, "moving", listing)
    found = measure(model, heldout, [knob(model, columns[0], SIZE)], columns=columns, chance=False).knobs[0]
    popular = np.sort(np.argsort(-model.popularity, kind="stable")[:60])
    assert {len(items) for items in listed} == {60}
    assert any(np.array_equal(items, popular) for items in listed)
    assert found.monotonicity > 0.9
    assert found.retention is not None


# slow truth


def slow(model, heldout, knob, columns):
    """Everything about one knob of one concept, user by user in float64."""
    space = space_of(model)
    h, tau = space.items.astype(np.float64), model.settings.temperature
    log_c = space.log_assignment.numpy().astype(np.float64)
    components, log_w = (part.astype(np.float64) for part in space.encode(heldout.history))
    direction = knob.directions[0]
    e, k = direction.vector.astype(np.float64), direction.concept
    items = np.flatnonzero(space.concept_of == k)
    unseen = len(items) - heldout.history.toarray()[:, items].sum(axis=1)
    users = np.flatnonzero(((heldout.history @ np.exp(log_c))[:, k] >= 3) & (unseen >= 10))

    def scores_at(user, value):
        z = components[user].copy()
        if value is not None:
            rest = z[k] - (z[k] @ e) * e
            z[k] = value * e + np.sqrt(1 - value**2) * rest / np.linalg.norm(rest)
        return logsumexp(z @ h.T / tau + log_c.T + log_w[user][:, None], axis=0)

    def best(scores, seen, among, n):
        left = [item for item in among if item not in seen]
        return sorted(left, key=lambda item: -scores[item])[:n]

    def standard(values):
        known = np.isfinite(values)
        ranks = np.full(len(values), np.nan)
        ranks[known] = rankdata(values[known])
        return (ranks - np.nanmean(ranks)) / np.nanstd(ranks)

    mine = standard(knob.column.values[items])
    others, names = [], []
    for column in columns:
        theirs = standard(column.values[items])
        both = np.isfinite(mine) & np.isfinite(theirs)
        is_other = column.name != knob.column.name and column.is_usable(items)
        if is_other and abs(spearmanr(mine[both], theirs[both]).statistic) <= 0.3:
            others.append(theirs)
            names.append(column.name)
    place = {item: at for at, item in enumerate(items)}
    values = np.linspace(direction.low, direction.high, 9)
    rows = {name: [] for name in ("monotonicity", "moves", "far", "smoothness", "overlap")}
    shift, drift = [[] for _ in others], [[] for _ in others]
    ndcg = {-1: [], 0: [], 1: []}
    ends = []
    for user in users:
        seen, z = set(heldout.history[[user]].indices.tolist()), components[user]
        lists = [best(scores_at(user, value), seen, items, 10) for value in values]
        ends.append([np.nanmean(knob.column.values[one]) for one in (lists[0], lists[-1])])

        def averages(of, lists=lists):
            return np.array([np.nanmean([of[place[item]] for item in one]) for one in lists])

        mine_in_lists = averages(mine)
        rows["monotonicity"].append(0.0 if np.ptp(mine_in_lists) == 0 else spearmanr(range(9), mine_in_lists).statistic)
        rows["moves"].append(mine_in_lists[-1] - mine_in_lists[0])
        rows["far"].append(abs(mine_in_lists[-1] - mine_in_lists[0]))
        rows["smoothness"].append(np.mean([len(set(a) & set(b)) / 10 for a, b in pairwise(lists)]))
        for at, theirs in enumerate(others):
            each = averages(theirs)
            shift[at].append(each[-1] - each[0])
            drift[at].append(0.0 if np.ptp(each) == 0 else spearmanr(range(9), each).statistic)
        now, quarter = float(z[k] @ e), (direction.high - direction.low) / 4
        targets = set(heldout.target[[user]].indices.tolist())
        ideal = sum(1 / np.log2(rank + 2) for rank in range(min(100, len(targets))))
        tops = {}
        for sign in (-1, 0, 1):
            limits = min(direction.low, now), max(direction.high, now)
            value = None if sign == 0 else float(np.clip(now + sign * quarter, *limits))
            tops[sign] = best(scores_at(user, value), seen, range(len(h)), 100)
            if targets:
                gained = sum(1 / np.log2(rank + 2) for rank, item in enumerate(tops[sign]) if item in targets)
                ndcg[sign].append(gained / ideal)
        rows["overlap"].append(np.mean([len(set(tops[0][:10]) & set(tops[sign][:10])) / 10 for sign in (-1, 1)]))
    mean = {name: float(np.mean(values)) for name, values in rows.items()}
    most = int(np.argmax([abs(np.mean(one)) for one in shift]))
    low, high = np.mean(ends, axis=0)
    return {
        "users": len(users),
        **{name: mean[name] for name in ("monotonicity", "moves", "smoothness", "overlap")},
        "low": low,
        "high": high,
        "other": names[most],
        "other_moves": float(np.mean(shift[most])),
        "leakage": float(np.mean([np.mean(np.abs(one)) for one in shift])) / mean["far"],
        "drift": float(np.mean([abs(np.mean(one)) for one in drift])),
        "retention": float((np.mean(ndcg[-1]) + np.mean(ndcg[1])) / 2 / np.mean(ndcg[0])),
    }


@pytest.mark.parametrize("concept", [0, 3])
def test_every_number_matches_a_slow_loop_over_users(trained, concept):
    model, split = trained
    random = np.random.default_rng(concept)
    noise = [Column(f"n{n}", f"n{n}", "number", random.normal(size=160)) for n in range(3)]
    noise[2].values[::7] = np.nan
    price = named_column(model, "price")
    price_knob = Knob((along(space_of(model), concept, 5),), price)
    found = measure(model, split.test, [price_knob], columns=[price, *noise]).knobs[0].model_dump()
    for name, value in slow(model, split.test, price_knob, [price, *noise]).items():
        assert found[name] == pytest.approx(value, abs=1e-6), name


def test_means_are_over_the_knobs_that_have_a_number(world):
    model, heldout, columns = world
    none = HeldOut(heldout.history, heldout.target * 0, heldout.users)
    none.target.eliminate_zeros()
    knobs = [knob(model, columns[0], SIZE, k) for k in (0, 1)]
    found = measure(model, none, knobs, columns=columns)
    assert [control.retention for control in found.knobs] == [None, None]
    content = found.as_json()
    assert content["mean"]["retention"] is None
    assert content["mean"]["monotonicity"] == pytest.approx(np.mean([c.monotonicity for c in found.knobs]))
    assert content["beside_mean"] is None
    json.dumps(content, allow_nan=False)


@pytest.mark.filterwarnings("error")
def test_an_attribute_unknown_in_every_list_moves_nothing(world):
    model, heldout, columns = world
    rare = Column("rare", "rare", "number", np.where(np.arange(200) < 100, np.nan, np.arange(200)))
    found = measure(model, heldout, [knob(model, rare, SIZE)], columns=[*columns, rare]).knobs[0]
    assert (found.monotonicity, found.moves) == (0, 0)
    assert (found.low, found.high, found.text) == (None, None, "")
    json.dumps(found.model_dump(), allow_nan=False)


def test_users_who_have_seen_nearly_all_items_of_a_concept_are_skipped(world):
    model, heldout, columns = world
    history = heldout.history.toarray()
    history[:20, :92] = 1  # 8 of 100 are left
    many = HeldOut(type(heldout.history)(history), heldout.target, heldout.users)
    assert measure(model, many, [knob(model, columns[0], SIZE)], columns=columns).knobs[0].users == 40


# the model beside


@pytest.fixture(scope="module")
def multvae(trained):
    return macrid.MultVAE(dim=16).fit(trained[1].train, epochs=6, seed=1, device="cpu")


def test_another_model_is_moved_along_the_same_attributes(trained, multvae):
    model, split = trained
    column = named_column(model, "popularity")
    knobs = [Knob((along(space_of(model), k, 0),), column) for k in range(3)]
    other, done = copy.deepcopy(multvae), []
    with torch.no_grad():  # a model whose first dimension is popularity
        other.network.item_vectors.mul_(0.05)
        other.network.item_vectors[:, 0] = torch.from_numpy(scores_of(column.values)).float()
        other.network.item_bias.zero_()
    found = measure(model, split.test, knobs, beside=other, on_knob=lambda *counts: done.append(counts))
    assert done == [(1, 3), (2, 3), (3, 3)]
    assert len(found.beside) > 0
    assert {control.name for control in found.beside} == {"popularity"}
    assert all(control.moves >= 0 for control in found.beside)
    items, users = space_of(model).members(0), np.arange(split.test.history.shape[0])
    decoded = controllability._decoded(other, model, split.test, np.arange(160))
    direction = controllability._activation(decoded, space_of(model), items, column, users)
    assert direction.vector[0] > 0.99
    values = decoded.components[users, 0, :] @ direction.vector
    assert (direction.low, direction.high) == pytest.approx(tuple(np.percentile(values, (1, 99))))
    assert set(found.as_json()["beside_mean"]) == set(found.as_json()["mean"])


def test_the_other_model_must_have_the_same_items_and_no_hidden_layers(trained, multvae, world):
    model, split = trained
    knobs = [Knob((along(space_of(model), 0, 0),), named_column(model, "price"))]
    other = copy.copy(multvae)
    other.items = Ids.range(160)
    with pytest.raises(RequestError, match="items"):
        measure(model, split.test, knobs, beside=other)
    deep = macrid.MultVAE(dim=8, hidden_layers=1, width=8).fit(split.train, epochs=1, device="cpu")
    for wrong in (deep, model):
        with pytest.raises(RequestError, match=f"{type(wrong).__name__}.*hidden layers"):
            measure(model, split.test, knobs, beside=wrong)


# errors


def test_without_knobs_the_error_says_how_to_get_some(world):
    bare = copy.deepcopy(world[0])
    bare.table, bare.popularity = None, np.ones(200, dtype=np.int64)
    with pytest.raises(RequestError, match="`macrid axes"):
        measure(bare, world[1])


def test_too_few_users_are_an_error(world):
    model, heldout, columns = world
    few = HeldOut(heldout.history[:9], heldout.target[:9], Ids.range(9))
    with pytest.raises(RequestError, match="10 held-out users with 3 items"):
        measure(model, few, [knob(model, columns[0], TASTE)], columns=columns)


def test_users_over_other_items_are_an_error(world):
    model, heldout, columns = world
    other = HeldOut(heldout.history[:, :50], heldout.target[:, :50], heldout.users)
    with pytest.raises(DataError, match=r"50 .* 200"):
        measure(model, other, [knob(model, columns[0], SIZE)], columns=columns)


def test_a_model_without_concepts_is_an_error(trained):
    with pytest.raises(MacridError, match="EASE"):
        measure(macrid.EASE().fit(trained[1].train), trained[1].test)
