"""macrid map: items and users on one picture."""

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
    out: Path = typer.Option(..., "--out", "-o", help="The picture, a PNG."),
    by: str | None = typer.Option(None, "--by", help="Colour items by this attribute instead of by concept."),
    items: int = typer.Option(20_000, "--items", min=1, help="Show that many items at most, drawn at random."),
    users: int = typer.Option(5_000, "--users", min=0, help="Show that many held-out users at most."),
    seed: int = typer.Option(0, "--seed", min=0, help="The same seed gives the same map."),
    json: bool = typer.Option(False, "--json", help="All positions as JSON on standard output, too."),
) -> None:
    """Draw a map of items and of every user's two most confident components: what lies together goes together.

    Example: macrid map runs/ml-1m --out map.png
    """
    import scipy.sparse as sp

    from macrid.models.macridvae import MacridVAE
    from macrid.pictures import maps, plots
    from macrid.runs import load, read_histories

    model = load(run, "cpu")
    if not isinstance(model, MacridVAE):
        raise MacridError(f"{run}: {type(model).__name__} has no concepts to map; train a MacridVAE")
    if out.is_dir() or not out.parent.is_dir():
        what = "is a folder; name a file in it" if out.is_dir() else f"there is no folder {out.parent}"
        raise MacridError(f"{out}: {what}")
    attribute = None if by is None else _attribute(model, by)
    histories = read_histories(run)
    if histories is None:
        histories = sp.csr_array((0, len(model.items)))
    with working("placing items and users"):
        found = maps.items_and_users(model, histories, most_items=items, most_users=users, seed=seed)
        colouring = (
            plots.by_concept(found, _typical(model)) if attribute is None else plots.by_attribute(found, attribute)
        )
        plots.draw_map(found, colouring, out)
    if json:
        print_json({"map": str(out), **_with_ids(found, model)})
    else:
        told = f"{len(found['items']['x']):,} items, {len(found['users']['x']):,} components of users"
        console.print(f"{out}: {told}", soft_wrap=True)


def _attribute(model: MacridVAE, name: str) -> Attribute:
    from macrid.data.attributes import read_attribute, read_attributes

    columns = [] if model.table is None else model.table.column_names
    if name not in columns:
        known = ", ".join(attribute.name for attribute in read_attributes(model.table))
        raise MacridError(f"no attribute '{name}'; items have {known or 'none'}")
    found = read_attribute(name, model.table.column(name))  # type: ignore[union-attr]
    if found is None:
        raise MacridError(f"{name}: one value for all items, or another for each; there are no groups to colour")
    return found


def _typical(model: MacridVAE) -> dict[int, str]:
    """The title of the most typical item of every concept, where items have titles."""
    from macrid.concepts.space import space_of

    typical = enumerate(space_of(model).typical_items())
    return {concept: items[0].title for concept, items in typical if items and items[0].title}


def _with_ids(found: dict[str, Any], model: MacridVAE) -> dict[str, Any]:
    """Items by the ids of the caller instead of their positions."""
    items = dict(found["items"])
    items["id"] = [model.items[position] for position in items.pop("position")]
    return {"items": items, "users": found["users"]}
