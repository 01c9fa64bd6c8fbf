"""Steering: move a user along a dimension, an attribute or between concepts, and recommend again."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from macrid.concepts.space import space_of
from macrid.control.engine import Engine, Question, changes
from macrid.control.moves import Move
from macrid.control.recommend import all_rules, described, is_strict, warn
from macrid.control.rules import Rules
from macrid.control.state import Effect
from macrid.data.ids import Id
from macrid.errors import RangeWarning, RequestError
from macrid.models.base import Recommender
from macrid.models.results import Recommendations


@dataclass(frozen=True)
class Change:
    """An item whose rank changed; ranks start at 1, and None is not in the list."""

    id: Id
    title: str | None
    before: int | None
    after: int | None

    def as_json(self) -> dict[str, Any]:
        return {"id": str(self.id), "title": self.title, "before": self.before, "after": self.after}


@dataclass(frozen=True)
class Steered(Recommendations):
    """Recommendations after moves, and what the moves changed."""

    before: Recommendations = field(default_factory=lambda: Recommendations(()))
    """Without any move."""
    moves: tuple[Move, ...] = ()
    effects: tuple[Effect, ...] = ()
    shares: tuple[float, ...] = ()
    """(concepts,) of the total probability."""
    request: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def moved(self) -> dict[str, list[Change]]:
        """Items that came in, went out, moved up or moved down."""
        titles = {item.id: item.title for item in (*self.before, *self.items)}
        return {
            kind: [Change(change.item, titles[change.item], change.before, change.after) for change in group]
            for kind, group in changes(self.before.ids, self.ids).items()
        }

    def _notes(self) -> tuple[str, dict[Id, str]]:
        """The effects; new items, and by how many ranks others moved."""
        moved = self.moved
        ranks = {c.id: (c.before or 0) - (c.after or 0) for c in (*moved["up"], *moved["down"])}
        marks = {item: f"▲{by}" if by > 0 else f"▼{-by}" for item, by in ranks.items()}
        marks |= {change.id: "new" for change in moved["in"]}
        return "; ".join(map(_effect_text, self.effects)), marks

    def steer(self, **move: Any) -> Steered:
        """Add a move."""
        return steer(**{**self.request, "moves": (*self.moves, Move(**move))})

    def undo(self, count: int = 1) -> Steered:
        """Drop the last moves."""
        if not 1 <= count <= len(self.moves):
            raise RequestError(f"cannot undo {count} of {len(self.moves)} moves")
        return steer(**{**self.request, "moves": self.moves[: len(self.moves) - count]})

    def as_json(self) -> dict[str, Any]:
        return {
            **super().as_json(),
            "moved": {name: [change.as_json() for change in changes] for name, changes in self.moved.items()},
            "moves": [move.as_json() for move in self.moves],
            "effects": [effect.as_json() for effect in self.effects],
            "shares": list(self.shares),
        }


def steer(
    model: Recommender,
    history: Iterable[Id],
    *,
    moves: Sequence[Move | Mapping[str, Any]] = (),
    n: int = 10,
    exclude_seen: bool = True,
    include: Iterable[Id] | None = None,
    exclude: Iterable[Id] | None = None,
    where: str | None = None,
    rules: Rules | Mapping[str, Any] | None = None,
    strict: bool = False,
    bounded: bool = True,
    **move: Any,
) -> Steered:
    """Recommend n items for a history after some moves, with what the moves changed.

    moves: applied in order, as `Move` or its JSON; the same moves always give the same list.
    move: one more, by its fields: concept=2, dimension=3, to=0.4.
    bounded: stop at the range of real users. Moves beyond it give a `RangeWarning` either way.
    exclude_seen, include, exclude, where, rules, strict: as for `model.recommend`. Without any known item, moves start
        from a user without tastes.
    """
    moves = tuple(Move.read(value) for value in moves) + ((Move(**_checked(move)),) if move else ())
    space_of(model)
    history, include, exclude = _listed(history), _listed(include), _listed(exclude)
    together = all_rules(include, exclude, where, rules, strict)
    known, unknown = model.lookup(history, required=is_strict(together))
    hidden = known if exclude_seen else known[:0]
    answer = Engine(model).ask(Question(known, n, hidden, None, moves, bounded, shares=True, rules=together))
    for warning in answer.warnings:
        warnings.warn(warning, RangeWarning, stacklevel=2)
    warn(answer.notes, bool(unknown), stacklevel=3)
    after = described(model, answer, unknown)
    before = after
    if answer.before is not None:
        items = model.describe(answer.before.positions, answer.before.scores)
        before = Recommendations(items, tuple(unknown), pictures=model.pictures)
    request = {"model": model, "history": history, "n": n, "exclude_seen": exclude_seen, "include": include,
             "exclude": exclude, "where": where, "rules": rules, "strict": strict, "bounded": bounded}  # fmt: skip
    assert answer.shares is not None
    moved = before, answer.moves, answer.effects, tuple(answer.shares.tolist()), request
    return Steered(
        after.items, after.unknown, *moved, shelves=after.shelves, diversity=after.diversity, warnings=after.warnings,
        pictures=model.pictures,
    )  # fmt: skip


def _effect_text(effect: Effect) -> str:
    what = "share" if effect.is_share else effect.name or f"dimension {effect.dimension}"
    return f"concept {effect.concept}, {what}: {effect.before:+.2f} → {effect.after:+.2f}"


def _checked(move: Mapping[str, Any]) -> Mapping[str, Any]:
    unknown = [name for name in move if name not in Move.__dataclass_fields__]
    if unknown:
        raise TypeError(f"steer() got an unexpected keyword argument '{unknown[0]}'")
    return move


def _listed(ids: Any) -> Any:
    """Iterators as lists, to be read more than once; anything else is checked at lookup."""
    return list(ids) if isinstance(ids, Iterable) and not isinstance(ids, str) else ids
