"""Rules: what a shop demands of a list, in a form that can be stored and sent.

{"where": "price < 30 and genre = 'Comedy'"}             only items that meet a condition (`macrid.control.where`)
{"include": ["a", "b", "c"], "exclude": ["c"]}           only these items, and not those
{"boosts": [{"where": "year > 1995", "amount": 0.5}]}    added to the scores of items that meet a condition
{"pins": ["a", "b"]}, {"pins": {"a": 3}}                 at the top in this order, or each at its rank
{"at_most": {"genres": 2}}                               items per value of an attribute
{"diversity": 0.3, "diversity_by": ["genres"]}           trade relevance for variety, by item vectors or attributes
{"shelves": 5}                                           also rows by concept, at most five of them
{"strict": true}                                         an error where there would be a warning

docs/rules.md defines what each does, and in which order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from macrid.data.ids import Id
from macrid.errors import RequestError

MOST_BOOSTS = 50
LARGEST_BOOST = 1_000  # far beyond any score, and their sum is exact enough in single precision
MOST_PINS = 1_000
MOST_ATTRIBUTES = 20  # in `at_most` or `diversity_by`


@dataclass(frozen=True)
class Boost:
    """A change of score for the items that meet a condition."""

    where: str
    amount: float
    """Added to the score. Where that is a log-probability, 0.7 makes an item twice as likely."""

    def __post_init__(self) -> None:
        if not isinstance(self.where, str):
            raise RequestError(f'where is {_shown(self.where)}; give a condition such as "year > 1995"')
        amount = _number("amount", self.amount)
        if abs(amount) > LARGEST_BOOST:
            raise RequestError(f"amount is {amount:g}; give a number from -{LARGEST_BOOST:,} to {LARGEST_BOOST:,}")
        object.__setattr__(self, "amount", amount)

    def as_json(self) -> dict[str, Any]:
        return {"where": self.where, "amount": self.amount}

    @classmethod
    def read(cls, value: Boost | Mapping[str, Any]) -> Boost:
        if isinstance(value, Boost):
            return value
        if not isinstance(value, Mapping) or set(value) != {"where", "amount"}:
            raise RequestError(f'a boost is {{"where": condition, "amount": number}}, not {_shown(value)}')
        return cls(**value)


@dataclass(frozen=True, eq=False)
class Rules:
    """What a list must look like. None leaves a rule to other rules, and otherwise off."""

    where: str | None = None
    include: tuple[Id, ...] | None = None
    exclude: tuple[Id, ...] | None = None
    pins: tuple[Id, ...] | Mapping[Id, int] | None = None
    """At the top in this order, or each at its rank, from 1."""
    boosts: tuple[Boost, ...] | None = None
    at_most: Mapping[str, int] | None = None
    """Items per value of an attribute; an item with several values counts for each."""
    diversity: float | None = None
    """From 0 (off) to 1."""
    diversity_by: tuple[str, ...] | None = None
    """Attributes; () for item vectors, the default."""
    shelves: bool | int | None = None
    """Rows by concept: how many at most, or True for all."""
    strict: bool | None = None
    """Fewer items than requested, a history without known items and unknown ids in rules are errors."""

    def __post_init__(self) -> None:
        if self.where is not None and not isinstance(self.where, str):
            raise RequestError(f'where is {_shown(self.where)}; give a condition such as "price < 30"')
        for name, read in _READERS.items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, read(name, value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rules) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __bool__(self) -> bool:
        """Whether they say anything."""
        return any(getattr(self, field.name) is not None for field in fields(self))

    @cached_property
    def key(self) -> bytes:
        """Equal for equal rules."""
        return blake2b(json.dumps(self.as_json(), sort_keys=True).encode()).digest()

    def as_json(self) -> dict[str, Any]:
        """Without the fields that are None."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: _as_json(value) for name, value in values.items() if value is not None}

    @classmethod
    def read(cls, value: Rules | Mapping[str, Any] | None) -> Rules:
        """The inverse of `as_json`; None for no rules."""
        if isinstance(value, Rules):
            return value
        if value is not None and not isinstance(value, Mapping):
            raise RequestError(f'rules are an object such as {{"where": "price < 30"}}, not {_shown(value)}')
        names = [field.name for field in fields(cls)]
        unknown = [str(name) for name in value or {} if name not in names]
        if unknown:
            raise RequestError(f"there is no rule '{unknown[0][:80]}'; choose from {', '.join(names)}")
        return cls(**(value or {}))

    @classmethod
    def load(cls, path: Path) -> Rules:
        """From a JSON file."""
        try:
            return cls.read(json.loads(path.read_text(encoding="utf-8-sig")))
        except OSError as error:
            raise RequestError(f"{path}: cannot be read ({error.strerror or error})") from None
        except RequestError as error:
            raise RequestError(f"{path}: {error}") from None
        except (ValueError, RecursionError) as error:
            raise RequestError(
                f'{path}: not JSON ({error}); write an object such as {{"where": "price < 30"}}'
            ) from None


