"""What search knows about items: the words of titles, words written as one, and the values of attributes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from macrid.control.lexicon import Lexicon, Lists
from macrid.control.spelling import APOSTROPHES, LONGEST_WORD, real_words, singular, words_of
from macrid.data.attributes import TITLE, is_date, kind_of, numbers_of, texts_of

ARTICLES = {
    "the", "a", "an", "le", "la", "les", "l", "un", "une", "der", "die", "das", "ein", "eine", "el", "los",
    "las", "il", "lo", "gli", "i", "de", "het", "een", "den", "det", "en", "ett",
}  # fmt: skip
LIGHT = {"the", "a", "an", "and", "of", "le", "la", "les", "el", "der", "das", "il"}  # people add or omit them
HEAVY = 64  # how many light letters weigh as much as one of another word
YEAR = re.compile(r"\(([0-9]{4})(?:[-–][0-9]{0,4})?\)\s*$")
ELISION = re.compile(rf"(?<!\w)(?:[cdjlmnst]|qu|all|dell|nell|un)[{APOSTROPHES}](\w+)", re.IGNORECASE)
LONGEST_VALUE = 60  # characters; longer ones are descriptions
MOST_NUMBERS = 200  # distinct values of integers that are surely no ids
MOST_WORDS = 64  # of a title
MOST_JOINED = 24  # words of a title that may be written as one with the next
MOST_SCANNED = 200  # characters of a title in which any part of a word is found
MOST_CONTAINING = 10_000  # items found by a part of a word
HEADS = range(1, 12)  # lengths of beginnings of words whose letters are kept


@dataclass(frozen=True)
class Title:
    """A title taken apart: "Matrix, The (a.k.a. Neo) (1999)"."""

    words: list[str]
    """the matrix: in natural order."""
    more: list[str]
    """aka neo: what is in brackets."""
    year: str | None
    listed: list[str]
    """All words as listed."""
    elided: list[str]
    """Of "d'Amélie", amelie."""

    @classmethod
    def read(cls, title: str) -> Title:
        found = YEAR.search(title)
        rest = title[: found.start()] if found else title
        main, _, more = rest.partition("(")
        if not real_words(main):  # (500) Days of Summer
            main, more = rest, ""
        front, _, last = main.rpartition(",")
        article = words_of(last) if front and len(last) < 6 else []
        if len(article) != 1 or article[0] not in ARTICLES:
            front, article = main, []
        if not (words := real_words(front)):
            return cls(words_of(title), [], None, words_of(title), [])
        in_brackets, year = real_words(more) if more else [], found[1] if found else None
        listed = [*words, *article, *in_brackets, *([] if year is None else [year])]
        elided = [word for part in ELISION.findall(rest) for word in real_words(part)]
        return cls([*article, *words], in_brackets, year, listed, elided)

    def forms(self) -> tuple[int, int, int, int]:
        """Hashes of the title as it may be written in full."""
        year = [] if self.year is None else [self.year]
        ways = (self.listed, self.words, [*self.words, *self.more], [*self.words, *year])
        return tuple(hash(" ".join(way)) for way in ways)  # type: ignore[return-value]

    @property
    def searched(self) -> Iterable[str]:
        return dict.fromkeys([*self.words, *self.more, *self.elided][:MOST_WORDS])

    @property
    def scanned(self) -> str:
        return f" {' '.join([*self.words, *self.more])} "[:MOST_SCANNED]

    def weights(self) -> tuple[int, int]:
        """Of its words, without and with those in brackets."""
        main = sum(map(weight, self.words))
        return main, main + sum(map(weight, self.more))

    def joined(self) -> dict[str, int]:
        """Two of its words, or all of them, written as one; and their weights."""
        words = [*self.words, *self.more]
        joints: list[Sequence[str]] = list(pairwise(words[:MOST_JOINED]))
        if len(words) <= MOST_JOINED:
            joints += [self.words, self.listed[: len(self.words)], words]
        if self.words != self.listed[: len(self.words)]:
            joints.append((self.words[-1], self.words[0]))  # MatrixThe
        return {"".join(joint)[:LONGEST_WORD]: sum(map(weight, joint)) for joint in joints if len(joint) > 1}


def weight(word: str) -> int:
    """How much of a title a word is: its letters, which count little if it is light."""
    return len(word) if word in LIGHT else HEAVY * len(word)


NO_TITLE = Title([], [], None, [], [])


class SearchIndex:
    def __init__(self, titles: Sequence[str | None], table: pa.Table | None) -> None:
        read = [NO_TITLE if title is None else Title.read(title) for title in titles]
        self.titles = Lexicon((title.searched for title in read), HEADS, weight)
        """Whose owners are items."""
        joined = [title.joined() for title in read]
        weights = {word: weight for words in joined for word, weight in words.items()}
        self.joined = Lexicon(joined, HEADS[5::5], weigh=weights.__getitem__)
        """Words that people may write as one; owners are items."""
        self.forms = np.array([title.forms() for title in read], dtype=np.int64).reshape(-1, 4).T
        """(4, items) see `Title.forms`."""
        self.weights = np.array([title.weights() for title in read], dtype=np.int32).reshape(-1, 2).T
        """(2, items) see `Title.weights`."""
        self._starts = np.cumsum([0, *(len(title.scanned) + 1 for title in read)])
        self._scanned = "\n".join(title.scanned for title in read)
        columns = [[[] if title.year is None else [title.year] for title in read], *_columns(table)]
        self.count = len(read)
        self._read_values(columns)

    def containing(self, text: str) -> np.ndarray:
        """Positions of items with a text somewhere in their words, which are joined by spaces."""
        places, at = list[int](), self._scanned.find(text)
        while at >= 0 and len(places) < MOST_CONTAINING:
            places.append(at)
            end = self._scanned.find("\n", at)
            at = self._scanned.find(text, end) if end >= 0 else -1
        return np.searchsorted(self._starts, places, side="right") - 1

    def _read_values(self, columns: list[list[list[str]]]) -> None:
        number: dict[str, int] = {}
        values, items = list[int](), list[int]()
        for place, column in enumerate(columns):
            for item, texts in enumerate(column):
                for text in texts:
                    values.append(number.setdefault(text, len(number)))
                    items.append(item)
            if place == 0:
                self.years = len(number)
                """The first values are years at the ends of titles."""
        self.values = list(number)
        """Of all attributes; the same text is one value."""
        of, owners = np.array(values, dtype=np.int64), np.array(items, dtype=np.int32)
        self.having = Lists.of(of, owners, len(number))
        """The items that have each value."""
        self.of_item = Lists.of(owners, of, self.count)
        self.attributes = Lexicon(map(_words_of_value, self.values), HEADS)
        """Whose owners are values."""


def _words_of_value(value: str) -> list[str]:
    """Its words, in the singular too, and written as one."""
    words = words_of(value)
    return list(dict.fromkeys([*words, *map(singular, words), "".join(words)[:LONGEST_WORD]]))


def _columns(table: pa.Table | None) -> Iterator[list[list[str]]]:
    """The values of each item in the columns that people search by."""
    for name, column in () if table is None else zip(table.column_names, table.columns, strict=True):
        kind, numbers = kind_of(column), numbers_of(column)
        if name == TITLE or types.is_boolean(kind):
            continue
        if numbers is not None:
            yield _whole_numbers(column, numbers, is_date(kind))
        elif (texts := texts_of(column)) is not None:
            yield [[text for text in values if len(text) <= LONGEST_VALUE and "://" not in text] for values in texts]


def _whole_numbers(column: pa.ChunkedArray, numbers: pa.ChunkedArray, are_dates: bool) -> list[list[str]]:
    """Such as years; those of dates; none of a column of fractions, or of numbers that are ids."""
    known = np.flatnonzero(numbers.is_valid().to_numpy())
    values = numbers.drop_null().to_numpy()
    if are_dates:
        values = values.astype("datetime64[s]").astype("datetime64[Y]").astype(np.int64) + 1970
    finite = np.isfinite(values)
    known, values = known[finite], values[finite]
    result: list[list[str]] = [[] for _ in range(len(column))]
    if (values == np.rint(values)).all() and len(np.unique(values)) <= max(MOST_NUMBERS, len(known) / 2):
        for item, value in zip(known.tolist(), values.tolist(), strict=True):
            result[item] = [str(int(value))]
    return result
