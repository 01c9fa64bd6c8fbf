"""Walking along a dimension: the range by algebra, the items by trying all combinations."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from macrid.control.walk import (
    MOST_CANDIDATES,
    OUTSIDE,
    Costs,
    _best,
    beam_search,
    closest_prototype,
    directions_without,
    divide,
    loosened,
    objective,
    probe,
    subranges,
    walk,
)
from macrid.errors import RequestError

seeds = st.integers(0, 2**32 - 1)


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def a_problem(seed, concepts=4, dim=5):
    random = np.random.default_rng(seed)
    return unit(random.normal(size=dim)), unit(random.normal(size=(concepts, dim))), int(random.integers(dim))


def a_catalogue(seed, sizes=(3, 4, 2, 4), dim=4):
    """Cosines to the start, unit vectors, and groups of their positions."""
    random = np.random.default_rng(seed)
    vectors = unit(random.normal(size=(sum(sizes), dim)))
    groups = np.split(random.permutation(sum(sizes)), np.cumsum(sizes)[:-1])
    return vectors @ unit(random.normal(size=dim)), vectors, groups


def a_concept(seed=0, items=300, dim=8, concepts=4):
    """A start, the items of its concept, itself first, and the prototypes."""
    random = np.random.default_rng(seed)
    prototypes = unit(random.normal(size=(concepts, dim)))
    vectors = unit(prototypes[0] + 0.3 * random.normal(size=(4 * items, dim)))
    members = vectors[np.argmax(vectors @ prototypes.T, axis=1) == 0][:items]
    return members[0], members, prototypes


def range_by_algebra(start, dimension, prototypes, limit):
    """Product k is base_k + slope_k · v: the closest is left where its line first meets another one."""
    base = prototypes @ start - prototypes[:, dimension] * start[dimension]
    slope = prototypes[:, dimension]
    closest = np.argmax(prototypes @ start)
    low, high = -limit, limit
    for other in range(len(prototypes)):
        if slope[other] == slope[closest]:
            continue
        meeting = (base[closest] - base[other]) / (slope[other] - slope[closest])
        if slope[other] > slope[closest]:
            high = min(high, meeting)
        else:
            low = max(low, meeting)
    return low, high


def naive_objective(chosen, start, vectors, dimension, temperature, gamma):
    """As the paper writes it, e^{1/τ} and all."""

    def cosine(one, two):
        one, two = np.delete(one, dimension), np.delete(two, dimension)
        return float(one @ two) / math.sqrt(float(one @ one) * float(two @ two))

    total = sum(math.exp(cosine(vectors[item], start) / temperature) for item in chosen)
    for one, two in itertools.combinations(chosen, 2):
        total += gamma * math.exp(cosine(vectors[one], vectors[two]) / temperature)
    return total


@given(seeds, st.integers(2, 6), st.sampled_from([0.5, 1.0, 3.0]))
def test_the_range_ends_where_the_lines_of_the_products_meet(seed, concepts, limit):
    start, prototypes, dimension = a_problem(seed, concepts)
    start[dimension] = np.clip(start[dimension], -limit, limit)
    result = probe(start, dimension, prototypes, limit=limit)
    assert result[:2] == pytest.approx(range_by_algebra(start, dimension, prototypes, limit), abs=1e-8 * limit)
    assert result.open_low == (result.low == -limit)
    assert result.open_high == (result.high == limit)


@given(seeds)
def test_the_prototype_stays_the_closest_inside_the_range_only(seed):
    start, prototypes, dimension = a_problem(seed)
    result, closest = probe(start, dimension, prototypes), closest_prototype(start, prototypes)

    def closest_at(coordinate):
        moved = start.copy()
        moved[dimension] = coordinate
        return closest_prototype(moved, prototypes)

    for part in (0.01, 0.5, 0.99):
        assert closest_at(result.low + part * (result.high - result.low)) == closest
    assert result.open_low or closest_at(result.low - 1e-6) != closest
    assert result.open_high or closest_at(result.high + 1e-6) != closest


def test_with_one_concept_both_ends_are_open():
    assert probe(np.array([0.6, 0.8]), 0, np.array([[1.0, 0.0]]), limit=2) == (-2, 2, True, True)


def test_the_length_of_the_start_does_not_change_its_closest_prototype():
    start, prototypes, _ = a_problem(4)
    assert closest_prototype(start, prototypes) == closest_prototype(9 * start, prototypes)


def test_a_start_beyond_the_limit_is_in_its_own_range():
    result = probe(np.array([3.0, 0.1]), 0, np.array([[1.0, 0.0], [0.0, 1.0]]), limit=1)
    assert result == (pytest.approx(0.1, abs=1e-8), 3.0, False, True)


def test_equal_prototypes_do_not_close_the_range():
    assert probe(np.array([0.6, 0.8]), 1, np.array([[0.6, 0.8], [0.6, 0.8]])) == (-1, 1, True, True)


def test_a_prototype_that_is_not_the_closest_has_no_range():
    with pytest.raises(RequestError, match="prototype 1"):
        probe(np.array([1.0, 0.0]), 0, np.eye(2), closest=1)


def test_either_of_two_closest_prototypes_may_be_chosen():
    start = np.array([0.5, 0.5])
    assert probe(start, 0, np.eye(2), closest=0) == (pytest.approx(0.5, abs=1e-8), 1, False, True)
    assert probe(start, 0, np.eye(2), closest=1) == (-1, pytest.approx(0.5, abs=1e-8), True, False)


@given(st.lists(st.floats(-1, 1), unique=True, max_size=60), st.integers(1, 12))
def test_without_equal_values_counts_differ_by_at_most_one(values, steps):
    groups, _ = divide(np.array(values), -1, 1, steps, from_low=True)
    sizes = [len(group) for group in groups]
    assert len(sizes) == min(steps, len(values))
    assert sum(sizes) == len(values)
    assert not sizes or max(sizes) - min(sizes) <= 1


@given(st.lists(st.integers(-6, 6), max_size=40), st.integers(1, 9), st.integers(-5, 0), st.integers(1, 5))
def test_subranges_are_never_empty_and_each_holds_what_lies_between_its_edges(values, steps, low, high):
    values = np.array(values, dtype=float)
    groups, edges = divide(values, low, high, steps)
    inside = values[(values > low) & (values <= high)]
    assert len(groups) == min(steps, len(np.unique(inside)))
    if groups:
        assert len(edges) == len(groups) + 1
        assert (edges[0], edges[-1]) == (low, high)
        assert (np.diff(edges) > 0).all()
    for place, group in enumerate(groups):
        assert len(group)
        expected = np.flatnonzero((values > edges[place]) & (values <= edges[place + 1]))
        assert sorted(group) == expected.tolist()
        assert (np.diff(values[group]) >= 0).all()


def test_equal_values_stay_together_however_many():
    groups, edges = divide(np.array([0.1, 0.2, 0.2, 0.2, 0.2, 0.2, 0.3, 0.4]), 0, 1, 4)
    assert [group.tolist() for group in groups] == [[0], [1, 2, 3, 4, 5], [6], [7]]
    assert edges.tolist() == [0, 0.1, 0.2, 0.3, 1]


def test_the_low_end_is_included_only_if_open():
    values = np.array([-1.0, 0.0, 1.0])
    assert [group.tolist() for group in divide(values, -1, 1, 3)[0]] == [[1], [2]]
    assert [group.tolist() for group in divide(values, -1, 1, 3, from_low=True)[0]] == [[0], [1], [2]]


def test_a_range_without_items_has_no_subranges():
    groups, edges = divide(np.array([0.5, 0.9]), -1, 0.4, 3)
    assert groups == []
    assert len(edges) == 0


@given(seeds, st.sampled_from([0.0, 0.3, 1.0, 5.0]), st.sampled_from([0.05, 0.1, 1.0]))
def test_a_wide_beam_finds_the_best_of_all_combinations(seed, gamma, temperature):
    similar, vectors, groups = a_catalogue(seed)
    result = beam_search(similar, vectors, groups, temperature, gamma, width=3 * 4 * 2 * 4)
    best = max(objective(np.array(way), similar, vectors, temperature, gamma) for way in itertools.product(*groups))
    assert objective(result, similar, vectors, temperature, gamma) == pytest.approx(best, rel=1e-12)


@given(seeds, st.floats(0, 5), st.floats(0.05, 2), st.integers(0, 4))
def test_the_objective_is_the_papers_divided_by_a_constant(seed, gamma, temperature, dimension):
    random = np.random.default_rng(seed)
    start, vectors = random.normal(size=5), random.normal(size=(7, 5))
    chosen = random.permutation(7)[:4]
    rest = directions_without(vectors, dimension)
    similar = rest @ directions_without(start[None], dimension)[0]
    total = objective(chosen, similar, rest, temperature, gamma) * math.exp(1 / temperature)
    assert total == pytest.approx(naive_objective(chosen, start, vectors, dimension, temperature, gamma), rel=1e-9)


@given(seeds, st.integers(1, 5))
def test_without_gamma_each_groups_most_similar_item_is_chosen(seed, width):
    similar, vectors, groups = a_catalogue(seed)
    result = beam_search(similar, vectors, groups, 0.1, 0.0, width)
    assert result.tolist() == [group[np.argmax(similar[group])] for group in groups]


@given(seeds)
def test_items_are_compared_with_all_before_them(seed):
    """Two of one kind, then a choice: the kind that occurred more often wins, though the last was of the other."""
    one, other = np.random.default_rng(seed).permutation(np.eye(3))[:2]
    vectors = np.stack([one, one, other, one, other])
    groups = [np.array([0]), np.array([1]), np.array([2]), np.array([3, 4])]
    assert beam_search(np.zeros(5), vectors, groups, 0.5, 1.0, 4)[-1] == 3


def test_a_wide_beam_finds_better_walks_than_a_narrow_one():
    """Nearly always: what a narrow beam keeps may lose its place in a wide one, and be the best in the end."""
    gains = []
    for seed in range(60):
        similar, vectors, groups = a_catalogue(seed, sizes=(20,) * 8, dim=12)
        wide, narrow = (
            objective(beam_search(similar, vectors, groups, 0.1, 1.0, width), similar, vectors, 0.1, 1.0)
            for width in (32, 1)
        )
        gains.append(wide / narrow)
    assert np.mean(np.array(gains) >= 1) > 0.9
    assert np.mean(gains) > 1.1


@given(st.lists(st.integers(0, 4), min_size=1, max_size=50), st.integers(1, 60))
def test_the_best_come_first_and_of_equals_the_first(scores, count):
    expected = sorted(range(len(scores)), key=lambda place: -scores[place])[:count]
    assert _best(np.array(scores, dtype=float), count).tolist() == expected


def test_ties_go_to_the_first_item():
    vectors = np.ones((6, 1))
    groups = [np.array([2, 0, 1]), np.array([5, 4, 3])]
    assert beam_search(np.ones(6), vectors, groups, 0.1, 1.0, 2).tolist() == [2, 5]


@pytest.mark.parametrize("temperature", [1e-4, 1e-300])
def test_a_tiny_temperature_neither_overflows_nor_loses_similarity(temperature):
    similar, vectors, groups = a_catalogue(1)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        result = beam_search(similar, vectors, groups, temperature, 1.0, 4)
        assert math.isfinite(objective(result, similar, vectors, temperature, 1.0))
    assert result[0] == groups[0][np.argmax(similar[groups[0]])]


@given(seeds, st.integers(1, 10), st.integers(0, 7))
def test_a_walk_goes_up_with_one_item_from_each_subrange(seed, steps, dimension):
    start, members, prototypes = a_concept(seed, items=60)
    result = walk(start, dimension, members, prototypes, steps=steps)
    assert result.concept == 0
    assert (np.diff(result.values) > 0).all()
    assert result.values.tolist() == members[result.positions, dimension].tolist()
    assert len(set(result.positions.tolist())) == len(result.positions) == len(result.edges) - 1 <= steps
    assert (result.values > result.edges[:-1]).all()
    assert (result.values <= result.edges[1:]).all()
    assert (result.low, result.high) == (result.edges[0], result.edges[-1])


@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_a_walk_is_the_best_of_all_ways_through_its_subranges(gamma):
    start, members, prototypes = a_concept(2, items=24)
    result = walk(start, 3, members, prototypes, steps=4, gamma=gamma, temperature=0.2, width=10_000)
    values = members[:, 3]
    groups = [np.flatnonzero((values > a) & (values <= b)) for a, b in itertools.pairwise(result.edges)]
    best = max(itertools.product(*groups), key=lambda way: naive_objective(way, start, members, 3, 0.2, gamma))
    assert result.positions.tolist() == list(best)


def test_a_start_among_the_items_is_on_its_own_walk():
    start, members, prototypes = a_concept(0)
    assert 0 in walk(start, 2, members, prototypes, gamma=0.0).positions


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_walk_does_not_change_its_input(kind):
    start, members, prototypes = (part.astype(kind) for part in a_concept(0))
    before = members.copy()
    first = walk(start, 2, members, prototypes)
    assert np.array_equal(members, before)
    assert first.positions.tolist() == walk(start, 2, members, prototypes).positions.tolist()


def test_vectors_along_the_dimension_alone_are_similar_to_none():
    members = np.array([[1.0, 0, 0], [0.5, 0, 0], [-1, 0, 0], [0.2, 0.3, 0]])
    assert directions_without(members, 0)[:3].tolist() == [[0, 0, 0]] * 3
    result = walk(members[0], 0, members, np.eye(3)[:1], steps=4)
    assert result.positions.tolist() == [2, 3, 1, 0]
    assert result.values.tolist() == [-1, 0.2, 0.5, 1]


def test_fewer_items_than_steps_are_all_taken():
    start, members, prototypes = a_concept(0, items=3)
    result = walk(start, 1, members, prototypes[:1], steps=8)
    assert result.positions.tolist() == np.argsort(members[:, 1]).tolist()


def test_a_concept_without_items_gives_an_empty_walk():
    start, members, prototypes = a_concept(0)
    result = walk(start, 1, members[:0], prototypes)
    assert len(result.positions) == len(result.values) == len(result.edges) == 0
    assert result.low < start[1] < result.high


def test_items_beyond_the_limit_are_reached():
    members = np.array([[-3.0, 1], [0.0, 1], [2.5, 1]])
    result = walk(members[1], 0, members, np.array([[0.0, 1]]))
    assert (result.low, result.high) == (-3, 3)
    assert result.positions.tolist() == [0, 1, 2]


# Holding what is known about the start


def a_shelf(seed, sizes=(3, 3, 2, 3), dim=4):
    """Cosines to the start, unit vectors, groups by value, and costs: up to 2 attributes, some values unknown."""
    random = np.random.default_rng(seed)
    count = sum(sizes)
    vectors = unit(random.normal(size=(count, dim)))
    values = np.sort(random.choice(3 * count, count)).astype(float)
    along = np.where(random.random(count) < 0.8, values / count + 0.3 * random.normal(size=count), np.nan)
    lost = random.integers(0, 3, count) + 0.1 * random.integers(0, 2, count)
    groups, _ = divide(values, -1, 3 * count, len(sizes))
    weight = 1 + 0.3 * (len(groups) - 1)
    costs = Costs(values, subranges(groups, count), lost, along, weight)
    return vectors @ unit(random.normal(size=dim)), vectors, groups, costs


def naive_cost(way, costs, first=0):
    """Attributes lost, stops of other subranges, and steps back by a fifth of a spread; infinite if values repeat."""
    total = sum(
        costs.lost[item] + (0 if costs.subrange[item] == step else OUTSIDE) for step, item in enumerate(way, first)
    )
    for one, two in itertools.pairwise(way):
        if costs.values[two] <= costs.values[one]:
            return math.inf
        back = costs.along[one] - costs.along[two]
        total += 0.0 if math.isnan(back) else min(max(back / 0.2, 0.0), 1.0)
    return total


@given(seeds, st.sampled_from([0.05, 0.1, 1.0]), st.booleans())
def test_with_costs_too_a_wide_beam_finds_the_best_of_all_combinations(seed, temperature, is_loose):
    similar, vectors, groups, costs = a_shelf(seed)
    groups = loosened(groups, costs.values) if is_loose else groups
    result = beam_search(similar, vectors, groups, temperature, 0.3, 10_000, costs)

    def worth(way):
        return objective(np.array(way), similar, vectors, temperature, 0.3) - costs.weight * naive_cost(way, costs)

    assert worth(result) == pytest.approx(max(map(worth, itertools.product(*groups))), rel=1e-9)


@given(seeds)
def test_what_must_still_be_paid_is_the_least_of_all_ways(seed):
    _, _, groups, costs = a_shelf(seed)
    groups = loosened(groups, costs.values)
    for step, ahead in enumerate(costs.ahead(groups)):
        for item, least in zip(groups[step], ahead, strict=True):
            ways = ([item, *way] for way in itertools.product(*groups[step + 1 :]))
            here = naive_cost([item], costs, step)
            assert least == pytest.approx(min(naive_cost(way, costs, step) for way in ways) - here)


@given(seeds, st.integers(1, 40))
def test_where_similarity_does_not_count_even_a_narrow_beam_pays_the_least(seed, width):
    """What lies ahead is known exactly."""
    _, vectors, groups, costs = a_shelf(seed, sizes=(4, 4, 4, 4))
    groups = loosened(groups, costs.values)
    result = beam_search(np.zeros(16), vectors, groups, 1e-3, 0.0, width, costs)
    least = min(naive_cost(way, costs) for way in itertools.product(*groups))
    assert naive_cost(result, costs) == pytest.approx(least)


@given(seeds, st.integers(1, 12), st.booleans())
def test_a_loose_group_has_its_own_items_and_all_ways_through_can_be_completed(seed, steps, has_start):
    random = np.random.default_rng(seed)
    values = random.integers(0, 30, 40).astype(float)
    groups, _ = divide(values, -1, 30, steps)
    keep = int(random.integers(40)) if has_start else None
    loose = loosened(groups, values, keep)
    assert len(loose) == len(groups)
    ends = {len(groups) - 1, 0}
    for at, (group, wide) in enumerate(zip(groups, loose, strict=True)):
        near = np.concatenate(groups[max(at - 1, 0) : at + 2])
        assert set(wide) <= (set(group) if at in ends else set(near))
        assert (np.diff(values[wide]) >= 0).all()
        if has_start and keep in group:
            assert wide.tolist() == [keep]
        else:
            assert set(group) <= set(wide)
    for before, after in itertools.pairwise(loose):
        assert values[before].max() < values[after].max()


@given(seeds)
def test_only_the_best_of_many_are_candidates_and_the_last(seed):
    random = np.random.default_rng(seed)
    count = 3 * MOST_CANDIDATES
    lost, similar = random.integers(0, 3, count).astype(float), random.random(count)
    costs = Costs(np.arange(count, dtype=float), np.zeros(count), lost, None, 1.0)
    (chosen,) = costs.candidates([np.arange(count)], similar)
    assert count - 1 in chosen
    expected = sorted(range(count), key=lambda item: (lost[item], -similar[item]))[:MOST_CANDIDATES]
    assert set(chosen) == {*expected, count - 1}
    assert costs.candidates([np.arange(MOST_CANDIDATES)], similar)[0].tolist() == list(range(MOST_CANDIDATES))


@given(seeds, st.integers(1, 8), st.booleans())
def test_a_walk_that_holds_loses_no_more_than_the_papers(seed, steps, has_start):
    start, members, prototypes = a_concept(seed, items=60)
    random = np.random.default_rng(seed)
    lost = random.integers(0, 4, len(members)).astype(float)
    lost[0] = 0
    keep = 0 if has_start else None
    plain = walk(start, 2, members, prototypes, steps=steps, keep=keep)
    holding = walk(start, 2, members, prototypes, steps=steps, keep=keep, lost=lost)
    assert lost[holding.positions].sum() <= lost[plain.positions].sum()
    assert len(holding.positions) == len(plain.positions)
    assert (np.diff(holding.values) > 0).all()
    assert not has_start or 0 in holding.positions
    for at in (0, -1):  # both ends are reached
        assert plain.edges[at - (at < 0)] <= holding.values[at] <= plain.edges[at + 1 if at == 0 else at]


def test_a_walk_that_holds_nothing_still_goes_along_its_attribute():
    random = np.random.default_rng(3)
    start, members, prototypes = a_concept(3)
    along = members[:, 2] / np.ptp(members[:, 2]) + 0.2 * random.normal(size=len(members))
    plain, holding = (
        walk(start, 2, members, prototypes, **more) for more in ({}, {"lost": np.zeros(len(members)), "along": along})
    )
    assert (np.diff(along[plain.positions]) < 0).any()
    assert (np.diff(along[holding.positions]) >= 0).all()


def test_a_concept_without_items_gives_an_empty_walk_that_holds():
    start, members, prototypes = a_concept(0)
    assert len(walk(start, 1, members[:0], prototypes, lost=np.zeros(0)).positions) == 0


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ({"dimension": 8}, "dimension .*8"),
        ({"dimension": -1}, "dimension .*-1"),
        ({"steps": 0}, "steps .*0"),
        ({"width": 0}, "width .*0"),
        ({"temperature": 0.0}, r"temperature .*0\.0"),
        ({"gamma": -1.0}, r"gamma .*-1\.0"),
        ({"members": np.ones((3, 5))}, r"\(3, 5\)"),
    ],
)
def test_bad_arguments_are_refused_by_name(change, value):
    start, members, prototypes = a_concept(0, items=20)
    with pytest.raises(RequestError, match=value):
        walk(**{"start": start, "dimension": 0, "members": members, "prototypes": prototypes, **change})
