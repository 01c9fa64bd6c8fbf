"""macrid diff: what moved between two runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
from rich.table import Table
from rich.text import Text

from macrid.cli.common import console, error_console, number, print_json, table, working

FAILED = 3
"""The exit code of a comparison that fails a condition."""
SHOWN_KNOBS = 10
SHOWN_ITEMS = 2


def diff(
    before: Path = typer.Argument(help="The run in use."),
    after: Path = typer.Argument(help="The run to replace it."),
    fail_if: str | None = typer.Option(
        None,
        "--fail-if",
        metavar="CONDITION",
        help=f"Exit with {FAILED} if this is true of the numbers in the JSON, such as 'ari < .8 or names_kept < .9'.",
    ),
    users: int = typer.Option(1000, min=1, help="Lists to compare at most."),
    input: Path | None = typer.Option(
        None, "--input", "-i", help="A file of events whose users are compared, instead of the held-out users."
    ),
    user_col: str | None = typer.Option(None, help="Its user column; guessed if not given."),
    item_col: str | None = typer.Option(None, help="Its item column; guessed if not given."),
    device: str = typer.Option("auto", help="auto, cpu, cuda or cuda:N."),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """Compare two runs: concepts, names, knobs, users' lists and accuracy, and whether it is safe to swap them.

    Example: macrid diff runs/yesterday runs/today

    Example: macrid diff runs/yesterday runs/today --fail-if "ari < .8 or names_kept < .9 or ndcg_change < -.01"
    """
    from macrid.differences import NUMBERS
    from macrid.differences import diff as compare
    from macrid.report.gate import is_met

    if fail_if is not None:
        is_met(fail_if, dict.fromkeys(NUMBERS, 0.0))  # an error before any work is done
    histories = None if input is None else _histories(input, user_col, item_col)
    with working("comparing"):
        result = compare(before, after, users=users, histories=histories, device=device)
    fails = fail_if is not None and is_met(fail_if, result["numbers"])
    if json:
        print_json({**result, **({} if fail_if is None else {"failed": fails})})
    else:
        print_diff(result)
    if fails:
        error_console.print(Text.assemble(("failed: ", "bold red"), str(fail_if)), soft_wrap=True)
        raise typer.Exit(FAILED)


def _histories(path: Path, user: str | None, item: str | None) -> list[list[Any]]:
    from macrid.data.interactions import Interactions

    data = Interactions.read(path, user=user, item=item, min_items=1)
    items, matrix = list(data.items), data.matrix
    bounds = zip(matrix.indptr[:-1].tolist(), matrix.indptr[1:].tolist(), strict=True)
    return [[items[position] for position in matrix.indices[start:end].tolist()] for start, end in bounds]


def print_diff(result: dict[str, Any]) -> None:
    """Tables of what moved, and the verdict last."""
    items = result["items"]
    console.print(f"{items['common']:,} items in both, {items['new']:,} new, {items['gone']:,} gone")
    if result["concepts"]:
        console.print()
        console.print(_concepts(result["concepts"]))
    changed = [knob for knob in result["knobs"] if knob["status"] != "kept"]
    if changed:
        console.print()
        console.print(_knobs(changed))
    console.print()
    console.print(_numbers(result))
    console.print()
    verdict = result["verdict"]
    title, style = (
        ("safe to swap", "bold green") if verdict["safe"] else ("not safe to swap without a look", "bold red")
    )
    console.print(title, style=style)
    for mark, style, texts in (("–", "red", verdict["against"]), ("+", "green", verdict["for"])):
        for text in texts:
            console.print(Text.assemble((f"  {mark} ", style), text))


def _concepts(rows: list[dict[str, Any]]) -> Table:
    made = []
    for row in rows:
        moved = "; ".join(item["title"] or item["id"] for item in row["moved"][:SHOWN_ITEMS])
        more = row["moved_items"] - min(SHOWN_ITEMS, len(row["moved"]))
        moved += f"; {more:,} more" if moved and more > 0 else ""
        numbers = (row["before"], row["after"])
        place = (
            str(numbers[0]) if numbers[0] == numbers[1] else " → ".join("–" if n is None else str(n) for n in numbers)
        )
        names = [row["label_before"], row["label_after"]]
        name = names[0] if names[0] == names[1] else " → ".join("–" if each is None else str(each) for each in names)
        sizes = f"{row['items_before']:,} → {row['items_after']:,}"
        stay = "" if row["stay"] is None else f"{row['stay']:.0%}"
        made.append((place, name, sizes, stay, moved or None))
    return table(("concept", "name", "items", "stay", "moved away"), made, numbers=("items", "stay"))


def _knobs(knobs: list[dict[str, Any]]) -> Table:
    rows = [
        (
            f"{knob['concept']}.{knob['dimension']}",
            knob["name"],
            knob["status"] if knob["to"] is None else f"{knob['status']} ({knob['to'][0]}.{knob['to'][1]})",
            number(knob["correlation"], "+.2f"),
        )
        for knob in knobs[:SHOWN_KNOBS]
    ]
    rest = len(knobs) - len(rows)
    caption = f"and {rest} more dimensions that changed" if rest else None
    return table(("dimension", "name", "is now", "correlation"), rows, numbers=("correlation",), caption=caption)


def _numbers(result: dict[str, Any]) -> Table:
    listed, accuracy, values = result["lists"], result["accuracy"], result["numbers"]
    unpaired = "before final training, so not paired" if accuracy["final"] else "other test users, so not paired"
    same = "user by user" if accuracy["same_users"] else unpaired
    change = None if accuracy["change"] is None else f"{accuracy['change']:+.4f} ± {accuracy['se']:.4f}, {same}"
    before, after = (number(values[name], ".4f", "–") for name in ("ndcg_before", "ndcg_after"))
    rows = [
        ("concepts", _known("ari", values), "of the same items in both (ARI), weighted by popularity"),
        ("numbers", _known("numbers_kept", values), "of the concepts with the same number and colour"),
        ("names", _known("names_kept", values), "of the names kept"),
        ("knobs", _known("knobs_kept", values), "of the named dimensions at their place, with their sign"),
        ("lists", _known("overlap", values), f"of the first 10 items kept by {listed['users']:,} users"),
        ("", _known("rbo", values), "rank-biased overlap of the first 50"),
        ("", _known("same_top", values), "of the users keep their first item"),
        ("accuracy", after, f"NDCG@100 on test users, was {before}; {change or 'no change known'}"),
    ]
    return table(
        ("", "value", "meaning"), [row for row in rows if row[1] is not None], numbers=("value",), header=False
    )


def _known(name: str, values: dict[str, float | None]) -> str | None:
    value = values[name]
    return None if value is None else f"{value:.2f}"
