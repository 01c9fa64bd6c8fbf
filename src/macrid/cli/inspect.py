"""macrid inspect: what a run has learned, and how far it comes apart."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table
from rich.text import Text

from macrid.cli.common import console, print_json, step_progress, working
from macrid.cli.evaluate import Which
from macrid.pictures.drawing import shortened

if TYPE_CHECKING:
    from macrid.concepts.names import Names
    from macrid.models.base import Recommender

STRONGEST = 24  # dimensions that are shown
UNNAMED = 3  # dimensions that are shown of a concept without names
KNOBS = 12  # of several concepts, and as many of one
KNOBS_SAY = (
    "monot.: rank correlation of the knob with its attribute in the list; leakage: how far other attributes move, as a"
    " share of its own; NDCG kept, overlap: after a quarter turn; smooth: of the list, from step to step"
)


def inspect(
    run: Path = typer.Argument(help="A run."),
    split: Which | None = typer.Option(
        None, help="Held-out users to look at components of. Default: both.", show_default=False
    ),
    control: bool = typer.Option(False, help="Turn every named knob for test users and measure what it does."),
    beside: Path | None = typer.Option(
        None, help="With --control: a run of multvae or multdae on the same data, to move beside.", show_default=False
    ),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """Show concepts and dimensions with their names, how well they agree with attributes, and how far they come apart.

    Example: macrid inspect runs/ml-1m

    Example: macrid inspect runs/ml-1m --control
    """
    if beside is not None and not control:
        raise typer.BadParameter("--beside goes with --control")
    from macrid.report import inspection
    from macrid.runs import load, read_heldout, read_histories

    if control:
        read_heldout(run, "test" if split is None else split.value)  # tell at once that there are none
    with working("inspecting"):
        model = load(run, "cpu")
        report = inspection.inspect(model, read_histories(run, None if split is None else split.value))
    if control:
        report["control"] = _measured(model, run, beside, "test" if split is None else split.value)
    if json:
        print_json(report)
        return
    show(report)


def _measured(model: Recommender, run: Path, beside: Path | None, split: str) -> dict[str, Any]:
    from macrid.report.controllability import measure
    from macrid.runs import load, read_heldout

    other = None if beside is None else load(beside, "cpu")
    with step_progress() as progress:
        bar = progress.add_task("turning knobs", total=None, told="")

        def on_knob(done: int, total: int) -> None:
            progress.update(bar, completed=done, total=total, told=f"{done} of {total}")

        return measure(model, read_heldout(run, split), beside=other, on_knob=on_knob).as_json()


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
        ("dimensions", _shown(report["dimensions"]), _dimensions),
        ("dimensions that go with an attribute", _strongest(report), _correlated),
        ("axes: how well dimensions tell attributes", report["axes"], _axes),
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
    table = _table("concept", "items", "share", "of interactions", left=(*(["name"] if named else []), "typical items"))
    for entry in concepts:
        titles = [item["title"] or item["id"] for item in entry["typical"]]
        has_titles = any(item["title"] for item in entry["typical"])
        share = [f"{entry[name]:.0%}" for name in ("share", "interactions")]
        name = [entry["name"] or "–"] if named else []
        typical = ("\n" if has_titles else ", ").join(titles)
        table.add_row(str(entry["concept"]), f"{entry['items']:,}", *share, *name, typical)
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
    if report.get("dci_within") is not None:
        within = report["dci_within"]
        remark = f"disentanglement; {within['original']:.2f} along the original axes"
        found.append(("DCI within concepts", f"{within['in_use']:.2f}", remark))
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


def _shown(dimensions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those with a name; and of a concept in which nothing but popularity has one, the first few without."""
    named = [entry for entry in dimensions if entry["name"] or entry["edited"]]
    told = {entry["concept"] for entry in named if entry["edited"] or entry["named_by"] not in (None, "popularity")}
    shown: Counter[int] = Counter()
    for entry in dimensions:
        if (
            entry["examples"]
            and entry not in named
            and entry["concept"] not in told
            and shown[entry["concept"]] < UNNAMED
        ):
            shown[entry["concept"]] += 1
            named.append(entry)
    return named


def _end(entry: dict[str, Any], end: str) -> str:
    """What an end is called, else its most typical item."""
    typical = entry["examples"][end][0] if entry["examples"] and entry["examples"][end] else {}
    return entry[end] or typical.get("title") or typical.get("id") or ""


