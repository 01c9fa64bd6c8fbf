"""Steering against its formulas in float64: where a component goes, what a concept gives, which items move."""

import copy
import json
import warnings
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp, softmax

import macrid
from macrid.concepts.axes import use
from macrid.concepts.directions import along, directions_towards
from macrid.concepts.meaning import Axes, meaning_of
from macrid.concepts.naming import find as find_names
from macrid.concepts.space import space_of
from macrid.control.state import FURTHEST, State, placed
from macrid.control.steer import Steered, steer
from macrid.errors import MacridError, RangeWarning, RequestError, RulesWarning, UnknownItemsWarning
from tests.planted import PRICE, SIZE, planted
from tests.truth import share_weights

RANDOM = np.random.default_rng(0)


def variant(trained, **settings):
    """The trained weights under other settings."""
    model = copy.deepcopy(trained[0])
    model.settings = model.network.settings = model.settings.model_copy(update=settings)
    model.cached = None
    return model


@pytest.fixture(scope="module")
def models(trained):
    one = macrid.MacridVAE(concepts=1, dim=8).fit(trained[1].train, epochs=2, seed=1, device="cpu")
    turned = variant(trained)
    rotation = np.stack([np.linalg.qr(RANDOM.normal(size=(16, 16)))[0] for _ in range(7)]).astype(np.float32)
    use(turned, Axes("independence", rotation))
    return {
        "soft": trained[0],
        "hard": variant(trained, assignment="hard"),
        "inner": variant(trained, similarity="inner"),
        "one": one,
        "turned": turned,
    }


@pytest.fixture(scope="module")
def history(trained):
    model, split = trained
    return [model.items[int(place)] for place in split.test.history[[0]].indices]


def truth(model, history, components=None, factors=None):
    """float64: components (concepts, dim), log of the terms (concepts, items)."""
    network, cosine = model.network, model.settings.similarity == "cosine"
    space = space_of(model)
    h, m = (table.detach().double().numpy() for table in (network.item_vectors, network.prototypes))
    if cosine:
        h, m = (table / np.linalg.norm(table, axis=1, keepdims=True) for table in (h, m))
    logits = h @ m.T / network.assignment_temperature
    with np.errstate(divide="ignore"):
        hard = np.log(np.eye(len(m))[logits.argmax(axis=1)])
    log_c = hard if model.settings.assignment == "hard" else logits - logsumexp(logits, axis=1, keepdims=True)
    if components is None:
        components = space.components(model.histories([history]))[0].astype(np.float64)
    terms = components @ h.T / model.settings.temperature + log_c.T + log_weights(model, np.exp(log_c), history)
    return components, terms + (0 if factors is None else np.asarray(factors)[:, None])


def log_weights(model, c, history):
    """(concepts, 1)"""
    mass = c[model.items.positions(history)].sum(axis=0)
    power = model.network.share_power
    return np.log(share_weights(mass, 0.0 if power is None else power.item()))[:, None]


def ranked(model, history, terms, n=10):
    scores = logsumexp(terms, axis=0)
    scores = scores - logsumexp(scores)
    seen = model.items.positions(history)
    hidden = scores.copy()
    hidden[seen] = -np.inf
    best = np.argsort(-hidden, kind="stable")[:n]
    return [model.items[int(place)] for place in best], scores[best]


def turned_to(z, axis, value):
    rest = z - (z @ axis) * axis
    return value * axis + np.sqrt(1 - value**2) * rest / np.linalg.norm(rest)


def moved_state(steered):
    """The components behind an answer, recovered by making its moves again."""
    model = steered.request["model"]
    space = space_of(model)
    (start,) = State.all_of(space, model.histories([steered.request["history"]]))
    return start.after(steered.moves, steered.request["bounded"]).state


@pytest.mark.parametrize("kind", ["soft", "hard", "inner", "one", "turned"])
def test_without_moves_the_list_is_the_models(models, kind, history):
    model = models[kind]
    steered, plain = steer(model, history, n=20), model.recommend(history, 20)
    assert steered.ids == plain.ids == steered.before.ids
    assert [item.score for item in steered] == pytest.approx([item.score for item in plain], abs=1e-5)
    assert [(item.title, item.concept) for item in steered] == [(item.title, item.concept) for item in plain]
    assert steered.moved == {"in": [], "out": [], "up": [], "down": []}
    assert sum(steered.shares) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("kind", ["soft", "hard", "one", "turned"])
