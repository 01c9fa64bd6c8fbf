"""macrid map: a picture of items and users."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from macrid.cli.common import console, print_json, working
from macrid.errors import MacridError

if TYPE_CHECKING:
    from macrid.data.attributes import Attribute
    from macrid.models.macridvae import MacridVAE


def draw_map(
    run: Path = typer.Argument(help="A run."),
    out: Path = typer.Option(..., "--out", "-o", help="The PNG to write."),
    by: str | None = typer.Option(None, "--by", help="Colour items by this attribute instead of by concept."),
    items: int = typer.Option(20_000, "--items", min=1, help="At most this many items, drawn at random."),
    users: int = typer.Option(5_000, "--users", min=0, help="At most this many held-out users."),
    seed: int = typer.Option(0, "--seed", min=0, help="The same seed gives the same map."),
    json: bool = typer.Option(False, "--json", help="Also print all positions as JSON."),
) -> None:
    """Draw a map of items and of every user's two most confident components, like near like.

    Example: macrid map runs/ml-1m --out map.png
    """
    import scipy.sparse as sp

    from macrid.models.macridvae import MacridVAE
    from macrid.pictures import drawing, maps, plots
    from macrid.runs import load, read_histories

    model = load(run, "cpu")
    if not isinstance(model, MacridVAE):
        raise MacridError(f"{run}: {type(model).__name__} has no concepts; train a MacridVAE")
    if out.is_dir() or not out.parent.is_dir():
        raise MacridError(f"{out}: {'is a folder; give a file' if out.is_dir() else f'no folder {out.parent}'}")
    attribute = None if by is None else _attribute(model, by)
    histories = read_histories(run)
    if histories is None:
        histories = sp.csr_array((0, len(model.items)))
    with working("placing items and users"):
        placed = maps.items_and_users(model, histories, most_items=items, most_users=users, seed=seed)
        colouring = (
            plots.by_concept(placed, _typical(model)) if attribute is None else plots.by_attribute(placed, attribute)
        )
        drawing.save(plots.map_figure(placed, colouring), out)
    if json:
        print_json({"map": str(out), **_with_ids(placed, model)})
    else:
        counts = f"{len(placed['items']['x']):,} items, {len(placed['users']['x']):,} user components"
        console.print(f"{out}: {counts}", soft_wrap=True)


def _attribute(model: MacridVAE, name: str) -> Attribute:
    from macrid.data.attributes import read_attribute, read_attributes

    columns = [] if model.table is None else model.table.column_names
    if name not in columns:
        known = ", ".join(attribute.name for attribute in read_attributes(model.table))
        raise MacridError(f"no attribute '{name}'; choose from {known or 'none'}")
    attribute = read_attribute(name, model.table.column(name))  # type: ignore[union-attr]
    if attribute is None:
        raise MacridError(f"{name}: all values are equal, or all differ; there are no groups to colour")
    return attribute


def _typical(model: MacridVAE) -> dict[int, str]:
    """Title of each concept's most typical item, where it has one."""
    from macrid.concepts.space import space_of

    typical = enumerate(space_of(model).typical_items())
    return {concept: items[0].title for concept, items in typical if items and items[0].title}


def _with_ids(placed: dict[str, Any], model: MacridVAE) -> dict[str, Any]:
    """Items by id instead of position."""
    items = dict(placed["items"])
    items["id"] = [model.items[position] for position in items.pop("position")]
    return {"items": items, "users": placed["users"]}
