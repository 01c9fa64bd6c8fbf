"""macrid index: find recommendations in large catalogues without scoring every item."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Any

import typer
from rich.filesize import decimal

from macrid.cli.common import console, print_json, step_progress


def index(
    run: Path = typer.Argument(help="A run."),
    approximate: bool = typer.Option(
        False, "--approximate", help="Search fewer cells: faster, and some of the best items may be missing."
    ),
    recall: float = typer.Option(
        0.98, min=0.0, max=1.0, help="With --approximate: the share of the exact list to find, on average."
    ),
    remove: bool = typer.Option(False, "--remove", help="Delete the index; every item is scored again."),
    device: str = typer.Option("auto", help="auto, cpu, cuda or cuda:N."),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """Group the items of a run into cells, so that most of them need not be scored to find the best.

    Lists stay exact, with a proof that no other item is better, unless you ask for --approximate; its recall is
    measured on users of the run and shown. Large runs get an exact index when they are trained.

    Example: macrid index runs/shop

    Example: macrid index runs/shop --approximate --recall 0.99
    """
    from macrid.runs import INDEX, load, remove_index, write_index

    if remove:
        existed = remove_index(run)
        if json:
            print_json({"removed": existed})
        else:
            console.print(f"{run}: {'index removed' if existed else 'had no index'}", soft_wrap=True)
        return
    with step_progress() as progress:
        bar = progress.add_task("indexing", total=None, status="")

        def on_items(done: int, total: int) -> None:
            progress.update(bar, completed=done, total=total, status=f"{done:,} of {total:,} items")

        model: Any = load(run, device)
        model.index = None
        built = write_index(run, model, approximate=approximate, recall=recall, progress=on_items)
    size = (run / INDEX).stat().st_size
    facts: dict[str, Any] = {"items": len(model.items), "bytes": size, **built.as_json()}
    if json:
        print_json(facts)
        return
    console.print(
        f"{run}: {facts['kind']} index of {facts['items']:,} items in {facts['cells']:,} cells, {decimal(size)}",
        soft_wrap=True,
    )
    if (trial := built.trial) is not None:
        console.print(in_words(trial), style="dim", soft_wrap=True)
        if trial["milliseconds"] > trial["everything"]:
            slower = "scoring every item is faster here; remove the index with"
            console.print(f"{slower} `macrid index {quote(str(run))} --remove`", style="yellow", soft_wrap=True)


def in_words(trial: dict[str, Any]) -> str:
    """What an index did for some users."""
    spent = f"{trial['milliseconds']:.1f} ms per list instead of {trial['everything']:.1f}"
    if "recall" in trial:
        return f"{trial['users']} users: {spent}, with {trial['recall']:.1%} of the exact lists"
    return (
        f"{trial['users']} users: {spent}; {trial['candidates']:,.0f} items scored per list,"
        f" {min(trial['compared'], 1):.1%} of the items compared,"
        f" {trial['proved_at_once']:.0%} of the lists proved at once"
    )