@pytest.mark.parametrize("value", [-0.6, 0.0, 0.35, 0.9])
def test_a_coordinate_goes_where_it_was_sent_and_the_list_follows(models, kind, value, history):
    model = models[kind]
    concept = model.settings.concepts - 1
    with warnings.catch_warnings(action="ignore"):
        steered = steer(model, history, concept=concept, dimension=3, to=value, bounded=False)
    z, _ = truth(model, history)
    axis = space_of(model).axes(concept)[3].astype(np.float64)
    z[concept] = turned_to(z[concept], axis, value)
    assert moved_state(steered).components[concept].numpy() == pytest.approx(z[concept], abs=1e-6)
    ids, scores = ranked(model, history, truth(model, history, z)[1])
    assert steered.ids == ids
    assert [item.score for item in steered] == pytest.approx(scores, abs=1e-4)
    assert steered.effects[0].after == pytest.approx(value)


@given(seed=st.integers(0, 10_000), value=st.floats(-0.999, 0.999))
def test_a_moved_component_has_the_value_length_1_and_the_old_proportions(seed, value):
    random = np.random.default_rng(seed)
    z, basis = random.normal(size=8), np.linalg.qr(random.normal(size=(8, 8)))[0]
    z /= np.linalg.norm(z)
    steered = placed(z, basis[0], value)
    before, after = basis @ z, basis @ steered
    assert after[0] == pytest.approx(value, abs=1e-12)
    assert np.linalg.norm(steered) == pytest.approx(1)
    assert after[1:] * before[1] == pytest.approx(before[1:] * after[1], abs=1e-9)
    assert after[1] * before[1] >= 0


def test_where_length_matters_all_other_coordinates_stay(models, history):
    steered = steer(models["inner"], history, concept=2, dimension=3, by=0.05, bounded=False)
    z, _ = truth(models["inner"], history)
    expected = z[2].copy()
    expected[3] += 0.05
    assert moved_state(steered).components[2].numpy() == pytest.approx(expected, abs=1e-6)


def test_many_components_are_placed_at_once():
    z = RANDOM.normal(size=(5, 6))
    axis, values = np.eye(6)[2], np.linspace(-0.5, 0.5, 5)
    assert placed(z, axis, values) == pytest.approx(
        np.stack([turned_to(*row) for row in zip(z, [axis] * 5, values, strict=True)])
    )


def test_by_is_added_to_where_the_component_was(models, history):
    model = models["soft"]
    low, high = (float(end[4]) for end in space_of(model).range_of(1))
    before = steer(model, history, concept=1, dimension=4, by=0).effects[0].before
    by = (low + high) / 2 - before
    effect = steer(model, history, concept=1, dimension=4, by=by).effects[0]
    assert (effect.before, effect.after) == pytest.approx((before, before + by))


def test_a_coordinate_of_1_can_be_left_again(models, history):
    there = {"concept": 1, "dimension": 4, "to": 1}
    with warnings.catch_warnings(action="ignore"):
        steered = steer(models["soft"], history, moves=[there], concept=1, dimension=4, to=0.1, bounded=False)
        direct = steer(models["soft"], history, concept=1, dimension=4, to=0.1, bounded=False)
    assert steered.effects[0].after == FURTHEST
    state, straight = moved_state(steered).components[1], moved_state(direct).components[1]
    assert torch.linalg.vector_norm(state) == pytest.approx(1, abs=1e-6)
    assert state.numpy() == pytest.approx(straight.numpy(), abs=1e-3)


MOVES = [
    {"concept": 1, "dimension": 2, "to": 0.1},
    {"concept": 1, "share": 0.5},
    {"concept": 3, "dimension": 0, "by": -0.02},
    {"concept": 1, "dimension": 5, "by": -0.05},
]


@pytest.mark.filterwarnings("ignore::macrid.errors.RangeWarning")
def test_moves_sent_back_give_the_same_list(models, history):
    steered = steer(models["soft"], history, moves=MOVES)
    again = steer(models["soft"], history, moves=json.loads(json.dumps(steered.as_json()["moves"])))
    assert again == steered
    assert again.as_json() == steered.as_json()


