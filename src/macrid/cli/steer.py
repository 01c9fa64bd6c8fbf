"""macrid steer: move a user, and see how the recommendations change."""

from __future__ import annotations

import json as json_
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table
from rich.text import Text

from macrid.cli.common import console, error_console, number_or_name, parse_ids, print_json, signed, table, working
from macrid.cli.rules import rules_from, show_rules, takes_rules
from macrid.errors import RangeWarning, RequestError
from macrid.pictures.drawing import shortened

if TYPE_CHECKING:
    from macrid.control.state import Effect
    from macrid.control.steer import Steered
    from macrid.control.words import Wishes
    from macrid.models.base import Recommender


@takes_rules
def steer(
    run: Path = typer.Argument(help="A run."),
    history: list[str] = typer.Option([], help="Item ids, comma-separated; repeatable."),
    concept: str | None = typer.Option(None, help="The concept to move in: number or name."),
    dimension: str | None = typer.Option(None, help="The dimension to move: number or name."),
    to: float | None = typer.Option(None, help="Move the coordinate to this value."),
    by: float | None = typer.Option(None, help="Move the coordinate by this amount."),
    towards: str | None = typer.Option(
        None, help="Move towards an attribute, in --concept or in every concept that predicts it."
    ),
    away_from: str | None = typer.Option(None, help="Move away from an attribute."),
    amount: float | None = typer.Option(
        None, help="How far towards or away: 1, the default, is half the range of real users."
    ),
    share: float | None = typer.Option(None, help="The share of recommendations --concept should get: 0 to 1."),
    words: str | None = typer.Option(
        None, help='Wishes in words, such as "newer, less horror"; "like TITLE" adds to the history.'
    ),
    moves: str | None = typer.Option(None, help="Earlier moves as JSON: the 'moves' of an earlier answer."),
    beyond: bool = typer.Option(False, help="Allow moves beyond the range of real users."),
    n: int = typer.Option(10, "-n", "--number", help="How many items."),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
    **options: Any,
) -> None:
    """Move a user's component along a dimension or an attribute, or change a concept's share; then recommend again.

    Example: macrid steer runs/shop --history bag-0001,bag-0002,mug-0003 --concept bags --dimension size --to 0.3

    Example: macrid steer runs/ml-1m --history 260,1196,1210 --towards year --amount 0.5

    Example: macrid steer runs/shop --history bag-0001,mug-0003 --concept bags --share 0.8 --where "price < 40"

    Example: macrid steer runs/ml-1m --history 260,1196,1210 --words "newer, less horror, no westerns"
    """
    if not history and words is None:
        raise typer.BadParameter("give --history, the user's items")
    far = {"--to": to, "--by": by, "--towards": towards, "--away-from": away_from, "--share": share, "--words": words}
    kinds = [option for option, value in far.items() if value is not None]
    if len(kinds) > 1:
        raise typer.BadParameter(f"give only one of {' and '.join(kinds)}; pass earlier moves as --moves")
    if not kinds and (moves is None or concept is not None or dimension is not None or amount is not None):
        raise typer.BadParameter(
            "give a move: --concept K --dimension J --to V, --towards ATTRIBUTE, --share S, or --words"
        )
    if (to is not None or by is not None) and (concept is None or dimension is None):
        raise typer.BadParameter(f"{kinds[0]} needs --concept and --dimension")
    if share is not None and concept is None:
        raise typer.BadParameter("--share needs --concept")
    if amount is not None and towards is None and away_from is None:
        raise typer.BadParameter("--amount needs --towards or --away-from")
    move: dict[str, Any] = {"concept": number_or_name(concept), "dimension": number_or_name(dimension)}
    move |= {"to": to, "by": by, "share": share}
    if towards is not None or away_from is not None:
        amount = 1.0 if amount is None else amount
        move |= {"towards": away_from if towards is None else towards, "amount": -amount if towards is None else amount}
    move = {name: value for name, value in move.items() if value is not None}
    from macrid.control.steer import steer as moved
    from macrid.control.words import Words
    from macrid.runs import load

    earlier = [] if moves is None else _read(moves)
    with working("loading"):
        model = load(run, "cpu")
    rules = rules_from(options, model.items)
    items, wishes = parse_ids(history, model.items), None
    if words is not None:
        wishes = Words(model)(words)
        items, earlier = [*items, *wishes.history], [*earlier, *wishes.moves]
        _check(wishes, items, earlier)
        conditions = [condition for condition in (rules["where"], wishes.where) if condition is not None]
        rules["where"] = " and ".join(f"({condition})" for condition in conditions) or None
    with warnings.catch_warnings():
        if words is not None:  # no number was given that could be too large
            warnings.simplefilter("ignore", RangeWarning)
        steered = moved(model, items, moves=earlier, n=n, bounded=not beyond, **rules, **move)
    if json:
        print_json(steered.as_json() | ({} if wishes is None else {"words": wishes.as_json()}))
        return
    if wishes is None:
        console.print(_effects(model, steered.effects))
    else:
        _show_wishes(wishes)
    console.print()
    _show(model, steered)
    show_rules(steered, model.score_name)


