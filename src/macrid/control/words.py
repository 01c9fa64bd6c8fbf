"""Wishes in words, without a language model: "something like Alien, but lighter", "newer, less horror, no westerns".

Words are looked up in the vocabulary of a model and a small thesaurus, tolerating typos, and become

    like TITLE, similar to TITLE                  items of the history
    more, less, newer, cheaper, funnier X         moves; a concept gets a share of the list
    no, without, only X, under 30, the 90s        conditions, in the language of `macrid.control.where`

All that was understood, and what was not and why, is part of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from macrid.control import thesaurus
from macrid.control.limits import limits_in, quoted
from macrid.control.moves import Move
from macrid.control.thesaurus import DEGREES, IGNORED, PLAIN, SHARES
from macrid.control.titles import CHOICES, Match, Titles
from macrid.control.vocabulary import Concept, Ends, Number, Term, Value, Vocabulary, key_of
from macrid.data.ids import Id
from macrid.errors import RequestError
from macrid.models.base import Recommender

LONGEST = 1_000  # characters
MOST_WORDS = 4  # in a term
MOST_SEARCHED = 20  # titles; a search takes time
UNKNOWN = "no attribute, value or name like this"
LIKE = re.compile(
    r"\b(?:similar to|in the (?:style|vein|spirit) of|along the lines of|reminds me of|comparable to|such as|"
    r"(?:i |we )?(?:really |also )?(?:like|liked|love|loved|enjoyed|adored|watched|bought|saw))\s+(?=\S)",
    re.IGNORECASE,
)
WANT = re.compile(r"\b(?:would|'d|’d|i'd|feel)\s+(?:really\s+)?(?:like|love)\b(?:\s+to\b)?", re.IGNORECASE)
NOTHING_BUT = re.compile(r"\b(?:nothing|none)\s+but\b", re.IGNORECASE)
QUOTED = re.compile(r"[\"“”«]([^\"“”«»]+)[\"“”»]|(?<!\w)['‘]([^'‘’]+)['’](?!\w)")
STOP = re.compile(r"\s*(?:[,;!?]|\.(?=\s|$)|\b(?:but|yet|though|however|except that)\b)\s*", re.IGNORECASE)
END = re.compile(
    r"\s*(?:$|[,;!?&]|\.(?=\s|$)|\b(?:but|yet|though|however|and|or|with|without|only|just|plus|except)\b)",
    re.IGNORECASE,
)
JOINED = re.compile(r"\s*(?:,\s*(?:and|or)?|\band\b|\bor\b|&)\s*", re.IGNORECASE)
WORD = re.compile(r"\w+(?:['’]\w+)*(?:-\w+(?:['’]\w+)*)*")
MODIFIERS = {
    **dict.fromkeys(thesaurus.MORE, "more"),
    **dict.fromkeys(thesaurus.LESS, "less"),
    **dict.fromkeys(thesaurus.NEVER, "never"),
    **dict.fromkeys(thesaurus.ONLY, "only"),
}


@dataclass(frozen=True)
class Understood:
    text: str
    """As written."""
    meaning: str
    """Such as "less genres: Horror"."""

    def as_json(self) -> dict[str, Any]:
        return {"text": self.text, "meaning": self.meaning}


@dataclass(frozen=True)
class NotUnderstood:
    text: str
    why: str
    choices: tuple[Id, ...] = ()
    """Items that may be meant, if it is unclear which."""

    def as_json(self) -> dict[str, Any]:
        return {"text": self.text, "why": self.why, "choices": [str(item) for item in self.choices]}


@dataclass(frozen=True)
class Wishes:
    """What a person asked for in words."""

    history: tuple[Id, ...] = ()
    """Items that the person named as examples."""
    moves: tuple[Move, ...] = ()
    where: str | None = None
    """A condition on items."""
    understood: tuple[Understood, ...] = ()
    not_understood: tuple[NotUnderstood, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "history": [str(item) for item in self.history],
            "moves": [move.as_json() for move in self.moves],
            "where": self.where,
            "understood": [entry.as_json() for entry in self.understood],
            "not_understood": [entry.as_json() for entry in self.not_understood],
        }


class Words:
    """Reads wishes about one model. Its vocabulary is read once; make another when names or items change."""

    def __init__(self, model: Recommender, titles: Titles | None = None) -> None:
        self.vocabulary = Vocabulary(model)
        self.titles = titles or Titles(model)

    def __call__(self, text: str) -> Wishes:
        """The wishes in a text; the same text always gives the same wishes."""
        if not text.strip():
            raise RequestError('the wish is empty; write one such as "newer, less horror"')
        if len(text) > LONGEST:
            raise RequestError(f"the wish has {len(text):,} characters; the limit is {LONGEST:,}")
        return _Reader(self.vocabulary, self.titles).read(text)


@dataclass
class _Modifier:
    """How the next terms are meant."""

    kind: str | None = None
    """more, less, never or only; None if not said."""
    degree: float = PLAIN
    start: int | None = None
    """Where its words start; None if they belong to an earlier term."""


@dataclass
class _Reader:
    vocabulary: Vocabulary
    titles: Titles
    history: list[Id] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    """All of them hold."""
    decades: list[str] = field(default_factory=list)
    """One of them holds."""
    wanted: dict[str, list[str]] = field(default_factory=dict)
    """Values by attribute, of which an item has one."""
    understood: list[Understood] = field(default_factory=list)
    not_understood: list[NotUnderstood] = field(default_factory=list)

    def read(self, text: str) -> Wishes:
        text = NOTHING_BUT.sub("only", WANT.sub(" ", text))
        for part in self._without_titles(text):
            start = 0
            for stop in [*STOP.finditer(part), None]:
                self._clause(part[start : None if stop is None else stop.start()])
                start = len(part) if stop is None else stop.end()
        return Wishes(
            tuple(dict.fromkeys(self.history)), tuple(_merged(self.moves)), self._where(), tuple(self.understood),
            tuple(self.not_understood),
        )  # fmt: skip

    def _where(self) -> str | None:
        conditions = [
            f"{quoted(name)} = {_text(values[0])}"
            if len(values) == 1
            else f"{quoted(name)} in ({', '.join(map(_text, values))})"
            for name, values in self.wanted.items()
        ]
        if self.decades:
            conditions.append(" or ".join(self.decades))
        conditions = list(dict.fromkeys([*conditions, *self.conditions]))
        several = len(conditions) > 1
        return " and ".join(f"({each})" if several and " or " in each else each for each in conditions) or None

    # Titles

    def _without_titles(self, text: str) -> Iterator[str]:
        """The parts of a text around titles, which go into the history."""
        at = 0
        while at < len(text):
            like, quoted = LIKE.search(text, at), QUOTED.search(text, at)
            if quoted is not None and (like is None or quoted.start() <= like.end()):
                yield text[at : quoted.start() if like is None else min(like.start(), quoted.start())]
                self._example(self._find(quoted[1] or quoted[2]))
                at = quoted.end()
            elif like is not None:
                yield text[at : like.start()]
                at = self._examples(text, like.end())
            else:
                yield text[at:]
                return

    def _examples(self, text: str, at: int) -> int:
        """Read the titles that start here, joined by commas or "and"; returns where the last one ends."""
        match, end = self._title(text, at)
        if not match.is_exact and not match.choices[1:] and self._is_wish(text[at:end]):
            return at  # "I like comedies"
        self._example(match)
        while joined := JOINED.match(text, end):
            match, last = self._title(text, joined.end())
            if not match.is_exact or self._is_wish(text[joined.end() : last]):
                break
            self._example(match)
            end = last
        return end

    def _title(self, text: str, at: int) -> tuple[Match, int]:
        """The longest title that starts here, else what the next few words may mean; and where it ends."""
        ends = [end.start() for end in END.finditer(text, at) if end.start() > at] or [len(text)]
        for end in reversed(ends):
            if (match := self.titles.exact(text[at:end])) is not None:
                return match, end
        return self._find(text[at : ends[0]]), ends[0]

    def _find(self, title: str) -> Match:
        if len(self.history) + len(self.not_understood) >= MOST_SEARCHED:
            raise RequestError(f"more than {MOST_SEARCHED} titles; name fewer")
        return self.titles.find(title)

    def _is_wish(self, text: str) -> bool:
        words = [word for word in WORD.findall(text) if word.lower() not in (*IGNORED, *MODIFIERS, *DEGREES)]
        return bool(words) and bool(self.vocabulary.find(" ".join(words)) or all(map(self.vocabulary.find, words)))

    def _example(self, match: Match) -> None:
        if not match.text:
            return
        if match.position is None:
            choices = tuple(self.titles.id_of(at) for at in match.choices[:CHOICES])
            self.not_understood.append(NotUnderstood(match.text, self.titles.question(match), choices))
            return
        self.history.append(self.titles.id_of(match.position))
        self.understood.append(Understood(match.text, f"like {self.titles.caption(match.position)}"))

    # Clauses

    def _clause(self, text: str) -> None:
        for limit in list(limits_in(text, self.vocabulary)):
            written = text[limit.start : limit.end].strip()
            text = text[: limit.start] + "|" * (limit.end - limit.start) + text[limit.end :]
            if limit.condition is None:
                self.not_understood.append(NotUnderstood(written, limit.why))
            else:
                (self.decades if limit.is_decade else self.conditions).append(limit.condition)
                self.understood.append(Understood(written, limit.condition))
        words, at, first = list(WORD.finditer(text)), 0, (len(self.moves), len(self.understood))
        modifier, unknown = _Modifier(), list[str]()
        while at < len(words):
            following, count = _modified(words, at, modifier)
            if following is not None:
                modifier = following
            else:
                terms, count = self._term(text, words, at)
                if not terms:
                    if words[at][0].lower() not in IGNORED:
                        unknown.append(words[at][0])
                else:
                    end = words[at + count - 1].end()
                    modifier = self._wish(text, words[at].start(), end, terms, modifier, first)
            at += count
        known = [word for word in unknown if key_of(word) in self.vocabulary.missing]
        for word in known:
            name = self.vocabulary.missing[key_of(word)]
            self.not_understood.append(NotUnderstood(word, f"items have no column such as '{name}'"))
        if rest := [word for word in unknown if word not in known]:
            self.not_understood.append(NotUnderstood(" ".join(rest), UNKNOWN))

    def _term(self, text: str, words: list[re.Match[str]], at: int) -> tuple[list[Term], int]:
        """The terms that the next words stand for, and how many words these are."""
        spans = [(count, text[words[at].start() : words[at + count - 1].end()])
                 for count in range(min(MOST_WORDS, len(words) - at), 0, -1)]  # fmt: skip
        for count, span in spans:
            if (count > 1 or span.lower() not in IGNORED) and (terms := self.vocabulary.find(span)):
                return terms, count
        for count, span in spans[-2:]:
            if not {word.lower() for word in WORD.findall(span)} & (IGNORED | {*MODIFIERS} | {*DEGREES}):
                key = self.vocabulary.nearest(span)
                if key is not None:
                    return self.vocabulary.terms[key], count
        return [], 1

    def _wish(
        self, text: str, start: int, end: int, terms: list[Term], modifier: _Modifier, first: tuple[int, int]
    ) -> _Modifier:
        """Act on a term; returns the modifier of the terms that follow."""
        is_comparative = text[start:end].lower().endswith("er") and not isinstance(terms[0], Value | Concept)
        if is_comparative and modifier.start is None:
            modifier = _Modifier()
        written = text[start if modifier.start is None else modifier.start : end]
        kind = modifier.kind or "more"
        concept = next((term for term in terms if isinstance(term, Concept)), None)
        if concept is not None and not modifier.kind and self._scoped(concept, first, written):
            return _Modifier()
        value = next((term for term in terms if isinstance(term, Value)), None)
        if kind in ("never", "only") and value is not None:
            if kind == "never":
                name = quoted(value.attribute)
                self.conditions.append(f"{name} != {_text(value.value)} or {name} is missing")
            elif value.value not in self.wanted.setdefault(value.attribute, []):
                self.wanted[value.attribute].append(value.value)
            self.understood.append(Understood(written, f"{'only' if kind == 'only' else 'no'} {value.name}"))
            return replace(modifier, start=None)
        sign, why = (1 if kind in ("more", "only") else -1), UNKNOWN
        degree = 1.0 if kind == "never" else modifier.degree
        for term in terms:
            if isinstance(term, Number) and term.sign is None and modifier.kind is None:
                why = f"say which way: more or less {term.name}"
                continue
            moves, meaning, why = self._moves(term, sign, degree, kind)
            if moves:
                self.moves += moves
                self.understood.append(Understood(written, meaning))
                break
        else:
            self.not_understood.append(NotUnderstood(written, why))
        return replace(modifier, start=None)

    def _moves(self, term: Term, sign: int, degree: float, kind: str) -> tuple[list[Move], str, str]:
        """The moves of a term, what they mean, and why there are none if so."""
        amount = round(sign * degree, 4)
        if isinstance(term, Concept):
            share = min(1.0, SHARES[kind] * (degree / PLAIN if kind == "more" else PLAIN / degree))
            share = round(share, 2)
            return [Move(concept=term.number, share=share)], f"{term.name}: {share:.0%} of the list", ""
        if isinstance(term, Ends):
            more = "more" if amount > 0 else "less"
            return self.vocabulary.along_ends(term, amount), f"{more} {term.name}", ""
        if isinstance(term, Number):
            amount *= term.sign or 1
            pairs: list[tuple[Number | Value, float]] = [(term, amount)]
        else:
            pairs = [(term, amount)] if isinstance(term, Value) else [(value, s * amount) for value, s in term.values]
        fixed = [self.vocabulary.why_fixed(each.name) for each, _ in pairs]
        movable = [pair for pair, why in zip(pairs, fixed, strict=True) if why is None]
        moves = [Move(towards=each.name, amount=far) for each, far in movable]
        return moves, self._meaning(moves), next((why for why in fixed if why is not None), "")

    def _scoped(self, concept: Concept, first: tuple[int, int], written: str) -> bool:
        """Restrict the moves of this clause to a concept ("larger bags"), if it allows any of them."""
        moves = [
            replace(move, concept=concept.number)
            for move in self.moves[first[0] :]
            if move.towards is not None and self.vocabulary.why_fixed(move.towards, concept.number) is None
        ]
        if moves:
            text = " ".join([*(entry.text for entry in self.understood[first[1] :]), written])
            self.moves[first[0] :] = moves
            self.understood[first[1] :] = [Understood(text, f"{self._meaning(moves)}, in {concept.name}")]
        return bool(moves)

    def _meaning(self, moves: list[Move]) -> str:
        """Such as "more genres: Comedy, Romance; lower price"."""
        groups: dict[str, list[str]] = {}
        for move in moves:
            assert move.towards is not None
            assert move.amount is not None
            is_number = move.towards in self.vocabulary.numbers.values()
            more, less = ("higher", "lower") if is_number else ("more", "less")
            attribute, _, value = move.towards.partition(": ")
            way = more if move.amount > 0 else less
            groups.setdefault(f"{way} {attribute}", []).append(value)
        return "; ".join(f"{what}: {', '.join(values)}" if values[0] else what for what, values in groups.items())


def _modified(words: list[re.Match[str]], at: int, modifier: _Modifier) -> tuple[_Modifier | None, int]:
    """The modifier after the next words, if they say how much or whether, and how many these are."""
    phrase, count = _longest(words, at, MODIFIERS)
    degree, degree_count = _longest(words, at, DEGREES)
    is_fresh = modifier.start is not None
    start = modifier.start if is_fresh else words[at].start()
    if phrase is not None and count >= degree_count:
        if is_fresh and modifier.kind is None:  # "much more", "a bit less"
            return _Modifier(MODIFIERS[phrase], modifier.degree, start), count
        return _Modifier(MODIFIERS[phrase], start=words[at].start()), count
    if degree is not None:
        return _Modifier(modifier.kind if is_fresh else None, DEGREES[degree], start), degree_count
    return None, 0


def _longest(words: list[re.Match[str]], at: int, phrases: dict[str, Any]) -> tuple[str | None, int]:
    """The longest of these phrases that starts here, and its number of words."""
    for count in range(min(MOST_WORDS, len(words) - at), 0, -1):
        phrase = " ".join(word[0] for word in words[at : at + count]).lower().replace("’", "'")
        if phrase in phrases:
            return phrase, count
    return None, 0


def _text(value: str) -> str:
    """A text as conditions take it."""
    return "'" + value.replace("'", "''") + "'"


def _merged(moves: list[Move]) -> list[Move]:
    """Without repetitions: the last of opposite moves counts, and the larger of two in the same direction."""
    merged: dict[Any, Move] = {}
    for move in moves:
        key = move.towards, move.concept, move.dimension, move.share is None
        last = merged.pop(key, None)
        is_larger = (
            last is not None and move.amount is not None and last.amount is not None
            and last.amount * move.amount > 0 and abs(last.amount) > abs(move.amount)
        )  # fmt: skip
        merged[key] = last if is_larger and last is not None else move
    return list(merged.values())
