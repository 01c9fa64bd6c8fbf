"""Search by title, attributes and id, with slips, joined and split words."""

import random
import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from macrid.control.search import Search
from macrid.control.spelling import words_of
from macrid.data.ids import Ids

TITLES = [
    "Large red leather handbag",
    "Small leather bag",
    "Bag",
    "Bagpipe lessons",
    "Crème brûlée set",
    "日本語の本",
    "Straße & Co.: “Größe”",
    "👜 emoji bag",
    "<script>alert('handbag')</script>",
    "مرحبا بالعالم",
    "x" * 10_000 + " end",
    "\x00\x1b[31mred\u202e gnirts",
    None,
    "!!!",
    "हिन्दी किताब",
    "Броненосец «Потёмкин»",
    "Ζορμπάς ο Έλληνας",
    "שלום, עולם",
    "となりのトトロ",
    "ภาพยนตร์ไทย",
    "Øresund og Ærø",
]
IDS = [f"item-{place:02}" for place in range(len(TITLES))]
FILMS = {
    1: ("Star Wars: Episode IV - A New Hope (1977)", "Action|Sci-Fi"),
    2: ("Matrix, The (1999)", "Action|Sci-Fi|Thriller"),
    3: ("2001: A Space Odyssey (1968)", "Drama|Sci-Fi"),
    4: ("American Beauty (1999)", "Comedy|Drama"),
    5: ("Godfather, The (1972)", "Crime|Drama"),
    6: ("Godfather: Part II, The (1974)", "Crime|Drama"),
    7: ("Professional, The (a.k.a. Leon: The Professional) (1994)", "Crime|Romance|Thriller"),
    8: ("Fabuleux destin d'Amélie Poulain, Le (2001)", "Comedy|Romance"),
    9: ("Heat (1995)", "Crime|Thriller"),
    10: ("Heat, The (2013)", "Comedy|Crime"),
    11: ("Teh Tarik (2003)", "Drama"),
    12: ("Godzilla (1954)", "Action|Sci-Fi"),
    13: ("Godzilla (1998)", "Action|Sci-Fi"),
    14: ("Wester Ross (1986)", "Documentary"),
    15: ("High Noon (1952)", "Western"),
    16: ("$1,000,000 Duck (1971)", "Children's"),
    17: ("Niagara (1953)", "Drama"),
    18: ("Niagara, Niagara (1997)", "Drama"),
    19: ("Escape from L.A. (1996)", "Action"),
    21: ("Fahrenheit 9/11 (2004)", "Documentary"),
    20: ("6th Day, The (2000)", "Action"),
    1999: ("E.T. the Extra-Terrestrial (1982)", "Children's|Sci-Fi"),
    911: ("Charade (1963)", "Comedy"),
    2001: ("Lethal Weapon 2 (1989)", "Action|Comedy"),
}


@pytest.fixture(scope="module")
def search():
    return Search(Ids(IDS), TITLES, np.arange(len(TITLES)))


@pytest.fixture(scope="module")
def films():
    titles, genres = map(list, zip(*FILMS.values(), strict=True))
    years = [int(title[-5:-1]) for title in titles]
    return Search(Ids(list(FILMS)), titles, -np.arange(len(titles)), pa.table({"genres": genres, "year": years}))


def find(search, query, **options):
    positions, total = search.find(query, **{"limit": 100, **options})
    assert len(positions) == total
    return positions.tolist()


def found(films, query):
    return [list(FILMS)[at] for at in find(films, query)]


def test_an_empty_query_finds_all_items_most_popular_first(search):
    assert find(search, "  ") == list(range(len(TITLES)))[::-1]
    assert find(search, "", among=np.arange(len(TITLES)) < 3) == [2, 1, 0]


def test_exact_titles_rank_before_whole_words_before_prefixes_and_then_by_popularity(search):
    assert find(search, "bag") == [2, 7, 1, 3]
    assert find(search, "ba") == [7, 3, 2, 1]
    assert find(search, "leather bag")[0] == 1
    assert find(search, "bag leat")[0] == 1


