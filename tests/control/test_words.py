"""Wishes in words: what they become, on films and on the shop, and what is said about the rest."""

import re
from datetime import date

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import macrid
from macrid.concepts.directions import directions_towards
from macrid.concepts.space import space_of
from macrid.control.moves import Move
from macrid.control.titles import Titles
from macrid.control.where import Selector
from macrid.control.words import LONGEST, Words
from macrid.data.ids import Ids
from tests.planted import planted

FILMS = [
    "Alien (1979)", "Aliens (1986)", "Matrix, The (1999)", "Heat (1995)", "Heat, The (2013)", "Blade Runner (1982)",
    "Good, the Bad and the Ugly, The (Buono, il brutto, il cattivo, Il) (1966)", "Star Wars: Episode IV (1977)",
    "Star Wars: Episode V (1980)", "Terminator 2: Judgment Day (1991)", "Terminator 3: Rise (2003)", "Godzilla (1954)",
    "Godzilla (1998)", "Twin", "Twin",
]  # fmt: skip
GENRES = ["Comedy", "Horror", "Thriller", "Sci-Fi", "Western", "Documentary", "Film-Noir", "Children", "Romance"]


@pytest.fixture(scope="module")
def films():
    """The planted world with films for items: item vectors predict year and two genres."""
    model, _ = planted()
    size, price = (np.asarray(model.table.column(name)) for name in ("size", "price"))
    count = len(size)
    genres = [
        [GENRES[0] if size[at] > 0 else GENRES[1], *([GENRES[2 + at % 7]] if at % 3 else [])] for at in range(count)
    ]
    model.table = pa.table(
        {
            "title": [*FILMS, *(f"Film number {at}" for at in range(count - len(FILMS)))],
            "genres": ["|".join(values) for values in genres],
            "year": np.rint(1992 + 20 * price + np.arange(count) % 7 - 3).astype(np.int64),
            "price": size,
        }
    )
    model.popularity = np.arange(count, 0, -1)
    return model


@pytest.fixture(scope="module")
def words(films):
    return Words(films)


@pytest.fixture(scope="module")
def shop_words(trained):
    return Words(trained[0])


def named(model, history):
    return [model.table.column("title")[model.items.positions([item])[0]].as_py() for item in history]


def towards(wishes):
    return {(move.towards, move.concept): move.amount for move in wishes.moves}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("newer", {"year": 0.6}),
        ("older", {"year": -0.6}),
        ("much newer", {"year": 1.0}),
        ("a bit older", {"year": -0.3}),
        ("not too old", {"year": 0.6}),
        ("more comedy", {"genres: Comedy": 0.6}),
        ("comedies", {"genres: Comedy": 0.6}),
        ("less horror, newer", {"genres: Horror": -0.6, "year": 0.6}),
        ("less horror and newer", {"genres: Horror": -0.6, "year": 0.6}),
        ("less horror and comedy", {"genres: Horror": -0.6, "genres: Comedy": -0.6}),
        ("more comedy than horror", {"genres: Comedy": 0.6, "genres: Horror": -0.6}),
        ("funnier but much less scary", {"genres: Comedy": 0.6, "genres: Horror": -1.0}),
        ("I'd like something lighter", {"genres: Comedy": 0.6, "genres: Horror": -0.6}),
        ("hororr", {"genres: Horror": 0.6}),
        ("I like comedies", {"genres: Comedy": 0.6}),
        ("less comedy, more comedy", {"genres: Comedy": 0.6}),
        ("much more comedy, funnier", {"genres: Comedy": 1.0}),
        ("cheaper", {"price": -0.6}),
        ("less year", {"year": -0.6}),
    ],
)
def test_words_become_moves(words, text, expected):
    wishes = words(text)
    assert {name: amount for (name, _), amount in towards(wishes).items()} == expected
    assert (wishes.history, wishes.where, wishes.not_understood) == ((), None, ())
    assert wishes.understood


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("no westerns", "genres != 'Western' or genres is missing"),
        ("without horror or thriller", "(genres != 'Horror') and (genres != 'Thriller')"),
        ("only comedies", "genres = 'Comedy'"),
        ("nothing but film noir", "genres = 'Film-Noir'"),
        ("no sci-fi, please", "genres != 'Sci-Fi'"),
        ("only westerns or romance", "genres in ('Western', 'Romance')"),
        ("from the 80s or 90s", "year >= 1980 and year < 2000"),
        ("from the 90s", "year >= 1990 and year < 2000"),
        ("an eighties film", "year >= 1980 and year < 1990"),
        ("before 1990", "year < 1990"),
        ("newer than 1990", "year > 1990"),
        ("since 1995", "year >= 1995"),
        ("from 1995", "year = 1995"),
        ("between 1985 and 1995", "year >= 1985 and year <= 1995"),
        ("under $0.2", "price < 0.2"),
        ("at least 0.1 euros", "price >= 0.1"),
        ("price up to 0.3", "price <= 0.3"),
        ("more than 100 users", "popularity > 100"),
        ("only comedies from the 90s, no romance", "genres = 'Comedy' and year >= 1990 and year < 2000 and "
         "genres != 'Romance'"),
    ],
)  # fmt: skip
def test_words_become_conditions(words, films, text, where):
    wishes, select = words(text), Selector(films)
    assert (wishes.history, wishes.moves, wishes.not_understood) == ((), (), ())
    expected = select(where).mask
    assert 0 < expected.sum() < len(expected)
    np.testing.assert_array_equal(select(wishes.where).mask, expected)


