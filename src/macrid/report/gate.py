"""Conditions on the numbers of a report: ari < .8 or names_kept < 0.9.

condition   = both ("or" both)*
both        = each ("and" each)*
each        = "not" each | "(" condition ")" | name sign number
sign        = "<" | "<=" | ">" | ">=" | "=" | "==" | "!=" | "<>"
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import NamedTuple

from macrid.control.where import DEEPEST, SHOWN, TOKEN, did_you_mean
from macrid.errors import RequestError

LONGEST = 2_000  # characters
SIGNS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "=": operator.eq, "==": operator.eq, "!=": operator.ne, "<>": operator.ne,
}  # fmt: skip


class _Token(NamedTuple):
    kind: str
    text: str
    start: int


def is_met(condition: str, numbers: Mapping[str, float | None]) -> bool:
    """Whether a condition is true of these numbers; a `RequestError` says where it is wrong.

    A number that is None is unknown. It is an error to ask for it, since no answer would be right.
    """
    return _Parser(condition, numbers).parse()


class _Parser:
    """Reads a condition from left to right, and all of it, whatever its parts say."""

    def __init__(self, condition: str, numbers: Mapping[str, float | None]) -> None:
        if len(condition) > LONGEST:
            raise RequestError(f"the condition has {len(condition):,} characters; use at most {LONGEST:,}")
        self._condition, self._numbers = condition, numbers
        self._tokens = self._read()
        self._at = self._depth = 0

    def parse(self) -> bool:
        result = self._any()
        if self._next.kind != "end":
            raise self._wrong("'and' or 'or' is expected here")
        return result

    def _read(self) -> list[_Token]:
        at, tokens, text = 0, [], self._condition.rstrip()
        while at < len(text):
            match = TOKEN.match(text, at)
            if match is None:
                start = at + len(text[at:]) - len(text[at:].lstrip())
                raise self._wrong("unexpected character", _Token("", text[start], start))
            kind = str(match.lastgroup)
            tokens.append(_Token(kind, match[kind], match.start(kind)))
            at = match.end()
        return [*tokens, _Token("end", "", len(text))]

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self, word: str) -> bool:
        is_next = self._next.kind in ("word", "sign") and self._next.text.lower() == word
        self._at += is_next
        return is_next

    def _any(self) -> bool:
        result = self._all()
        while self._take("or"):
            other = self._all()
            result = result or other
        return result

    def _all(self) -> bool:
        result = self._each()
        while self._take("and"):
            other = self._each()
            result = result and other
        return result

    def _each(self) -> bool:
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._wrong(f"more than {DEEPEST} levels of parentheses and 'not'")
        if self._take("not"):
            result = not self._each()
        elif self._take("("):
            result = self._any()
            if not self._take(")"):
                raise self._wrong("')' is expected here")
        else:
            result = self._comparison()
        self._depth -= 1
        return result

    def _comparison(self) -> bool:
        name, sign, value = self._name(), self._step(), self._step()
        if sign.text not in SIGNS:
            raise self._wrong("a comparison such as < or >= is expected here", sign)
        if value.kind != "number":
            raise self._wrong("a number is expected here", value)
        number = self._numbers[name.text]
        if number is None:
            raise self._wrong(f"{name.text} is unknown for these runs", name)
        return SIGNS[sign.text](number, float(value.text))

    def _name(self) -> _Token:
        token = self._step()
        if token.kind != "word":
            raise self._wrong("the name of a number is expected here", token)
        if token.text not in self._numbers:
            known = list(self._numbers)
            hint = did_you_mean(token.text, known) or f"; choose from {', '.join(known)}"
            raise self._wrong(f"there is no '{token.text[:80]}'{hint}", token)
        return token

    def _step(self) -> _Token:
        token = self._next
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token

    def _wrong(self, problem: str, token: _Token | None = None) -> RequestError:
        token = token or self._next
        text, end = " ".join(self._condition.split("\n")), token.start + len(token.text)
        place = f"{text[max(0, token.start - SHOWN) : token.start]}[{token.text}]{text[end : end + SHOWN]}"
        return RequestError(f"condition, character {token.start + 1}: {problem}: {place}")
