"""Limits on numbers in words: "under 30 euros", "at least 4 stars", "before 1990", "from the 80s"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from macrid.control.thesaurus import LENGTH, PRICE, RATING, SIZE, WEIGHT, YEAR
from macrid.control.vocabulary import Vocabulary, key_of
from macrid.control.where import KEYWORDS
from macrid.data.attributes import POPULARITY

PHRASES = {
    "<": ("under", "below", "less than", "fewer than", "cheaper than", "shorter than", "smaller than", "lighter than",
          "lower than", "before", "older than", "earlier than"),
    "<=": ("at most", "up to", "no more than", "not more than", "max", "maximum", "until"),
    ">": ("over", "above", "more than", "longer than", "larger than", "bigger than", "higher than", "heavier than",
          "dearer than", "after", "newer than", "later than"),
    ">=": ("at least", "no less than", "not less than", "min", "minimum", "since", "from"),
    "=": ("exactly", "in", "of"),
}  # fmt: skip
SIGNS = {phrase: sign for sign, phrases in PHRASES.items() for phrase in phrases}
VAGUE = ("from", "in", "of", "exactly")  # limits only before a year or a unit
ABOUT = {  # what a phrase is about by itself
    **dict.fromkeys(("cheaper than", "dearer than"), PRICE),
    **dict.fromkeys(("shorter than", "longer than"), LENGTH),
    **dict.fromkeys(("smaller than", "larger than", "bigger than"), SIZE),
    **dict.fromkeys(("lighter than", "heavier than"), WEIGHT),
    **dict.fromkeys(
        ("before", "after", "since", "until", "older than", "newer than", "earlier than", "later than"), YEAR
    ),
}
UNITS = {
    **dict.fromkeys(("euro", "dollar", "pound", "eur", "usd", "gbp", "buck"), PRICE),
    **dict.fromkeys(("minute", "min", "page"), LENGTH),
    **dict.fromkeys(("star", "point"), RATING),
    **dict.fromkeys(("user", "rating", "buyer", "viewer"), (POPULARITY,)),
}
DECADES = {"twenties": 1920, "thirties": 1930, "forties": 1940, "fifties": 1950, "sixties": 1960, "seventies": 1970,
           "eighties": 1980, "nineties": 1990, "noughties": 2000}  # fmt: skip
YEARS = range(1800, 2101)
NUMBER = r"(?P<money>[$€£])?\s*(?P<{}>\d[\d,]*(?:\.\d+)?)(?!['’]?s\b|\w)"
UNIT = r"(?P<after>\s*(?P<unit>[^\W\d]+|[$€£]))?"
DECADE = re.compile(
    rf"\b(?:(?:from|in|of)\s+)?(?:the\s+)?(?:(?P<digits>(?:1[89]|20)?\d0)['’]?s|(?P<word>{'|'.join(DECADES)}))\b",
    re.IGNORECASE,
)
RANGE = re.compile(
    rf"\b(?:between|from)\s+{NUMBER.format('low')}\s*(?:and|to|-|–)\s*[$€£]?\s*(?P<high>\d[\d,]*(?:\.\d+)?)\b{UNIT}",
    re.IGNORECASE,
)
BOUND = re.compile(
    rf"\b(?P<phrase>{'|'.join(sorted(SIGNS, key=len, reverse=True))})\s+{NUMBER.format('number')}{UNIT}", re.IGNORECASE
)
BEFORE = re.compile(r"([^\W\d][\w-]*)\s+(?:is\s+)?$")


@dataclass(frozen=True)
class Limit:
    """A limit in a text, from start to end."""

    start: int
    end: int
    condition: str | None
    why: str = ""
    """Why there is no condition."""
    is_decade: bool = False
    """Several of them are alternatives: "the 80s or 90s"."""


def limits_in(text: str, vocabulary: Vocabulary) -> Iterator[Limit]:
    """The limits in a text: decades first, then ranges, then single bounds."""
    taken: list[Limit] = []
    for pattern, read in ((DECADE, _decade), (RANGE, _bounds), (BOUND, _bounds)):
        for match in pattern.finditer(text):
            if any(match.start() < other.end and other.start < match.end() for other in taken):
                continue
            limit = read(match, vocabulary)
            if limit is not None:
                taken.append(limit)
                yield limit


def _decade(match: re.Match[str], vocabulary: Vocabulary) -> Limit | None:
    digits = match["digits"]
    first = DECADES[match["word"].lower()] if digits is None else int(digits)
    if first < 100:
        first += 1900 if first >= 30 else 2000
    column = vocabulary.column(*YEAR)
    if column is None:
        return Limit(*match.span(), None, "items have no year")
    low, high = (_year(vocabulary, column, year) for year in (first, first + 10))
    return Limit(*match.span(), f"{quoted(column)} >= {low} and {quoted(column)} < {high}", is_decade=True)


def _bounds(match: re.Match[str], vocabulary: Vocabulary) -> Limit | None:
    groups = match.groupdict()
    texts = [groups[name].replace(",", "") for name in ("low", "high", "number") if groups.get(name) is not None]
    phrase = re.sub(r"\s+", " ", groups.get("phrase") or "between").lower()
    before = BEFORE.search(match.string, 0, match.start())
    named = None if before is None else vocabulary.column(key_of(before[1]))
    unit = key_of(groups["unit"] or "")
    by_unit = vocabulary.column(unit, *UNITS.get(unit, ())) if unit else None
    if groups["unit"] in ("€", "$", "£") or groups["money"] is not None:
        by_unit = vocabulary.column(*PRICE)
    are_years = all(text.isdecimal() and int(text) in YEARS for text in texts)
    candidates = [by_unit, named, vocabulary.column(*ABOUT.get(phrase, ())),
                  vocabulary.column(*YEAR) if are_years else None,
                  None if phrase in VAGUE else vocabulary.column(*PRICE)]  # fmt: skip
    column = next((name for name in candidates if name is not None), None)
    start = before.start() if before is not None and named is not None and column == named else match.start()
    end = match.end() if unit in UNITS or by_unit is not None or not unit else match.end() - len(groups["after"])
    if column is None:
        return None if phrase in VAGUE else Limit(start, end, None, f"say which number: {_shown(vocabulary)}")
    values = [_year(vocabulary, column, int(text)) if vocabulary.is_date(column) else text for text in texts]
    name = quoted(column)
    if len(values) == 2:
        return Limit(start, end, f"{name} >= {values[0]} and {name} <= {values[1]}")
    if phrase in VAGUE and vocabulary.is_date(column):  # "from 1995": in that year
        return Limit(start, end, f"{name} >= {values[0]} and {name} < {_year(vocabulary, column, int(texts[0]) + 1)}")
    sign = "=" if phrase == "from" and are_years else SIGNS[phrase]
    return Limit(start, end, f"{name} {sign} {values[0]}")


def _year(vocabulary: Vocabulary, column: str, year: int) -> str:
    """A year as the column has it."""
    return f"'{year}-01-01'" if vocabulary.is_date(column) else str(year)


def quoted(name: str) -> str:
    """A column's name as conditions take it."""
    if re.fullmatch(r"[^\W\d][\w.]*", name) and name.lower() not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def _shown(vocabulary: Vocabulary) -> str:
    return ", ".join(list(vocabulary.numbers.values())[:8])
