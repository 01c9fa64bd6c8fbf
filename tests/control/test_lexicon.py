"""Words and their owners, against loops over all words."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from macrid.control.lexicon import Lexicon, Lists
from tests.control.test_spelling import slow_distance, slow_prefix_distance

WORDS = st.text("abcé日", min_size=1, max_size=20) | st.text("ab", min_size=1, max_size=5)
TEXTS = st.lists(st.lists(WORDS, max_size=4), max_size=8)


@given(TEXTS, WORDS)
def test_words_have_their_owners(texts, word):
    lexicon = Lexicon(texts)
    start, end = lexicon.starting(word)
    assert lexicon.words == sorted({word for text in texts for word in text})
    assert lexicon.words[start:end] == [other for other in lexicon.words if other.startswith(word)]
    place = lexicon.place(word)
    assert (place is None) == (word not in lexicon.words)
    if place is not None:
        assert lexicon.owners[place].tolist() == [
            at for at, text in enumerate(texts) for other in text if other == word
        ]


@given(TEXTS, st.text("abcé日", min_size=3, max_size=20), st.integers(1, 2), st.sampled_from([(), (4,), range(1, 12)]))
def test_near_words_are_all_found(texts, word, most, heads):
    lexicon = Lexicon(texts, heads)
    whole = {other: slow_distance(word, other) for other in lexicon.words}
    prefix = {other: slow_prefix_distance(word, other) for other in lexicon.words}
    places, edits, of_prefixes = lexicon.near(word, most, prefixes=False)
    near = {lexicon.words[place]: distance for place, distance in zip(places, edits.tolist(), strict=True)}
    assert near == {other: distance for other, distance in whole.items() if distance <= most}
    assert of_prefixes.tolist() == [prefix[other] for other in near]
    places, edits, of_prefixes = lexicon.near(word, most, prefixes=True)
    near = {lexicon.words[place]: distance for place, distance in zip(places, of_prefixes.tolist(), strict=True)}
    assert near == {other: distance for other, distance in prefix.items() if distance <= most}
    assert np.minimum(edits, most + 1).tolist() == [min(whole[other], most + 1) for other in near]


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=6), st.data())
def test_lists_are_joined_in_any_order(lists, data):
    keys = np.repeat(np.arange(len(lists)), [len(entry) for entry in lists]).astype(np.int64)
    stored = Lists.of(keys, np.array([member for entry in lists for member in entry], dtype=np.int64), len(lists))
    places = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=5)) if lists else []
    expected = [member for place in places for member in lists[place]]
    assert stored.joined(np.array(places, dtype=np.int64)).tolist() == expected
    assert stored.sizes(np.array(places, dtype=np.int64)).tolist() == [len(lists[place]) for place in places]
