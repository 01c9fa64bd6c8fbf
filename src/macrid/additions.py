"""Add items to a model or a run after training: the work of `macrid items` and `macrid.add_items`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import torch

from macrid import runs
from macrid.cold import Added, Placer, Strength, added_of, narrowed, widen
from macrid.cold.features import conformed
from macrid.data.columns import row_text, shown
from macrid.data.histories import histories_of
from macrid.data.ids import Id, Ids, first_few
from macrid.data.tables import Items, open_table, read_items
from macrid.errors import DataError, RequestError, RunError
from macrid.files import writing
from macrid.models.base import Recommender
from macrid.models.macridvae import MacridVAE
from macrid.models.results import Placement

WEAK = 0.1  # strength below which attributes say next to nothing


class ItemExistsError(DataError):
    """An item to add that a model has already."""


@dataclass(frozen=True)
class NewItem:
    """An item that was added, or would be."""

    id: Id
    title: str | None
    concept: int
    placement: Placement

    def as_json(self) -> dict[str, Any]:
        return {
            "id": str(self.id), "title": self.title, "concept": self.concept,
            "attributes": list(self.placement.attributes), "events": self.placement.events,
            "strength": self.placement.strength, "placed": str(self.placement),
        }  # fmt: skip


@dataclass(frozen=True)
class AddedItems:
    """What `add_items` did, or would do."""

    items: tuple[NewItem, ...]
    strength: Strength
    """Of the map from attributes to vectors."""
    skipped: tuple[Id, ...] = ()
    """Items that nothing usable is known about."""
    notes: tuple[str, ...] = field(default=())
    """What else a person should know, such as unknown columns."""

    def __len__(self) -> int:
        return len(self.items)

    def as_json(self) -> dict[str, Any]:
        return {
            "items": [item.as_json() for item in self.items], "skipped": [str(item) for item in self.skipped],
            "strength": self.strength.as_json(), "notes": list(self.notes),
        }  # fmt: skip


def add_items(
    target: Recommender | str | PathLike[str],
    table: Any,
    events: Any = None,
    *,
    update: bool = False,
    dry_run: bool = False,
    placer: Placer | None = None,
    **columns: Any,
) -> AddedItems:
    """Give items that came after training their vectors and concepts, from attributes and the few events there are.

    target: a run, which keeps them from then on, or a MacridVAE in memory, which is changed in place.
    table: one row per item: id, title, attributes. A path, a frame, or a list of dictionaries.
    events: of users who had some of them, with the other items these users had: as for `recommend_many`.
    update: items that were added before may occur, and get new attributes and vectors. dry_run: change nothing.
    placer: from an earlier call of `Placer.fit` on the same model, to save time.
    columns: item= of the table; user=, item=, rating=, min_rating= of the events.
    Items that nothing usable is known about are skipped. It is an error if an item exists already.
    """
    if isinstance(target, Recommender):
        checked = _suitable(target)
        addition = _prepare(checked, table, events, update, placer, columns)
        if not dry_run:
            _take(checked, addition.added)
        return addition.report
    run = Path(target)
    weights, loaded = _opened(run)
    addition = _prepare(loaded, table, events, update, placer, columns)
    if not dry_run and len(addition.added):
        with writing(run, RunError, "nothing was added"):
            runs.write_added(run, weights, lambda current: _merged(current, addition.added, update))
    return addition.report


def remove_items(run: str | PathLike[str], ids: Sequence[Id]) -> list[Id]:
    """Remove items that were added to a run; a `RequestError` if one of them was not."""
    path = Path(run)
    weights, model = _opened(path)
    wanted = [model.items.parse(str(item)) for item in dict.fromkeys(ids)]

    def change(current: Added | None) -> Added:
        for item in wanted:
            if current is None or item not in current.ids:
                trained = " it was there in training" if item in narrowed(model).items else " see `macrid items list`"
                raise RequestError(f"item {item!r} was not added, so it cannot be removed;{trained}")
        assert current is not None
        return current.take(np.setdiff1d(np.arange(len(current)), current.ids.positions(wanted)))

    with writing(path, RunError, "nothing was removed"):
        runs.write_added(path, weights, change)
    return wanted


def added_items(model: Recommender) -> list[NewItem]:
    """Items of a model that came after training."""
    positions = np.arange(model.trained_items, len(model.items))
    described = model.describe(positions, np.zeros(len(positions)))
    return [NewItem(item.id, item.title, item.concept or 0, item.new) for item in described if item.new is not None]


@dataclass(frozen=True)
class _Addition:
    added: Added
    report: AddedItems


def _opened(run: Path) -> tuple[str, MacridVAE]:
    model = _suitable(runs.load(run, "cpu"))
    return runs.weights_digest(run), model


def _suitable(model: Recommender) -> MacridVAE:
    if not isinstance(model, MacridVAE):
        raise RequestError(f"{type(model).__name__} cannot take new items; train a macridvae")
    model.check_fitted()
    return model


def _prepare(
    model: MacridVAE, source: Any, events: Any, update: bool, placer: Placer | None, columns: dict[str, Any]
) -> _Addition:
    base = narrowed(model)
    name, items = _read(source, columns.get("item"))
    ids = _ids_like(base.items, items.ids, name)
    _check_new(model, base, ids, name, update)
    schema = pa.schema([]) if base.table is None else base.table.schema
    table, unknown = conformed(items.columns, schema, name)
    notes = list(items.notes)
    if unknown:
        notes.append(f"ignored {_columns(unknown)}, unknown in training")
    histories, owners = _events(base, ids, events, columns, notes)
    placer = Placer.fit(base) if placer is None else placer
    placed = placer.place(table, histories, owners)
    useful = np.array([bool(how.attributes or how.events) for how in placed.how], dtype=bool)
    skipped = tuple(ids[int(place)] for place in np.flatnonzero(~useful))
    if skipped:
        notes.append(
            f"skipped {len(skipped):,} item{'s' * (len(skipped) > 1)} without a known attribute or event:"
            f" {first_few(skipped)}; the attributes known are {', '.join(placer.features.names) or 'none'}"
        )
    if placer.features.names and placer.strength.strength < WEAK:
        notes.append(
            f"attributes hardly predict vectors here (strength {placer.strength.strength:.2f}); events help more"
        )
    plain = None if base.table is None else table
    added = Added.of(ids, plain, placed, placer.strength).take(np.flatnonzero(useful))
    return _Addition(added, AddedItems(_described(base, added), placer.strength, skipped, tuple(notes)))


def _read(source: Any, item: str | None) -> tuple[str, Items]:
    if isinstance(source, list | tuple):
        source = _table_of(source)
        name = "items"
    else:
        name = Path(source).name if isinstance(source, str | PathLike) else "items"
    if item is not None:
        open_table(source).find(item, (), "item")
    read = read_items(source, item)
    if not len(read.ids):
        raise DataError(f"{name}: no rows")
    return name, read


def _table_of(rows: Sequence[Any]) -> pa.Table:
    """From dictionaries; an error names the first row and column that does not fit those before it."""
    for place, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise DataError(f"items, {row_text(place)} is {shown(row)}; give a dictionary with an id and attributes")
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {}
    for name in names:
        values = [row.get(name) for row in rows]
        try:
            columns[name] = pa.array(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            place = next(place for place in range(len(values)) if not _fits(values[: place + 1]))
            raise DataError(
                f"items, {row_text(place)}: '{name}' is {shown(values[place])}, unlike the rows before; use one type"
            ) from None
    return pa.table(columns)


def _fits(values: list[Any]) -> bool:
    try:
        pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return False
    return True


def _ids_like(known: Ids, ids: Ids, name: str) -> Ids:
    """As strings or integers, like those of the model."""
    if known.are_integers == ids.are_integers:
        return ids
    if not known.are_integers:
        return Ids([str(value) for value in ids])
    parsed = [known.parse(str(value)) for value in ids]
    strange = [value for value in parsed if isinstance(value, str)]
    if strange:
        raise DataError(f"{name}: item {strange[0]!r} is not an integer, as the ids of this model are")
    return Ids(parsed)


def _check_new(model: MacridVAE, base: MacridVAE, ids: Ids, name: str, update: bool) -> None:
    trained = [value for value, at in zip(ids, base.items.positions(ids), strict=True) if at >= 0]
    if trained:
        raise ItemExistsError(f"{name}: in the model from training: {first_few(trained)}; leave out what is not new")
    known = [value for value, at in zip(ids, model.items.positions(ids), strict=True) if at >= 0]
    if known and not update:
        raise ItemExistsError(
            f"{name}: already added: {first_few(known)}; change their attributes with --update (update=True in Python)"
        )


def _columns(names: Sequence[str]) -> str:
    return f"column{'s' * (len(names) > 1)} {', '.join(repr(name) for name in names)}"


def _events(
    base: MacridVAE, ids: Ids, events: Any, columns: dict[str, Any], notes: list[str]
) -> tuple[sp.csr_array | None, sp.csr_array | None]:
    """Histories over trained items and over new ones, of users who had a new one."""
    if events is None:
        return None, None
    both = Ids(pa.concat_arrays([base.items.array, ids.array]))
    read = histories_of(events, both, base.min_rating, **columns)
    trained = len(base.items)
    owners = sp.csr_array(read.histories[:, trained:])
    rows = np.flatnonzero(np.diff(owners.indptr) > 0)
    histories = sp.csr_array(read.histories[rows][:, :trained])
    if read.unknown:
        notes.append(
            f"ignored events of {len(read.unknown):,} unknown item{'s' * (len(read.unknown) > 1)}:"
            f" {first_few(read.unknown)}"
        )
    if not len(rows):
        notes.append("no event has a new item, so events were of no use")
    elif not histories.nnz:
        notes.append(
            "users with new items have no other items, so events were of no use; add all events of these users"
        )
    return histories, sp.csr_array(owners[rows])


def _described(base: MacridVAE, added: Added) -> tuple[NewItem, ...]:
    with torch.no_grad():
        vectors = added.item_vectors.to(base.network.item_vectors)
        concepts = base.network.log_assignment(vectors=vectors).argmax(dim=1).tolist()
    has_titles = added.table is not None and "title" in added.table.column_names
    titles = added.table.column("title").to_pylist() if has_titles and added.table is not None else [None] * len(added)
    rows = zip(added.ids, titles, concepts, added.placements, strict=True)
    return tuple(NewItem(item, None if title is None else str(title), k, how) for item, title, k, how in rows)


def _merged(current: Added | None, added: Added, update: bool) -> Added:
    """What is there, with what is added; updated items keep their places."""
    if current is None:
        return added
    places = current.ids.positions(added.ids)
    known = [value for value, place in zip(added.ids, places, strict=True) if place >= 0]
    if known and not update:
        raise ItemExistsError(f"already added, by another process: {first_few(known)}")
    both, order = current.followed_by(added), np.arange(len(current))
    order[places[places >= 0]] = len(current) + np.flatnonzero(places >= 0)
    return both.take(np.concatenate([order, len(current) + np.flatnonzero(places < 0)]))


def _take(model: MacridVAE, added: Added) -> None:
    """Change a model in memory."""
    known = model.items.positions(added.ids)
    if (known >= 0).any():
        current = added_of(model)
        assert current is not None
        added = _merged(current, added, update=True)
        base = narrowed(model)
        for name in ("network", "items", "table", "popularity", "neighbours", "sample", "placements"):
            setattr(model, name, getattr(base, name))
    if len(added):
        widen(model, added)
