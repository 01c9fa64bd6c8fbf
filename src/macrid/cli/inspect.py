"""macrid inspect: what a run has learned, and how cleanly it is separated."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table
from rich.text import Text

from macrid.cli.common import console, plain_table, print_json, step_progress, working
from macrid.cli.evaluate import Which
from macrid.pictures.drawing import shortened

if TYPE_CHECKING:
    from macrid.concepts.names import Names
    from macrid.models.base import Recommender

DIMENSIONS_SHOWN = 24
UNNAMED_SHOWN = 3  # per concept without names
KNOBS_SHOWN = 12  # across concepts, and as many within one
KNOBS_LEGEND = (
    "monot.: rank correlation of the knob with its attribute in the list; leakage: how far other attributes move,"
    " relative to its own; NDCG kept, overlap: after a quarter turn; smooth: overlap of the list from step to step"
)


def inspect(
    run: Path = typer.Argument(help="A run."),
    split: Which | None = typer.Option(None, help="Which held-out users to inspect. Default: both groups."),
    control: bool = typer.Option(False, help="Turn every named knob for test users and measure the effect."),
    beside: Path | None = typer.Option(
        None, help="With --control: a multvae or multdae run on the same data, for comparison."
    ),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """Show concepts and dimensions with their names, how well they match attributes, and how cleanly they separate.

    Example: macrid inspect runs/ml-1m

    Example: macrid inspect runs/ml-1m --control
    """
    if beside is not None and not control:
        raise typer.BadParameter("--beside needs --control")
    from macrid.report import inspection
    from macrid.runs import load, read_heldout, read_histories

    if control:
        read_heldout(run, "test" if split is None else split.value)  # fail early if there are none
    with working("inspecting"):
        model = load(run, "cpu")
        report = inspection.inspect(model, read_histories(run, None if split is None else split.value))
    if control:
        report["control"] = _measured(model, run, beside, "test" if split is None else split.value)
    if json:
        print_json(report)
    else:
        show(report)


def _measured(model: Recommender, run: Path, beside: Path | None, split: str) -> dict[str, Any]:
    from macrid.report.controllability import measure
    from macrid.runs import load, read_heldout

    other = None if beside is None else load(beside, "cpu")
    with step_progress() as progress:
        bar = progress.add_task("turning knobs", total=None, status="")

        def on_knob(done: int, total: int) -> None:
            progress.update(bar, completed=done, total=total, status=f"{done} of {total}")

        return measure(model, read_heldout(run, split), beside=other, on_knob=on_knob).as_json()


def show(report: dict[str, Any]) -> None:
    """Print a report, within 80 columns."""
    counts = [f"{report['items']:,} items"]
    if report["concepts"]:
        counts.append(f"{report['effective_concepts']:.1f} of {len(report['concepts'])} concepts in use")
    if report["users"]:
        counts.append(f"{report['users']:,} held-out users")
    console.print(f"{report['model']}: {', '.join(counts)}")
    sections: tuple[tuple[str, Any, Callable[[Any], Table]], ...] = (
        ("concepts", report["concepts"], _concepts),
        ("concepts and item attributes", report["attributes"], _attributes),
        ("how cleanly dimensions are separated", _numbers(report), _values),
        ("dimensions", _shown(report["dimensions"]), _dimensions),
        ("dimensions that match an attribute", _strongest(report), _correlated),
        ("axes: how well dimensions predict attributes", report["axes"], _axes),
        ("what the knobs do", report.get("control"), lambda control: _control(control, report["concepts"])),
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
    named = any(entry["name"] is not None for entry in concepts)
    table = plain_table(
        "concept", "items", "share", "of interactions", last=(*(["name"] if named else []), "typical items")
    )
    for entry in concepts:
        titles = [item["title"] or item["id"] for item in entry["typical"]]
        has_titles = any(item["title"] for item in entry["typical"])
        share = [f"{entry[name]:.0%}" for name in ("share", "interactions")]
        name = [entry["name"] or "–"] if named else []
        typical = ("\n" if has_titles else ", ").join(titles)
        table.add_row(str(entry["concept"]), f"{entry['items']:,}", *share, *name, typical)
    return table


def _attributes(attributes: dict[str, dict[str, Any]]) -> Table:
    table = plain_table("items", "values", "largest", "purity", "matched", "NMI", "ARI", first="attribute")
    for name, scores in attributes.items():
        parts = [f"{scores[part]:.0%}" for part in ("largest", "purity", "matched_accuracy")]
        counts = [f"{scores[part]:,}" for part in ("items", "values")]
        table.add_row(name, *counts, *parts, *(f"{scores[part]:.2f}" for part in ("nmi", "ari")))
    return table


def _numbers(report: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Measurements: name, value, remark."""
    rows = []
    if report["independence"] is not None:
        each = report["independence_per_concept"]
        remark = f"within a concept {min(each):.2f} to {max(each):.2f}" if len(each) > 1 else ""
        rows.append(("independence", f"{report['independence']:.2f}", remark))
    if report["kl"] is not None:
        kl = report["kl"]
        limit = f"at most ln {kl['users']:,} = {math.log(kl['users']):.2f}" if kl["users"] > 1 else ""
        error = f" ± {kl['error']:.2f}" if kl["error"] >= 0.005 else ""
        rows += [
            ("KL to the prior", _nats(kl["kl"]), "nats per user, the sum of these three"),
            ("  mutual information", _nats(kl["mutual_information"]) + error, limit),
            ("  total correlation", _nats(kl["total_correlation"]) + error, "0 if dimensions are independent"),
            ("  dimension-wise KL", _nats(kl["dimension_wise_kl"]), "0 if each follows the prior"),
        ]
    if report["dci"] is not None:
        remarks = "each dimension predicts one factor", "each factor needs one dimension", "factors are predictable"
        names = "disentanglement", "completeness", "informativeness"
        rows += [
            (f"DCI {name}", f"{report['dci'][name]:.2f}", f"1 if {remark}")
            for name, remark in zip(names, remarks, strict=True)
        ]
    if report.get("dci_within") is not None:
        within = report["dci_within"]
        remark = f"disentanglement; {within['original']:.2f} along the original axes"
        rows.append(("DCI within concepts", f"{within['in_use']:.2f}", remark))
    if report["mig"] is not None:
        rows.append(("MIG", f"{report['mig']['mean']:.2f}", "1 if each factor is in one dimension alone"))
    return rows


