"""Conditions on items: price < 30 and genre = 'Comedy'.

    condition   = both ("or" both)*
    both        = each ("and" each)*
    each        = "not" each | "(" condition ")" | comparison
    comparison  = name ("=" | "==" | "!=" | "<>" | "<" | "<=" | ">" | ">=") value
                | name ["not"] "in" "(" value ("," value)* ")"
                | name ["not"] "contains" value
                | name "is" ["not"] "missing"
    name        = letters, digits, "_", "." and "-", or anything within quotes or backticks
    value       = a number, true, false, or text within quotes; a quote is doubled within a text

A name is a column of the items table, `id`, `popularity`, or `new`: whether an item came after training. An item with
several values (genres) equals each of them. Dates are text, such as '2026-01-31'. `contains` ignores case. An item
whose value is missing meets no comparison, nor its negation, only `is missing`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from macrid.control.columns import ORDER, Column, IdColumn, NumberColumn, Value, read_column
from macrid.data.attributes import POPULARITY, SEPARATOR, TITLE, Catalogue
from macrid.data.ids import Ids
from macrid.errors import RequestError

LONGEST = 100_000  # characters
MOST_VALUES = 1_000
DEEPEST = 50  # levels of parentheses and negations
SHOWN = 40  # characters on either side of a mistake
MOST_COMPARED = 5_000  # words, in search of the one that was meant
ID = "id"
NEW = "new"
TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]+`)
      | (?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.]))
      | (?P<word>[^\W\d][\w.-]*|[0-9][\w.-]*)
      | (?P<sign><=|>=|!=|<>|==|[=<>(),])
    )""",
    re.VERBOSE,
)
KEYWORDS = ("and", "or", "not", "in", "contains", "is", "missing", "true", "false")
EQUAL, UNEQUAL = ("=", "=="), ("!=", "<>")
T = TypeVar("T")


class Items(Catalogue, Protocol):
    """Items with ids, such as a model's."""

    @property
    def items(self) -> Ids: ...


class Meets(NamedTuple):
    """(items,) which items meet a condition and which do not; those with a missing value are in neither."""

    yes: np.ndarray
    no: np.ndarray


@dataclass(frozen=True)
class Selection:
    """The items that meet a condition."""

    mask: np.ndarray
    """(items,)"""
    warnings: tuple[str, ...] = ()
    """About values that no item has."""


class Selector:
    """Finds the items of a catalogue that meet conditions. Each column is read once."""

    def __init__(self, catalogue: Items, new: int = 0) -> None:
        """new: how many of the items, the last ones, came after training."""
        self._catalogue, self._new = catalogue, new
        self._columns: dict[str, Column] = {ID: IdColumn(catalogue.items)}

    @property
    def names(self) -> list[str]:
        """What conditions can be about."""
        table = self._catalogue.table
        names = [ID, *([] if table is None else table.column_names), POPULARITY]
        return [*names, NEW] if self._new and NEW not in names else names

    def __call__(self, condition: str) -> Selection:
        """The items that meet a condition; a `RequestError` says where it is wrong."""
        parser = _Parser(condition, self.column)
        return Selection(parser.parse().yes, tuple(dict.fromkeys(parser.warnings)))

    def column(self, name: str) -> Column:
        """A `ValueError` if there is none."""
        if name not in self._columns:
            table = self._catalogue.table
            if name == POPULARITY:
                counts = self._catalogue.popularity
                self._columns[name] = NumberColumn(counts, np.ones(len(counts), dtype=bool))
            elif name == NEW and NEW in self.names and (table is None or NEW not in table.column_names):
                is_new = np.arange(len(self._catalogue.items)) >= len(self._catalogue.items) - self._new
                self._columns[name] = NumberColumn(is_new.astype(np.float64), np.ones_like(is_new), "boolean")
            elif table is not None and name in table.column_names:
                self._columns[name] = read_column(table.column(name), "" if name == TITLE else SEPARATOR)
            else:
                other = did_you_mean(name, self.names) or f"; they have {', '.join(self.names[:12])}"
                raise ValueError(f"is not an attribute of the items{other}")
        return self._columns[name]


class _Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int


