"""Names of concepts and dimensions: planted ones are found, chance gets none, and edits survive."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

import macrid
from macrid.concepts import axes, naming
from macrid.concepts.evidence import Counts, chance, correlations, log_odds, null_of_labels, of_labels, values_of
from macrid.concepts.meaning import Axes, Fit
from macrid.concepts.names import ConceptName, Example, Names, ends, label, with_edits, without_repeats
from macrid.concepts.space import space_of
from macrid.data.attributes import Column
from macrid.data.shop import generate
from macrid.errors import RequestError
from tests.concepts.conftest import DIM, with_items


def naive_log_odds(y_i, n_i, y_j, n_j, alpha, alpha_0):
    """Monroe, Colaresi and Quinn (2008), with all terms of the variance."""
    with_i, with_j = y_i + alpha, y_j + alpha
    without_i, without_j = n_i + alpha_0 - with_i, n_j + alpha_0 - with_j
    delta = math.log(with_i / without_i) - math.log(with_j / without_j)
    return delta, delta / math.sqrt(1 / with_i + 1 / without_i + 1 / with_j + 1 / without_j)


@given(st.lists(st.tuples(*[st.integers(0, 50)] * 4), min_size=1, max_size=5), st.sampled_from([1.0, 20.0]))
def test_log_odds_follow_the_formula(cells, prior):
    have, lack, other_have, other_lack = np.array(cells, dtype=float).T
    inside, outside = Counts(have, have + lack), Counts(other_have, other_have + other_lack)
    total = Counts(inside.have + outside.have, inside.known + outside.known)
    odds = log_odds(inside, outside, total, prior)
    for i in range(len(cells)):
        alpha = prior * (total.have[i] + 0.5) / (total.known[i] + 1)
        expected = naive_log_odds(have[i], inside.known[i], other_have[i], outside.known[i], alpha, prior)
        assert (odds.delta[i], odds.z[i]) == pytest.approx(expected, abs=1e-9)


def random_columns(random, items, missing=0.2):
    values = (random.random((4, items)) < 0.3).astype(float)
    values[:2, random.random(items) < missing] = np.nan
    return [Column(f"a{place // 2}: {place}", f"a{place // 2}", "tag", row) for place, row in enumerate(values)]


def test_only_items_with_known_values_count():
    random = np.random.default_rng(0)
    columns, labels = random_columns(random, 90), random.integers(0, 3, 90)
    odds = of_labels(values_of(columns, np.arange(90)), labels, 3)
    for k in range(3):
        for place, column in enumerate(columns):
            known = np.isfinite(column.values)
            inside, outside = column.values[known & (labels == k)], column.values[known & (labels != k)]
            assert odds.inside[k, place] == pytest.approx(inside.mean())
            assert odds.outside[k, place] == pytest.approx(outside.mean())
            share = (column.values[known].sum() + 0.5) / (known.sum() + 1)
            expected = naive_log_odds(inside.sum(), len(inside), outside.sum(), len(outside), 20 * share, 20)
            assert (odds.delta[k, place], odds.z[k, place]) == pytest.approx(expected)


def test_correlations_equal_those_of_scipy_over_known_items():
    random = np.random.default_rng(1)
    coordinates, columns = random.normal(size=(60, 3)), random.integers(0, 4, (60, 5)).astype(float)
    columns[random.random(60) < 0.3, :2] = np.nan
    columns[:, 4] = 7  # constant
    result = correlations(coordinates, columns, random, shuffles=9)
    for c in range(4):
        known = np.isfinite(columns[:, c])
        for j in range(3):
            expected = spearmanr(columns[known, c], coordinates[known, j]).statistic
            assert result.rho[c, j] == pytest.approx(expected, abs=1e-6)
            assert result.z[c, j] == pytest.approx(expected * math.sqrt(known.sum() - 1), abs=1e-5)
    assert (result.rho[4] == 0).all()


def test_p_is_uniform_for_noise_and_minimal_for_a_planted_column():
    random = np.random.default_rng(2)
    of_noise, planted = [], []
    for _ in range(120):
        coordinates, columns = random.normal(size=(50, 4)), random.normal(size=(50, 6))
        columns[random.random(50) < 0.3, 3:] = np.nan
        result = correlations(coordinates, columns, random, shuffles=99)
        of_noise.append(chance(np.abs(result.z).max(), result.null))
        columns[:, 0] = coordinates[:, 2] + 0.3 * random.normal(size=50)
        result = correlations(coordinates, columns, random, shuffles=99)
        planted.append(chance(abs(result.z[0, 2]), result.null))
    assert set(planted) == {1 / 100}
    assert 0.4 < np.mean(of_noise) < 0.6
    assert np.mean(np.array(of_noise) <= 0.1) < 0.2


def test_p_is_uniform_for_shuffled_concepts_and_minimal_for_planted_ones():
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
    """A function that returns a copy of the trained model with random vectors, or with other items and attributes."""

    def make(table=None, concepts=(), vectors=None, seed=0):
        count = len(trained[0].items)
        concepts = concepts if len(concepts) else np.arange(count) % 2
        vectors = np.random.default_rng(seed).normal(size=(count, DIM)) if vectors is None else vectors
        return with_items(trained[0], vectors, concepts, table)

    return make


def coordinates_and_noise(model):
    """The coordinates of all items (items, dim), and noise (items,)."""
    return space_of(model).items.astype(np.float64), np.random.default_rng(0).normal(size=len(model.items))


@pytest.mark.slow
def test_shop_concepts_are_named_after_the_category_of_most_of_their_items():
    split = generate(users=600, items=160, seed=3).split(heldout=50)
    model = macrid.MacridVAE(concepts=7, dim=DIM, neighbours=0)
    model.fit(split.train, validation=split.validation, epochs=12, batch_size=50, seed=1, device="cpu")
    names = naming.find(model)
    categories = np.array(model.table.column("category").to_pylist())
    concepts = model.concepts_of_items()
    for entry in names.concepts:
        values, counts = np.unique(categories[concepts == entry.concept], return_counts=True)
        assert entry.name == entry.evidence[0].value == values[counts.argmax()]
        assert entry.p == 1 / 200
        assert entry.fit.columns == (f"category: {entry.name}",)
        assert min(entry.fit.share, entry.fit.held_out) > 0.6
        assert entry.fit.base < 0.3
        assert all(example.title for example in entry.typical)
    assert [(e.concept, e.dimension) for e in names.dimensions] == [(k, j) for k in range(7) for j in range(DIM)]


def test_a_planted_number_names_its_dimension_and_both_ends(plant):
    model = plant()
    coordinates, noise = coordinates_and_noise(model)
    year = np.round(1970 - 10 * coordinates[:, 5] + noise)
    year[::9] = np.nan
    model = plant({"year": pa.array(year, from_pandas=True).cast(pa.int32())})
    names = naming.find(model)
    for k in (0, 1):
        entry = names.dimension(k, 5)
        assert (entry.name, entry.attribute, entry.kind, entry.direction) == ("year", "year", "number", -1)
        assert entry.strength > 0.9
        assert entry.p == 1 / 200
        assert not entry.cross_validated
        low, high = (int(end.removeprefix("year ")) for end in ends(entry))
        assert low > 1980
        assert high < 1960
        others = [e for e in names.dimensions if e.concept == k and e.dimension != 5]
        assert not [e for e in others if e.attribute == "year"]
        median = np.median(model.popularity[k::2])
        popular = [place for place in range(k, len(model.items), 2) if model.popularity[place] >= median]
        outermost = max(popular, key=lambda place: coordinates[place, 5])
        assert entry.examples.high[0].id == str(model.items[outermost])


def test_words_of_titles_name_the_ends_of_a_number(plant):
    model = plant()
    coordinates, noise = coordinates_and_noise(model)
    size = 50 + 10 * coordinates[:, 2] + 0.5 * noise
    words = np.array(["Tiny", "Small", "", "Large", "Huge"])
    titles = [f"{words[int(np.clip((value - 35) // 6, 0, 4))]} bag" for value in size]
    names = naming.find(plant({"title": titles, "size": size}))
    for k in (0, 1):
        entry = names.dimension(k, 2)
        assert entry.name == "size"
        assert entry.low in ("tiny", "tiny, small")
        assert entry.high in ("huge", "large, huge")
        shares = (*entry.low_evidence, *entry.high_evidence)
        assert {share.attribute for share in shares} == {"title"}
        assert all(share.inside > share.outside for share in shares)


def test_a_value_is_opposed_to_the_one_at_the_other_end(plant):
    model = plant()
    coordinates, noise = coordinates_and_noise(model)
    score = coordinates[:, 1] + 0.2 * noise
    genre = np.where(score > 0.3, "Action", np.where(score < -0.3, "Drama", "Western")).tolist()
    entry = naming.find(plant({"genre": genre})).dimension(0, 1)
    assert ends(entry) == ("Drama", "Action")
    assert entry.kind == "category"
    alone = np.where(score > 0.8, "Action", [f"rare {place % 40}" for place in range(len(score))]).tolist()
    assert ends(naming.find(plant({"genre": alone})).dimension(0, 1)) == ("other than Action", "Action")


def test_popularity_goes_from_niche_to_popular_and_needs_no_table(plant):
    model = plant()
    coordinates, _ = coordinates_and_noise(model)
    coordinates[:, 3] = np.argsort(np.argsort(model.popularity))
    coordinates[:, 4] = -coordinates[:, 3]
    names = naming.find(plant(vectors=coordinates))
    assert ends(names.dimension(0, 3)) == ("niche", "popular")
    assert ends(names.dimension(0, 4)) == ("popular", "niche")
    nameless = names.dimension(0, 5)
    assert (nameless.name, nameless.low, nameless.high) == (None, None, None)
    assert "popularity" in nameless.why
    assert ends(nameless) == (nameless.examples.low[0].id, nameless.examples.high[0].id)
    assert (names.concepts[0].name, bool(names.concepts[0].why)) == (None, True)
    assert label(names.concepts[0]) == f"like {', '.join(example.id for example in names.concepts[0].typical)}"


def test_a_fitted_axis_keeps_the_evidence_of_its_fit(plant):
    coordinates, noise = coordinates_and_noise(plant())
    model = plant({"year": 10 * coordinates[:, 5] + noise})
    rotation = np.broadcast_to(np.eye(DIM, dtype=np.float32), (7, DIM, DIM))
    axes.use(model, Axes("attributes", rotation, fits=(Fit(0, 5, "year", 0.61, 0.007),)))
    names = naming.find(model)
    entry, other = names.dimension(0, 5), names.dimension(1, 5)
    assert (entry.strength, entry.p, entry.cross_validated) == (0.61, 0.007, True)
    assert entry.evidence[0].cross_validated
    assert (other.name, other.cross_validated) == ("year", False)
    assert entry.axes == other.axes == "attributes"


def test_an_attribute_names_only_the_dimensions_that_follow_it_best(plant):
    coordinates, noise = coordinates_and_noise(plant())
    coordinates[:, 6] = coordinates[:, 5] + 2.2 * noise
    names = naming.find(plant({"year": coordinates[:, 5]}, vectors=coordinates))
    assert names.dimension(0, 5).name == "year"
    assert names.dimension(0, 6).name is None
    assert "year" in names.dimension(0, 6).why


@pytest.mark.slow
def test_shuffled_attributes_name_nothing(trained, plant):
    table, random, named = trained[0].table, np.random.default_rng(5), 0
    for seed in range(10):
        names = naming.find(plant(table.take(random.permutation(len(table))).to_pydict(), seed=seed), seed=seed)
        named += len({entry.concept for entry in names.dimensions if entry.name is not None})
        named += sum(entry.name is not None for entry in names.concepts)
    assert named <= 2  # of 30 chances of 1 % each: two concepts' dimensions and all concepts, 10 times


def test_constant_missing_and_hostile_attributes_are_harmless(plant):
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
    names = naming.find(plant(table, concepts=concepts))
    assert Names.from_json(json.loads(json.dumps(names.as_json(), allow_nan=False))) == names
    assert names.concept_name(1) in ("<script>alert(1)</script>", "ü" * 79 + "…")
    shown = [entry.name for entry in names.concepts if entry.name is not None]
    for text in (*shown, *(end for entry in names.dimensions for end in ends(entry))):
        assert len(text) <= 80
        assert text.isprintable()


def test_dates_are_written_as_dates(plant):
    coordinates, _ = coordinates_and_noise(plant())
    days = (1000 * coordinates[:, 0]).astype(int) * 86_400
    entry = naming.find(plant({"released_on": pa.array(days, pa.timestamp("s"))})).dimension(1, 0)
    assert entry.name == "released on"
    assert entry.low.startswith("released on 196")
    assert entry.high.startswith("released on 197")


def test_concepts_with_the_same_name_get_distinct_ones(plant):
    count = len(plant().items)
    concepts = np.where(np.arange(count) % 4 == 3, 1, np.where(np.arange(count) % 4 == 2, 0, 2))
    table = {"kind": np.where(concepts < 2, "bags", [f"k{place % 60}" for place in range(count)]).tolist()}
    names = naming.find(plant(table, concepts=concepts))
    assert {names.concept_name(0), names.concept_name(1)} > {"bags"}
    assert any(name.startswith("bags, like ") for name in (names.concept_name(0), names.concept_name(1)))
    assert names.concepts[0].fit.columns == names.concepts[1].fit.columns == ("kind: bags",)
    assert (names.concepts[5].name, label(names.concepts[5])) == (None, "concept 5")  # it has no items
    table["cut"] = np.where(concepts == 0, "loose", "slim").tolist()
    assert naming.find(plant(table, concepts=concepts)).concept_name(0) == "loose"


def entry(concept, name, strength=0.5, *titles):
    typical = tuple(Example(id=f"id{place}", title=title) for place, title in enumerate(titles))
    return ConceptName(concept=concept, name=name, strength=strength, typical=typical)


def test_a_repeated_name_stays_with_the_strongest_concept_and_is_completed_elsewhere():
    entries = [entry(0, "a", 0.5, "X"), entry(1, "A", 0.7), entry(2, None), entry(3, "a", 0.4, "X"), entry(4, "b")]
    assert [e.name for e in without_repeats(entries)] == ["a, like X", "A", None, "a 2", "b"]
    assert [e.name for e in without_repeats(entries, kept=[3])] == ["a, like X", "A 2", None, "a", "b"]
    long = [entry(k, "x" * 80, 0.5, "X") for k in range(3)]
    assert len({e.name for e in without_repeats(long)}) == 3


def test_a_fresh_name_gives_way_to_the_same_name_set_by_a_person(names):
    named = [entry for entry in names.concepts if entry.name is not None]
    named = [entry.model_copy(update={"concept": k}) for k, entry in enumerate(named)]
    names = replace(names, concepts=tuple(named))
    taken = names.concept_name(0)
    first, second = names.renamed(0, "mine").renamed(1, taken).concepts[:2]
    both = with_edits(names, Names((first, second, *names.concepts[2:]), names.dimensions))
    assert (both.concept_name(0), both.concept_name(1)) == ("mine", taken)
    one = with_edits(names, Names((names.concepts[0], second, *names.concepts[2:]), names.dimensions))
    assert one.concept_name(1) == taken
    assert one.concept_name(0).startswith(f"{taken}, like ")
    assert (one.concepts[0].fit, one.concepts[1].fit) == (names.concepts[0].fit, None)


@pytest.mark.parametrize(
    ("titles", "expected"),
    [
        (["Matrix, The (1999)", "Alien (1979)", "Few Good Men, A (1992)"], "like The Matrix, Alien, A Few Good Men"),
        (["Cinema Paradiso (Nuovo cinema Paradiso) (1989)", "(1984)"], "like Cinema Paradiso, (1984)"),
        (["Blue shirt (slim)", "2001"], "like Blue shirt (slim), 2001"),
        (["x" * 50, "y" * 50, "z"], "like " + "x" * 50),
        ([], "concept 3"),
    ],
)
def test_a_concept_without_a_name_shows_as_many_short_titles_as_fit(titles, expected):
    assert label(entry(3, None, None, *titles)) == expected


def test_names_of_earlier_versions_load(names):
    old = names.as_json()
    for each in old["concepts"]:
        del each["fit"]
    loaded = Names.from_json(old)
    assert [e.name for e in loaded.concepts] == [e.name for e in names.concepts]
    assert all(e.fit is None for e in loaded.concepts)


@pytest.fixture(scope="module")
def names(trained):
    return naming.find(trained[0])


def test_edits_survive_json_and_fresh_names(names):
    edited = names.renamed(2, "  Handbags ").renamed_dimension(1, 3, low="cheap")
    edited = edited.renamed_dimension(0, 0, name="x", high="y")
    assert edited.concept_name(2) == "Handbags"
    assert edited.concepts[2].edited
    assert names.concept_name(2) != "Handbags"
    assert ends(edited.dimension(1, 3)) == ("cheap", ends(names.dimension(1, 3))[1])
    assert Names.from_json(json.loads(json.dumps(edited.as_json(), allow_nan=False))) == edited
    assert with_edits(names, edited) == edited


def test_edited_dimensions_wait_until_their_axes_are_in_use_again(names):
    edited = names.renamed_dimension(1, 3, low="cheap", high="dear").renamed(0, "mine")
    others = (e.model_copy(update={"axes": "attributes", "axis": f"x{e.dimension}"}) for e in names.dimensions)
    turned = with_edits(Names(names.concepts, tuple(others)), edited)
    assert turned.concept_name(0) == "mine"
    assert not any(entry.edited for entry in turned.dimensions)
    restored = with_edits(names, Names.from_json(turned.as_json()))
    assert ends(restored.dimension(1, 3)) == ("cheap", "dear")
    assert restored.aside == ()


def test_edits_of_concepts_that_no_longer_exist_are_dropped(names):
    fewer = Names(names.concepts[:3], names.dimensions[: 3 * DIM])
    assert with_edits(fewer, names.renamed(6, "x")).concepts == fewer.concepts
    assert len(with_edits(names, fewer.renamed(1, "x")).concepts) == 7


@pytest.mark.parametrize(
    "name", ["", "   ", "x" * 81, "a\nb", "a\x00", "\u202eevil", "a\u2028b", "\ud800", "\u200b", 7, None]
)
def test_unusable_names_are_refused(names, name):
    with pytest.raises(RequestError):
        names.renamed(0, name)
    with pytest.raises(RequestError):
        names.renamed_dimension(0, 0, low=name)


@pytest.mark.parametrize("name", ["鞄", "حقائب", "Söckchen & Co.", "👩‍👧 shoes", "x" * 80])
def test_names_may_be_in_any_script(names, name):
    assert names.renamed(0, name).concept_name(0) == name


def test_two_concepts_or_dimensions_cannot_share_a_name(names):
    with pytest.raises(RequestError, match="'HATS'"):
        names.renamed(0, "hats").renamed(1, "HATS")
    with pytest.raises(RequestError, match="'SIZE'"):
        names.renamed_dimension(0, 0, name="size").renamed_dimension(0, 1, name="SIZE")


@pytest.mark.parametrize(
    ("concept", "dimension", "value"),
    [(7, 0, 7), (-1, 0, -1), (0, 16, 16), (0, -1, -1), (True, 0, True), ("0", 0, "0"), (0, 1.0, 1.0)],
)
def test_unknown_numbers_are_refused(names, concept, dimension, value):
    with pytest.raises(RequestError, match=re.escape(repr(value))):
        names.dimension(concept, dimension)
    with pytest.raises(RequestError):
        names.renamed_dimension(concept, dimension, name="x")


def test_a_damaged_file_is_refused_with_the_place(names):
    whole = names.as_json()
    first = {**whole["concepts"][0], "p": float("nan")}
    for value, place in [
        (None, "names: "),
        ([], "names: "),
        ({}, "concepts: "),
        ({**whole, "concepts": whole["concepts"][1:]}, "concepts: "),
        ({**whole, "dimensions": whole["dimensions"][1:]}, "dimensions: .* 7 "),
        ({**whole, "dimensions": whole["dimensions"][::-1]}, "dimensions: "),
        ({**whole, "concepts": [{"concept": 0}]}, "concepts.0.name: "),
        ({**whole, "concepts": [first, *whole["concepts"][1:]]}, "concepts.0.p: "),
        ({**whole, "concepts": [{**first, "p": 0.1, "x": 1}]}, "concepts.0.x: "),
        ({**whole, "more": 1}, "more: "),
    ]:
        with pytest.raises(ValueError, match=f"^{place}"):
            Names.from_json(value)