def _dimensions(named: list[dict[str, Any]]) -> Table:
    """The strongest of each concept first."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    has_concepts = named[0]["concept"] is not None
    for name in (*(["concept"] if has_concepts else []), "dimension"):
        table.add_column(name, justify="right")
    for name in ("name", "from", "to"):
        table.add_column(name)
    for name in ("strength", "p"):
        table.add_column(name, justify="right")
    shown = sorted(named, key=lambda entry: (not entry["edited"], -abs(entry["strength"] or 0)))[:STRONGEST]
    for entry in sorted(shown, key=lambda entry: (entry["concept"] or 0, entry["dimension"])):
        own = [str(entry["concept"])] if has_concepts else []
        ends = [shortened(_end(entry, end), 22) for end in ("low", "high")]
        strength, p = (
            "" if entry[x] is None else f"{entry[x]:{form}}" for x, form in (("strength", ".2f"), ("p", ".3f"))
        )
        table.add_row(*own, str(entry["dimension"]), shortened(entry["name"] or "–", 22), *ends, strength, p)
    if len(named) > len(shown):
        table.caption = f"the {len(shown)} strongest of {len(named)}; all with --json"
        table.caption_justify, table.caption_style = "left", "dim"
    return table


def _strongest(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Of a model without names: the dimensions with the largest correlations."""
    if report["axes"] is not None and any(entry["name"] for entry in report["dimensions"]):
        return []
    known = [entry for entry in report["dimensions"] if entry["correlation"] is not None]
    return sorted(known, key=lambda entry: -abs(entry["correlation"]))[:STRONGEST]


def _correlated(dimensions: list[dict[str, Any]]) -> Table:
    names = [name for name in ("concept", "dimension") if dimensions[0][name] is not None]
    table = _table(*names, "correlation", left=("attribute",))
    for entry in dimensions:
        table.add_row(*(str(entry[name]) for name in names), f"{entry['correlation']:+.2f}", entry["attribute"])
    return table


def _axes(axes: dict[str, Any]) -> Table:
    table = _table("original", "in use", first="concept", left=("axes",))
    for k, used in enumerate(axes["in_use"]):
        values = (axes[name][k] for name in ("evidence_original", "evidence_in_use"))
        table.add_row(str(k), *("–" if value is None else f"{value:.2f}" for value in values), used)
    return table


def _control(control: dict[str, Any], concepts: list[dict[str, Any]]) -> Table:
    names = ("monotonicity", "leakage", "retention", "overlap", "smoothness")
    table = _table("users", "monot.", "leakage", "NDCG kept", "overlap", "smooth", first="knob")
    more = 0
    groups = [[k for k in control["knobs"] if (k["concept"] is None) == joint] for joint in (True, False)]
    for knobs in groups:
        best = sorted(knobs, key=lambda knob: -knob["monotonicity"])[:KNOBS]
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
        table.add_row("the model beside", "", *_cells(control["beside_mean"], names))
    table.caption = f"{f'{more} more with --json; ' if more else ''}{KNOBS_SAY}"
    table.caption_justify, table.caption_style = "left", "dim"
    return table


def _cells(values: dict[str, Any], names: tuple[str, ...]) -> list[str]:
    return ["–" if values[name] is None else f"{values[name]:.2f}" for name in names]


def named_concepts(names: Names) -> Table:
    """What concepts are called, and why."""
    from macrid.concepts.names import label

    table = _table(first="concept", left=("name", "strength", "p", "evidence"))
    for entry in names.concepts:
        evidence = [f"{share.value} {share.inside:.0%}, others {share.outside:.0%}" for share in entry.evidence[:2]]
        told = "\n".join((["set by hand"] if entry.edited else []) + evidence) or (entry.why or "")
        numbers = (
            "" if value is None else f"{value:{form}}" for value, form in ((entry.strength, ".2f"), (entry.p, ".3f"))
        )
        table.add_row(str(entry.concept), label(entry), *numbers, told)
    return table


def named_dimensions(names: Names, everything: bool = False) -> Table:
    """What dimensions with a name are called, with items at both ends.

    Of a concept in which nothing but popularity has a name, the first few without one are told by their ends.
    """
    from macrid.concepts.names import caption, ends

    table = _table(first="dimension", left=("name", "from", "to", "strength", "such as"))
    room = max(18, console.width - 60)
    told = {entry.concept for entry in names.dimensions if entry.edited or entry.attribute not in (None, "popularity")}
    shown: Counter[int] = Counter()
    for entry in names.dimensions:
        has_name = entry.name is not None or entry.edited
        if not has_name and not everything:
            if entry.concept in told or shown[entry.concept] == UNNAMED:
                continue
            shown[entry.concept] += 1
        examples = [shortened(caption(side[0]), room) for side in (entry.examples.low, entry.examples.high) if side]
        strength = "by hand" if entry.edited else "" if entry.strength is None else f"{entry.strength:.2f}"
        texts = [shortened(text, 22) for text in (entry.name or "–", *ends(entry))]
        place = f"{entry.concept}.{entry.dimension}"
        table.add_row(place, *texts, strength if has_name else "none", "\n".join(examples) if has_name else "")
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