@pytest.mark.parametrize(
    ("text", "titles", "rest"),
    [
        ("something like Alien, but newer", ["Alien (1979)"], ["year"]),
        ("like alien", ["Alien (1979)"], []),
        ("like Aliens", ["Aliens (1986)"], []),
        ("like Allien", ["Alien (1979)"], []),
        ("similar to The Matrix and Blade Runner with less horror",
         ["Matrix, The (1999)", "Blade Runner (1982)"], ["genres: Horror"]),
        ("I loved Heat, The Heat and Alien. Funnier!",
         ["Heat (1995)", "Heat, The (2013)", "Alien (1979)"], ["genres: Comedy"]),
        ("like The Good, the Bad and the Ugly but newer", [FILMS[6]], ["year"]),
        ("like 'Alien' or \"Heat\", newer", ["Alien (1979)", "Heat (1995)"], ["year"]),
        ("like Terminator 2", ["Terminator 2: Judgment Day (1991)"], []),
        ("like Godzilla 1998", ["Godzilla (1998)"], []),
        ("like item-003", ["Heat (1995)"], []),
        ("like twin", ["Twin"], []),
        ("like Alien and funnier", ["Alien (1979)"], ["genres: Comedy"]),
    ],
)  # fmt: skip
def test_titles_become_the_history(words, films, text, titles, rest):
    wishes = words(text)
    assert named(films, wishes.history) == titles
    assert [move.towards for move in wishes.moves] == rest
    assert wishes.not_understood == ()