@pytest.mark.filterwarnings("ignore::macrid.errors.RangeWarning")
def test_moves_compose_in_order_and_undo_gives_exactly_what_was_before(models, history):
    steps = [steer(models["soft"], history, n=15)]
    for move in MOVES:
        steps.append(steps[-1].steer(**move))
    assert steps[-1] == steer(models["soft"], history, moves=MOVES, n=15)
    assert steps[-1] == steer(models["soft"], history, moves=MOVES[:3], n=15, **MOVES[3])
    for count in range(1, 5):
        assert steps[-1].undo(count) == steps[-1 - count]
    two = [{"concept": 1, "dimension": 2, "to": 0.1}, {"concept": 1, "dimension": 2, "to": -0.1}]
    one_way, other = (steer(models["soft"], history, moves=order) for order in (two, two[::-1]))
    assert one_way.effects[-1].after != other.effects[-1].after


@pytest.mark.parametrize("count", [0, 3, -1])
def test_only_moves_that_were_made_can_be_undone(models, history, count):
    steered = steer(models["soft"], history, moves=MOVES[1:3])
    with pytest.raises(RequestError, match=str(count)):
        steered.undo(count)


def test_iterators_hold_for_later_moves(models, history):
    model = models["soft"]
    some = [item for item in model.items[:] if item not in history][:30]
    steered = steer(model, iter(history), include=iter(some), exclude=iter(some[:3]), n=5)
    later = steered.steer(concept=0, share=0.9).undo()
    assert later == steered
    assert set(later.ids) <= set(some[3:])


@settings(max_examples=20, deadline=None)
@given(concept=st.integers(0, 6), share=st.floats(0.001, 0.999), kind=st.sampled_from(["soft", "hard", "turned"]))
def test_a_share_is_the_probability_of_its_concept_and_the_others_keep_theirs(models, history, concept, share, kind):
    model = models[kind]
    steered = steer(model, history, concept=concept, share=share)
    _, terms = truth(model, history)
    before = softmax(logsumexp(terms, axis=1))
    assert steer(model, history).shares == pytest.approx(before, abs=1e-5)
    after = np.array(steered.shares)
    assert after[concept] == pytest.approx(share, abs=1e-4)
    assert steered.effects[0].is_share
    assert (steered.effects[0].before, steered.effects[0].after) == pytest.approx((before[concept], share), abs=1e-4)
    others = np.arange(7) != concept
    assert after[others] / (1 - share) == pytest.approx(before[others] / (1 - before[concept]), rel=1e-3, abs=1e-7)
    factors = np.zeros(7)
    factors[concept] = np.log(share / (1 - share) * (1 - before[concept]) / before[concept])
    terms = truth(model, history, factors=factors)[1]
    seen = model.items.positions(history)
    expected = logsumexp(terms, axis=0) - logsumexp(terms)
    scores = {model.items.positions([item.id])[0]: item.score for item in steered}
    assert scores == pytest.approx({place: expected[place] for place in scores}, abs=1e-3)
    assert not set(scores) & set(seen.tolist())


def test_a_share_moved_by_a_person_holds_whatever_the_history_says(models):
    model = models["soft"]
    inside = [item for item, k in zip(model.items, model.concepts_of_items(), strict=True) if k == 2][:8]
    outside = [item for item, k in zip(model.items, model.concepts_of_items(), strict=True) if k != 2][:8]
    assert steer(model, inside).shares[2] > 0.5 > 0.2 > steer(model, outside).shares[2]
    for history in (inside, outside, [*inside, *outside]):
        assert steer(model, history, concept=2, share=0.3).shares[2] == pytest.approx(0.3, abs=1e-4)


def test_a_share_is_reached_from_next_to_nothing():
    model, _ = planted(30, temperature=0.02)
    history = model.items[:6]
    assert steer(model, history).shares[1] < 1e-12
    assert steer(model, history, concept=1, share=0.5).shares == pytest.approx((0.5, 0.5), abs=1e-4)


@pytest.mark.parametrize("share", [0, 1])
def test_a_share_of_0_or_1_allows_lists_of_any_length(models, history, share):
    steered = steer(models["hard"], history, concept=2, share=share, n=100)
    assert steered.shares[2] == pytest.approx(share, abs=1e-5)
    assert len(steered) == 100


def test_a_share_that_cannot_change_is_refused(models, history):
    with pytest.raises(RequestError, match="concept 0"):
        steer(models["one"], history, concept=0, share=0.5)
    model, _ = planted(30)
    with torch.no_grad():
        model.network.prototypes[1] = -torch.eye(6)[5]  # away from all items
    with pytest.raises(RequestError, match="concept 1"):
        steer(model, model.items[:5], concept=1, share=0.5)
    with pytest.raises(RequestError, match="concept 0"):
        steer(model, model.items[:5], concept=0, share=0.5)


