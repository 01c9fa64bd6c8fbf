"""Stored moves, such as those in a link, applied again: as they were, carried over by name, or left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from macrid.concepts.directions import along, dimension_number, directions_towards
from macrid.concepts.space import Space
from macrid.control.moves import Move
from macrid.errors import RequestError


def carried_over(space: Space, moves: Sequence[Move], is_same_run: bool) -> tuple[tuple[Move, ...], tuple[str, ...]]:
    """The moves that apply, and warnings about those changed or left out.

    is_same_run: the moves were made with these weights, perhaps along other axes. In another run, the numbers of
    concepts and dimensions mean something else, so only names and known axes count.
    """
    kept, warnings = [], []
    for move in moves:
        try:
            if is_same_run and (move.axis is None or _has_axis(space, move, is_same_run)):
                kept.append(move)
                continue
            carried = _carried(space, move, is_same_run)
        except RequestError:
            warnings.append(f"left out the move {_described(move)}: this run has no such {_kind(move)}")
            continue
        kept.append(carried)
        if carried != move:
            warnings.append(f"carried over by name from another run or other axes: the move {_described(move)}")
    return tuple(kept), tuple(warnings)


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
    concept = "" if move.concept is None else f" of {move.concept_name or f'concept {move.concept}'}"
    if move.share is not None:
        return f"to a share{concept}"
    if move.towards is not None:
        return f"towards {move.towards}"
    return f"along {move.name or f'dimension {move.dimension}'}{concept}"


def _kind(move: Move) -> str:
    return "concept" if move.share is not None else "attribute" if move.towards is not None else "dimension"
