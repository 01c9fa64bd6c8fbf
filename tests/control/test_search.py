"""Search by words, prefixes, ids and typos."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from macrid.control.search import Search
from macrid.control.spelling import distances, typos_allowed, words_of
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
]
IDS = [f"item-{place:02}" for place in range(len(TITLES))]


@pytest.fixture(scope="module")
def search():
    return Search(Ids(IDS), TITLES, np.arange(len(TITLES)))


def find(search, query, **options):
    positions, total = search.find(query, **{"limit": 100, **options})
    assert len(positions) == total
    return positions.tolist()


def test_an_empty_query_finds_all_items_most_popular_first(search):
    assert find(search, "  ") == list(range(len(TITLES)))[::-1]
    assert find(search, "", among=np.arange(len(TITLES)) < 3) == [2, 1, 0]


def test_exact_titles_rank_before_whole_words_before_prefixes_and_then_by_popularity(search):
    assert find(search, "bag") == [2, 7, 1, 3]
    assert find(search, "ba") == [7, 3, 2, 1]
    assert find(search, "leather bag") == [1]
    assert find(search, "bag leat") == [1]


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
        ("end " + "x" * 10_000, 10),
        ("gnirts", 11),
        ("item-12", 12),
        ("ITEM-12", 12),
        ("!!!", 13),
        ("किताब", 14),
    ],
)
def test_titles_in_any_script_are_found(search, query, position):
    assert find(search, query)[:1] == [position]


@pytest.mark.parametrize("query", ["handbga", "handbg", "hamdbag", "handbagg", "lrage handbag", "leathe hadnba"])
def test_typos_are_tolerated(search, query):
    assert 0 in find(search, query)


def test_too_many_typos_and_typos_in_short_words_or_numbers_find_nothing(search):
    assert find(search, "hxxdbag") == []
    assert find(search, "bxg") == []
    numbers = Search(Ids(["a"]), ["12345678"], np.ones(1))
    assert find(numbers, "12345679") == []


def test_typos_are_tolerated_only_if_nothing_else_matches(search):
    assert find(Search(Ids(["a", "b"]), ["cast iron", "cost"], np.ones(2)), "cost") == [1]
    assert find(Search(Ids(["a", "b"]), ["cast iron", "cost"], np.ones(2)), "cost iron") == [0]


def test_exact_ids_rank_before_id_prefixes():
    search = Search(Ids([1, 12, 123, 2]), None, np.array([0, 1, 5, 9]))
    assert find(search, "12") == [1, 2]
    assert find(search, "1") == [0, 2, 1]
    assert find(search, "12", among=np.array([True, False, True, True])) == [2]


def test_an_empty_catalogue_and_odd_queries_find_nothing():
    empty = Search(Ids([]), [], np.zeros(0))
    assert [find(empty, query) for query in ("", "bag", "handbag")] == [[], [], []]
    search = Search(Ids(["a"]), [None], np.ones(1))
    assert [find(search, query) for query in ("\x00", "\ud800", "\u200b", "…", "word", "q" * 10_000)] == [[]] * 6


LETTERS = st.sampled_from("abcdeéßñİ日かが언😀ا हि-.'_ \u200d\u0301")
TITLE = st.text(LETTERS, max_size=20) | st.text(max_size=12)


@given(st.lists(TITLE | st.none(), min_size=1, max_size=12), st.data())
def test_words_of_a_title_find_it_and_the_last_may_be_a_prefix(titles, data):
    search = Search(Ids(range(len(titles))), titles, np.zeros(len(titles)))
    place = data.draw(st.integers(0, len(titles) - 1))
    words = words_of(titles[place] or "")
    assume(words)
    assert place in find(search, titles[place])
    some = data.draw(st.lists(st.sampled_from(words), min_size=1, max_size=3))
    some[-1] = some[-1][: data.draw(st.integers(1, len(some[-1])))]
    assert place in find(search, " ".join(some))


@given(st.lists(st.text("abcd ", max_size=8), max_size=30), st.text("abcd ", max_size=4), st.integers(1, 7))
def test_pages_join_to_the_result_of_a_naive_search(titles, query, limit):
    popularity = np.arange(len(titles)) % 4
    search = Search(Ids([f"#{place}" for place in range(len(titles))]), titles, popularity)
    whole = find(search, query)
    pages = [search.find(query, limit=limit, offset=start) for start in range(0, len(titles) + 1, limit)]
    assert {total for _, total in pages} == {len(whole)}
    assert [position for page, _ in pages for position in page.tolist()] == whole
    assume(not any(map(typos_allowed, query.split())))

    def tier(title):
        words = title.split()
        if not all(any(word.startswith(typed) for word in words) for typed in query.split()):
            return None
        if not query.split() or words == query.split():
            return 0
        return 1 if set(query.split()) <= set(words) else 2

    fitting = [place for place, title in enumerate(titles) if tier(title) is not None]
    assert whole == sorted(fitting, key=lambda place: (tier(titles[place]), -popularity[place], place))


@given(st.text("abcde", min_size=4, max_size=12), st.data())
def test_one_typo_finds_the_word(word, data):
    place = data.draw(st.integers(0, len(word) - 1))
    letter = data.draw(st.sampled_from("xyz"))
    typed = data.draw(
        st.sampled_from(
            [
                word[:place] + letter + word[place + 1 :],
                word[:place] + letter + word[place:],
                word[:place] + word[place + 1 :],
                word[:place] + word[place : place + 2][::-1] + word[place + 2 :],
            ]
        )
    )
    assume(len(typed) >= 4)
    assert find(Search(Ids(["id"]), [f"some {word} of"], np.ones(1)), typed) == [0]


def slow_distance(a, b):
    """Optimal string alignment, by definition."""
    d = {(i, j): max(i, j) for i in range(len(a) + 1) for j in range(len(b) + 1) if not i * j}
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + (a[i - 1] != b[j - 1]))
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                d[i, j] = min(d[i, j], d[i - 2, j - 2] + 1)
    return d[len(a), len(b)]


@given(st.text("abc", min_size=1, max_size=9), st.lists(st.text("abc", max_size=12), max_size=8), st.integers(1, 2))
def test_distances_match_the_definition(word, others, most):
    whole, prefix = distances(word, others, most)
    nearest = [min(slow_distance(word, other[:end]) for end in range(len(other) + 1)) for other in others]
    assert np.minimum(whole, most + 1).tolist() == [min(slow_distance(word, other), most + 1) for other in others]
    assert np.minimum(prefix, most + 1).tolist() == [min(edits, most + 1) for edits in nearest]
