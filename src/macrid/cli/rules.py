"""The options of commands that recommend by rules."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from macrid.cli.common import console, items_table, parse_ids

if TYPE_CHECKING:
    from macrid.data.ids import Ids
    from macrid.models.results import Recommendations

F = TypeVar("F", bound=Callable[..., Any])
rule = partial(typer.Option, rich_help_panel="Rules")
OPTIONS: dict[str, tuple[Any, Any]] = {
    "where": (str | None, rule(None, help="Only items that meet a condition: \"price < 30 and genre = 'Comedy'\".")),
    "include": (list[str], rule([], help="Choose only among these items (ids, comma-separated).")),
    "exclude": (list[str], rule([], help="Never recommend these items (ids, comma-separated).")),
    "include_file": (Path | None, rule(None, help="Choose only among the ids in a file, one per line or a table.")),
    "exclude_file": (Path | None, rule(None, help="Never recommend the ids in a file, such as what is out of stock.")),
    "pin": (list[str], rule([], help="Put these items first, in this order (ids, comma-separated); repeatable.")),
    "boost": (list[str], rule([], help='Add to the scores of some items: "year > 1995:+0.5"; repeatable.')),
    "at_most": (list[str], rule([], help="Most items per value of an attribute: genres=2; repeatable.")),
    "diversity": (
        float | None,
        rule(None, help="Trade accuracy for variety: 0, none, to 1. Up to 0.3 costs little; see docs/rules.md."),
    ),
    "diversity_by": (list[str], rule([], help="Variety by this attribute, not by item vectors; repeatable.")),
    "shelves": (bool, rule(False, "--shelves", help="Also a row of items per concept.")),
    "rules": (Path | None, rule(None, help="A JSON file of rules; options come on top.")),
    "strict": (
        bool,
        rule(False, "--strict", help="Fail on fewer items than requested, unknown ids and unknown histories."),
    ),
}


def takes_rules(command: F) -> F:
    """Give a command the options above, which it gets as its `**` arguments."""
    signature = inspect.signature(command, eval_str=True)
    own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    kind = inspect.Parameter.KEYWORD_ONLY
    options = [
        inspect.Parameter(name, kind, default=option, annotation=annotation)
        for name, (annotation, option) in OPTIONS.items()
    ]
    parameters = sorted([*own, *options], key=lambda each: each.kind)
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return command


def rules_from(options: dict[str, Any], items: Ids) -> dict[str, Any]:
    """The rules of these options as arguments of `model.recommend`: include, exclude, where, rules and strict."""
    from macrid.control.rules import Rules
    from macrid.data.idfiles import read_ids

    given: dict[str, Any] = {
        "pins": tuple(parse_ids(options["pin"], items)) or None,
        "boosts": tuple(map(_boost, options["boost"])) or None,
        "at_most": dict(map(_limit, options["at_most"])) or None,
        "diversity": options["diversity"],
        "diversity_by": tuple(options["diversity_by"]) or None,
        "shelves": options["shelves"] or None,
    }
    rules = Rules() if options["rules"] is None else Rules.load(options["rules"])
    arguments: dict[str, Any] = {"where": options["where"], "strict": options["strict"]}
    for name in ("include", "exclude"):
        file = options[f"{name}_file"]
        ids = [*parse_ids(options[name], items), *(() if file is None else map(_parsed(items), read_ids(file)))]
        arguments[name] = ids if ids or file is not None else None
    return arguments | {"rules": replace(rules, **{name: value for name, value in given.items() if value is not None})}


def _parsed(items: Ids) -> Callable[[Any], Any]:
    return lambda value: items.parse(value) if isinstance(value, str) else value


def _boost(text: str) -> dict[str, Any]:
    where, mark, amount = text.rpartition(":")
    try:
        return {"where": where, "amount": float(amount if mark else "")}
    except ValueError:
        raise typer.BadParameter(f"--boost {text!r}: give CONDITION:AMOUNT, such as 'year > 1995:+0.5'") from None


def _limit(text: str) -> tuple[str, int]:
    name, _, count = text.rpartition("=")
    if not name or not count.strip().isdecimal():
        raise typer.BadParameter(f"--at-most {text!r}: give ATTRIBUTE=NUMBER, such as genres=2")
    return name.strip(), int(count)


def show_rules(ranking: Recommendations, score_name: str) -> None:
    """Shelves, and what diversity cost, below a list."""
    if ranking.diversity is not None:
        console.print(str(ranking.diversity), style="dim")
    for shelf in ranking.shelves:
        console.print()
        console.print(f"{shelf.name} ({shelf.share:.0%})", style="bold")
        console.print(items_table(shelf.items, score_name))