@pytest.mark.filterwarnings("ignore::macrid.errors.RangeWarning")
@settings(max_examples=30, deadline=None)
@given(moves=st.lists(st.sampled_from(MOVES), max_size=4), n=st.integers(1, 30))
def test_changes_match_the_lists_before_and_after(models, history, moves, n):
    steered = steer(models["soft"], history, moves=moves, n=n)
    was, now = steered.before.ids, steered.ids
    assert len(was) == len(now) == n
    changes = steered.moved
    assert [change.id for change in changes["in"]] == [item for item in now if item not in was]
    assert [change.id for change in changes["out"]] == [item for item in was if item not in now]
    assert len(changes["in"]) == len(changes["out"])
    for name, side in (("up", 1), ("down", -1)):
        both = [item for item in now if item in was and side * (was.index(item) - now.index(item)) > 0]
        assert [change.id for change in changes[name]] == both
    for change in chain(*changes.values()):
        assert change.before == (was.index(change.id) + 1 if change.id in was else None)
        assert change.after == (now.index(change.id) + 1 if change.id in now else None)


def test_moves_stop_at_the_range_of_real_users_with_a_warning(models, history):
    model = models["soft"]
    low, high = (float(end[3]) for end in space_of(model).range_of(2))
    assert -1 < low < high < 1
    with pytest.warns(RangeWarning, match=rf"0\.99 .*concept 2, dimension 3 \({low:.2f} to {high:.2f}\)") as caught:
        steered = steer(model, history, concept=2, dimension=3, to=0.99)
    assert caught[0].filename == __file__
    assert steered.effects[0].after == pytest.approx(high)
    assert (steered.effects[0].low, steered.effects[0].high) == (low, high)
    with pytest.warns(RangeWarning, match=r"0\.99"):
        steered = steer(model, history, concept=2, dimension=3, to=0.99, bounded=False)
    assert steered.effects[0].after == pytest.approx(0.99)


@pytest.mark.filterwarnings("error::macrid.errors.RangeWarning")
def test_within_the_range_nothing_is_warned_about(models, history):
    low, high = (float(end[3]) for end in space_of(models["soft"]).range_of(2))
    assert steer(models["soft"], history, concept=2, dimension=3, to=(low + high) / 2).effects[0].high == high


def test_without_known_users_moves_are_not_bounded(trained, history):
    model = variant(trained)
    model.sample, meaning_of(model).axes, model.cached = None, {}, None
    with warnings.catch_warnings(action="error"):
        effect = steer(model, history, concept=2, dimension=3, to=0.97).effects[0]
    assert effect.after == pytest.approx(0.97)
    assert effect.as_json()["range"] is None


@pytest.mark.parametrize("kind", ["soft", "turned"])
@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize("target", [1.5, -3.0])
def test_to_by_and_towards_agree_on_how_far_a_move_goes(models, history, kind, bounded, target):
    model, space = models[kind], space_of(models[kind])
    direction = along(space, 2, 3)
    before = steer(model, history, concept=2, dimension=3, by=0.0).effects[0].before
    low, high = (direction.low, direction.high) if bounded and direction.low is not None else (-1.0, 1.0)
    edge = high if target > 0 else low
    space.towards["an attribute"] = [replace(direction, dimension=None, name="an attribute")]
    moves = [
        {"concept": 2, "dimension": 3, "to": target},
        {"concept": 2, "dimension": 3, "by": target - before},
        {"concept": 2, "towards": "an attribute", "amount": (target - before) / direction.half},
    ]
    for move in moves:
        with pytest.warns(RangeWarning):
            effect = steer(model, history, moves=[move], bounded=bounded).effects[0]
        assert effect.after == pytest.approx(edge, abs=1e-5)
    space.towards.clear()


def test_a_move_beyond_1_is_warned_about_even_without_known_users(trained, history):
    model = variant(trained)
    model.sample, meaning_of(model).axes, model.cached = None, {}, None
    with pytest.warns(RangeWarning):
        effect = steer(model, history, concept=2, dimension=3, to=1.5).effects[0]
    assert effect.after == pytest.approx(1.0, abs=1e-5)


def test_a_number_too_large_to_compute_with_is_refused(models, history):
    with pytest.raises(RequestError, match=r"1e\+60 .*concept 2, dimension 3"):
        steer(models["inner"], history, concept=2, dimension=3, to=1e60, bounded=False)