class _Parser:
    """Reads a condition from left to right and finds the items on the way."""

    def __init__(self, condition: str, column: Callable[[str], Column]) -> None:
        if len(condition) > LONGEST:
            raise RequestError(f"where: {len(condition):,} characters; a condition has at most {LONGEST:,}")
        self._condition, self._column = condition, column
        self.tokens = [*self._read_tokens(), _Token("end", "", len(condition), len(condition))]
        self._at = self._depth = self._values = 0
        self.warnings: list[str] = []

    def parse(self) -> Meets:
        meets = self._any()
        if self._next.kind != "end":
            raise self._wrong("'and' or 'or' is expected here")
        return meets

    def _read_tokens(self) -> Iterator[_Token]:
        at, text = 0, self._condition
        end = len(text.rstrip())
        while at < end:
            match = TOKEN.match(text, at)
            if match is None:
                start = at + len(text[at:]) - len(text[at:].lstrip())
                quote = text[start] in "'\"`"
                problem = "this quote is never closed" if quote else "unexpected character"
                raise self._wrong(problem, _Token("", "", start, end if quote else start + 1))
            kind = str(match.lastgroup)
            yield _Token(kind, match[kind], match.start(kind), match.end(kind))
            at = match.end()

    @property
    def _next(self) -> _Token:
        return self.tokens[self._at]

    def _take(self, *words: str) -> bool:
        """Step over the next token if it is one of these signs or keywords."""
        token = self._next
        if token.kind in ("word", "sign") and token.text.lower() in words:
            self._at += 1
            return True
        return False

    def _expect(self, word: str) -> None:
        if not self._take(word):
            raise self._wrong(f"'{word}' is expected here")

    def _any(self) -> Meets:
        meets = self._all()
        while self._take("or"):
            other = self._all()
            meets = Meets(meets.yes | other.yes, meets.no & other.no)
        return meets

    def _all(self) -> Meets:
        meets = self._each()
        while self._take("and"):
            other = self._each()
            meets = Meets(meets.yes & other.yes, meets.no | other.no)
        return meets

    def _each(self) -> Meets:
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._wrong(f"more than {DEEPEST} levels of parentheses and 'not'")
        if self._take("not"):
            meets = self._each()
            meets = Meets(meets.no, meets.yes)
        elif self._take("("):
            meets = self._any()
            self._expect(")")
        else:
            meets = self._comparison()
        self._depth -= 1
        return meets

    def _comparison(self) -> Meets:
        token = self._name()
        named = _unquoted(token)
        column = self._checked(named, token, self._column, named)
        if self._take("is"):
            is_negated = self._take("not")
            self._expect("missing")
            return Meets(column.known, ~column.known) if is_negated else Meets(~column.known, column.known)
        is_negated, sign = self._take("not"), self._next
        if self._take("in"):
            self._expect("(")
            values = [self._value()]
            while self._take(","):
                values.append(self._value())
            self._expect(")")
            yes = self._among(column, named, sign, values)
        elif self._take("contains"):
            yes = self._checked(named, sign, column.contains, self._value().text)
        elif not is_negated and self._take(*EQUAL, *UNEQUAL):
            yes = self._among(column, named, sign, [self._value()])
            is_negated = sign.text in UNEQUAL
        elif not is_negated and self._take(*ORDER):
            yes = self._checked(named, sign, column.compared, sign.text, self._value())
        else:
            raise self._wrong(f"{'in or contains' if is_negated else 'a comparison such as < or ='} is expected here")
        no = column.known & ~yes
        return Meets(no, yes) if is_negated else Meets(yes, no)

    def _among(self, column: Column, name: str, sign: _Token, values: list[Value]) -> np.ndarray:
        meets = self._checked(name, sign, column.among, values)
        if unknown := column.unknown(values):
            more = f" and {len(unknown) - 1:,} more" if len(unknown) > 1 else ""
            if not more and not self.warnings:  # looking for similar words takes time
                more = did_you_mean(unknown[0], column.texts)
            self.warnings.append(_one_line(f"where: no item has {name} '{unknown[0][:80]}'{more}"))
        return meets

    def _name(self) -> _Token:
        token = self._next
        if token.kind not in ("text", "word") or (token.kind == "word" and token.text.lower() in KEYWORDS):
            raise self._wrong("the name of an attribute is expected here; one such as 'in' needs quotes")
        self._at += 1
        return token

    def _value(self) -> Value:
        token = self._next
        is_truth = token.kind == "word" and token.text.lower() in ("true", "false")
        if token.kind == "word" and not is_truth:
            raise self._wrong("a value is expected here; text needs quotes")
        if token.kind not in ("text", "number", "word"):
            raise self._wrong("a value is expected here")
        if self._values == MOST_VALUES:
            raise self._wrong(f"more than {MOST_VALUES:,} values")
        self._at, self._values = self._at + 1, self._values + 1
        return Value("truth" if is_truth else "number" if token.kind == "number" else "text", _unquoted(token))

    def _checked(self, name: str, token: _Token, function: Callable[..., T], *arguments: object) -> T:
        """Call a function whose `ValueError` says what an attribute is, and point at a token."""
        try:
            return function(*arguments)
        except ValueError as error:
            raise self._wrong(f"'{name[:80]}' {error}", token) from None

    def _wrong(self, problem: str, token: _Token | None = None) -> RequestError:
        """An error about a token, the next one if none is given."""
        start, end, text = *(token or self._next)[2:], _one_line(self._condition)
        before = ("…" if start > SHOWN else "") + text[max(0, start - SHOWN) : start]
        after = text[end : end + SHOWN] + ("…" if len(text) > end + SHOWN else "")
        place = f"{before}[{text[start:end][:SHOWN]}]{after}"
        return RequestError(f"where, character {start + 1}: {_one_line(problem)}: {place}")


def clauses(condition: str) -> list[str]:
    """The parts of a condition that must all be met, or itself if there are alternatives.

    A `RequestError` if it cannot be read.
    """
    starts, ends, depth = [0], list[int](), 0
    for token in _Parser(condition, _no_column).tokens:
        depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "sign" else 0
        word = token.text.lower() if token.kind == "word" and depth == 0 else ""
        if word == "or":
            return [condition.strip()]
        if word == "and":
            ends.append(token.start)
            starts.append(token.end)
    return [condition[start:end].strip() for start, end in zip(starts, [*ends, len(condition)], strict=True)]


def _no_column(name: str) -> Column:
    raise ValueError("is unknown")


def did_you_mean(wrong: str, known: list[str]) -> str:
    """The end of a message about an unknown word: the one that was probably meant, if any."""
    close = get_close_matches(wrong, known[:MOST_COMPARED], n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def _one_line(text: str) -> str:
    return re.sub(r"\s", " ", text)


def _unquoted(token: _Token) -> str:
    if token.kind != "text":
        return token.text
    mark = token.text[0]
    return token.text[1:-1].replace(mark * 2, mark)
