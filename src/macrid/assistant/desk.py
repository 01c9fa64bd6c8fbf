"""Answers an assistant's questions about one run, as text and as data. Items may be named by title."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from macrid.assistant import shapes
from macrid.assistant.texts import attribute_text, lines_of, one_line, plain
from macrid.concepts.directions import dimension_names
from macrid.concepts.effects import strongest_first
from macrid.concepts.meaning import meaning_of
from macrid.concepts.names import DimensionName, ends, label
from macrid.concepts.space import Space, space_of
from macrid.concepts.understanding import fresh_names
from macrid.control.engine import Answer, Engine, Question, changes
from macrid.control.explain import explain
from macrid.control.moves import Move
from macrid.control.titles import Titles
from macrid.control.traverse import traverse
from macrid.control.vocabulary import Number, Value, key_of
from macrid.control.where import Selector
from macrid.control.words import Words
from macrid.data.attributes import POPULARITY, TITLE, read_attributes
from macrid.errors import RangeWarning, RequestError
from macrid.models.base import Recommender
from macrid.models.forks import new_lock
from macrid.models.macridvae import MacridVAE

MOST_ITEMS = 100
MOST_KNOBS = 8  # shown per concept
MOST_SHOWN_VALUES = 20  # of an attribute
P = ParamSpec("P")
A = TypeVar("A", bound=shapes.Answer)


class Unclear(Exception):  # noqa: N818  # not an error
    """Several items may be meant; the message is what to ask."""


@dataclass(frozen=True)
class Reply:
    """An answer as data, and as text."""

    content: shapes.Answer
    text: str


def answering(shape: type[A]) -> Callable[[Callable[P, tuple[A, str]]], Callable[P, Reply]]:
    """One question at a time; warnings become part of the answer, and an unclear name becomes a question."""

    def decorate(ask: Callable[P, tuple[A, str]]) -> Callable[P, Reply]:
        @wraps(ask)
        def answer(*args: P.args, **kwargs: P.kwargs) -> Reply:
            desk: Any = args[0]
            with desk.lock, warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                warnings.simplefilter("ignore", RangeWarning)
                try:
                    content, text = ask(*args, **kwargs)
                except Unclear as question:
                    return Reply(shape(question=str(question)), str(question))
            extra = list(dict.fromkeys(one_line(str(entry.message)) for entry in caught))
            content = content.model_copy(update={"warnings": [*content.warnings, *extra]})
            return Reply(content, lines_of([*content.understood, text, *(f"note: {w}" for w in content.warnings)]))

        return answer

    return decorate


class Desk:
    """Thread-safe: questions are answered one after the other."""

    def __init__(self, model: Recommender) -> None:
        model.check_fitted()
        if isinstance(model, MacridVAE) and meaning_of(model).names is None:
            meaning_of(model).names = fresh_names(model)
        self.model, self.lock = model, new_lock()
        self.engine, self.titles, self._select = Engine(model), Titles(model), Selector(model, len(model.placements))

    @answering(shapes.Found)
    def search(self, query: str, n: int, where: str | None) -> tuple[shapes.Found, str]:
        allowed, notes = self._allowed(where)
        found, total = self.titles.search.find(query, limit=_checked(n), among=allowed)
        items = [self._item(int(at)) for at in found]
        if not items:
            return shapes.Found(warnings=notes), f"no item matches '{query[:80]}'"
        return shapes.Found(items=items, total=total, warnings=notes), f"{total:,} found\n{_numbered(items)}"

    @answering(shapes.Items)
    def recommend(
        self, likes: Sequence[str], n: int, where: str | None, exclude: Sequence[str]
    ) -> tuple[shapes.Items, str]:
        history, understood = self._positions(likes)
        hidden, others = self._positions(exclude)
        allowed, notes = self._allowed(where)
        answer, fewer = self._ask(history, n, np.union1d(history, hidden), allowed)
        items = self._scored(answer)
        shape = shapes.Items(items=items, understood=[*understood, *others], warnings=[*notes, *fewer])
        return shape, _numbered(items)

    @answering(shapes.Steered)
    def steer_in_words(self, wish: str, likes: Sequence[str], n: int) -> tuple[shapes.Steered, str]:
        named, understood = self._positions(likes)
        wishes = self.words(wish)
        missed = [f"{entry.text}: {entry.why}" for entry in wishes.not_understood]
        history = np.array([*named, *self.model.items.positions(wishes.history)], dtype=np.int64)
        if unclear := [entry.why for entry in wishes.not_understood if entry.choices]:
            raise Unclear("; ".join(unclear))
        if not (wishes.moves or wishes.where or wishes.history):
            example = 'write one such as "newer, less horror" or "like Alien, but lighter"'
            raise RequestError("; ".join(missed) or f"no wish in it; {example}")
        allowed, notes = self._allowed(wishes.where)
        answer, fewer = self._ask(np.unique(history), n, np.unique(history), allowed, wishes.moves)
        items = self._scored(answer)
        moved = changes(
            [] if answer.before is None else answer.before.positions.tolist(), answer.ranking.positions.tolist()
        )
        came, went = ([self.titles.caption(entry.item) for entry in moved[kind]] for kind in ("in", "out"))
        shape = shapes.Steered(
            items=items, understood=[*understood, *(f"{entry.text} = {entry.meaning}" for entry in wishes.understood)],
            not_understood=missed, where=wishes.where, moves=[move.as_json() for move in wishes.moves],
            came_in=came if wishes.moves else [], went_out=went, warnings=[*notes, *fewer],
        )  # fmt: skip
        return shape, lines_of([*(f"not understood: {entry}" for entry in missed), _numbered(items)])

    @answering(shapes.Explained)
    def explain(self, items: Sequence[str], likes: Sequence[str]) -> tuple[shapes.Explained, str]:
        positions, understood = self._positions(items)
        history, others = self._positions(likes)
        if not len(history) or not len(positions):
            raise RequestError("give at least one liked item and one item to explain")
        ids, liked = ([self.model.items[int(at)] for at in each] for each in (positions, history))
        reasons, lines = [], []
        for at, reason in zip(positions, explain(self.model, liked, ids), strict=True):
            item = self._item(int(at), reason.item.score)
            raised = [pull.title or str(pull.id) for pull in reason.pulls if pull.amount > 0]
            place = {"place": reason.account.rank, "place_for_everybody": reason.account.stages[0].rank}
            moved = [shapes.Moved(by=part.label, places=part.places) for part in reason.account.merged if part.places]
            reasons.append(shapes.Reason(item=item, share=reason.share, raised_by=raised, **place, moved=moved))
            parts = [] if reason.share is None else [f"{reason.share:.0%} of what is liked is {item.concept}"]
            parts.append(f"raised by {', '.join(raised)}" if raised else "none of the liked items raises it")
            lines.append(f"{item.title or item.id}: {'; '.join([*parts, str(reason.account)])}")
        return shapes.Explained(reasons=reasons, understood=[*understood, *others]), lines_of(lines)

    @answering(shapes.Items)
    def similar(self, item: str, n: int, where: str | None) -> tuple[shapes.Items, str]:
        (position,), understood = self._positions([item])
        allowed, notes = self._allowed(where)
        ranking = self.model.similar_items(self.model.items[int(position)], len(self.model.items) - 1)
        positions = self.model.items.positions(ranking.ids)
        chosen = [
            (at, entry.score) for at, entry in zip(positions, ranking, strict=True) if allowed is None or allowed[at]
        ]
        items = [self._item(int(at), score) for at, score in chosen[: _checked(n)]]
        return shapes.Items(items=items, understood=understood, warnings=notes), _numbered(items)

    @answering(shapes.Varied)
    def variations(self, item: str, along: str, steps: int) -> tuple[shapes.Varied, str]:
        (position,), understood = self._positions([item])
        concept = int(self.space.concept_of[position])
        number = self._dimension(concept, along)
        walk = traverse(self.model, self.model.items[int(position)], number, min(steps, 50), keep_start=True)
        low, high = ends(self._names(concept, number))
        places = self.model.items.positions(walk.ids)
        steps_ = [
            shapes.Step(
                item=self._item(int(at)), value=round(stop.value, 4), is_start=stop.is_start, differs=list(stop.differs)
            )
            for at, stop in zip(places, walk.items, strict=True)
        ]
        name = walk.name or f"dimension {number}"
        head = f"{name}, from {low or 'low'} to {high or 'high'}"
        lines = [
            f"{'→' if step.is_start else ' '} {_line(step.item)}{stop.also_differs and f' ({stop.also_differs})'}"
            for step, stop in zip(steps_, walk.items, strict=True)
        ]
        shape = shapes.Varied(dimension=name, low=low or None, high=high or None, steps=steps_, understood=understood)
        return shape, lines_of([head, *lines])

    @answering(shapes.Known)
    def concepts(self) -> tuple[shapes.Known, str]:
        model = self.model
        known = shapes.Known(model=type(model).__name__, items=len(model.items), attributes=self._attributes())
        lines = [f"{known.model}, {known.items:,} items"]
        if isinstance(model, MacridVAE):
            names = self.space.meaning.names
            assert names is not None
            typical = self.space.typical_items()
            for entry in names.concepts:
                examples = [example.title or str(example.id) for example in typical[entry.concept]]
                knobs = [_knob(self._names(entry.concept, j)) for j in self._knobs(entry.concept)]
                count = len(self.space.members(entry.concept))
                shape = shapes.Concept(
                    number=entry.concept, name=label(entry), items=count, typical=examples, dimensions=knobs
                )
                known.concepts.append(shape)
                lines.append(f"{shape.number}. {shape.name}: {count:,} items such as {', '.join(examples)}")
                if knobs:
                    lines.append(f"   knobs: {'; '.join(knobs)}")
            known.towards.extend(self._towards())
            lines.append(f"can be raised or lowered: {', '.join(known.towards)}")
        lines += [f"{name}: {attribute_text(values)}" for name, values in known.attributes.items()]
        return known, lines_of(lines)

    @property
    def words(self) -> Words:
        return self._words

    @cached_property
    def _words(self) -> Words:
        return Words(self.model, self.titles)

    @property
    def space(self) -> Space:
        """An error for a model without concepts."""
        return space_of(self.model)

    # Items

    def _positions(self, texts: Iterable[str]) -> tuple[np.ndarray, list[str]]:
        """Of named items, and how names were read unless they are exact."""
        matches = [self.titles.find(str(text)) for text in texts]
        unclear = [match for match in matches if match.position is None and match.choices]
        if unclear:
            raise Unclear("; ".join(map(self.titles.question, unclear)))
        unknown = [match for match in matches if match.position is None]
        if unknown:
            raise RequestError(self.titles.question(unknown[0]))
        found = {match.position: match for match in matches if match.position is not None}
        captions = {at: self.titles.caption(at) for at in found}
        read = [f"'{found[at].text}' = {text} [{self.titles.id_of(at)}]" for at, text in captions.items()]
        return np.array(list(found), dtype=np.int64), [
            line
            for at, line in zip(found, read, strict=True)
            if found[at].text not in (captions[at], str(self.titles.id_of(at)))
        ]

    def _item(self, position: int, score: float | None = None) -> shapes.Item:
        concept = None
        if isinstance(self.model, MacridVAE):
            names = self.space.meaning.names
            number = int(self.space.concept_of[position])
            concept = f"concept {number}" if names is None else label(names.concept(number))
        table, attributes = self.model.table, dict[str, Any]()
        if table is not None:
            row = table.slice(position, 1).to_pylist()[0]
            attributes = {name: plain(value) for name, value in row.items() if name != TITLE and value is not None}
        title = None if table is None or TITLE not in table.column_names else self.titles.caption(position)
        score = None if score is None else float(f"{score:.4g}")
        return shapes.Item(
            id=str(self.titles.id_of(position)), title=title, concept=concept, attributes=attributes, score=score
        )

    def _scored(self, answer: Answer) -> list[shapes.Item]:
        ranking = answer.ranking
        pairs = zip(ranking.positions.tolist(), ranking.scores.tolist(), strict=True)
        return [self._item(at, score) for at, score in pairs]

    def _allowed(self, where: str | None) -> tuple[np.ndarray | None, list[str]]:
        """(items,) the items that meet a condition, and warnings about it."""
        if where is None or not where.strip():
            return None, []
        selection = self._select(where)
        if not selection.mask.any():
            raise RequestError("; ".join([f"no item meets {where[:200]}", *selection.warnings]))
        return selection.mask, list(selection.warnings)

    def _ask(
        self, history: np.ndarray, n: int, hidden: np.ndarray, allowed: np.ndarray | None, moves: tuple[Move, ...] = ()
    ) -> tuple[Answer, list[str]]:
        """Up to n items; a warning if there are fewer."""
        left = int(self.model.items_left(self.model.matrix([hidden]), allowed)[0])
        if left == 0:
            raise RequestError("no item is left after exclusions; exclude less")
        count = min(_checked(n), left)
        answer = self.engine.ask(Question(history, count, hidden, allowed, moves))
        return answer, [] if count == n else [f"only {count} items are left"]

    # Concepts

    def _names(self, concept: int, dimension: int) -> DimensionName:
        names = self.space.meaning.names
        assert names is not None
        return names.dimension(concept, dimension)

    def _knobs(self, concept: int) -> list[int]:
        """Named dimensions, popularity last."""
        numbers = list(dimension_names(self.space, concept))
        return sorted(numbers, key=lambda j: self._names(concept, j).attribute == POPULARITY)[:MOST_KNOBS]

    def _dimension(self, concept: int, text: str) -> int:
        """A dimension by number, by its name or an end, or by a word for what it follows, such as "newer"."""
        if text.strip().isdecimal():
            return int(text)
        key, aliases = key_of(text), dimension_names(self.space, concept)
        wanted = {key} | {
            key_of(term.name if isinstance(term, Number | Value) else "") for term in self.words.vocabulary.find(text)
        }
        near = self.words.vocabulary.nearest(text)
        wanted |= set() if near is None else {near}
        for number, names in aliases.items():
            entry = self._names(concept, number)
            known = [*names, *(part for end in (entry.low, entry.high) for part in (end or "").split(", "))]
            if wanted & {key_of(name) for name in known if name}:
                return number
        known_names = ", ".join(names[0] for names in aliases.values()) or "none with a name; give a number"
        raise RequestError(f"no dimension '{text[:80]}' for this item; its dimensions are {known_names}")

    def _towards(self) -> list[str]:
        """Attributes that can be raised or lowered, strongest effect first."""
        measured = strongest_first(self.space.meaning.effects)
        if measured:
            return list(dict.fromkeys(effect.name for effect in measured if effect.concept is None))
        columns = (column.name for column in self.space.columns)
        return [name for name in columns if self.words.vocabulary.why_fixed(name) is None]

    def _attributes(self) -> dict[str, list[str]]:
        known: dict[str, list[str]] = {}
        for attribute in read_attributes(self.model.table):
            if attribute.numbers is not None:
                known[attribute.name] = [f"{attribute.numbers.min():g}", f"{attribute.numbers.max():g}"]
                continue
            order = np.argsort(-np.asarray((attribute.shares > 0).sum(axis=0)).ravel(), kind="stable")
            known[attribute.name] = [attribute.values[at] for at in order[:MOST_SHOWN_VALUES]]
        return known


def _checked(n: int) -> int:
    if not 1 <= n <= MOST_ITEMS:
        raise RequestError(f"n is {n}; give a number from 1 to {MOST_ITEMS}")
    return n


def _line(item: shapes.Item) -> str:
    """Title, attributes and id; numbers have their names."""
    about = (
        f"{name} {value}" if isinstance(value, int | float) else f"{value}" for name, value in item.attributes.items()
    )
    text = ", ".join(about)
    return f"{item.title or item.id}{f' ({text})' if text else ''} [{item.id}]"


def _numbered(items: Sequence[shapes.Item]) -> str:
    return lines_of(f"{rank}. {_line(item)}" for rank, item in enumerate(items, start=1))


def _knob(entry: DimensionName) -> str:
    low, high = ends(entry)
    return f"{entry.name or entry.attribute or entry.dimension} ({low} – {high})" if low or high else str(entry.name)
