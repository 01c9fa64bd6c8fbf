"""The words a model knows: columns and values of its items, names of its concepts, dimensions and their ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from macrid.concepts.directions import along, directions_towards
from macrid.concepts.space import Space, space_of
from macrid.control import thesaurus
from macrid.control.moves import Move
from macrid.control.spelling import distances, singular, words_of
from macrid.data.attributes import POPULARITY, is_date, kind_of, read_attributes
from macrid.errors import RequestError
from macrid.models.base import Recommender
from macrid.models.macridvae import MacridVAE

FEWEST_LETTERS = 5  # of a word that may have a typo; two are allowed from 8
MOST_TERMS = 20_000  # values of attributes, most frequent attributes first


@dataclass(frozen=True)
class Value:
    """A value of an attribute: "genres: Comedy"."""

    attribute: str
    value: str

    @property
    def name(self) -> str:
        return f"{self.attribute}: {self.value}"


@dataclass(frozen=True)
class Number:
    """A column of numbers or dates, or popularity, and which way a word points."""

    column: str
    sign: int | None = None
    """1 for "newer", −1 for "older"; None for the name of the column itself."""

    @property
    def name(self) -> str:
        return self.column


@dataclass(frozen=True)
class Concept:
    number: int
    name: str


@dataclass(frozen=True)
class Ends:
    """Dimensions along which a word names one end: concept, dimension and sign."""

    name: str
    places: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Mood:
    """Several values at once, towards or away."""

    name: str
    values: tuple[tuple[Value, int], ...]


Term = Value | Number | Concept | Ends | Mood


class Vocabulary:
    """The terms of a model by the words for them."""

    def __init__(self, model: Recommender) -> None:
        self.model = model
        self.terms: dict[str, list[Term]] = {}
        """By key; the first that can be moved is meant."""
        self.numbers: dict[str, str] = {key_of(name): name for name in (*self._number_columns(), POPULARITY)}
        """Popularity, and columns of numbers and dates, by key."""
        self.missing: dict[str, str] = {}
        """Words about a number that these items lack, and its name."""
        for part in (self._of_columns, self._of_concepts, self._of_thesaurus, self._of_ends):
            for key, term in part():
                if key and term not in self.terms.setdefault(key, []):
                    self.terms[key].append(term)

    @cached_property
    def space(self) -> Space | None:
        return space_of(self.model) if isinstance(self.model, MacridVAE) else None

    def find(self, text: str) -> list[Term]:
        """What a text stands for, in singular or plural."""
        return self.terms.get(key_of(text), [])

    def nearest(self, text: str) -> str | None:
        """The key of a known word with the same first letter that is a typo or two away."""
        key = key_of(text)
        most = (len(key) >= FEWEST_LETTERS) + (len(key) >= 8)
        if not most or key.isdecimal():
            return None
        keys = [other for other in self._by_letter.get(key[0], ()) if abs(len(other) - len(key)) <= most]
        edits, _ = distances(key, keys, most)
        return keys[int(edits.argmin())] if len(keys) and edits.min() <= most else None

    @cached_property
    def _by_letter(self) -> dict[str, list[str]]:
        """Keys by their first letter."""
        by_letter: dict[str, list[str]] = {}
        for key in self.terms:
            by_letter.setdefault(key[0], []).append(key)
        return by_letter

    def is_date(self, column: str) -> bool:
        table = self.model.table
        return table is not None and column in table.column_names and is_date(kind_of(table.column(column)))

    def column(self, *names: str) -> str | None:
        """The first column of numbers with one of these keys."""
        return next((self.numbers[name] for name in names if name in self.numbers), None)

    def why_fixed(self, attribute: str, concept: int | None = None) -> str | None:
        """Why nobody can be moved towards an attribute; None if it is possible."""
        if self.space is None:
            return f"{type(self.model).__name__} has no concepts to move"
        try:
            directions_towards(self.space, attribute, concept)
        except RequestError as error:
            return str(error)
        return None

    def along_ends(self, ends: Ends, amount: float) -> list[Move]:
        """One move per dimension, by a part of half the range of real users."""
        assert self.space is not None
        moves = []
        for concept, dimension, sign in ends.places:
            by = sign * amount * along(self.space, concept, dimension).half
            moves.append(Move(concept=concept, dimension=dimension, by=round(by, 4)))
        return moves

    def _number_columns(self) -> Iterator[str]:
        table = self.model.table
        if table is None:
            return
        for name in table.column_names:
            kind = kind_of(table.column(name))
            if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or is_date(kind):
                yield name

    def _of_columns(self) -> Iterator[tuple[str, Term]]:
        for name in self.numbers.values():
            yield key_of(name), Number(name)
        left = MOST_TERMS
        for attribute in read_attributes(self.model.table):
            if attribute.numbers is not None:
                continue
            counts = np.asarray((attribute.shares > 0).sum(axis=0)).ravel()
            for place in np.argsort(-counts, kind="stable")[:left].tolist():
                yield key_of(attribute.values[place]), Value(attribute.name, attribute.values[place])
            left = max(0, left - len(counts))

    def _of_concepts(self) -> Iterator[tuple[str, Term]]:
        names = None if self.space is None else self.space.meaning.names
        for entry in () if names is None else names.concepts:
            if entry.name is not None:
                yield key_of(entry.name), Concept(entry.concept, entry.name)

    def _of_ends(self) -> Iterator[tuple[str, Term]]:
        """The ends of dimensions; and the names of dimensions that follow no column, for their high ends."""
        if self.space is None:
            return
        places: dict[str, list[tuple[int, int, int]]] = {}
        names: dict[str, str] = {}
        for entry in self.space.meaning.dimensions:
            ends = [(entry.low, -1), (entry.high, 1)]
            if entry.attribute is None or entry.edited:
                ends.append((entry.name, 1))
            for text, sign in ends:
                for part in (text or "").split(", "):
                    if part and not part.startswith("other than "):
                        names.setdefault(key_of(part), part)
                        places.setdefault(key_of(part), []).append((entry.concept, entry.dimension, sign))
        for key, found in places.items():
            yield key, Ends(names[key], tuple(dict.fromkeys(found)))

    def _of_thesaurus(self) -> Iterator[tuple[str, Term]]:
        for scale in thesaurus.SCALES:
            column = self.column(*scale.columns)
            for word, sign in [*((word, 1) for word in scale.more), *((word, -1) for word in scale.less)]:
                if column is None:
                    self.missing.setdefault(key_of(word), scale.columns[0])
                else:
                    yield key_of(word), Number(column, sign)
        for key, column in self.numbers.items():
            if key.endswith("ness") and len(key) > 6:  # boldness: bold, bolder; happiness: happy, happier
                stem = key.removesuffix("ness")
                for word in (f"{stem[:-1]}y" if stem[-1] == "i" else stem, f"{stem.removesuffix('e')}er"):
                    yield word, Number(column, 1)
        values = {key: term for key, terms in self.terms.items() for term in terms if isinstance(term, Value)}
        for mood in thesaurus.MOODS:
            signs = [*((word, 1) for word in mood.more), *((word, -1) for word in mood.less)]
            known = tuple((values[word], sign) for word, sign in signs if word in values)
            if any(sign > 0 for _, sign in known) or (known and not mood.more):
                for word in mood.words:
                    yield key_of(word), Mood(word, known)


def comparatives(column: str) -> tuple[str, str] | None:
    """Words for less and more of a number: ("older", "newer") for a year; None if there are none."""
    key = key_of(column)
    scale = next((scale for scale in thesaurus.SCALES if key in scale.columns), None)
    return None if scale is None else (scale.less[0], scale.more[0])


def key_of(text: str) -> str:
    """A name as one word in lower case, in the singular: "Phone cases" is "phonecase"."""
    return singular("".join(words_of(text)).replace("_", ""))
