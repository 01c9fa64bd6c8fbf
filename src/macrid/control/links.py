"""Stored moves and rules, such as those in a link, applied again: as they were, carried over by name, or left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from macrid.concepts.directions import along, dimension_number, directions_towards
from macrid.concepts.space import Space
from macrid.control.engine import Engine
from macrid.control.moves import Move
from macrid.control.rulebook import rulebook_of
from macrid.control.rules import Rules
from macrid.control.where import clauses
from macrid.data.ids import Id, first_few
from macrid.errors import MacridError, RequestError


@dataclass(frozen=True)
class Carried:
    """A stored move or rule that this run has under another number, or not at all."""

    kind: Literal["move", "rule"]
    what: str
    """Such as "size (bags)" or "price < 30"."""
    is_kept: bool
    warning: str

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "what": self.what, "kept": self.is_kept, "warning": self.warning}


def carried_over(
    space: Space | None, moves: Sequence[Move], is_same_run: bool
) -> tuple[tuple[Move, ...], tuple[Carried, ...]]:
    """The moves that apply, and those changed or left out.

    space: None leaves out all moves, as of a model without concepts. is_same_run: the moves were made with these
    weights, perhaps along other axes. In another run, the numbers of concepts and dimensions mean something else, so
    only names and known axes count.
    """
    kept, notes = list[Move](), list[Carried]()
    for move in moves:
        try:
            if space is None:
                raise RequestError("no concepts")
            if is_same_run and (move.axis is None or _has_axis(space, move, is_same_run)):
                kept.append(move)
                continue
            carried = _carried(space, move, is_same_run)
        except RequestError:
            missing = "concepts" if space is None else f"such {_kind(move)}"
            warning = f"left out the move {_described(move)}: this run has no {missing}"
            notes.append(Carried("move", _title(move), False, warning))
            continue
        kept.append(carried)
        if carried != move:
            warning = f"carried over by name from another run or other axes: the move {_described(move)}"
            notes.append(Carried("move", _title(move), True, warning))
    return tuple(kept), tuple(notes)


def carried_rules(engine: Engine, rules: Rules) -> tuple[Rules, tuple[Carried, ...]]:
    """The parts of another run's rules that an engine's model can follow, and those left out.

    Conditions joined by "and" are carried over one by one. Unknown items that would never be listed are not mentioned.
    """
    notes = list[Carried]()
    kept: dict[str, Any] = {"strict": rules.strict}

    def suits(what: str, **part: Any) -> bool:
        try:
            engine.check_rules((Rules(**part),))
        except MacridError as error:
            notes.append(Carried("rule", what, False, f"left out the rule {what}: {error}"))
            return False
        return True

    if rules.where is not None:
        kept["where"] = " and ".join(each for each in _clauses(rules.where) if suits(each, where=each)) or None
    if rules.boosts is not None:
        boosts = (each for each in rules.boosts if suits(f"boost of {each.where}", boosts=[each]))
        kept["boosts"] = tuple(boosts) or None
    if rules.at_most is not None:
        limits = rules.at_most.items()
        kept["at_most"] = {
            name: most for name, most in limits if suits(f"at most {most} per {name}", at_most={name: most})
        } or None
    if rules.diversity is not None:
        named = (
            name for name in rules.diversity_by or () if suits(f"diversity by {name}", diversity=0.5, diversity_by=name)
        )
        by = tuple(named) or None
        is_kept = by is not None or suits("diversity", diversity=rules.diversity)
        kept |= {"diversity": rules.diversity, "diversity_by": by} if is_kept else {}
    if rules.shelves is not None and suits("shelves", shelves=rules.shelves):
        kept["shelves"] = rules.shelves
    for name in ("include", "exclude", "pins"):
        ids: Any = getattr(rules, name)
        if ids is None:
            continue
        known, unknown = _known(engine, list(ids))
        kept[name] = ({item: ids[item] for item in known} if isinstance(ids, dict) else known) or None
        if unknown and name != "exclude":
            what = f"{'only' if name == 'include' else 'pinned'} {first_few(unknown)}"
            notes.append(Carried("rule", what, False, f"left out the rule {what}: this run has no such items"))
    return Rules(**kept), tuple(notes)


def _clauses(condition: str) -> list[str]:
    try:
        return clauses(condition)
    except RequestError:
        return [condition]


def _known(engine: Engine, ids: Sequence[Id]) -> tuple[tuple[Id, ...], tuple[Id, ...]]:
    """Ids of the catalogue, and the others."""
    is_known = rulebook_of(engine.model).positions(ids) >= 0
    known, unknown = (tuple(item for item, each in zip(ids, is_known, strict=True) if each == want) for want in (1, 0))
    return known, unknown


def _carried(space: Space, move: Move, is_same_run: bool) -> Move:
    """The same move in this run; a `RequestError` if it cannot be identified."""
    if not is_same_run and _has_axis(space, move, is_same_run):
        return move
    if isinstance(move.concept, int) and not is_same_run:
        if move.concept_name is None:
            raise RequestError(f"concept {move.concept} has no name")
        move = replace(move, concept=space.concept_number(move.concept_name))
    concept = None if move.concept is None else space.concept_number(move.concept)
    if move.towards is not None:
        directions_towards(space, move.towards, concept)
    elif move.share is None:
        assert concept is not None
        name = move.dimension if isinstance(move.dimension, str) else move.name
        if name is None:
            raise RequestError(f"dimension {move.dimension} has no name")
        number = dimension_number(space, concept, name)
        if not isinstance(move.dimension, str):
            return replace(move, dimension=number, axis=None)
    return move


def _has_axis(space: Space, move: Move, is_same_run: bool) -> bool:
    """Whether a move's axis exists here; original axes look alike in every run, so they match in the same run only."""
    if move.axis is None or move.concept is None or not isinstance(move.dimension, int | np.integer):
        return False
    try:
        vector = along(space, space.concept_number(move.concept), int(move.dimension), move.axis).vector
    except RequestError:
        return False
    return is_same_run or bool(np.count_nonzero(vector) > 1)


def _described(move: Move) -> str:
    concept = "" if move.concept is None else f" of {_concept(move)}"
    if move.share is not None:
        return f"to a share{concept}"
    if move.towards is not None:
        return f"towards {move.towards}"
    return f"along {_dimension(move)}{concept}"


def _title(move: Move) -> str:
    if move.share is not None:
        return f"share of {_concept(move)}"
    concept = "" if move.concept is None else f" ({_concept(move)})"
    return f"{move.towards if move.towards is not None else _dimension(move)}{concept}"


def _concept(move: Move) -> str:
    return move.concept_name or (move.concept if isinstance(move.concept, str) else f"concept {move.concept}")


def _dimension(move: Move) -> str:
    return move.name or (move.dimension if isinstance(move.dimension, str) else f"dimension {move.dimension}")


def _kind(move: Move) -> str:
    return "concept" if move.share is not None else "attribute" if move.towards is not None else "dimension"
