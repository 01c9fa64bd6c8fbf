"""Items by what is typed: words of titles, beginnings of words, ids, and words with a typo.

Titles are folded: case, accents and punctuation do not count. Han and kana, which have no spaces, are searched letter
by letter, and so are emoji. Words are kept sorted, so that all words with one beginning have their items in one piece.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from macrid.data.ids import Ids

MOST_LETTERS = 200  # of a query
LONGEST = 64  # letters of a word; what follows does not count
NONE = 255  # the cost of a word that an item does not have
WHOLE, BEGINNING = 0, 1  # costs; a typo adds 2


class Search:
    """Finds items by title or id; the index is built when it is first needed."""

    def __init__(self, ids: Ids, titles: Sequence[str | None] | None, popularity: np.ndarray) -> None:
        self._ids, self._titles = ids, titles
        self._order = np.argsort(-np.asarray(popularity, dtype=np.float64), kind="stable")
        self._rank = np.empty(len(ids), dtype=np.int64)
        self._rank[self._order] = np.arange(len(ids))
        self._lock = Lock()

    def find(
        self, query: str, *, limit: int, offset: int = 0, among: np.ndarray | None = None
    ) -> tuple[np.ndarray, int]:
        """Positions of one page of the items found, the best first, and how many were found in all.

        Every word has to be in the title, as a whole or as the beginning of a word; if no item has them all, words with
        a typo count, too. The exact title or id comes first, then whole words, beginnings, typos; among equals the most
        popular. An empty query finds all items.
        among: a mask over items, True where an item may be found.
        """
        query = query[:MOST_LETTERS].strip()
        if not query:
            found = self._order if among is None else self._order[among[self._order]]
            return found[offset : offset + limit], len(found)
        tier = self._tiers(query, among)
        found = np.flatnonzero(tier != NONE)
        key = tier[found].astype(np.int64) * len(tier) + self._rank[found]
        last = offset + limit
        if last < len(found):
            best = np.argpartition(key, last)[:last]
            found, key, total = found[best], key[best], len(found)
        else:
            total = len(found)
        return found[np.argsort(key)[offset:last]], total

    def _tiers(self, query: str, among: np.ndarray | None) -> np.ndarray:
        """How well each item fits, 0 for an exact title or id, more for worse, NONE for not at all: (items,)"""
        allowed = np.zeros(len(self._ids), dtype=np.uint8)
        if among is not None:
            allowed[~among] = NONE
        words = _words(query)
        found = self._tiers_of(words, allowed, "none")
        found[(found == WHOLE + 1) & (self._index.titles == hash(" ".join(words)))] = 0
        found = np.maximum(np.minimum(found, self._sorted_ids.tiers(query)), allowed)
        for typos in ("unknown", "all"):
            if found.min(initial=NONE) == NONE:
                found = self._tiers_of(words, allowed, typos)
        return found

    def _tiers_of(self, words: Sequence[str], allowed: np.ndarray, typos: str) -> np.ndarray:
        """By the word that an item has least of."""
        worst = allowed
        for word in dict.fromkeys(words):
            worst = np.maximum(worst, self._index.costs(word, typos))
            if worst.min(initial=NONE) == NONE:
                break
        return np.where(worst == NONE, NONE, worst + 1)

    @property
    def _index(self) -> _Index:
        with self._lock:  # one thread builds it, others wait
            return self._built

    @cached_property
    def _built(self) -> _Index:
        titles = self._titles if self._titles is not None else [None] * len(self._ids)
        return _build(titles)

    @cached_property
    def _sorted_ids(self) -> _SortedIds:
        lower = pc.utf8_lower(self._ids.array.cast(pa.string()))
        order = pc.sort_indices(lower)
        return _SortedIds(lower.take(order), order.to_numpy().astype(np.int64))


@dataclass(frozen=True)
class _SortedIds:
    """Ids in lower case, in their order."""

    ids: pa.Array
    positions: np.ndarray

    def tiers(self, query: str) -> np.ndarray:
        """0 for the id that is the query, more for those that begin with it: (items,) of uint8."""
        query = pc.utf8_lower(pa.scalar(query.encode("utf-8", "replace").decode())).as_py()
        places = range(len(self.ids))
        start = bisect_left(places, query, key=self._id)
        end = bisect_right(places, query, start, key=lambda place: self._id(place)[: len(query)])
        found = np.full(len(places), NONE, dtype=np.uint8)
        found[self.positions[start:end]] = BEGINNING + 1
        found[self.positions[start : bisect_right(places, query, start, end, key=self._id)]] = 0
        return found

    def _id(self, place: int) -> str:
        return self.ids[place].as_py()


@dataclass(frozen=True)
class _Index:
    """Which items have which words."""

    words: list[str]
    """In their order."""
    starts: np.ndarray
    """(words + 1,) where the items of each word begin in `items`."""
    items: np.ndarray
    titles: np.ndarray
    """(items,) a hash of each title's words."""
    letters: np.ndarray
    """(words,) which letters a word has, as bits."""

    def costs(self, word: str, typos: str) -> np.ndarray:
        """How well each item has the word, or words near it: (items,) of uint8.

        typos: "none", or in "unknown" words, or in "all".
        """
        cost = np.full(len(self.titles), NONE, dtype=np.uint8)
        start = bisect_left(self.words, word)
        end = bisect_right(self.words, word, start, key=lambda other: other[: len(word)])
        if typos == "all" or (typos == "unknown" and start == end):
            near, costs = self._near(word)
            for place in np.argsort(-costs, kind="stable"):
                cost[self._items(near[place], near[place] + 1)] = costs[place]
        cost[self._items(start, end)] = BEGINNING
        if start < end and self.words[start] == word:
            cost[self._items(start, start + 1)] = WHOLE
        return cost

    def _items(self, start: int, end: int) -> np.ndarray:
        """Of the words from one place to another."""
        return self.items[self.starts[start] : self.starts[end]]

    def _near(self, word: str) -> tuple[np.ndarray, np.ndarray]:
        """Places of words that a typo or two may have turned into this one, or that begin with such a word; costs."""
        most = typos_allowed(word)
        if most == 0:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        lacking = np.bitwise_count(_letters([word])[0] & ~self.letters)  # every edit mends one of them at most
        places = np.flatnonzero(lacking <= most)
        whole, beginning = _distances(word, [self.words[place] for place in places], most)
        cost = np.minimum(2 * whole, 2 * beginning + 1 if len(word) > 4 else NONE)
        near = cost <= 2 * most + 1
        return places[near], cost[near]


