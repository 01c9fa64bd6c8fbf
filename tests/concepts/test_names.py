"""Names of concepts and dimensions: planted ones are found, chance is not named, and what people write stays."""

import copy
import json
import math

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from macrid.concepts import axes, naming
from macrid.concepts.evidence import (
    Counts,
    chance,
    correlations,
    log_odds,
    null_of_labels,
    of_labels,
    values_of,
)
from macrid.concepts.meaning import Axes, Fit, meaning_of
from macrid.concepts.names import Names, ends, label, renewed, told_apart
from macrid.concepts.space import space_of
from macrid.data.attributes import Column
from macrid.errors import MacridError, RequestError
from macrid.ops.topk import Decoder

DIM = 16


def naive_log_odds(y_i, n_i, y_j, n_j, alpha, alpha_0):
    """Monroe, Colaresi and Quinn (2008), with all terms of the variance."""
    delta = math.log((y_i + alpha) / (n_i + alpha_0 - y_i - alpha)) - math.log(
        (y_j + alpha) / (n_j + alpha_0 - y_j - alpha)
    )
    variance = (
        1 / (y_i + alpha) + 1 / (n_i + alpha_0 - y_i - alpha) + 1 / (y_j + alpha) + 1 / (n_j + alpha_0 - y_j - alpha)
    )
    return delta, delta / math.sqrt(variance)


@given(st.lists(st.tuples(*[st.integers(0, 50)] * 4), min_size=1, max_size=5), st.sampled_from([1.0, 20.0]))
def test_log_odds_are_those_of_the_formula(cells, prior):
    have, lack, other_have, other_lack = np.array(cells, dtype=float).T
    inside, outside = Counts(have, have + lack), Counts(other_have, other_have + other_lack)
    total = Counts(inside.have + outside.have, inside.known + outside.known)
    found = log_odds(inside, outside, total, prior)
    for place in range(len(cells)):
        alpha = prior * (total.have[place] + 0.5) / (total.known[place] + 1)
        expected = naive_log_odds(
            have[place], inside.known[place], other_have[place], outside.known[place], alpha, prior
        )
        assert (found.delta[place], found.z[place]) == pytest.approx(expected, abs=1e-9)


def random_columns(random, items, missing=0.2):
    values = (random.random((4, items)) < 0.3).astype(float)
    values[:2, random.random(items) < missing] = np.nan
    return [Column(f"a{place // 2}: {place}", f"a{place // 2}", "tag", row) for place, row in enumerate(values)]


def test_labels_are_counted_where_values_are_known():
    random = np.random.default_rng(0)
    columns, labels = random_columns(random, 90), random.integers(0, 3, 90)
    found = of_labels(values_of(columns, np.arange(90)), labels, 3)
    for k in range(3):
        for place, column in enumerate(columns):
            known = np.isfinite(column.values)
            inside, outside = column.values[known & (labels == k)], column.values[known & (labels != k)]
            assert found.inside[k, place] == pytest.approx(inside.mean())
            assert found.outside[k, place] == pytest.approx(outside.mean())
            share = (column.values[known].sum() + 0.5) / (known.sum() + 1)
            expected = naive_log_odds(inside.sum(), len(inside), outside.sum(), len(outside), 20 * share, 20)
            assert (found.delta[k, place], found.z[k, place]) == pytest.approx(expected)


def test_correlations_are_those_of_scipy_over_known_items():
    random = np.random.default_rng(1)
    coordinates, columns = random.normal(size=(60, 3)), random.integers(0, 4, (60, 5)).astype(float)
    columns[random.random(60) < 0.3, :2] = np.nan
    columns[:, 4] = 7  # constant
    found = correlations(coordinates, columns, random, shuffles=9)
    for c in range(4):
        known = np.isfinite(columns[:, c])
        for j in range(3):
            expected = spearmanr(columns[known, c], coordinates[known, j]).statistic
            assert found.rho[c, j] == pytest.approx(expected, abs=1e-6)
            assert found.z[c, j] == pytest.approx(expected * math.sqrt(known.sum() - 1), abs=1e-5)
    assert (found.rho[4] == 0).all()