@pytest.mark.parametrize(
    ("text", "part", "why"),
    [
        ("like Star Wars", "Star Wars", r"which 'Star Wars' is meant: .* IV \(1977\) \[item-007\]; Star"),
        ("like Godzilla", "Godzilla", r"Godzilla \(1954\) \[item-011\]; Godzilla \(1998\) \[item-012\]"),
        ("like Zzyzx", "Zzyzx", "no item is called 'Zzyzx'"),
        ("newer flurb", "flurb", "no attribute, value or name"),
        ("heavier", "heavier", "no column such as 'weight'"),
        ("year", "year", "say which way"),
        ("more westerns", "more westerns", "do not predict"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_named_with_the_reason(words, text, part, why):
    (entry,) = words(text).not_understood
    assert entry.text == part
    assert re.search(why, entry.why)


def test_an_empty_or_endless_wish_is_an_error(words):
    with pytest.raises(macrid.RequestError, match="empty"):
        words("  ")
    with pytest.raises(macrid.RequestError, match="limit is 1,000"):
        words("x" * (LONGEST + 1))
    with pytest.raises(macrid.RequestError, match="more than 20 titles"):
        words("like xyz, " * 30)


PIECES = """
    like more less no only without much a bit newer older Alien Heat comedy horror and or but , ; . ' " under 30 1990
    90s the than not too between $ € flurb film similar to I'd love 'Alien' - nothing
"""


@given(
    st.one_of(
        st.lists(st.sampled_from(PIECES.split()), min_size=1, max_size=12).map(" ".join),
        st.text(min_size=1, max_size=40),
    )
)
def test_any_text_becomes_wishes_that_can_be_granted(words, films, text):
    try:
        wishes = words(text)
    except macrid.RequestError:
        assert not text.strip()
        return
    assert wishes == words(text)
    assert (films.items.positions(wishes.history) >= 0).all()
    if wishes.where is not None:
        Selector(films)(wishes.where)
    for move in wishes.moves:
        directions_towards(space_of(films), move.towards, move.concept)
        assert move == Move.read(move.as_json())


def test_the_shop_has_words_for_its_concepts_columns_and_ends(trained):
    model = trained[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "meaning", None)
        macrid.understand(model)
        words, space = Words(model), space_of(model)
        names = [entry.name for entry in space.meaning.names.concepts]
        bags = names.index("bags")
        assert words("more bags").moves == (Move(concept=bags, share=0.5),)
        assert words("fewer bags").moves == (Move(concept=bags, share=0.1),)
        priced = next(each.concept for each in directions_towards(space, "price") if names[each.concept] is not None)
        assert towards(words(f"cheaper {names[priced]}")) == {("price", priced): -0.6}
        assert towards(words("bigger, cheaper")) == {("size", None): 0.6, ("price", None): -0.6}
        assert towards(words("bolder")) == {("boldness", None): 0.6}
        assert words("no blue, under 30 euros").where == "(colour != 'blue' or colour is missing) and price < 30"
        end = next(entry for entry in space.meaning.dimensions if entry.attribute == "price" and entry.high)
        (move, *_) = words(end.high.split(", ")[0]).moves
        assert (move.concept, move.dimension) == (end.concept, end.dimension)
        assert move.by > 0
        macrid.steer(model, model.items[:3], moves=words(f"cheaper {names[priced]}, more bags").moves)


def test_a_model_without_concepts_has_conditions_and_titles_but_no_moves(trained):
    model = macrid.Popularity().fit(trained[1].train)
    wishes = Words(model)("no blue, cheaper")
    assert wishes.where == "colour != 'blue' or colour is missing"
    assert wishes.moves == ()
    assert "no concepts" in wishes.not_understood[0].why


def test_years_that_are_dates_are_compared_as_dates():
    model = macrid.Popularity()
    model.items, model.popularity = Ids(["a", "b"]), np.array([1, 1])
    model.table = pa.table({"title": ["A", "B"], "released": [date(1985, 5, 1), date(1995, 5, 1)]})
    words, select = Words(model), Selector(model)
    for text, mask in {
        "from the 80s": [1, 0],
        "after 1990": [0, 1],
        "from 1995": [0, 1],
        "before 1986": [1, 0],
    }.items():
        assert select(words(text).where).mask.tolist() == mask, text


@pytest.mark.parametrize("name", ["my column", "in", 'a"b', "prix €", "9 lives", "Is"])
def test_conditions_quote_whatever_columns_and_values_are_called(name):
    model = macrid.Popularity()
    model.items, model.popularity = Ids(["a", "b", "c", "d"]), np.ones(4)
    model.table = pa.table({"title": ["A", "B", "C", "D"], name: ["it's", 'x"y', "it's", 'x"y']})
    words, select = Words(model), Selector(model)
    assert select(words("only it's").where).mask.tolist() == [True, False, True, False]
    assert select(words('no x"y').where).mask.tolist() == [True, False, True, False]


def test_items_without_titles_are_named_by_id():
    model = macrid.Popularity()
    model.items, model.popularity = Ids([7, 8]), np.array([1, 1])
    titles = Titles(model)
    assert titles.find("8").position == 1
    with pytest.raises(macrid.RequestError, match="no item is called 'Alien'"):
        titles.positions(["7", "Alien"])
