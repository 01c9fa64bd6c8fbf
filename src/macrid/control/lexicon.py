"""Words and who has them: whole words, those with a prefix, and those a slip or two away.

Words are sorted, so that the owners of all words with one prefix are contiguous. Slips are looked for among words with
about the same letters: the letters of a word, and of its beginnings, are kept as bits.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

from macrid.control.spelling import aligned, codes_of


@dataclass(frozen=True)
class Lists:
    """Several lists of positions in one array."""

    starts: np.ndarray
    """(lists + 1,) where each starts in `members`."""
    members: np.ndarray

    @classmethod
    def of(cls, keys: np.ndarray, members: np.ndarray, count: int) -> Lists:
        """The members by their keys, 0 … count − 1."""
        starts = np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=count))])
        return cls(starts, members[np.argsort(keys, kind="stable")])

    def __getitem__(self, place: int) -> np.ndarray:
        return self.members[self.starts[place] : self.starts[place + 1]]

    def between(self, start: int, end: int) -> np.ndarray:
        """The members of consecutive lists."""
        return self.members[self.starts[start] : self.starts[end]]

    def sizes(self, places: np.ndarray) -> np.ndarray:
        return self.starts[places + 1] - self.starts[places]

    def joined(self, places: np.ndarray) -> np.ndarray:
        """The members of some lists, one list after the other."""
        sizes = self.sizes(places)
        ends = np.cumsum(sizes)
        return self.members[
            np.arange(ends[-1] if len(ends) else 0) + np.repeat(self.starts[places] - ends + sizes, sizes)
        ]


class Lexicon:
    """Words, sorted, and their owners."""

    def __init__(
        self, texts: Iterable[Iterable[str]], heads: Sequence[int] = (), weigh: Callable[[str], int] = len
    ) -> None:
        """texts: the words of each owner. heads: lengths of beginnings of words whose letters are kept."""
        number: defaultdict[str, int] = defaultdict(count().__next__)
        sizes: list[int] = []
        tokens: list[int] = []
        for words in texts:
            before = len(tokens)
            tokens.extend(map(number.__getitem__, words))
            sizes.append(len(tokens) - before)
        self.words = sorted(number)
        rank = np.empty(len(self.words), dtype=np.int32)
        rank[[number[word] for word in self.words]] = np.arange(len(self.words))
        owners = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        self.owners = Lists.of(rank[np.array(tokens, dtype=np.int64)], owners, len(self.words))
        self._codes, self.lengths = codes_of(self.words)
        self.weights = np.array(list(map(weigh, self.words)), dtype=np.int32)
        self._starts = np.cumsum(self.lengths) - self.lengths
        self._letters, self._heads = self._bits(heads)

    def place(self, word: str) -> int | None:
        place = bisect_left(self.words, word)
        return place if place < len(self.words) and self.words[place] == word else None

    def starting(self, prefix: str) -> tuple[int, int]:
        """First and last place, exclusively, of the words that start like this."""
        start = bisect_left(self.words, prefix)
        return start, bisect_right(self.words, prefix, start, key=lambda word: word[: len(prefix)])

    def near(self, word: str, most: int, prefixes: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Places of words at most so many slips away, and the distances to them and to the nearest of their prefixes.

        prefixes: also words of which only a prefix is near.
        """
        bits, short, long = _bits(codes_of([word])[0]), len(word) - most, len(word) + most
        close = self.lengths >= short
        if not prefixes:
            close &= self.lengths <= long
            close &= _are_few(self._letters & ~_union(bits), most) & _are_few(_union(bits) & ~self._letters, most)
        if head := max((length for length in self._heads if length <= short), default=0):
            close &= _are_few(self._heads[head] & ~_union(bits[: head + most]), most)
        if (head := max((length for length in self._heads if length <= long), default=0)) > most:
            close &= _are_few(_union(bits[: head - most]) & ~self._heads[head], most)
        places = np.flatnonzero(close)
        whole, prefix = aligned(word, self._codes, self._starts[places], self.lengths[places], most)
        near = (prefix if prefixes else whole) <= most
        return places[near], whole[near], prefix[near]

    def _bits(self, heads: Sequence[int]) -> tuple[np.ndarray, dict[int, np.ndarray]]:
        """(words,) the letters of each word, and those of the beginnings of each word."""
        bits = _bits(self._codes)
        letters = np.bitwise_or.reduceat(bits, self._starts) if len(bits) else np.zeros(0, dtype=np.uint64)
        seen, kept = np.zeros(len(self.words), dtype=np.uint64), dict[int, np.ndarray]()
        for place in range(max(heads, default=0)):
            has = self.lengths > place
            seen[has] |= bits[self._starts[has] + place]
            if place + 1 in heads:
                kept[place + 1] = seen.copy()
        return letters, kept


def _bits(codes: np.ndarray) -> np.ndarray:
    """Letters as bits; some share one."""
    return np.left_shift(np.uint64(1), (codes % 61).astype(np.uint64))


def _union(bits: np.ndarray) -> np.uint64:
    return np.bitwise_or.reduce(bits)


def _are_few(letters: np.ndarray, most: int) -> np.ndarray:
    """Letters that one word has and the other lacks: each slip explains one."""
    return np.bitwise_count(letters) <= most
