"""A served run: its model, what is derived from it once, and its current names."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load_file
from safetensors.torch import save as to_bytes

from macrid import manifest
from macrid.additions import AddedItems, ItemExistsError, add_items
from macrid.cold import Placer, narrowed
from macrid.concepts.meaning import meaning_of
from macrid.concepts.names import Names
from macrid.concepts.space import Space, space_of
from macrid.concepts.understanding import fresh_names
from macrid.control.engine import Engine
from macrid.control.search import Search, titles_of
from macrid.control.titles import Titles
from macrid.control.words import Words
from macrid.data.attributes import Column, columns_of, is_date, kind_of
from macrid.data.ids import Id
from macrid.errors import DataError, RequestError, RunError
from macrid.files import write_atomically, writing
from macrid.models.base import Recommender
from macrid.models.forks import new_lock
from macrid.models.macridvae import MacridVAE
from macrid.models.retrieval import WORTHWHILE
from macrid.ops.topk import Decoder
from macrid.report.profile import Profiler
from macrid.runs import (
    CACHES,
    EDITABLE,
    FILES,
    added_digest,
    load,
    read_config,
    read_names,
    weights_digest,
    write_names,
)
from macrid.serving.attributes import attributes_of
from macrid.serving.background import FILES as CACHED
from macrid.serving.background import Computed
from macrid.serving.batching import Batcher
from macrid.serving.card import Card
from macrid.serving.cohorts import Cohorts
from macrid.serving.events import EventStore
from macrid.serving.facts import Facts
from macrid.serving.pictures import Pictures
from macrid.serving.problems import RefusedError
from macrid.serving.tastes import Tastes
from macrid.serving.users import KnownUsers
from macrid.settings import ServingSettings

MOST_ON_MAP = 100_000  # most popular items; a page cannot draw more


class Hosted:
    """One run. A reload creates another `Hosted`, so requests in flight keep theirs."""

    def __init__(
        self,
        run: Path,
        settings: ServingSettings,
        shared: Path | None = None,
        on_batch: Callable[[int], None] = lambda size: None,
        events: EventStore | None = None,
        placer: Placer | None = None,
    ) -> None:
        """shared: a folder for data that several processes share. on_batch: called with each batch size.

        placer: of the same weights, if known.
        """
        self.run, self.settings = run.resolve(), settings
        manifest.steadily(self.run, partial(self._open, is_shared=shared is not None))
        self.run_id = self.weights[:12]  # the same whatever the folder and the axes
        self.space: Space | None = None
        if isinstance(self.model, MacridVAE):
            if shared is not None:
                _share_decoder(self.model, shared, f"{self.weights}-{self.added}")
            self.space = space_of(self.model)
            self.model.arranged(WORTHWHILE, 1)  # now, rather than when somebody asks
            if meaning_of(self.model).names is None:
                meaning_of(self.model).names = fresh_names(self.model)
        self.engine = Engine(self.model)
        self.batcher = Batcher(self.engine.answer, settings.together, settings.max_waiting, on_batch)
        self.metrics = _read_metrics(self.run)
        self.titles = titles_of(self.model)
        self.search = Search(self.model.items, self.titles, self.model.popularity, self.model.table)
        self.pictures = Pictures(self.model, None if settings.pictures is None else Path(settings.pictures))
        min_rating = (self.config.get("data") or {}).get("min_rating")
        self.users = KnownUsers(self.model, self.run, settings, min_rating, events)
        self.map, self.inspection = (Computed(what, self.run, self.weights, shared) for what in CACHED)
        self.on_map = np.sort(np.argsort(-self.model.popularity, kind="stable")[:MOST_ON_MAP])
        self.concept_of = None if self.space is None else self.space.concept_of
        self._renaming = new_lock()
        self._refs: dict[int, dict[str, Any]] = {}
        self._words: tuple[Names | None, Words] | None = None
        self._placing, self._placer = new_lock(), placer
        self.card, self.tastes, self.cohorts = Card(self), Tastes(self), Cohorts(self)

    def _open(self, is_shared: bool) -> None:
        """Read the model, and what tells whether its files have changed since."""
        self.fingerprint = _fingerprint(self.run)
        self._names_at, self._axes_at = (_changed(self.run / name) for name in ("names.json", "axes.safetensors"))
        self.config = read_config(self.run)
        self.model: Recommender = load(self.run, self.settings.device, mapped=is_shared)
        self.weights, self.added = weights_digest(self.run), added_digest(self.run)

    def known_placer(self, run: Path) -> Placer | None:
        """The map of a run with the same weights, if it has been fitted."""
        with suppress(OSError):
            return self._placer if weights_digest(run) == self.weights else None
        return None

    @property
    def digest(self) -> str:
        """Changes with weights, names and added items."""
        return hashlib.sha256(f"{self.weights} {self._names_at} {self.added}".strip().encode()).hexdigest()[:12]

    @property
    def names(self) -> Names:
        names = meaning_of(self.model).names
        assert names is not None
        return names

    def concepts(self) -> Space:
        """The space, with current names; a `RefusedError` for a model without concepts."""
        if self.space is None:
            raise RefusedError(409, f"{type(self.model).__name__} has no concepts; serve a macridvae instead")
        self.refresh_names()
        return self.space

    # Items

    @cached_property
    def facts(self) -> Facts:
        return Facts(self.model)

    @cached_property
    def attributes(self) -> list[dict[str, Any]]:
        """What rules can be about."""
        return attributes_of(self.model)

    @cached_property
    def columns(self) -> list[Column]:
        """Attributes as numbers."""
        if self.space is not None:
            return self.space.columns
        return [column for column in columns_of(self.model) if column.is_usable()]

    def is_date(self, attribute: str) -> bool:
        table = self.model.table
        return table is not None and attribute in table.column_names and is_date(kind_of(table.column(attribute)))

    @cached_property
    def profiler(self) -> Profiler:
        """Tells what sets some items apart."""
        return Profiler(self.model, self.concept_of, self.card.known)

    def positions(self, ids: Iterable[Id]) -> tuple[np.ndarray, list[Id]]:
        """Distinct positions of known items, and the unknown ids."""
        items = self.model.items
        parse = items.parse if items.are_integers else str
        distinct = list(dict.fromkeys(parse(value) if isinstance(value, str) else value for value in ids))
        positions = items.positions(distinct)
        return positions[positions >= 0], [value for value, at in zip(distinct, positions, strict=True) if at < 0]

    def all_known(self, ids: Iterable[Id], what: str) -> np.ndarray:
        positions, unknown = self.positions(ids)
        if unknown:
            raise RequestError(f"{what}: {self.unknown(unknown)}")
        return positions

    def position(self, item: Id) -> int:
        """Of an item in a URL."""
        positions, unknown = self.positions([item])
        if unknown:
            raise RefusedError(404, f"no item {str(item)[:80]!r}; {self.model.id_hint()}")
        return int(positions[0])

    def unknown(self, ids: Sequence[Id]) -> str:
        """The message about unknown ids."""
        shown = ", ".join(repr(str(value)[:80]) for value in ids[:5]) + (" …" if len(ids) > 5 else "")
        return f"{len(ids)} unknown item{'s' * (len(ids) > 1)}: {shown}; {self.model.id_hint()}"

    def ref(self, position: int) -> dict[str, Any]:
        """Id, title, concept and facts of an item; cached, do not change it."""
        ref = self._refs.get(position)
        if ref is None:
            title = None if self.titles is None else self.titles[position]
            ref = {"id": str(self.model.items[position]), "title": title, "concept": None}
            if self.space is not None:
                ref["concept"] = concept = int(self.space.concept_of[position])
                ref["concept_share"] = round(float(self.space.log_assignment[position, concept].exp()), 4)
                if self.space.is_shared[position]:
                    second, share = (part[position] for part in self.space.second)
                    ref |= {"second_concept": int(second), "second_share": round(float(share), 4)}
            if facts := self.facts.of(position):
                ref["facts"] = facts
            if (placement := self.model.placement(position)) is not None:
                ref |= {"new": True, "placed": str(placement)}
            self._refs[position] = ref
        return ref

    def placer(self) -> Placer:
        """The map from attributes to vectors, fitted once for a run."""
        with self._placing:
            if self._placer is None:
                assert isinstance(self.model, MacridVAE)
                self._placer = Placer.fit(narrowed(self.model))
            return self._placer

    def add_items(self, items: list[dict[str, Any]], histories: Any, *, update: bool, dry_run: bool) -> AddedItems:
        """Add items to the run; a reload is needed to serve them."""
        self.concepts()
        try:
            return add_items(self.run, items, histories, update=update, dry_run=dry_run, placer=self.placer())
        except ItemExistsError:
            raise
        except DataError as error:
            raise RefusedError(422, str(error)) from None

    # Names

    def refresh_names(self) -> None:
        """Load names written by another process, if they belong to the served axes."""
        at = _changed(self.run / "names.json")
        if at == self._names_at or at is None or self._is_turned():
            return
        with suppress(OSError, ValueError):  # being edited by hand; keep the current names
            names, current = read_names(self.run), self.names
            if (len(names.concepts), len(names.dimensions)) == (len(current.concepts), len(current.dimensions)):
                meaning_of(self.model).names = names
        self._names_at = at

    def rename(self, change: Callable[[Names], Names]) -> None:
        """Change the names and save them in the run; one change at a time across processes."""
        self.concepts()

        def changed() -> Names:
            if self._is_turned():
                raise RunError("the axes have been turned since the run was opened; reload it, then rename")
            self.refresh_names()
            return change(self.names)

        with self._renaming:
            with writing("names.json", RunError, "nothing was renamed"):
                write_names(changed, self.run)
            self.refresh_names()

    def words(self) -> Words:
        """Reads wishes, by the current names."""
        if self.space is not None:
            self.refresh_names()
        names = meaning_of(self.model).names
        if self._words is None or self._words[0] is not names:
            self._words = names, Words(self.model, Titles(self.model, self.search))
        return self._words[1]

    def _is_turned(self) -> bool:
        """Whether the axes on disk have changed since the run was opened."""
        return _changed(self.run / "axes.safetensors") != self._axes_at

    def is_same(self, run: Path) -> bool:
        """Whether a run is the served one, unchanged on disk."""
        return run.resolve() == self.run and _fingerprint(self.run) == self.fingerprint

    def without_paths(self, message: str | None) -> str | None:
        """Hide the path of the run from clients."""
        return None if message is None else message.replace(f"{self.run.parent}{os.sep}", "")

    def close(self) -> None:
        self.map.close()
        self.inspection.close()
        self.batcher.close()


def _share_decoder(model: MacridVAE, shared: Path, name: str) -> None:
    """Map the decoder's tables from a file shared by all processes; those of fewer or other added items are deleted."""
    path = shared / f"{name}.safetensors"
    if not path.exists():
        for earlier in shared.glob(f"{name.partition('-')[0]}-*.safetensors"):
            earlier.unlink(missing_ok=True)  # processes that use it have it mapped
        tables = {"items": model.decoder.items, "log_assignment": model.decoder.log_assignment}
        write_atomically(path, to_bytes({name: table.cpu().contiguous() for name, table in tables.items()}))
    tables = {name: table.to(model.device) for name, table in load_file(path).items()}
    model.decoder = Decoder(
        **tables, temperature=model.settings.temperature, is_hard=model.settings.assignment == "hard"
    )


def _read_metrics(run: Path) -> dict[str, Any] | None:
    with suppress(OSError, ValueError):
        metrics = json.loads((run / "metrics.json").read_text("utf-8"))
        return metrics if isinstance(metrics, dict) else None
    return None


def _fingerprint(run: Path) -> dict[str, tuple[int, int] | None]:
    """Changes with every file read on opening, except names, which are refreshed anyway."""
    return {name: _changed(run / name) for name in FILES if name not in (*EDITABLE, *CACHES, manifest.FILE)}


def _changed(path: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        stat = os.stat(path)
        return stat.st_mtime_ns, stat.st_size
    return None