def typos_allowed(word: str) -> int:
    """How many letters of a word may be wrong: one from 4 letters, two from 8, none in numbers."""
    return 0 if word.isdecimal() else (len(word) >= 4) + (len(word) >= 8)


def _build(titles: Iterable[str | None]) -> _Index:
    number: defaultdict[str, int] = defaultdict(count().__next__)
    lengths: list[int] = []
    tokens: list[int] = []
    hashes: list[int] = []
    for title in titles:
        words = [] if title is None else _words(str(title))
        hashes.append(hash(" ".join(words)))
        lengths.append(len(words))
        tokens.extend(map(number.__getitem__, words))
    words = sorted(number)
    rank = np.empty(len(words), dtype=np.int32)
    rank[[number[word] for word in words]] = np.arange(len(words))
    token = rank[np.array(tokens, dtype=np.int64)]
    items = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
    starts = np.concatenate([[0], np.cumsum(np.bincount(token, minlength=len(words)))])
    return _Index(words, starts, items[np.argsort(token, kind="stable")], np.array(hashes, np.int64), _letters(words))


class _Folding(dict[int, str]):
    """What becomes of each letter; worked out as letters come up."""

    def __missing__(self, code: int) -> str:
        self[code] = found = _folded(chr(code))
        return found


def _folded(letter: str) -> str:
    """Accents and what cannot be seen go, punctuation separates, Han, kana and symbols are words by themselves."""
    kind = unicodedata.category(letter)
    if unicodedata.combining(letter) >= 10 or kind in ("Cf", "Me") or "\ufe00" <= letter <= "\ufe0f":
        return ""
    if kind == "So" or (kind == "Lo" and unicodedata.name(letter, "").startswith(("CJK", "HIRAGANA", "KATAKANA"))):
        return f" {letter}"
    return letter if kind[0] in "LNM" else " "


_FOLDING = _Folding()


def _words(text: str) -> list[str]:
    """The words of a title or query; a text without any is a word itself."""
    plain = unicodedata.normalize("NFKD", text).casefold().translate(_FOLDING)
    words = unicodedata.normalize("NFC", plain).split() or text.casefold().split()
    return [word[:LONGEST] for word in words]


def _letters(words: Sequence[str]) -> np.ndarray:
    """Which letters each word has, as bits; some letters share a bit: (words,) of uint64."""
    if not words:
        return np.zeros(0, dtype=np.uint64)
    lengths = np.array([len(word) for word in words])
    codes = np.frombuffer("".join(words).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    bits = np.left_shift(np.uint64(1), (codes % 61).astype(np.uint64))
    return np.bitwise_or.reduceat(bits, np.cumsum(lengths) - lengths)


def _distances(word: str, others: Sequence[str], most: int) -> tuple[np.ndarray, np.ndarray]:
    """Edits, swaps of neighbours among them, from a word to each of the others and to the nearest beginning of each.

    Both are right up to `most`; whatever is more is `most` + 1 or larger. Optimal string alignment, all others at once.
    """
    width = len(word) + most
    text = "".join(other[:width].ljust(width, "\0") for other in others)
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).reshape(-1, width).T.copy()
    far = np.full(len(others), most + 1, dtype=np.uint8)
    rows: list[dict[int, np.ndarray]] = [{j: np.full_like(far, j) for j in range(most + 1)}]
    for i, letter in enumerate(map(ord, word), start=1):
        row: dict[int, np.ndarray] = {}
        for j in range(max(0, i - most), i + most + 1):  # edits from i letters of the word to j of the others
            row[j] = np.minimum(rows[-1].get(j, far), row.get(j - 1, far)) + 1
            if j > 0:
                row[j] = np.minimum(row[j], rows[-1][j - 1] + (codes[j - 1] != letter))
            if i > 1 and j > 1:
                swapped = (codes[j - 2] == letter) & (codes[j - 1] == ord(word[i - 2]))
                row[j] = np.where(swapped, np.minimum(row[j], rows[-2][j - 2] + 1), row[j])
        rows.append(row)
    sizes = np.array([len(other) for other in others], dtype=np.int64)
    whole = far.copy()
    for j, edits in rows[-1].items():
        whole[sizes == j] = edits[sizes == j]
    return whole.astype(np.int64), np.minimum.reduce([*rows[-1].values(), far]).astype(np.int64)
