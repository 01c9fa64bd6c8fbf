"""macrid inspect: what a run has learned, and how far it comes apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from rich.table import Table
from rich.text import Text

from macrid.cli.common import console, print_json, working
from macrid.cli.evaluate import Which

STRONGEST = 8  # dimensions that are shown


def inspect(
    run: Path = typer.Argument(help="A run."),
    split: Which | None = typer.Option(
        None, help="Held-out users to look at components of. Default: both.", show_default=False
    ),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """Show concepts and dimensions, how well they agree with attributes of the items, and how far they come apart.

    Example: macrid inspect runs/ml-1m
    """
    from macrid.evaluation import inspection
    from macrid.runs import load, read_histories

    with working("inspecting"):
        model = load(run, "cpu")
        report = inspection.inspect(model, read_histories(run, None if split is None else split.value))
    if json:
        print_json(report)
        return
    show(report)


def show(report: dict[str, Any]) -> None:
    """For people, within 80 columns."""
    told = [f"{report['items']:,} items"]
    if report["concepts"]:
        told.append(f"{report['effective_concepts']:.1f} of {len(report['concepts'])} concepts in use")
    if report["users"]:
        told.append(f"{report['users']:,} held-out users")
    console.print(f"{report['model']}: {', '.join(told)}")
    sections: tuple[tuple[str, Any, Callable[[Any], Table]], ...] = (
        ("concepts", report["concepts"], _concepts),
        ("concepts against attributes of the items", report["attributes"], _attributes),
        ("how far the dimensions come apart", _numbers(report), _values),
        ("dimensions that go with an attribute", _strongest(report["dimensions"]), _dimensions),
    )
    for title, content, table in sections:
        if content:
            console.print(f"\n{title}", style="bold")
            console.print(table(content))
    if report["warnings"] or report["notes"]:
        console.print()
    for warning in report["warnings"]:
        console.print(Text.assemble(("warning: ", "yellow"), warning))
    for note in report["notes"]:
        console.print(f"note: {note}", style="dim")


def _concepts(concepts: list[dict[str, Any]]) -> Table:
    table = _table("concept", "items", "share", "of interactions", left=("typical items",))
    for entry in concepts:
        titles = [item["title"] or item["id"] for item in entry["typical"]]
        has_titles = any(item["title"] for item in entry["typical"])
        share = [f"{entry[name]:.0%}" for name in ("share", "interactions")]
        table.add_row(str(entry["concept"]), f"{entry['items']:,}", *share, ("\n" if has_titles else ", ").join(titles))
    return table


def _attributes(attributes: dict[str, dict[str, Any]]) -> Table:
    table = _table("items", "values", "largest", "purity", "matched", "NMI", "ARI", first="attribute")
    for name, scores in attributes.items():
        parts = [f"{scores[part]:.0%}" for part in ("largest", "purity", "matched_accuracy")]
        counts = [f"{scores[part]:,}" for part in ("items", "values")]
        table.add_row(name, *counts, *parts, *(f"{scores[part]:.2f}" for part in ("nmi", "ari")))
    return table


def _numbers(report: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What was measured: name, value, remark."""
    found = []
    if report["independence"] is not None:
        each = report["independence_per_concept"]
        remark = f"within a concept {min(each):.2f} to {max(each):.2f}" if len(each) > 1 else ""
        found.append(("independence", f"{report['independence']:.2f}", remark))
    if report["kl"] is not None:
        kl = report["kl"]
        limit = f"at most ln {kl['users']:,} = {math.log(kl['users']):.2f}" if kl["users"] > 1 else ""
        error = f" ± {kl['error']:.2f}" if kl["error"] >= 0.005 else ""
        found += [
            ("KL to the prior", _nats(kl["kl"]), "nats a user, the sum of these three"),
            ("  mutual information", _nats(kl["mutual_information"]) + error, limit),
            ("  total correlation", _nats(kl["total_correlation"]) + error, "0 if dimensions were independent"),
            ("  dimension-wise KL", _nats(kl["dimension_wise_kl"]), "0 if each had the prior's distribution"),
        ]
    if report["dci"] is not None:
        remarks = (
            "a dimension tells of one factor only",
            "a factor needs one dimension only",
            "the factors can be told",
        )
        names = ("disentanglement", "completeness", "informativeness")
        found += [
            (f"DCI {name}", f"{report['dci'][name]:.2f}", f"1 if {remark}")
            for name, remark in zip(names, remarks, strict=True)
        ]
    if report["mig"] is not None:
        found.append(("MIG", f"{report['mig']['mean']:.2f}", "1 if one dimension alone tells a factor"))
    return found


def _nats(value: float) -> str:
    return f"{round(value, 2) + 0:.2f}"  # no −0


def _values(numbers: list[tuple[str, str, str]]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="dim")
    for row in numbers:
        table.add_row(*row)
    return table


def _strongest(dimensions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    known = [entry for entry in dimensions if entry["correlation"] is not None]
    return sorted(known, key=lambda entry: -abs(entry["correlation"]))[:STRONGEST]


def _dimensions(dimensions: list[dict[str, Any]]) -> Table:
    names = [name for name in ("concept", "dimension") if dimensions[0][name] is not None]
    table = _table(*names, "correlation", left=("attribute",))
    for entry in dimensions:
        table.add_row(*(str(entry[name]) for name in names), f"{entry['correlation']:+.2f}", entry["attribute"])
    return table


def _table(*numbers: str, first: str | None = None, left: tuple[str, ...] = ()) -> Table:
    """Columns of numbers, with text before and after them."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    if first is not None:
        table.add_column(first)
    for name in numbers:
        table.add_column(name, justify="right")
    for name in left:
        table.add_column(name)
    return table
