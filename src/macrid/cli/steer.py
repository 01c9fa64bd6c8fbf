"""macrid steer: move what a user is after, and see what is recommended instead."""

from __future__ import annotations

import json as json_
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table
from rich.text import Text

from macrid.cli.common import column, console, parse_ids, print_json, signed, working
from macrid.errors import RequestError
from macrid.pictures.drawing import shortened

if TYPE_CHECKING:
    from macrid.control.state import Effect
    from macrid.control.steer import Steered
    from macrid.models.base import Recommender


def steer(
    run: Path = typer.Argument(help="A run."),
    history: list[str] = typer.Option([], help="Item ids, separated by commas; may be repeated."),
    concept: str | None = typer.Option(None, help="The concept to move in: a number, or its name.", show_default=False),
    dimension: str | None = typer.Option(
        None, help="The dimension to move along: a number, or its name.", show_default=False
    ),
    to: float | None = typer.Option(None, help="Move the coordinate to this value.", show_default=False),
    by: float | None = typer.Option(None, help="Move the coordinate by so much.", show_default=False),
    towards: str | None = typer.Option(
        None, help="Move towards an attribute, in --concept or in all that tell it.", show_default=False
    ),
    away_from: str | None = typer.Option(None, help="Move away from an attribute.", show_default=False),
    amount: float | None = typer.Option(
        None, help="How far towards or away: 1, the default, is half of the range of real users.", show_default=False
    ),
    share: float | None = typer.Option(
        None, help="How much of what is recommended --concept should give: 0 to 1.", show_default=False
    ),
    moves: str | None = typer.Option(
        None, help="Moves made before, as JSON: the 'moves' of an earlier answer.", show_default=False
    ),
    beyond: bool = typer.Option(False, help="Go further than real users do, where asked to."),
    n: int = typer.Option(10, "-n", "--number", help="How many items."),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """Move a user's component along a dimension or an attribute, or change a concept's share; then recommend again.

    Example: macrid steer runs/shop --history bag-0001,bag-0002,mug-0003 --concept bags --dimension size --to 0.3

    Example: macrid steer runs/ml-1m --history 260,1196,1210 --towards year --amount 0.5

    Example: macrid steer runs/shop --history bag-0001,mug-0003 --concept bags --share 0.8
    """
    if not history:
        raise typer.BadParameter("give --history, the items a user has")
    far = {"--to": to, "--by": by, "--towards": towards, "--away-from": away_from, "--share": share}
    given = [option for option, value in far.items() if value is not None]
    if len(given) > 1:
        raise typer.BadParameter(f"{' and '.join(given)} are several moves; give one, and those before as --moves")
    if not given and (moves is None or concept is not None or dimension is not None or amount is not None):
        raise typer.BadParameter("give a move: --concept K --dimension J --to V, --towards ATTRIBUTE, or --share S")
    if (to is not None or by is not None) and (concept is None or dimension is None):
        raise typer.BadParameter(f"{given[0]} goes with --concept and --dimension")
    if share is not None and concept is None:
        raise typer.BadParameter("--share goes with --concept")
    if amount is not None and towards is None and away_from is None:
        raise typer.BadParameter("--amount goes with --towards or --away-from")
    move: dict[str, Any] = {
        "concept": column(concept),
        "dimension": column(dimension),
        "to": to,
        "by": by,
        "share": share,
    }
    if towards is not None or away_from is not None:
        amount = 1.0 if amount is None else amount
        move |= {"towards": away_from if towards is None else towards, "amount": -amount if towards is None else amount}
    move = {name: value for name, value in move.items() if value is not None}
    from macrid.control.steer import steer as moved
    from macrid.runs import load

    earlier = [] if moves is None else _read(moves)
    with working("loading"):
        model = load(run, "cpu")
    found = moved(model, parse_ids(history, model.items), moves=earlier, n=n, bounded=not beyond, **move)
    if json:
        print_json(found.as_json())
    else:
        _show(model, found)


def _read(text: str) -> list[Any]:
    try:
        found = json_.loads(text)
    except ValueError as error:
        raise RequestError(f"--moves is not JSON ({error}); give the 'moves' of an earlier answer") from None
    if not isinstance(found, list):
        raise RequestError("--moves is not a list; give the 'moves' of an earlier answer")
    return found


def _show(model: Recommender, found: Steered) -> None:
    console.print(_effects(model, found.effects))
    console.print()
    was = {item.id: rank for rank, item in enumerate(found.before, start=1)}
    table = Table(box=None, pad_edge=False, header_style="bold")
    has_title = any(item.title for item in found)
    for name, justify in (
        ("#", "right"),
        ("was", "right"),
        ("item", "left"),
        *([("title", "left")] if has_title else []),
    ):
        table.add_column(name, justify=justify, no_wrap=name == "item")  # type: ignore[arg-type]
    table.add_column("concept")
    for rank, item in enumerate(found, start=1):
        before = was.get(item.id)
        mark = Text("new", "green") if before is None else Text("" if before == rank else f"{before}", "dim")
        title = [item.title or ""] if has_title else []
        table.add_row(str(rank), mark, str(item.id), *title, concept_of(model, item.concept, 16))
    console.print(table)
    out = found.moved["out"]
    if out:
        names = ", ".join(change.title or str(change.id) for change in out)
        console.print(Text(f"no longer: {names}", "dim"))
    elif found.ids == found.before.ids:
        console.print(Text("the list is as before; move further, or give the concept a larger share", "dim"))


def _effects(model: Recommender, effects: Sequence[Effect]) -> Table:
    """What the moves did, for people."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("moved")
    for name in ("from", "to", "real users"):
        table.add_column(name, justify="right")
    for effect in effects:
        form = "{:.0%}".format if effect.is_share else signed
        axis = "" if effect.dimension is None else f"dimension {effect.dimension}"
        name = "share" if effect.is_share else shortened(effect.name or axis, 24)
        usual = "" if effect.low is None or effect.high is None or effect.is_share else (
            f"{signed(effect.low)} to {signed(effect.high)}"
        )  # fmt: skip
        table.add_row(f"{concept_of(model, effect.concept)}: {name}", form(effect.before), form(effect.after), usual)
    if not any(effect.low is not None and not effect.is_share for effect in effects):
        table.columns.pop()
    return table


def concept_of(model: Recommender, concept: int | None, most: int = 24) -> str:
    """Its number, to be used in commands, and its name if it has one."""
    if concept is None:
        return ""
    from macrid.concepts.meaning import meaning_of

    name = meaning_of(model).concept_name(concept)
    return f"{concept}" if name is None else f"{concept} {shortened(name, most)}"