def _ids(name: str, value: Any) -> tuple[Id, ...]:
    if isinstance(value, str | int):
        value = (value,)
    if not isinstance(value, Iterable) or isinstance(value, Mapping):
        raise RequestError(f"{name} is {_shown(value)}; give a list of item ids")
    ids = tuple(entry.item() if isinstance(entry, np.generic) else entry for entry in value)
    for place, entry in enumerate(ids):
        if not isinstance(entry, str | int) or isinstance(entry, bool):
            raise RequestError(f"{name}[{place}] is {_shown(entry)}; ids are strings or integers")
    return tuple(dict.fromkeys(ids))


def _pins(name: str, value: Any) -> tuple[Id, ...] | dict[Id, int]:
    if not isinstance(value, Mapping):
        pins: tuple[Id, ...] | dict[Id, int] = _ids(name, value)
    else:
        pins = dict(zip(_ids(name, list(value)), value.values(), strict=True))
        for item, rank in pins.items():
            if not _is_whole(rank) or rank < 1:
                raise RequestError(f"{name}: the rank of {_shown(item)} is {_shown(rank)}; give a whole number, from 1")
        pins = {item: int(rank) for item, rank in sorted(pins.items(), key=lambda pin: pin[1])}
        twice = [rank for rank in pins.values() if list(pins.values()).count(rank) > 1]
        if twice:
            raise RequestError(f"{name}: two items have rank {twice[0]}; give each its own")
    if len(pins) > MOST_PINS:
        raise RequestError(f"{name} has {len(pins):,} items; the limit is {MOST_PINS:,}")
    return pins


def _boosts(name: str, value: Any) -> tuple[Boost, ...]:
    if not isinstance(value, list | tuple):
        raise RequestError(f'{name} is {_shown(value)}; give a list of {{"where": condition, "amount": number}}')
    if len(value) > MOST_BOOSTS:
        raise RequestError(f"{name} has {len(value):,} entries; the limit is {MOST_BOOSTS}")
    boosts = []
    for place, entry in enumerate(value):
        try:
            boosts.append(Boost.read(entry))
        except RequestError as error:
            raise RequestError(f"{name}[{place}]: {error}") from None
    return tuple(boosts)


def _at_most(name: str, value: Any) -> dict[str, int]:
    if not isinstance(value, Mapping) or not all(isinstance(attribute, str) for attribute in value):
        raise RequestError(f'{name} is {_shown(value)}; give a number per attribute, such as {{"genres": 2}}')
    if len(value) > MOST_ATTRIBUTES:
        raise RequestError(f"{name} has {len(value):,} attributes; the limit is {MOST_ATTRIBUTES}")
    for attribute, count in value.items():
        if not _is_whole(count) or count < 1:
            raise RequestError(f"{name}: '{attribute[:80]}' is {_shown(count)}; give a whole number, at least 1")
    return {attribute: int(count) for attribute, count in value.items()}


def _diversity(name: str, value: Any) -> float:
    number = _number(name, value)
    if not 0 <= number <= 1:
        raise RequestError(f"{name} is {number:g}; give a number from 0 to 1")
    return number


def _attributes(name: str, value: Any) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(entry, str) for entry in names):
        raise RequestError(f"{name} is {_shown(value)}; give names of attributes, or none for item vectors")
    if len(names) > MOST_ATTRIBUTES:
        raise RequestError(f"{name} has {len(names):,} attributes; the limit is {MOST_ATTRIBUTES}")
    return tuple(dict.fromkeys(names))


def _shelves(name: str, value: Any) -> bool | int:
    if not isinstance(value, bool) and (not _is_whole(value) or value < 0):
        raise RequestError(f"{name} is {_shown(value)}; give true, false or the number of shelves")
    return value if isinstance(value, bool) else int(value)


def _truth(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise RequestError(f"{name} is {_shown(value)}; give true or false")
    return value


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "include": _ids,
    "exclude": _ids,
    "pins": _pins,
    "boosts": _boosts,
    "at_most": _at_most,
    "diversity": _diversity,
    "diversity_by": _attributes,
    "shelves": _shelves,
    "strict": _truth,
}


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise RequestError(f"{name} is {_shown(value)}; give a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise RequestError(f"{name} is {str(value)[:40]}; give a finite number")
    return number


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _as_json(value: Any) -> Any:
    if isinstance(value, Boost):
        return value.as_json()
    if isinstance(value, Mapping):
        return {str(name): entry for name, entry in value.items()}
    return [_as_json(entry) for entry in value] if isinstance(value, tuple) else value