@pytest.mark.parametrize(
    ("query", "position"),
    [
        ("creme BRULEE", 4),
        ("crème", 4),
        ("日本", 5),
        ("本語", 5),
        ("strasse", 6),
        ("grosse co", 6),
        ("👜", 7),
        ("<script>", 8),
        ("بالعالم", 9),
        ("العالم", 9),  # a part of a word
        ("مرحباً", 9),
        ("end " + "x" * 10_000, 10),
        ("gnirts", 11),
        ("item-12", 12),
        ("ITEM-12", 12),
        ("!!!", 13),
        ("किताब", 14),
        ("потемкин", 15),
        ("Бронеосец", 15),
        ("ζορμπας", 16),
        ("ΈΛΛΗΝΑΣ", 16),
        ("עולם", 17),
        ("トトロ", 18),
        ("とな", 18),
        ("ไทย", 19),
        ("oresund", 20),
        ("aero", 20),
        ("ærø", 20),
    ],
)
def test_titles_in_any_script_are_found(search, query, position):
    assert find(search, query)[:1] == [position]


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("2001", [3, 8, 2001]),  # the title, then the year, then the id
        ("1999", [2, 4, 1999]),
        ("matrix", [2]),
        ("the matrix", [2]),
        ("Matrix, The (1999)", [2]),
        ("teh matrix", [2]),
        ("matrix teh", [2]),
        ("teh", [11]),
        ("matrix 1999", [2]),
        ("starwars", [1]),
        ("star wras", [1]),
        ("starwrs", [1]),
        ("sta rwars", [1]),
        ("starwars hope", [1]),
        ("space odysey2001", [3]),
        ("god father", [5, 6]),
        ("god zila", [12, 13]),
        ("godzilla 1998", [13]),
        ("godfather", [5, 6]),
        ("godfather 2", [6]),
        ("the godfater part ii", [6]),
        ("leon", [7]),
        ("léon", [7]),
        ("amelie", [8]),
        ("Amélie", [8]),
        ("heat", [9, 10]),
        ("the heat", [10]),
        ("haet", [9, 10]),
        ("atrix", [2]),
        ("mattrix", [2]),
        ("metrix", [2]),
        ("et", [1999]),
        ("1000000 duck", [16]),
        ("niagra", [17, 18]),
        ("niagra niagara", [18]),
        ("escape from la", [19]),
        ("the6th day", [20]),
        ("the haet", [10]),
        ("sci-fi", [1, 2, 3, 12, 13, 1999]),
        ("scifi 1968", [3]),
        ("sci-fi 1999", [2]),
        ("comedies 1999", [4]),
        ("thriler", [2, 7, 9]),
        ("western", [15, 14]),  # an attribute rather than a title with a slip
        ("childrens", [16, 1999]),
    ],
)
def test_films_are_found(films, query, ids):
    assert found(films, query)[: len(ids)] == ids


def test_ids_come_last_and_first_if_nothing_else_matches(films):
    assert found(films, "2001")[-1] == 2001
    assert found(films, "1999")[-1] == 1999
    assert found(films, "911") == [21, 911]
    assert found(films, "15") == [15]
    assert found(films, "199") == [1999]
    assert found(films, "200") == [3]  # the title starts like this, so ids that do are left out


def test_leather_bags_are_found_with_swapped_letters(search):
    assert find(search, "leather bga") == [1]


@pytest.mark.parametrize(
    ("query", "matched"),
    [
        ("sci-fi 1999", {2: ("Sci-Fi", "1999")}),
        ("matrix", {2: ()}),
        ("matrix thriller", {2: ("Thriller",)}),
        ("2001", {3: (), 8: ("2001",), 2001: ("id 2001",)}),
        ("westren", {15: ("Western",)}),
    ],
)
def test_the_attributes_that_matched_are_named(films, query, matched):
    hits = films.hits(query, limit=len(matched))
    assert {list(FILMS)[at]: values for at, values in zip(hits.positions, hits.matched, strict=True)} == matched


@pytest.mark.parametrize(
    "query", ["handbga", "handbg", "hamdbag", "handbagg", "lrage handbag", "leathe hadnba", "hxxdbag"]
)
def test_slips_are_tolerated(search, query):
    assert 0 in find(search, query)


def test_too_many_slips_and_slips_in_numbers_find_nothing(search):
    assert find(search, "hxxxbag") == []
    assert find(search, "bxx") == []
    numbers = Search(Ids(["a"]), ["12345678"], np.ones(1))
    assert find(numbers, "12345679") == []


def test_what_matches_as_it_is_comes_before_slips_and_many_such_items_leave_slips_out():
    assert find(Search(Ids(["a", "b"]), ["cast iron", "cost"], np.array([2, 1])), "cost") == [1, 0]
    assert find(Search(Ids(["a", "b"]), ["cast iron", "cost"], np.array([2, 1])), "cost iron") == [0]
    many = Search(Ids(range(21)), ["cast iron", *(f"cost {place}" for place in range(20))], np.ones(21))
    assert find(many, "cost") == list(range(1, 21))


def test_a_word_too_many_is_forgiven_if_nothing_matches_all_of_them(films):
    assert found(films, "matrix reloaded") == [2]
    assert found(films, "zzyzx flurb matrix") == []


def test_exact_ids_rank_before_id_prefixes():
    search = Search(Ids([1, 12, 123, 2]), None, np.array([0, 1, 5, 9]))
    assert find(search, "12") == [1, 2]
    assert find(search, "1") == [0, 2, 1]
    assert find(search, "12", among=np.array([True, False, True, True])) == [2]


