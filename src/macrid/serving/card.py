"""The model card: the model, its concepts and dimensions, their names and the evidence for them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from macrid.concepts.effects import KnobEffect, strongest_first
from macrid.concepts.meaning import meaning_of
from macrid.concepts.names import ConceptName, DimensionName, ends, label
from macrid.concepts.space import FEWEST_USERS, Space
from macrid.control.vocabulary import comparatives
from macrid.data.attributes import POPULARITY, Attribute, read_attributes
from macrid.recipe import preset_of
from macrid.report.inspection import neighbours_of
from macrid.serving.guard import may_edit, may_train
from macrid.serving.problems import RefusedError
from macrid.version import __version__

if TYPE_CHECKING:
    from macrid.serving.hosted import Hosted

MOST_KNOBS = 8  # per concept on the card; the rest have their own endpoint
BINS = 32
MOST_CATEGORIES = 200  # of an attribute on the map; the rest are "other"


class Card:
    """Describes one run."""

    def __init__(self, hosted: Hosted) -> None:
        self.hosted = hosted

    def model(self) -> dict[str, Any]:
        """As the schema `Model`."""
        hosted, model, s = self.hosted, self.hosted.model, self.hosted.settings
        return {
            "run": hosted.run.name,
            "run_id": hosted.run_id,
            "digest": hosted.digest,
            "version": __version__,
            "model": type(model).__name__,
            "preset": preset_of(model.settings),
            "neighbours": neighbours_of(model),
            "settings": model.settings.model_dump(mode="json"),
            "training": None if model.training is None else model.training.model_dump(mode="json"),
            "data": {name: value for name, value in (hosted.config.get("data") or {}).items() if name != "path"},
            "items": len(model.items),
            "users": len(hosted.users),
            "new_items": len(model.placements),
            "has_concepts": hosted.space is not None,
            "has_titles": hosted.titles is not None,
            "has_pictures": hosted.pictures.any,
            "can_edit": may_edit(s),
            "can_rename": may_edit(s) and hosted.space is not None,
            "can_train": may_train(s),
            "score_name": model.score_name,
            "metrics": hosted.metrics,
            "attributes": [{"name": name, "kind": kind} for name, kind in self.attributes.items()],
            "towards": self._towards(),
            "towards_effects": [self._general(effect) for effect in self._general_effects()],
            "limits": {
                "n": s.max_items,
                "history": s.max_history,
                "batch": s.max_batch,
                "moves": s.max_moves,
                "body": s.max_body,
            },
            "concepts": [] if hosted.space is None else [self.concept(entry) for entry in hosted.names.concepts],
        }

    # Concepts and dimensions

    def concept(self, entry: ConceptName) -> dict[str, Any]:
        """As the schema `Concept`."""
        space, model, k = self._space(), self.hosted.model, entry.concept
        members, popularity = space.members(k), model.popularity
        knobs = [knob for knob in self._best_first(k) if not self._is_idle(knob)]
        return {
            **entry.model_dump(mode="json"),
            "label": label(entry),
            "items": len(members),
            "share": len(members) / len(model.items),
            "interactions": float(popularity[members].sum() / max(1, popularity.sum())),
            "dimensions": [self.dimension(knob) for knob in knobs[:MOST_KNOBS]],
        }

    def dimensions(self, concept: int) -> list[dict[str, Any]]:
        """All dimensions of a concept, strongest effect or best evidence first."""
        return [self.dimension(entry) for entry in self._best_first(concept)]

    def dimension(self, entry: DimensionName) -> dict[str, Any]:
        """As the schema `Dimension`."""
        low, high = ends(entry)
        usual = self._range(entry.concept)[:, entry.dimension]
        return {
            **entry.model_dump(mode="json"),
            "label": entry.name or f"dimension {entry.dimension}",
            "low": low,
            "high": high,
            "range": [round(float(end), 4) for end in usual],
            "histogram": self._histogram(entry.concept, entry.dimension, usual),
            "effect": None if (effect := self._effect_of(entry)) is None else _effect(effect),
        }

    def check(self, concept: int, dimension: int | None = None) -> None:
        """Refuse numbers that do not exist."""
        space = self.hosted.concepts()
        if not 0 <= concept < space.concepts:
            raise RefusedError(404, f"no concept {concept}; there are 0 to {space.concepts - 1}")
        if dimension is not None and not 0 <= dimension < space.dim:
            raise RefusedError(404, f"no dimension {dimension}; there are 0 to {space.dim - 1}")

    def _best_first(self, concept: int) -> list[DimensionName]:
        """Named dimensions by effect, or by evidence where it was not measured, popularity last and then those that do
        nothing; then the rest by how much users differ."""
        entries = [entry for entry in self.hosted.names.dimensions if entry.concept == concept]
        low, high = self._range(concept)

        def order(entry: DimensionName) -> tuple[Any, ...]:
            named = entry.name is not None or entry.edited
            is_popularity = entry.attribute == POPULARITY and not entry.edited
            width = float(high[entry.dimension] - low[entry.dimension])
            effect = self._effect_of(entry)
            strength = (entry.strength or 0.0) if effect is None else effect.strength
            place = not named, self._is_idle(entry), is_popularity, effect is None
            return *place, -strength if named else -width, entry.dimension

        return sorted(entries, key=order)

    @cached_property
    def _effects(self) -> dict[tuple[int | None, int | None, str], KnobEffect]:
        effects = meaning_of(self.hosted.model).effects
        return {(effect.concept, effect.dimension, effect.axis): effect for effect in effects}

    def _effect_of(self, entry: DimensionName) -> KnobEffect | None:
        return self._effects.get((entry.concept, entry.dimension, entry.axis))

    def _is_idle(self, entry: DimensionName) -> bool:
        """Whether it was measured to do nothing; a name given by a person counts all the same."""
        effect = self._effect_of(entry)
        return effect is not None and not effect.is_clear and not entry.edited

    def _general_effects(self) -> list[KnobEffect]:
        """Of attributes in all concepts, strongest first."""
        effects = strongest_first(meaning_of(self.hosted.model).effects)
        return [effect for effect in effects if effect.concept is None]

    def _general(self, effect: KnobEffect) -> dict[str, Any]:
        """As the schema `GeneralEffect`."""
        columns = {column.name: column for column in self._space().columns}
        column = columns.get(effect.name)  # missing if the items table has changed since it was measured
        attribute, value = (effect.name, None) if column is None else (column.attribute, column.value)
        less, more = (value is None and comparatives(attribute)) or ("less", "more")
        return {**_effect(effect), "attribute": attribute, "value": value, "less": less, "more": more}

    def _towards(self) -> list[str]:
        """Attributes by effect, then the others."""
        columns = [] if self.hosted.space is None else [column.name for column in self.hosted.space.columns]
        strongest = [effect.name for effect in self._general_effects() if effect.name in columns]
        return list(dict.fromkeys([*strongest, *columns]))

    def _histogram(self, concept: int, dimension: int, usual: np.ndarray) -> dict[str, Any]:
        """Over the usual range; values beyond it count at its ends."""
        coordinates, of = self._coordinates[concept]
        values = np.clip(coordinates[:, dimension], *usual)
        counts, _ = np.histogram(values, BINS, range=(float(usual[0]), float(usual[1])))
        return {"of": of, "low": float(usual[0]), "high": float(usual[1]), "counts": counts.tolist()}

    def _range(self, concept: int) -> np.ndarray:
        """(2, dim) lowest and highest coordinates of a slider."""
        known = self._space().range_of(concept)
        bounds = np.percentile(self._coordinates[concept][0], (1, 99), axis=0) if known is None else np.stack(known)
        low, high = np.asarray(bounds, dtype=np.float64)
        return np.stack([low, np.maximum(high, low + 1e-3)])

    @cached_property
    def _coordinates(self) -> list[tuple[np.ndarray, str]]:
        """For every concept, coordinates along its axes of its users, or of its items: (n, dim)."""
        space, coordinates = self._space(), []
        sample = space.model.sample
        components = None if sample is None else (space.components(sample), space.confidence(sample))
        for k in range(space.concepts):
            users = np.zeros(0) if components is None else components[0][components[1][:, k] >= 1, k]
            if len(users) >= FEWEST_USERS:
                coordinates.append((users @ space.axes(k).T, "users"))
            else:
                items = space.turned(k)
                coordinates.append((items if len(items) else np.zeros((1, space.dim)), "items"))
        return coordinates

    def _space(self) -> Space:
        assert self.hosted.space is not None
        return self.hosted.space

    # Attributes, for maps

    @cached_property
    def known(self) -> list[Attribute]:
        """Reading them takes a second with 100,000 items."""
        return read_attributes(self.hosted.model.table)

    @cached_property
    def attributes(self) -> dict[str, str]:
        """Name → "number" or "category"."""
        return {POPULARITY: "number"} | {
            attribute.name: "category" if attribute.numbers is None else "number" for attribute in self.known
        }

    def values(self, name: str) -> dict[str, Any]:
        """As the schema `MapValues`; NaN where unknown."""
        model, labels, several = self.hosted.model, list[str](), dict[str, list[int]]()
        values = np.full(len(model.items), np.nan)
        attribute = next((entry for entry in self.known if entry.name == name), None)
        if name == POPULARITY:
            values[:] = model.popularity
        elif attribute is None:
            raise RefusedError(404, f"no attribute {name!r}; there are {', '.join(self.attributes)}")
        elif attribute.numbers is not None:
            values[attribute.items] = attribute.numbers
        else:
            places, labels = _places(attribute)
            values[attribute.items] = places.indices[places.indptr[:-1]]  # every item has at least one
            if attribute.has_several:
                several = self._several(attribute.items, places)
        about = {"name": name, "kind": self.attributes[name], "labels": labels, "has_several": bool(several)}
        return {**about, **several, "values": values[self.hosted.on_map].tolist()}

    def _several(self, items: np.ndarray, places: sp.csr_array) -> dict[str, list[int]]:
        """All values of the items on the map."""
        row = np.full(len(self.hosted.model.items), -1)
        row[items] = np.arange(len(items))
        shown = row[self.hosted.on_map]
        counts = np.where(shown < 0, 0, np.diff(places.indptr)[shown])
        return {"counts": counts.tolist(), "all": places[shown[shown >= 0]].indices.tolist()}


def _places(attribute: Attribute) -> tuple[sp.csr_array, list[str]]:
    """(known, labels) the values of each item, most frequent first, and the labels in this order.

    The rarest values share one label.
    """
    shares = attribute.shares.tocsr()
    order = np.argsort(-np.bincount(shares.indices, minlength=shares.shape[1]), kind="stable")
    labels = [attribute.values[value] for value in order[:MOST_CATEGORIES]]
    labels += ["other"] * (len(order) > MOST_CATEGORIES)
    place = np.minimum(np.argsort(order), MOST_CATEGORIES)[shares.indices]
    places = sp.csr_array((shares.data, place, shares.indptr), shape=(shares.shape[0], len(labels)), copy=True)
    places.sum_duplicates()
    return places, labels


def _effect(effect: KnobEffect) -> dict[str, Any]:
    """As the schema `MeasuredEffect`."""
    return {**effect.model_dump(mode="json"), "label": effect.text}
