"""What names claim: counted by choices, checked on other items, and true of most of what people choose."""

import numpy as np
import pyarrow as pa
import pytest

from macrid.concepts import naming
from macrid.concepts.claims import Claim, name_fit, shared_out, value_columns
from macrid.concepts.meaning import meaning_of
from macrid.concepts.names import label
from macrid.concepts.space import space_of
from tests.concepts.conftest import DIM


@pytest.fixture
def named(place):
    """A function that returns a model with planted attributes, popularity and concepts, and its names."""

    def make(attributes, popularity=None, concepts=None):
        count = len(place(np.zeros((1000, DIM)), np.zeros(1000, dtype=int)).items)
        concepts = np.arange(count) % 4 if concepts is None else concepts(np.arange(count))
        popularity = np.full(count, 10) if popularity is None else popularity(np.arange(count))
        random = np.random.default_rng(0)
        table = attributes(np.arange(count), concepts, random)
        model = place(random.normal(size=(count, DIM)), concepts, table, popularity)
        meaning_of(model).names = naming.find(model)
        return model, meaning_of(model).names

    return make


def tagged(**chances):
    """Tags that items of the first concept and of all others have with the given chances."""

    def attributes(items, concepts, random):
        draws = {tag: random.random(len(items)) < np.where(concepts == 0, *each) for tag, each in chances.items()}
        return {"tags": [[tag for tag in draws if draws[tag][item]] + ["every"] for item in items.tolist()]}

    return attributes


def test_a_name_is_what_most_choices_carry_not_what_most_items_carry(named):
    def attributes(items, concepts, random):
        often = items % 3 == 0
        return {"kind": np.where(concepts == 0, np.where(often, "hit", "filler"), np.where(often, "x", "y")).tolist()}

    _, names = named(attributes, popularity=lambda items: np.where(items % 3 == 0, 100, 3))
    assert names.concept_name(0) == "hit"
    _, names = named(attributes, popularity=lambda items: np.where(items % 3 == 0, 3, 100))
    assert names.concept_name(0) == "filler"


def test_the_evidence_is_the_share_of_choices_in_the_concept_and_of_all(named):
    model, names = named(tagged(a=(0.8, 0.1)), popularity=lambda items: 1 + items % 17)
    fit = names.concepts[0].fit
    has = np.array(["a" in tags for tags in model.table.column("tags").to_pylist()])
    weights, inside = model.popularity.astype(np.float64), space_of(model).concept_of == 0
    assert fit.columns == ("tags: a",)
    assert fit.share == pytest.approx(weights[has & inside].sum() / weights[inside].sum())
    assert fit.base == pytest.approx(weights[has].sum() / weights.sum())
    assert fit.held_out == pytest.approx(fit.share, abs=0.05)
    assert names.concepts[0].strength == pytest.approx(fit.share - fit.base)


@pytest.mark.parametrize(
    ("inside", "outside", "name"),
    [(0.95, 0.05, "a"), (0.75, 0.2, "a"), (0.48, 0.0, None), (0.75, 0.5, None), (0.95, 0.65, None)],
)
def test_a_name_needs_a_clear_majority_and_to_be_much_more_common_than_elsewhere(named, inside, outside, name):
    _, names = named(tagged(a=(inside, outside)))
    assert names.concept_name(0) == name
    assert (names.concepts[0].why is None) == (name is not None)
    assert (names.concepts[0].fit is None) == (name is None)
    assert name or label(names.concepts[0]).startswith("like ")