def test_titles_are_named_by_all_of_their_words(films):
    names = list(FILMS)
    assert [names[at] for at in films.titled("godzila 1998", 5)] == [13]
    assert [names[at] for at in films.titled("godfather", 5)] == [5, 6]
    assert films.titled("matrix reloaded", 5) == []
    assert films.titled("crime", 5) == []
    assert films.titled("hxxt", 5) == []
    assert films.titled("2013", 5) == [names.index(10)]


def test_an_empty_catalogue_and_odd_queries_find_nothing():
    empty = Search(Ids([]), [], np.zeros(0))
    assert [find(empty, query) for query in ("", "bag", "handbag")] == [[], [], []]
    search = Search(Ids(["a"]), [None], np.ones(1))
    assert [find(search, query) for query in ("\x00", "\ud800", "\u200b", "…", "word", "q" * 10_000)] == [[]] * 6


LETTERS = st.sampled_from("abcdeéßñİ日かが언😀ا हि-.'_ \u200d\u0301")
TITLE = st.text(LETTERS, max_size=20) | st.text(max_size=12)
CATALOGUE = st.lists(TITLE | st.none(), min_size=1, max_size=10)


@given(CATALOGUE, st.text(max_size=250) | st.text(LETTERS, max_size=40))
def test_any_query_of_any_catalogue_is_answered(titles, query):
    search = Search(Ids(range(len(titles))), titles, np.zeros(len(titles)), pa.table({"tag": titles}))
    positions = find(search, query)
    assert len(set(positions)) == len(positions)
    assert len(search.titled(query, 5)) <= 5


@given(CATALOGUE, st.data())
def test_a_title_finds_its_item_first_and_some_of_its_words_find_it(titles, data):
    search = Search(Ids([f"#{place}" for place in range(len(titles))]), titles, np.zeros(len(titles)))
    place = data.draw(st.integers(0, len(titles) - 1))
    words = words_of(titles[place] or "")
    assume(words)
    first = find(search, titles[place])[0]
    assert words_of(titles[first]) == words
    some = data.draw(st.lists(st.sampled_from(words), min_size=1, max_size=3))
    assert place in find(search, " ".join(some))


@given(st.lists(st.text("abcd ", max_size=8), max_size=30), st.text("abcd ", max_size=4), st.integers(1, 7))
def test_pages_join_to_the_whole_result(titles, query, limit):
    search = Search(Ids([f"#{place}" for place in range(len(titles))]), titles, np.arange(len(titles)) % 4)
    whole = find(search, query)
    pages = [search.find(query, limit=limit, offset=start) for start in range(0, len(titles) + 1, limit)]
    assert {total for _, total in pages} == {len(whole)}
    assert [position for page, _ in pages for position in page.tolist()] == whole


def misspelt(word, data):
    """With one slip."""
    place = data.draw(st.integers(0, len(word) - 1))
    letter = data.draw(st.sampled_from("xyz"))
    slips = [
        word[:place] + letter + word[place + 1 :],
        word[:place] + letter + word[place:],
        word[:place] + word[place + 1 :],
        word[:place] + word[place : place + 2][::-1] + word[place + 2 :],
    ]
    return data.draw(st.sampled_from(slips))


@given(st.text("abcde", min_size=4, max_size=12), st.data())
def test_one_slip_finds_the_word(word, data):
    typed = misspelt(word, data)
    assert find(Search(Ids(["id"]), [f"some {word} of"], np.ones(1)), typed) == [0]


@given(
    st.lists(st.lists(st.text("abcdefgh", min_size=5, max_size=9), min_size=1, max_size=4), min_size=1, max_size=8),
    st.data(),
)
def test_a_slip_in_a_long_word_still_finds_the_title(titles, data):
    search = Search(
        Ids([f"#{place}" for place in range(len(titles))]), list(map(" ".join, titles)), np.zeros(len(titles))
    )
    place = data.draw(st.integers(0, len(titles) - 1))
    at = data.draw(st.integers(0, len(titles[place]) - 1))
    words = list(titles[place])
    words[at] = misspelt(words[at], data)
    assert place in find(search, " ".join(words))


@pytest.mark.alone
def test_search_takes_milliseconds_at_50_000_items():
    dice = random.Random(0)
    syllables = [first + vowel for first in "bcdfghjklmnprstvz" for vowel in "aeiou"]
    words = ["".join(dice.choices(syllables, k=dice.randrange(2, 5))) for _ in range(20_000)]
    titles = [" ".join(dice.choices(words, k=dice.randrange(1, 6))) for _ in range(50_000)]
    table = pa.table(
        {"tag": dice.choices(words[:100], k=len(titles)), "year": dice.choices(range(1950, 2020), k=len(titles))}
    )
    search = Search(Ids(range(len(titles))), titles, np.ones(len(titles)), table)
    search.find("a", limit=1)
    taken = []
    for title in dice.sample(titles, 100):
        place = dice.randrange(len(title))
        start = time.thread_time()
        search.find(title[:place] + title[place + 1 :], limit=12)
        taken.append(time.thread_time() - start)
    assert np.quantile(taken, 0.95) < 0.02