def _check(wishes: Wishes, history: Sequence[Any], moves: Sequence[Any]) -> None:
    """Refuse words that change nothing, and those without anybody to change it for."""
    reasons = "; ".join(f"'{entry.text}': {entry.why}" for entry in wishes.not_understood)
    if not history:
        raise RequestError(f"--words: {reasons or 'no item is named'}; give --history, or write like TITLE")
    if not moves and wishes.where is None and not wishes.history:
        raise RequestError(f"--words: {reasons or 'no wish in it; write one such as newer'}")


def _show_wishes(wishes: Wishes) -> None:
    for entry in wishes.understood:
        console.print(Text.assemble(entry.text, (f": {entry.meaning}", "dim")), soft_wrap=True)
    for missed in wishes.not_understood:
        error_console.print(
            Text.assemble(("not understood: ", "yellow"), f"{missed.text}: {missed.why}"), soft_wrap=True
        )
    console.print()


def _read(text: str) -> list[Any]:
    try:
        moves = json_.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"--moves is not JSON ({error}); give the 'moves' of an earlier answer") from None
    if not isinstance(moves, list):
        raise RequestError("--moves is not a list; give the 'moves' of an earlier answer")
    return moves


def _show(model: Recommender, steered: Steered) -> None:
    was = {item.id: rank for rank, item in enumerate(steered.before, start=1)}
    rows = []
    for rank, item in enumerate(steered, start=1):
        before = was.get(item.id)
        mark = Text("new", "green") if before is None else Text("" if before == rank else f"{before}", "dim")
        rows.append((rank, mark, item.id, item.title, concept_of(model, item.concept, 16)))
    console.print(table(("#", "was", "item", "title", "concept"), rows, numbers=("#", "was")))
    out = steered.moved["out"]
    if out:
        names = ", ".join(change.title or str(change.id) for change in out)
        console.print(Text(f"no longer: {names}", "dim"))
    elif steered.ids == steered.before.ids:
        console.print(Text("the list has not changed; move further, or give the concept a larger share", "dim"))


def _effects(model: Recommender, effects: Sequence[Effect]) -> Table:
    """What the moves changed."""
    numbers = ("from", "to", "real users")
    rows = []
    for effect in effects:
        form = "{:.0%}".format if effect.is_share else signed
        axis = "" if effect.dimension is None else f"dimension {effect.dimension}"
        name = "share" if effect.is_share else shortened(effect.name or axis, 24)
        usual = None
        if effect.low is not None and effect.high is not None and not effect.is_share:
            usual = f"{signed(effect.low)} to {signed(effect.high)}"
        rows.append((f"{concept_of(model, effect.concept)}: {name}", form(effect.before), form(effect.after), usual))
    return table(("moved", *numbers), rows, numbers)


def concept_of(model: Recommender, concept: int | None, most: int = 24) -> str:
    """A concept's number, as commands take it, and its name if it has one."""
    if concept is None:
        return ""
    from macrid.concepts.meaning import meaning_of

    name = meaning_of(model).concept_name(concept)
    return f"{concept}" if name is None else f"{concept} {shortened(name, most)}"