def test_two_values_of_which_most_items_have_one_make_a_name(named):
    def attributes(items, concepts, random):
        kinds = np.array(["horror", "crime", "war", "music", "sport", "other"])
        return {"genre": np.where(concepts == 0, kinds[items // 4 % 2], kinds[2 + items % 4]).tolist()}

    model, names = named(attributes)
    assert names.concept_name(0) in ("horror or crime", "crime or horror")
    assert set(names.concepts[0].fit.columns) == {"genre: horror", "genre: crime"}
    assert names.concepts[0].fit.share == 1
    assert name_fit(model, 10).share == 1


def test_a_second_value_is_left_out_if_it_adds_little(named):
    assert named(tagged(a=(0.9, 0.1), b=(0.3, 0.05)))[1].concept_name(0) == "a"


@pytest.mark.parametrize(("share", "has_name"), [(0.97, True), (0.7, False)])
def test_a_range_is_a_name_only_if_nearly_all_items_share_it(named, share, has_name):
    def attributes(items, concepts, random):
        late = random.random(len(items)) < np.where(concepts == 0, share, 0.05)
        return {"year": np.where(late, 2000 + items % 20, 1940 + items % 60)}

    entry = named(attributes)[1].concepts[0]
    assert (entry.name is not None) == has_name
    assert not has_name or entry.name.startswith("year from ")


def test_a_category_is_preferred_to_a_range_and_to_a_word_that_say_the_same(named):
    def attributes(items, concepts, random):
        first = concepts == 0
        titles = np.where(first, "Space film", np.where(items % 8 < 4, "Some film", "Any film"))
        years = np.where(first, 2000 + items % 20, 1940 + items % 60)
        kinds = np.where(first & (items % 80 > 0), "sci-fi", np.where(items % 3 == 0, "war", "drama"))
        return {"title": titles.tolist(), "year": years, "genre": kinds.tolist()}

    assert named(attributes)[1].concept_name(0) == "sci-fi"


def test_few_numbers_are_values_and_never_thresholds(named):
    def attributes(items, concepts, random):
        return {"shelf_mark": np.where(concepts == 0, 3 + items // 4 % 2, np.array([1, 2, 5, 6])[items // 4 % 4])}

    assert named(attributes)[1].concept_name(0) in ("shelf mark 3 or 4", "shelf mark 4 or 3")
    columns = value_columns(named(attributes)[0])
    assert [column.value for column in columns] == [f"shelf mark {number}" for number in range(1, 7)]


@pytest.mark.parametrize(
    ("column", "first", "other", "name"),
    [
        ("on_sale", True, False, "on sale"),
        ("on_sale", False, True, "not on sale"),
        ("shelf", "3", "4", "shelf 3"),
        ("era", "era of jazz", "now", "era of jazz"),
        ("kind", "12 inch", "7 inch", "12 inch"),
    ],
)
def test_a_name_can_be_understood_without_its_attribute(named, column, first, other, name):
    _, names = named(lambda items, concepts, _: {column: [first if k == 0 else other for k in concepts.tolist()]})
    assert names.concept_name(0) == name


def test_what_a_single_very_popular_item_carries_is_no_name(named):
    def attributes(items, concepts, random):
        rare = (concepts == 0) & ((items == 0) | (items % 16 == 4))
        return {"tags": [["rare", "every"] if is_rare else ["every"] for is_rare in rare]}

    model, names = named(attributes, popularity=lambda items: np.where(items == 0, 5000, 10))
    has = np.array(["rare" in tags for tags in model.table.column("tags").to_pylist()])
    inside = space_of(model).concept_of == 0
    assert (model.popularity * has * inside).sum() > 0.7 * (model.popularity * inside).sum()
    assert names.concept_name(0) is None


def test_a_value_known_for_few_choices_is_no_name(named):
    def attributes(known):
        def make(items, concepts, random):
            kinds = np.where(concepts == 0, "a", np.where(items % 3 == 0, "b", "c")).tolist()
            is_known = random.random(len(items)) < np.where(concepts == 0, known, 1)
            return {"kind": [kind if each else None for kind, each in zip(kinds, is_known, strict=True)]}

        return make

    assert named(attributes(0.8))[1].concept_name(0) == "a"
    assert named(attributes(0.3))[1].concept_name(0) is None


@pytest.mark.parametrize("size", [0, 1, 2, 3])
def test_concepts_of_a_few_items_are_named_by_them(named, size):
    _, names = named(tagged(a=(1, 0.1)), concepts=lambda items: np.where(items < size, 0, 1 + items % 3))
    assert names.concept_name(0) is None
    assert label(names.concepts[0]).count(",") == max(0, size - 1)
    assert (label(names.concepts[0]) == "concept 0") == (size == 0)


def test_chance_names_no_concept_among_thousands_of_tags(named):
    def attributes(items, concepts, random):
        return {"tags": [[f"t{tag}" for tag in random.integers(0, 3000, 30)] for _ in items]}

    _, names = named(attributes, concepts=lambda items: np.where(items < 15, 0, 1 + items % 6))
    assert [entry.name for entry in names.concepts] == [None] * 7


def test_names_need_neither_popularity_nor_attributes(named):
    _, names = named(tagged(a=(0.9, 0.1)), popularity=np.zeros_like)
    assert names.concept_name(0) == "a"
    for table in ({"kind": "same"}, {"kind": None}, {}):
        _, names = named(lambda items, *_, table=table: {name: pa.array([v] * len(items)) for name, v in table.items()})
        assert [entry.name for entry in names.concepts] == [None] * 7
        assert all(entry.why for entry in names.concepts)


def test_popular_items_are_counted_in_named_concepts_only(named):
    model, names = named(tagged(a=(0.8, 0.1)), popularity=lambda items: 1000 - items)
    assert [entry.name for entry in names.concepts] == ["a", *[None] * 6]
    has = np.array(["a" in tags for tags in model.table.column("tags").to_pylist()])
    measured = name_fit(model, 50)
    assert measured.items == 13  # of the first 50 items every fourth, from 0 to 48
    assert measured.share == pytest.approx(has[:50:4].mean())
    assert measured.base == pytest.approx(names.concepts[0].fit.base)
    meaning_of(model).names = names.renamed(0, "mine")
    assert name_fit(model, 50) is None


def test_a_claim_goes_to_the_concept_it_suits_best_and_others_take_their_next():
    strong, weak = Claim((1,), 0.9, 0.2, 0.9), Claim((1,), 0.7, 0.2, 0.7)
    other = Claim((2, 3), 0.65, 0.2, 0.65)
    assert shared_out([[weak, other], [], [strong]]) == [other, None, strong]
    assert shared_out([[weak], [strong]]) == [weak, strong]
