"""Search by title or id: whole words, word prefixes and words with typos.

Case, accents and punctuation are ignored. Han and kana, which have no spaces, and emoji are searched character by
character. Words are sorted, so that the items of all words with one prefix are contiguous.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from macrid.data.attributes import TITLE
from macrid.data.ids import Ids
from macrid.models.base import Recommender
from macrid.models.forks import new_lock

LONGEST_QUERY = 200  # characters
LONGEST_WORD = 64  # characters; the rest is ignored
NONE = 255  # the cost of a word that an item lacks
WHOLE, PREFIX = 0, 1  # costs; a typo adds 2


def titles_of(model: Recommender) -> list[str | None] | None:
    """(items,) None for items without a title; None without a title column."""
    if model.table is None or TITLE not in model.table.column_names:
        return None
    return [None if title is None else str(title) for title in model.table.column(TITLE).to_pylist()]


class Search:
    """Finds items by title or id; the index is built on first use."""

    def __init__(self, ids: Ids, titles: Sequence[str | None] | None, popularity: np.ndarray) -> None:
        self._ids, self._titles = ids, titles
        self._order = np.argsort(-np.asarray(popularity, dtype=np.float64), kind="stable")
        self._rank = np.argsort(self._order)
        self._lock = new_lock()

    def find(
        self, query: str, *, limit: int, offset: int = 0, among: np.ndarray | None = None
    ) -> tuple[np.ndarray, int]:
        """Positions of one page of matching items, best first, and the total number of matches.

        Every word of the query must be a word of the title or a prefix of one; if no item matches, typos are allowed.
        An exact title or id ranks first, then whole words, prefixes and typos; ties go to the more popular item. An
        empty query matches all items.
        among: (items,) True where an item may match.
        """
        query = query[:LONGEST_QUERY].strip()
        if not query:
            matches = self._order if among is None else self._order[among[self._order]]
            return matches[offset : offset + limit], len(matches)
        tier = self._tiers(query, among)
        matches = np.flatnonzero(tier != NONE)
        key = tier[matches].astype(np.int64) * len(tier) + self._rank[matches]
        total, last = len(matches), offset + limit
        if last < total:
            best = np.argpartition(key, last)[:last]
            matches, key = matches[best], key[best]
        return matches[np.argsort(key)[offset:last]], total

    def _tiers(self, query: str, among: np.ndarray | None) -> np.ndarray:
        """(items,) 0 for an exact title or id, more for worse matches, NONE for no match."""
        allowed = np.zeros(len(self._ids), dtype=np.uint8)
        if among is not None:
            allowed[~among] = NONE
        words = words_of(query)
        with self._lock:  # one thread builds the index, others wait
            index = self._index
        tiers = self._tiers_of(words, allowed, "none")
        tiers[(tiers == WHOLE + 1) & (index.titles == hash(" ".join(words)))] = 0
        tiers = np.maximum(np.minimum(tiers, self._tiers_of_ids(query)), allowed)
        for typos in ("unknown", "all"):
            if tiers.min(initial=NONE) == NONE:
                tiers = self._tiers_of(words, allowed, typos)
        return tiers

    def _tiers_of(self, words: Sequence[str], allowed: np.ndarray, typos: str) -> np.ndarray:
        """By the worst match among the words."""
        worst = allowed
        for word in dict.fromkeys(words):
            worst = np.maximum(worst, self._index.costs(word, typos))
            if worst.min(initial=NONE) == NONE:
                break
        return np.where(worst == NONE, NONE, worst + 1)

    def _tiers_of_ids(self, query: str) -> np.ndarray:
        """0 for the query itself, more for ids that start with it."""
        query = pc.utf8_lower(pa.scalar(query.encode("utf-8", "replace").decode())).as_py()
        ids, positions = self._sorted_ids
        places = range(len(ids))
        start = bisect_left(places, query, key=lambda place: ids[place].as_py())
        end = bisect_right(places, query, start, key=lambda place: ids[place].as_py()[: len(query)])
        last = bisect_right(places, query, start, end, key=lambda place: ids[place].as_py())
        tiers = np.full(len(places), NONE, dtype=np.uint8)
        tiers[positions[start:end]] = PREFIX + 1
        tiers[positions[start:last]] = 0
        return tiers

    @cached_property
    def _sorted_ids(self) -> tuple[pa.Array, np.ndarray]:
        """In lower case, with their positions."""
        lower = pc.utf8_lower(self._ids.array.cast(pa.string()))
        order = pc.sort_indices(lower)
        return lower.take(order), order.to_numpy()

    @cached_property
    def _index(self) -> _Index:
        return _build([None] * len(self._ids) if self._titles is None else self._titles)


@dataclass(frozen=True)
class _Index:
    """Which items have which words."""

    words: list[str]
    """Sorted."""
    starts: np.ndarray
    """(words + 1,) where the items of each word start in `items`."""
    items: np.ndarray
    titles: np.ndarray
    """(items,) a hash of each title's words."""
    letters: np.ndarray
    """(words,) the letters of each word, as bits."""

    def costs(self, word: str, typos: str) -> np.ndarray:
        """(items,) of uint8, the cost of the word in each item.

        typos: allowed in "none", in "unknown" words, or in "all".
        """
        cost = np.full(len(self.titles), NONE, dtype=np.uint8)
        start = bisect_left(self.words, word)
        end = bisect_right(self.words, word, start, key=lambda other: other[: len(word)])
        if typos == "all" or (typos == "unknown" and start == end):
            near, costs = self._near(word)
            for place in np.argsort(-costs, kind="stable"):
                cost[self._items(near[place], near[place] + 1)] = costs[place]
        cost[self._items(start, end)] = PREFIX
        if start < end and self.words[start] == word:
            cost[self._items(start, start + 1)] = WHOLE
        return cost

    def _items(self, start: int, end: int) -> np.ndarray:
        """Of a slice of the words."""
        return self.items[self.starts[start] : self.starts[end]]

    def _near(self, word: str) -> tuple[np.ndarray, np.ndarray]:
        """Places and costs of words a typo or two away from this one, or that start with such a word."""
        most = typos_allowed(word)
        if most == 0:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        lacking = np.bitwise_count(_letters([word])[0] & ~self.letters)  # each edit supplies at most one
        places = np.flatnonzero(lacking <= most)
        whole, prefix = distances(word, [self.words[place] for place in places], most)
        cost = np.minimum(2 * whole, 2 * prefix + 1 if len(word) > 4 else NONE)
        near = cost <= 2 * most + 1
        return places[near], cost[near]