def test_p_of_noise_is_uniform_and_of_a_planted_column_as_small_as_can_be():
    random = np.random.default_rng(2)
    of_noise, planted = [], []
    for _ in range(120):
        coordinates, columns = random.normal(size=(50, 4)), random.normal(size=(50, 6))
        columns[random.random(50) < 0.3, 3:] = np.nan
        found = correlations(coordinates, columns, random, shuffles=99)
        of_noise.append(chance(np.abs(found.z).max(), found.null))
        columns[:, 0] = coordinates[:, 2] + 0.3 * random.normal(size=50)
        found = correlations(coordinates, columns, random, shuffles=99)
        planted.append(chance(abs(found.z[0, 2]), found.null))
    assert set(planted) == {1 / 100}
    assert 0.4 < np.mean(of_noise) < 0.6
    assert np.mean(np.array(of_noise) <= 0.1) < 0.2


def test_p_of_shuffled_concepts_is_uniform_and_of_planted_ones_as_small_as_can_be():
    random = np.random.default_rng(3)
    of_noise = []
    for _ in range(60):
        columns, labels = random_columns(random, 80), random.integers(0, 3, 80)
        values = values_of(columns, np.arange(80))
        null = null_of_labels(values, labels, 3, random, shuffles=39)
        of_noise.append(chance(of_labels(values, labels, 3).z.max(), null))
    assert 0.4 < np.mean(of_noise) < 0.6
    labels = np.where(values.has[:, 3] > 0, 0, labels)
    assert chance(of_labels(values, labels, 3).z[0, 3], null_of_labels(values, labels, 3, random, 39)) == 1 / 40


@pytest.fixture
def plant(trained):
    """A function that gives a copy of the trained model with items, concepts and attributes of one's own."""

    def make(table=None, concepts=(), vectors=None, seed=0):
        model = copy.copy(trained[0])
        count = len(model.items)
        concepts = concepts if len(concepts) else np.arange(count) % 2
        vectors = np.random.default_rng(seed).normal(size=(count, DIM)) if vectors is None else vectors
        model.table = None if table is None else pa.table(table)
        meaning_of(model).axes, meaning_of(model).in_use, meaning_of(model).names = {}, (), None
        chosen = torch.nn.functional.one_hot(torch.from_numpy(concepts), 7).float()
        model.decoder = Decoder(torch.from_numpy(vectors.astype(np.float32)), torch.log(chosen + 1e-9))
        model.cached = None
        return model

    return make


def spread(model, seed=0):
    """The coordinates of all items (items, dim), and noise (items,)."""
    return space_of(model).items.astype(np.float64), np.random.default_rng(seed).normal(size=len(model.items))


def test_a_concept_of_the_shop_is_named_by_the_category_of_most_of_its_items(trained):
    model = trained[0]
    found = naming.find(model)
    categories = np.array(model.table.column("category").to_pylist())
    concepts = model.concepts_of_items()
    for entry in found.concepts:
        values, counts = np.unique(categories[concepts == entry.concept], return_counts=True)
        assert entry.name == entry.evidence[0].value == values[counts.argmax()]
        assert entry.p == 1 / 200
        assert entry.strength > 0.6
        assert all(example.title for example in entry.typical)
    assert [(e.concept, e.dimension) for e in found.dimensions] == [(k, j) for k in range(7) for j in range(DIM)]


def test_a_planted_number_names_its_dimension_and_both_ends(plant):
    model = plant()
    coordinates, noise = spread(model)
    year = np.round(1970 - 10 * coordinates[:, 5] + noise)
    year[::9] = np.nan
    model = plant({"year": pa.array(year, from_pandas=True).cast(pa.int32())})
    found = naming.find(model)
    for k in (0, 1):
        entry = found.dimension(k, 5)
        assert (entry.name, entry.attribute, entry.kind, entry.direction) == ("year", "year", "number", -1)
        assert entry.strength > 0.9
        assert entry.p == 1 / 200
        assert not entry.cross_validated
        low, high = (int(end.removeprefix("year ")) for end in ends(entry))
        assert low > 1980
        assert high < 1960
        others = [e for e in found.dimensions if e.concept == k and e.dimension != 5]
        assert not [e for e in others if e.attribute == "year"]
        best = entry.examples.high[0].id
        popular = model.popularity >= np.median(model.popularity[k::2])
        own = [place for place in range(k, len(model.items), 2) if popular[place]]
        assert best == str(model.items[max(own, key=lambda place: coordinates[place, 5])])


