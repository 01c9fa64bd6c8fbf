"""Knobs as a frame."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from macrid.concepts.names import ends
from macrid.concepts.space import Space, space_of
from macrid.data.tables import FrameKind, to_frame
from macrid.models.base import Recommender
from macrid.report.knobs import Knob, knobs_of

SCHEMA = pa.schema(
    {
        "concept": pa.int64(), "concept_name": pa.string(), "dimension": pa.int64(), "name": pa.string(),
        "attribute": pa.string(), "low": pa.string(), "high": pa.string(), "strength": pa.float64(),
        "moves": pa.float64(), "monotonicity": pa.float64(), "effect": pa.string(),
    }
)  # fmt: skip


def knobs(model: Recommender, as_: FrameKind = "arrow") -> Any:
    """One row per knob of a MacridVAE: attributes in every concept that predicts them, then named dimensions.

    concept, concept_name, dimension: null for an attribute in several concepts. name: of the dimension, else the
        attribute. low, high: names of the ends.
    strength: rank correlation of the dimension with the attribute.
    moves: how far the attribute moves in users' lists from end to end, in standard deviations over the items;
    monotonicity: how steadily; effect: the same in the attribute's units, such as "29 → 64 % of the list". These three
        are null until measured, as `macrid.train` and `model.save` do.
    as_: "arrow" for a `pyarrow.Table`, "pandas" or "polars".
    """
    space = space_of(model)
    effects = {(each.name, each.concept, each.dimension): each for each in space.meaning.effects}
    rows = []
    for knob in knobs_of(model):
        effect = effects.get((knob.column.name, knob.concept, knob.dimension))
        measured = {} if effect is None else {name: getattr(effect, name) for name in ("moves", "monotonicity")}
        text = {} if effect is None else {"effect": effect.text or None}
        rows.append({**_named(space, knob), "attribute": knob.column.name, **measured, **text})
    return to_frame(pa.Table.from_pylist(rows, schema=SCHEMA), as_)


def _named(space: Space, knob: Knob) -> dict[str, Any]:
    """Where a knob is, and what it is called there."""
    names = space.meaning.names
    if knob.concept is None or knob.dimension is None or names is None:
        return {"name": knob.column.name, "concept": knob.concept, "dimension": knob.dimension}
    entry = names.dimension(knob.concept, knob.dimension)
    low, high = ends(entry)
    fits = [fit.strength for fit in space.fits(knob.concept) if fit.dimension == knob.dimension]
    strength = next(iter(fits), None) if entry.strength is None else entry.strength
    return {
        "concept": knob.concept, "concept_name": names.concept_name(knob.concept), "dimension": knob.dimension,
        "name": entry.name or knob.column.name, "low": low or None, "high": high or None, "strength": strength,
    }  # fmt: skip