def typos_allowed(word: str) -> int:
    """One from 4 letters, two from 8, none in numbers."""
    return 0 if word.isdecimal() else (len(word) >= 4) + (len(word) >= 8)


def _build(titles: Iterable[str | None]) -> _Index:
    number: defaultdict[str, int] = defaultdict(count().__next__)
    lengths: list[int] = []
    tokens: list[int] = []
    hashes: list[int] = []
    for title in titles:
        words = [] if title is None else words_of(str(title))
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
    """A table for `str.translate`, filled on demand."""

    def __missing__(self, code: int) -> str:
        self[code] = folded = _folded(chr(code))
        return folded


def _folded(letter: str) -> str:
    """Drops accents and invisible characters, separates at punctuation, makes Han, kana and symbols words."""
    kind = unicodedata.category(letter)
    if unicodedata.combining(letter) >= 10 or kind in ("Cf", "Me") or "\ufe00" <= letter <= "\ufe0f":
        return ""
    if kind == "So" or (kind == "Lo" and unicodedata.name(letter, "").startswith(("CJK", "HIRAGANA", "KATAKANA"))):
        return f" {letter}"
    return letter if kind[0] in "LNM" else " "


_FOLDING = _Folding()


def words_of(text: str) -> list[str]:
    """The words of a text; one that has none, such as punctuation, counts as a word."""
    plain = unicodedata.normalize("NFKD", text).casefold().translate(_FOLDING)
    words = unicodedata.normalize("NFC", plain).split() or text.casefold().split()
    return [word[:LONGEST_WORD] for word in words]


def _letters(words: Sequence[str]) -> np.ndarray:
    """(words,) of uint64, the letters of each word as bits; some letters share a bit."""
    if not words:
        return np.zeros(0, dtype=np.uint64)
    lengths = np.array([len(word) for word in words])
    codes = np.frombuffer("".join(words).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    bits = np.left_shift(np.uint64(1), (codes % 61).astype(np.uint64))
    return np.bitwise_or.reduceat(bits, np.cumsum(lengths) - lengths)


def distances(word: str, others: Sequence[str], most: int) -> tuple[np.ndarray, np.ndarray]:
    """Optimal string alignment distances from a word to each of the others, and to the nearest prefix of each.

    Exact up to `most`; larger ones are at least `most` + 1.
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