def test_words_of_titles_and_values_name_the_ends_of_a_number(plant):
    model = plant()
    coordinates, noise = spread(model)
    size = 50 + 10 * coordinates[:, 2] + 0.5 * noise
    words = np.array(["Tiny", "Small", "", "Large", "Huge"])
    titles = [f"{words[int(np.clip((value - 35) // 6, 0, 4))]} bag" for value in size]
    found = naming.find(plant({"title": titles, "size": size}))
    for k in (0, 1):
        entry = found.dimension(k, 2)
        assert entry.name == "size"
        assert entry.low in ("tiny", "tiny, small")
        assert entry.high in ("huge", "large, huge")
        assert {share.attribute for share in (*entry.low_evidence, *entry.high_evidence)} == {"title"}
        assert all(share.inside > share.outside for share in (*entry.low_evidence, *entry.high_evidence))


def test_a_value_stands_against_what_the_other_end_has(plant):
    model = plant()
    coordinates, noise = spread(model)
    score = coordinates[:, 1] + 0.2 * noise
    genre = np.where(score > 0.3, "Action", np.where(score < -0.3, "Drama", "Western")).tolist()
    entry = naming.find(plant({"genre": genre})).dimension(0, 1)
    assert sorted(ends(entry)) == ["Action", "Drama"]
    assert ends(entry) == ("Drama", "Action")
    assert entry.kind == "category"
    lonely = np.where(score > 0.8, "Action", [f"rare {place % 40}" for place in range(len(score))]).tolist()
    assert ends(naming.find(plant({"genre": lonely})).dimension(0, 1)) == ("other than Action", "Action")


def test_popularity_goes_from_niche_to_popular_and_needs_no_table(plant):
    model = plant()
    coordinates, _ = spread(model)
    coordinates[:, 3] = np.argsort(np.argsort(model.popularity))
    coordinates[:, 4] = -coordinates[:, 3]
    found = naming.find(plant(vectors=coordinates))
    assert ends(found.dimension(0, 3)) == ("niche", "popular")
    assert ends(found.dimension(0, 4)) == ("popular", "niche")
    nameless = found.dimension(0, 5)
    assert (nameless.name, nameless.low, nameless.high) == (None, None, None)
    assert "popularity" in nameless.why
    assert ends(nameless) == (nameless.examples.low[0].id, nameless.examples.high[0].id)
    assert found.concept_name(0) is None
    assert found.concepts[0].why == "nothing is known about its items"
    assert label(found.concepts[0]) == f"like {found.concepts[0].typical[0].id}"


def test_a_fitted_axis_brings_the_evidence_of_its_fit(plant):
    model = plant()
    coordinates, noise = spread(model)
    model = plant({"year": 10 * coordinates[:, 5] + noise})
    rotation = np.broadcast_to(np.eye(DIM, dtype=np.float32), (7, DIM, DIM))
    axes.use(model, Axes("attributes", rotation, fits=(Fit(0, 5, "year", 0.61, 0.007),)))
    found = naming.find(model)
    entry, other = found.dimension(0, 5), found.dimension(1, 5)
    assert (entry.strength, entry.p, entry.cross_validated) == (0.61, 0.007, True)
    assert entry.evidence[0].cross_validated
    assert (other.name, other.cross_validated) == ("year", False)
    assert entry.axes == other.axes == "attributes"


def test_what_another_dimension_tells_much_better_is_no_name(plant):
    model = plant()
    coordinates, noise = spread(model)
    coordinates[:, 6] = coordinates[:, 5] + 2.2 * noise
    found = naming.find(plant({"year": coordinates[:, 5]}, vectors=coordinates))
    assert found.dimension(0, 5).name == "year"
    assert found.dimension(0, 6).name is None
    assert "other dimensions tell year" in found.dimension(0, 6).why