@pytest.mark.parametrize(
    ("move", "value"),
    [
        ({"concept": 7, "dimension": 0, "to": 0}, "concept .*7"),
        ({"concept": -1, "share": 0.5}, "concept .*-1"),
        ({"concept": True, "share": 0.5}, "concept .*True"),
        ({"concept": "2", "share": 0.5}, "concept '2'"),
        ({"concept": 2, "dimension": 16, "to": 0}, "dimension .*16"),
        ({"concept": 2, "dimension": True, "to": 0}, "dimension .*True"),
        ({"concept": 2, "dimension": 1.0, "to": 0}, r"dimension .*1\.0"),
        ({"concept": 2, "dimension": "size", "to": 0}, "dimension 'size' .*concept 2"),
        ({"towards": "weight", "amount": 1}, "'weight'.*price"),
        ({"towards": "category", "amount": 1}, "'category' .*'category: "),
        ({"concept": 9, "towards": "price", "amount": 1}, "concept .*9"),
    ],
)
def test_unknown_concepts_dimensions_and_attributes_are_refused(models, history, move, value):
    with pytest.raises(RequestError, match=value):
        steer(models["soft"], history, **move)
    with pytest.raises(RequestError, match=value):
        steer(models["soft"], history, moves=[move])


def test_constant_and_empty_attributes_are_refused():
    model, _ = planted(30)
    with pytest.raises(RequestError, match="'maker'"):
        steer(model, ["item-000"], towards="maker", amount=1)
    with pytest.raises(RequestError, match="'colour'"):
        steer(model, ["item-000"], towards="colour", amount=1)


def test_an_attribute_moves_every_concept_that_predicts_it_or_just_one():
    model, heldout = planted()
    history = [model.items[int(place)] for place in heldout.history[[0]].indices]
    with warnings.catch_warnings(action="ignore"):
        steered = steer(model, history, towards="size", amount=0.5)
    assert [(effect.concept, effect.name) for effect in steered.effects] == [(0, "size"), (1, "size")]
    for effect, direction in zip(steered.effects, directions_towards(space_of(model), "size"), strict=True):
        assert direction.vector[SIZE] > 0.95
        half = (direction.high - direction.low) / 2
        assert effect.after == pytest.approx(min(effect.before + 0.5 * half, direction.high), abs=1e-6)
    sizes = dict(zip(model.items[:], model.table.column("size").to_pylist(), strict=True))
    assert np.mean([sizes[item] for item in steered.ids]) > np.mean([sizes[item] for item in steered.before.ids])
    with warnings.catch_warnings(action="ignore"):
        away = steer(model, history, towards="size", amount=-0.5, concept=1)
    assert [effect.concept for effect in away.effects] == [1]
    assert away.effects[0].after < away.effects[0].before


def test_a_price_moves_to_the_dearer_twins():
    model, heldout = planted()
    history = [model.items[int(place)] for place in heldout.history[[0]].indices]
    with pytest.warns(RangeWarning, match=r"0\.05 .*dimension 3 \(0\.00 to 0\.00\)"):
        steered = steer(model, history, n=60, concept=0, dimension=PRICE, to=0.05, bounded=False)
    numbers = [int(item.id[-3:]) for item in steered if item.concept == 0]
    assert len(numbers) > 10
    ranks = {number: rank for rank, number in enumerate(numbers)}
    assert all(ranks[number + 1] < ranks[number] for number in numbers if number % 2 == 0)


def test_lists_obey_include_exclude_seen_and_n(models, history):
    model = models["soft"]
    assert len(steer(model, history, n=3, concept=0, share=0.5)) == 3
    kept = steer(model, history, n=100, exclude_seen=False)
    assert kept.ids == model.recommend(history, 100, exclude_seen=False).ids
    assert set(history) & set(kept.ids)
    best = steer(model, history, n=3).ids
    assert not set(best) & set(steer(model, history, exclude=best, concept=0, share=0.5).ids)
    assert steer(model, history, include=best, n=3, concept=0, share=0.9).before.ids == best
    with pytest.raises(RequestError, match=r"4 .*3 of 160"):
        steer(model, history, include=best, n=4, strict=True)
    with pytest.warns(RulesWarning, match=r"3 of 4"):
        assert sorted(steer(model, history, include=best, n=4).ids) == sorted(best)
    with pytest.raises(RequestError, match="0"):
        steer(model, history, n=0)
    with pytest.raises(RequestError, match="'nope'"):
        steer(model, history, include=["nope"], strict=True)
    with pytest.warns(UnknownItemsWarning, match="include.*'nope'"):
        assert sorted(steer(model, history, include=["nope", *best], n=3).ids) == sorted(best)


