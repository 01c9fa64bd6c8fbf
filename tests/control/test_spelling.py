"""Words without case, accents and punctuation, and slips between them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from macrid.control.spelling import distances, singular, words_of


def slow_distance(a, b):
    """Optimal string alignment, by definition."""
    d = {(i, j): max(i, j) for i in range(len(a) + 1) for j in range(len(b) + 1) if not i * j}
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + (a[i - 1] != b[j - 1]))
            if i > 1 and j > 1 and a[i - 1] == b[j - 2] and a[i - 2] == b[j - 1]:
                d[i, j] = min(d[i, j], d[i - 2, j - 2] + 1)
    return d[len(a), len(b)]


def slow_prefix_distance(a, b):
    return min(slow_distance(a, b[:end]) for end in range(len(b) + 1))


@given(st.text("abc", min_size=1, max_size=9), st.lists(st.text("abc", max_size=12), max_size=8), st.integers(1, 3))
def test_distances_match_the_definition(word, others, most):
    whole, prefix = distances(word, others, most)
    nearest = [slow_prefix_distance(word, other) for other in others]
    assert np.minimum(whole, most + 1).tolist() == [min(slow_distance(word, other), most + 1) for other in others]
    assert np.minimum(prefix, most + 1).tolist() == [min(edits, most + 1) for edits in nearest]


def test_distances_of_long_texts_do_not_overflow():
    text = "ab" * 300
    assert distances(text, [text[1:], "x" * 600], 2)[0].tolist() == [1, 600]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Crème BRÛLÉE", ["creme", "brulee"]),
        ("Straße", ["strasse"]),
        ("Søren Kierkegård", ["soren", "kierkegard"]),
        ("Łódź Đakovo", ["lodz", "dakovo"]),
        ("Æon Œuvre Þór", ["aeon", "oeuvre", "thor"]),
        ("Bug's Life, A", ["bugs", "life", "a"]),
        ("rock ’n’ roll", ["rock", "n", "roll"]),
        ("Sci-Fi", ["sci", "fi"]),
        ("Ёлки", ["елки"]),
        ("Ζορμπάς", ["ζορμπασ"]),
        ("七人の侍", ["七", "人", "の", "侍"]),
        ("がか", ["が", "か"]),
        ("ﾄﾄﾛ", ["ト", "ト", "ロ"]),
        ("مُحَمَّد", ["محمد"]),
        ("مـــدرسة", ["مدرسه"]),
        ("שָׁלוֹם", ["שלום"]),
        ("한국 영화", ["한국", "영화"]),
        ("👜 bag", ["👜", "bag"]),
        ("!!!", ["!!!"]),
        ("\x00\ud800 a\u200bb", ["ab"]),
        ("Alien³", ["alien3"]),
        ("20,000 Leagues, 1,5", ["20000", "leagues", "1", "5"]),
        ("", []),
    ],
)
def test_words_are_folded(text, words):
    assert words_of(text) == words


@given(st.text(max_size=30))
def test_words_are_their_own_words(text):
    words = words_of(text)
    assert all(words_of(word) == [word] for word in words if len(word) < 60), words
    assert not text.strip() or words or not text.casefold().split()


@pytest.mark.parametrize(
    ("plural", "word"), [("comedies", "comedy"), ("bags", "bag"), ("dresses", "dress"), ("glass", "glass")]
)
def test_plurals_have_singulars(plural, word):
    assert singular(plural) == word