def test_shuffled_attributes_name_nothing(trained, plant):
    table, random, wrong = trained[0].table, np.random.default_rng(5), 0
    for seed in range(20):
        found = naming.find(plant(table.take(random.permutation(len(table))).to_pydict(), seed=seed), seed=seed)
        wrong += sum(any(e.name is not None for e in found.dimensions if e.concept == k) for k in (0, 1))
        wrong += sum(entry.name is not None for entry in found.concepts)
    assert wrong <= 3  # of 60 chances of 1 % each: two concepts' dimensions and all concepts, 20 times


def test_constant_missing_and_hostile_attributes_do_no_harm(plant):
    count = len(plant().items)
    evil = ["<script>alert(1)</script>\u202e\n", "\x00\x1b[31m", "", "ü" * 500, "'; DROP TABLE items; --"]
    concepts = np.arange(count) % 2
    table = {
        "title": [None if place % 7 == 0 else evil[place % 5] for place in range(count)],
        "constant": ["same"] * count,
        "nothing": pa.nulls(count, pa.float64()),
        "few": pa.array([1.0 if place < 5 else None for place in range(count)], pa.float64()),
        "kind": [evil[0] if concept else "\x00\x07" for concept in concepts],
        "long": [evil[3] if concept else "other" for concept in concepts],
        "popularity": [float(place % 13) for place in range(count)],
        "infinite": [math.inf if place % 3 else math.nan for place in range(count)],
        "when": pa.array([None if place % 5 == 0 else place * 86_400 for place in range(count)], pa.timestamp("s")),
    }
    found = naming.find(plant(table, concepts=concepts))
    told = json.dumps(found.as_json(), allow_nan=False)
    assert Names.from_json(json.loads(told)) == found
    for entry in found.concepts:
        assert entry.name is None or (len(entry.name) <= 80 and entry.name.isprintable())
    assert found.concept_name(1) in ("<script>alert(1)</script>", "ü" * 79 + "…")
    for entry in found.dimensions:
        assert all(len(end) <= 80 and end.isprintable() for end in ends(entry))


def test_dates_are_said_as_dates(plant):
    coordinates, _ = spread(plant())
    days = (1000 * coordinates[:, 0]).astype(int) * 86_400
    entry = naming.find(plant({"released_on": pa.array(days, pa.timestamp("s"))})).dimension(1, 0)
    assert entry.name == "released on"
    assert entry.low.startswith("released on 196")
    assert entry.high.startswith("released on 197")


def test_concepts_of_one_name_are_told_apart(plant):
    count = len(plant().items)
    concepts = np.where(np.arange(count) % 4 == 3, 1, np.where(np.arange(count) % 4 == 2, 0, 2))
    table = {"kind": np.where(concepts < 2, "bags", [f"k{place % 60}" for place in range(count)]).tolist()}
    found = naming.find(plant(table, concepts=concepts))
    assert found.concept_name(0) != found.concept_name(1)
    assert found.concept_name(0).startswith("bags, like ")
    assert found.concepts[5].why == "it has no items"
    assert label(found.concepts[5]) == "concept 5"
    table["cut"] = np.where(concepts == 0, "loose", "slim").tolist()
    assert naming.find(plant(table, concepts=concepts)).concept_name(0) == "loose"


def test_told_apart_takes_the_first_way_that_is_free():
    assert told_apart(["a", "a", None, "b"], [["a, x"], ["a, x", "a, y"], [], []]) == ["a, x", "a, y", None, "b"]
    assert told_apart(["a", "a", "a 1"], [[], [], []]) == ["a 2", "a 3", "a 1"]


def test_the_same_seed_gives_the_same_names(trained):
    assert naming.find(trained[0], seed=4) == naming.find(trained[0], seed=4)


def test_names_are_found_for_models_with_concepts_only(shop_split):
    import macrid

    with pytest.raises(MacridError, match="fit"):
        naming.find(macrid.MacridVAE())


@pytest.fixture(scope="module")
def found(trained):
    return naming.find(trained[0])