def _nats(value: float) -> str:
    return f"{round(value, 2) + 0:.2f}"  # never -0.00


def _values(numbers: list[tuple[str, str, str]]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="dim")
    for row in numbers:
        table.add_row(*row)
    return table


def _shown(dimensions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Named dimensions; and the first few of a concept that names none but popularity."""
    named = [entry for entry in dimensions if entry["name"] or entry["edited"]]
    known = {entry["concept"] for entry in named if entry["edited"] or entry["named_by"] not in (None, "popularity")}
    shown: Counter[int] = Counter()
    for entry in dimensions:
        concept = entry["concept"]
        is_extra = entry["examples"] and entry not in named and concept not in known
        if is_extra and shown[concept] < UNNAMED_SHOWN:
            shown[concept] += 1
            named.append(entry)
    return named


def _end(entry: dict[str, Any], end: str) -> str:
    """The name of an end, or its most typical item."""
    typical = entry["examples"][end][0] if entry["examples"] and entry["examples"][end] else {}
    return entry[end] or typical.get("title") or typical.get("id") or ""


def _dimensions(named: list[dict[str, Any]]) -> Table:
    """The strongest, by concept."""
    has_concepts = named[0]["concept"] is not None
    table = plain_table(*(["concept"] if has_concepts else []), "dimension", last=("name", "from", "to"))
    for name in ("strength", "p"):
        table.add_column(name, justify="right")
    shown = sorted(named, key=lambda entry: (not entry["edited"], -abs(entry["strength"] or 0)))[:DIMENSIONS_SHOWN]
    for entry in sorted(shown, key=lambda entry: (entry["concept"] or 0, entry["dimension"])):
        concept = [str(entry["concept"])] if has_concepts else []
        ends = [shortened(_end(entry, end), 22) for end in ("low", "high")]
        strength, p = (
            "" if entry[x] is None else f"{entry[x]:{form}}" for x, form in (("strength", ".2f"), ("p", ".3f"))
        )
        table.add_row(*concept, str(entry["dimension"]), shortened(entry["name"] or "–", 22), *ends, strength, p)
    if len(named) > len(shown):
        table.caption = f"the {len(shown)} strongest of {len(named)}; all with --json"
        table.caption_justify, table.caption_style = "left", "dim"
    return table


def _strongest(report: dict[str, Any]) -> list[dict[str, Any]]:
    """For a model without names: the dimensions with the largest correlations."""
    if report["axes"] is not None and any(entry["name"] for entry in report["dimensions"]):
        return []
    known = [entry for entry in report["dimensions"] if entry["correlation"] is not None]
    return sorted(known, key=lambda entry: -abs(entry["correlation"]))[:DIMENSIONS_SHOWN]


def _correlated(dimensions: list[dict[str, Any]]) -> Table:
    names = [name for name in ("concept", "dimension") if dimensions[0][name] is not None]
    table = plain_table(*names, "correlation", last=("attribute",))
    for entry in dimensions:
        table.add_row(*(str(entry[name]) for name in names), f"{entry['correlation']:+.2f}", entry["attribute"])
    return table


def _axes(axes: dict[str, Any]) -> Table:
    table = plain_table("original", "in use", first="concept", last=("axes",))
    for k, used in enumerate(axes["in_use"]):
        values = (axes[name][k] for name in ("evidence_original", "evidence_in_use"))
        table.add_row(str(k), *("–" if value is None else f"{value:.2f}" for value in values), used)
    return table


def _control(control: dict[str, Any], concepts: list[dict[str, Any]]) -> Table:
    names = ("monotonicity", "leakage", "retention", "overlap", "smoothness")
    table = plain_table("users", "monot.", "leakage", "NDCG kept", "overlap", "smooth", first="knob")
    more = 0
    groups = [[k for k in control["knobs"] if (k["concept"] is None) == joint] for joint in (True, False)]
    for knobs in groups:
        best = sorted(knobs, key=lambda knob: -knob["monotonicity"])[:KNOBS_SHOWN]
        for knob in best:
            where = "all concepts"
            if knob["concept"] is not None:
                where = f"{knob['concept']} {concepts[knob['concept']]['name'] or ''}".strip()
            table.add_row(
                shortened(f"{shortened(knob['name'], 16)}, {where}", 28), f"{knob['users']}", *_cells(knob, names)
            )
        more += len(knobs) - len(best)
    table.add_section()
    table.add_row("mean of all knobs", "", *_cells(control["mean"], names))
    if control["random"] is not None:
        table.add_row("random directions", "", f"{control['random']:.2f}")
    if control["beside_mean"] is not None:
        table.add_row("the other model", "", *_cells(control["beside_mean"], names))
    table.caption = f"{f'{more} more with --json; ' if more else ''}{KNOBS_LEGEND}"
    table.caption_justify, table.caption_style = "left", "dim"
    return table


def _cells(values: dict[str, Any], names: tuple[str, ...]) -> list[str]:
    return ["–" if values[name] is None else f"{values[name]:.2f}" for name in names]


def named_concepts(names: Names) -> Table:
    """Names of concepts, and the evidence for them."""
    from macrid.concepts.names import label

    table = plain_table(first="concept", last=("name", "strength", "p", "evidence"))
    for entry in names.concepts:
        evidence = [f"{share.value} {share.inside:.0%}, others {share.outside:.0%}" for share in entry.evidence[:2]]
        reasons = "\n".join((["set by hand"] if entry.edited else []) + evidence) or (entry.why or "")
        numbers = (
            "" if value is None else f"{value:{form}}" for value, form in ((entry.strength, ".2f"), (entry.p, ".3f"))
        )
        table.add_row(str(entry.concept), label(entry), *numbers, reasons)
    return table


def named_dimensions(names: Names, everything: bool = False) -> Table:
    """Named dimensions with items at both ends; and the first few of a concept that names none but popularity."""
    from macrid.concepts.names import caption, ends

    table = plain_table(first="dimension", last=("name", "from", "to", "strength", "such as"))
    room = max(18, console.width - 60)
    known = {entry.concept for entry in names.dimensions if entry.edited or entry.attribute not in (None, "popularity")}
    shown: Counter[int] = Counter()
    for entry in names.dimensions:
        has_name = entry.name is not None or entry.edited
        if not has_name and not everything:
            if entry.concept in known or shown[entry.concept] == UNNAMED_SHOWN:
                continue
            shown[entry.concept] += 1
        examples = [shortened(caption(side[0]), room) for side in (entry.examples.low, entry.examples.high) if side]
        strength = "by hand" if entry.edited else "" if entry.strength is None else f"{entry.strength:.2f}"
        texts = [shortened(text, 22) for text in (entry.name or "–", *ends(entry))]
        place = f"{entry.concept}.{entry.dimension}"
        table.add_row(place, *texts, strength if has_name else "none", "\n".join(examples) if has_name else "")
    return table