def test_unknown_items_are_warned_about_and_listed(models, history):
    with pytest.warns(UnknownItemsWarning, match="'zz'"):
        steered = steer(models["soft"], [*history, "zz"], concept=0, share=0.5)
    assert steered.unknown == ("zz",)
    assert steered.as_json()["unknown"] == ["zz"]
    with pytest.raises(RequestError, match="zz"):
        steer(models["soft"], ["zz"], strict=True)
    with pytest.warns(UnknownItemsWarning, match="'zz'"):
        assert (
            steer(models["soft"], ["zz"], concept=0, share=0.5).ids
            == steer(models["soft"], [], concept=0, share=0.5).ids
        )


@pytest.mark.parametrize("history", ["bag-0001", None, 3])
def test_a_history_is_a_list(models, history):
    with pytest.raises(RequestError):
        steer(models["soft"], history)


def test_an_empty_history_can_be_steered(models):
    moved = steer(models["soft"], [], concept=2, share=0.9)
    assert len(moved) == 10
    assert steer(models["soft"], []).ids == moved.before.ids


def test_a_misspelt_argument_is_a_type_error(models, history):
    with pytest.raises(TypeError, match="'dimention'"):
        steer(models["soft"], history, concept=2, dimention=3, to=0.4)


def test_models_without_concepts_say_so(trained):
    train = trained[1].train
    models = (
        macrid.EASE().fit(train),
        macrid.MultVAE(dim=8).fit(train, epochs=1, device="cpu"),
        macrid.Popularity().fit(train),
    )
    for model in models:
        with pytest.raises(MacridError, match=type(model).__name__):
            steer(model, [], concept=0, share=0.5)
    with pytest.raises(MacridError, match="MacridVAE"):
        steer(macrid.MacridVAE(), [])


def test_the_json_has_the_documented_shape(models, history):
    answer = json.loads(json.dumps(steer(models["soft"], history, moves=MOVES[:3], n=5).as_json(), allow_nan=False))
    assert {"unknown", "items", "moved", "moves", "effects", "shares"} <= set(answer)
    assert [set(item) for item in answer["items"]] == [{"id", "title", "score", "concept"}] * 5
    assert set(answer["moved"]) == {"in", "out", "up", "down"}
    assert all({"id", "title"} <= set(change) for changes in answer["moved"].values() for change in changes)
    assert [{name: move[name] for name in move if name != "axis"} for move in answer["moves"]] == MOVES[:3]
    assert [effect["concept"] for effect in answer["effects"]] == [1, 1, 3]
    assert len(answer["shares"]) == 7


def test_a_stored_move_keeps_its_meaning_when_axes_turn(models, history):
    model = copy.deepcopy(models["soft"])
    first = steer(model, history, concept=1, dimension=2, to=0.1)
    stored = json.loads(json.dumps(first.as_json()["moves"]))
    random = np.random.default_rng(3)
    dim = space_of(model).dim
    turned = np.stack([np.linalg.qr(random.normal(size=(dim, dim)))[0] for _ in range(7)]).astype(np.float32)
    use(model, Axes("independence", turned))
    assert steer(model, history, moves=stored).ids == first.ids
    along_new = steer(model, history, concept=1, dimension=2, to=0.1)
    kept = [move.as_json() for move in along_new.moves]
    assert kept[0]["axis"] != stored[0]["axis"]
    del meaning_of(model).axes["independence"]
    meaning_of(model).in_use = ()
    with pytest.raises(RequestError, match="dimension 2 of concept 1"):
        steer(model, history, moves=kept)


def test_a_concept_may_be_given_by_its_name(models, history):
    model = copy.deepcopy(models["soft"])
    meaning_of(model).names = find_names(model).renamed(3, "hats")
    assert steer(model, history, concept="Hats", share=0.7).ids == steer(model, history, concept=3, share=0.7).ids
    with pytest.raises(RequestError, match=r"'cats'.*3 hats"):
        steer(model, history, concept="cats", share=0.7)


def test_the_model_is_not_changed_by_steering(models, history):
    model = models["soft"]
    before = {name: value.clone() for name, value in model.state().items()}
    recommended = model.recommend(history)
    with warnings.catch_warnings(action="ignore"):
        assert isinstance(steer(model, history, moves=MOVES), Steered)
    assert model.recommend(history) == recommended
    assert all(torch.equal(value, before[name]) for name, value in model.state().items())