def test_edits_survive_json_and_renewal(found):
    edited = (
        found.renamed(2, "  Handbags ").renamed_dimension(1, 3, low="cheap").renamed_dimension(0, 0, name="x", high="y")
    )
    assert edited.concept_name(2) == "Handbags"
    assert edited.concepts[2].edited
    assert found.concept_name(2) != "Handbags"
    assert ends(edited.dimension(1, 3)) == ("cheap", ends(found.dimension(1, 3))[1])
    again = Names.from_json(json.loads(json.dumps(edited.as_json(), allow_nan=False)))
    assert again == edited
    kept = renewed(edited, found)
    assert kept.concepts == edited.concepts
    assert kept.dimensions == edited.dimensions
    assert kept.aside == ()


def test_edited_dimensions_wait_until_their_axes_are_in_use_again(found):
    edited = found.renamed_dimension(1, 3, low="cheap", high="dear").renamed(0, "mine")
    turned = Names(
        found.concepts,
        tuple(e.model_copy(update={"axes": "independence", "axis": f"x{e.dimension}"}) for e in found.dimensions),
    )
    elsewhere = renewed(edited, turned)
    assert elsewhere.concept_name(0) == "mine"
    assert not any(entry.edited for entry in elsewhere.dimensions)
    elsewhere = Names.from_json(elsewhere.as_json())
    back = renewed(elsewhere, found)
    assert ends(back.dimension(1, 3)) == ("cheap", "dear")
    assert back.aside == ()


def test_renewal_with_fewer_concepts_drops_what_is_no_more(found):
    fewer = Names(found.concepts[:3], found.dimensions[: 3 * DIM])
    assert renewed(found.renamed(6, "x"), fewer).concepts == fewer.concepts
    assert len(renewed(fewer.renamed(1, "x"), found).concepts) == 7


@pytest.mark.parametrize(
    "name", ["", "   ", "x" * 81, "a\nb", "a\x00", "\u202eevil", "a\u2028b", "\ud800", "\u200b", 7, None]
)
def test_what_is_no_name_is_refused(found, name):
    with pytest.raises(RequestError):
        found.renamed(0, name)
    if name is not None:
        with pytest.raises(RequestError):
            found.renamed_dimension(0, 0, low=name)


def test_names_in_any_script_are_taken(found):
    for name in ("鞄", "حقائب", "Söckchen & Co.", "👩‍👧 shoes", "x" * 80):
        assert found.renamed(0, name).concept_name(0) == name


@pytest.mark.parametrize(("concept", "dimension"), [(7, 0), (-1, 0), (0, 16), (0, -1), (True, 0), ("0", 0), (0, 1.0)])
def test_unknown_numbers_are_refused(found, concept, dimension):
    with pytest.raises(RequestError, match=r"there are (concept|dimension)s 0 to"):
        found.dimension(concept, dimension)
    with pytest.raises(RequestError):
        found.renamed_dimension(concept, dimension, name="x")


def test_nothing_to_rename_is_an_error(found):
    with pytest.raises(RequestError, match="nothing to rename"):
        found.renamed_dimension(0, 0)


def damaged(found, **change):
    return {**found.as_json(), **change}


def test_a_damaged_file_is_refused_with_what_is_wrong(found):
    whole = found.as_json()
    first = {**whole["concepts"][0], "p": float("nan")}
    for value, told in [
        (None, "names: input should be"),
        ([], "names: input should be"),
        ({}, "concepts: field required"),
        (damaged(found, concepts=whole["concepts"][1:]), "concepts: are numbered"),
        (damaged(found, dimensions=whole["dimensions"][1:]), "not all dimensions of 7 concepts"),
        (damaged(found, dimensions=whole["dimensions"][::-1]), "not all dimensions"),
        (damaged(found, concepts=[{"concept": 0}]), "concepts.0.name: field required"),
        (damaged(found, concepts=[first, *whole["concepts"][1:]]), "concepts.0.p: "),
        (damaged(found, concepts=[{**first, "p": 0.1, "x": 1}]), "concepts.0.x: extra"),
        (damaged(found, more=1), "more: extra"),
    ]:
        with pytest.raises(ValueError, match=told):
            Names.from_json(value)
