"""macrid inspect: what a run has learned, and how cleanly it is separated."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer
from rich.table import Table
from rich.text import Text

from macrid.cli.common import console, number, print_json, step_progress, table, working
from macrid.cli.index import in_words
from macrid.concepts.effects import KnobEffect
from macrid.pictures.drawing import shortened

if TYPE_CHECKING:
    from macrid.models.base import Recommender

DIMENSIONS_SHOWN = 24
UNNAMED_SHOWN = 3  # per concept without names
KNOBS_SHOWN = 12  # across concepts, and as many within one
FIT_LEGEND = "true of: share of the concept's choices that its name is true of, and of all choices in brackets"
EFFECTS_LEGEND = (
    "lists of validation users; moves: in standard deviations over the items; monot.: rank correlation of the knob with"
    " its attribute in the list; kept: share of NDCG after a quarter turn; knobs that do nothing are left out"
)
KNOBS_LEGEND = (
    "monot.: rank correlation of the knob with its attribute in the list; leakage: how far other attributes move,"
    " relative to its own; NDCG kept, overlap: after a quarter turn; smooth: overlap of the list from step to step"
)


def inspect(
    run: Path = typer.Argument(help="A run."),
    others: list[Path] = typer.Argument(None, help="More runs of the same data: also report how far concepts agree."),
    split: Literal["test", "validation"] | None = typer.Option(
        None, help="Which held-out users to inspect. Default: both groups."
    ),
    control: bool = typer.Option(False, help="Turn every named knob for test users and measure the effect."),
    beside: Path | None = typer.Option(
        None, help="With --control: a multvae or multdae run on the same data, for comparison."
    ),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """Show concepts and dimensions with their names, how well they match attributes, and how cleanly they separate.

    Example: macrid inspect runs/ml-1m

    Example: macrid inspect runs/ml-1m --control

    Example: macrid inspect runs/seed-0 runs/seed-1 runs/seed-2
    """
    if beside is not None and not control:
        raise typer.BadParameter("--beside needs --control")
    from macrid.report import inspection
    from macrid.runs import load, read_added, read_heldout, read_histories, read_metrics

    if control:
        read_heldout(run, split or "test")  # fail early if there are none
    with working("inspecting"):
        model = load(run, "cpu", added=False)
        histories = read_histories(run, split, added=False)
        report = inspection.inspect(model, histories, is_final="final" in read_metrics(run))
        if (added := read_added(run)) is not None:
            report["added"] = {"items": len(added), "strength": added.strength.as_json()}
        if (index := getattr(model, "index", None)) is not None:
            report["index"] = index.as_json()
        if others:
            report["agreement"] = inspection.compare([model, *(load(other, "cpu", added=False) for other in others)])
    if control:
        report["control"] = _measured(model, run, beside, split or "test")
    if json:
        print_json(report)
    else:
        show(report)


def _measured(model: Recommender, run: Path, beside: Path | None, split: str) -> dict[str, Any]:
    from macrid.report.controllability import measure
    from macrid.runs import load, read_heldout

    other = None if beside is None else load(beside, "cpu", added=False)
    with step_progress() as progress:
        bar = progress.add_task("turning knobs", total=None, status="")

        def on_knob(done: int, total: int) -> None:
            progress.update(bar, completed=done, total=total, status=f"{done} of {total}")

        return measure(model, read_heldout(run, split, added=False), beside=other, on_knob=on_knob).as_json()


def show(report: dict[str, Any]) -> None:
    """Print a report, within 80 columns."""
    counts = [f"{report['items']:,} items"]
    if report["concepts"]:
        counts.append(f"{report['effective_concepts']:.1f} of {len(report['concepts'])} concepts in use")
    if report["users"]:
        counts.append(f"{report['users']:,} held-out users")
    console.print(f"{report['model']}: {', '.join(counts)}")
    if "added" in report:
        added = report["added"]
        console.print(
            f"{added['items']:,} new item{'s' * (added['items'] > 1)} since training, placed with strength"
            f" {added['strength']['strength']:.2f}; what follows leaves them out (macrid items list)"
        )
    if "index" in report:
        index = report["index"]
        measured = "" if index["trial"] is None else f"; {in_words(index['trial'])}"
        console.print(f"{index['kind']} index{measured}")
    if report["preset"] is not None:
        console.print(f"preset {report['preset']}, {report['neighbours'] or 'no'} neighbours per item")
    if report["best_share"] is not None:
        share = report["best_share"]
        console.print(
            f"items belong to their likeliest concept by {share['mean']:.0%}, the 100 most popular by"
            f" {share['popular']:.0%} (median)"
        )
    if "agreement" in report:
        agreed = report["agreement"]
        console.print(
            f"concepts of {agreed['runs']} runs agree by {agreed['ari']:.2f} (ARI, {min(agreed['pairs']):.2f} to"
            f" {max(agreed['pairs']):.2f})"
        )
    sections: tuple[tuple[str, Any, Callable[[Any], Table]], ...] = (
        ("concepts", report["concepts"], _concepts),
        (
            "popular items in two concepts",
            report["shared_items"],
            lambda items: _shared(items, [entry["label"] for entry in report["concepts"]]),
        ),
        ("concepts and item attributes", report["attributes"], _attributes),
        ("how cleanly dimensions are separated", _numbers(report), _values),
        ("dimensions", shown(report["dimensions"]), _dimensions),
        ("dimensions that match an attribute", _strongest(report), _correlated),
        ("axes: how well dimensions predict attributes", report["axes"], _axes),
        ("what the knobs do", report["knobs"], lambda knobs: effects_table(knobs, report["concepts"])),
        ("what the knobs do, in detail", report.get("control"), lambda control: _control(control, report["concepts"])),
    )
    for title, content, table_of in sections:
        if content:
            console.print(f"\n{title}", style="bold")
            console.print(table_of(content))
    if report["warnings"] or report["notes"]:
        console.print()
    for warning in report["warnings"]:
        console.print(Text.assemble(("warning: ", "yellow"), warning))
    for note in report["notes"]:
        console.print(f"note: {note}", style="dim")


def _concepts(concepts: list[dict[str, Any]]) -> Table:
    numbers = ("concept", "items", "share", "of interactions")
    named = any(entry["name"] is not None for entry in concepts)
    rows = []
    for entry in concepts:
        titles = [item["title"] or item["id"] for item in entry["typical"]]
        typical = ("\n" if any(item["title"] for item in entry["typical"]) else ", ").join(titles)
        shares = (f"{entry[name]:.0%}" for name in ("share", "interactions"))
        fit = None if entry["fit"] is None else f"{entry['fit']['share']:.0%} ({entry['fit']['base']:.0%})"
        name = (entry["name"] or "–") if named else None
        rows.append((entry["concept"], f"{entry['items']:,}", *shares, name, fit, typical))
    legend = FIT_LEGEND if any(entry["fit"] for entry in concepts) else None
    return table((*numbers, "name", "true of", "typical items"), rows, numbers, legend)


def _shared(items: list[dict[str, Any]], labels: list[str]) -> Table:
    rows = []
    for item in items:
        concepts = (f"{shortened(labels[each['concept']], 22)} {each['share']:.0%}" for each in item["concepts"])
        rows.append((shortened(item["title"] or item["id"], 26), *concepts))
    return table(("title", "concept", "and"), rows)


def _attributes(attributes: dict[str, dict[str, Any]]) -> Table:
    numbers = ("items", "values", "largest", "purity", "matched", "NMI", "ARI")
    rows = []
    for name, scores in attributes.items():
        counts = (f"{scores[part]:,}" for part in ("items", "values"))
        shares = (f"{scores[part]:.0%}" for part in ("largest", "purity", "matched_accuracy"))
        rows.append((name, *counts, *shares, *(f"{scores[part]:.2f}" for part in ("nmi", "ari"))))
    return table(("attribute", *numbers), rows, numbers)


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
    rows = ((name, value, Text(remark, "dim")) for name, value, remark in numbers)
    return table(("name", "value", "remark"), rows, numbers=("value",), header=False)


def shown(dimensions: list[dict[str, Any]], named_by: str = "named_by") -> list[dict[str, Any]]:
    """Named dimensions; and the first few of a concept that names none but popularity.

    named_by: where an entry says by which attribute it is named.
    """
    known = {each["concept"] for each in dimensions if each["edited"] or each.get(named_by) not in (None, "popularity")}
    unnamed: Counter[int] = Counter()
    chosen = []
    for entry in dimensions:
        is_extra = not (entry["name"] or entry["edited"])
        if is_extra and (not entry["examples"] or entry["concept"] in known):
            continue
        unnamed[entry["concept"]] += is_extra
        if not is_extra or unnamed[entry["concept"]] <= UNNAMED_SHOWN:
            chosen.append(entry)
    return chosen


def _end(entry: dict[str, Any], end: str) -> str:
    """The name of an end, or its most typical item."""
    typical = entry["examples"][end][0] if entry["examples"] and entry["examples"][end] else {}
    return entry[end] or typical.get("title") or typical.get("id") or ""


def _dimensions(named: list[dict[str, Any]]) -> Table:
    """The strongest, by concept."""
    strongest = sorted(named, key=lambda entry: (not entry["edited"], -abs(entry["strength"] or 0)))[:DIMENSIONS_SHOWN]
    rows = []
    for entry in sorted(strongest, key=lambda entry: (entry["concept"] or 0, entry["dimension"])):
        texts = (shortened(entry["name"] or "–", 22), *(shortened(_end(entry, end), 22) for end in ("low", "high")))
        strength, p = number(entry["strength"]), number(entry["p"], ".3f")
        rows.append((entry["concept"], entry["dimension"], *texts, strength, p))
    columns = ("concept", "dimension", "name", "from", "to", "strength", "p")
    more = f"the {len(strongest)} strongest of {len(named)}; all with --json" if len(named) > len(strongest) else None
    return table(columns, rows, ("concept", "dimension", "strength", "p"), more)


def _strongest(report: dict[str, Any]) -> list[dict[str, Any]]:
    """For a model without names: the dimensions with the largest correlations."""
    if report["axes"] is not None and any(entry["name"] for entry in report["dimensions"]):
        return []
    known = [entry for entry in report["dimensions"] if entry["correlation"] is not None]
    return sorted(known, key=lambda entry: -abs(entry["correlation"]))[:DIMENSIONS_SHOWN]


def _correlated(dimensions: list[dict[str, Any]]) -> Table:
    columns = ("concept", "dimension", "correlation", "attribute")
    rows = ((e["concept"], e["dimension"], f"{e['correlation']:+.2f}", e["attribute"]) for e in dimensions)
    return table(columns, rows, numbers=columns[:3])


def _axes(axes: dict[str, Any]) -> Table:
    evidence = [axes["evidence_original"], axes["evidence_in_use"]]
    rows = (
        (k, *(number(values[k], missing="–") for values in evidence), used) for k, used in enumerate(axes["in_use"])
    )
    return table(("concept", "original", "in use", "axes"), rows, numbers=("original", "in use"))


def effects_table(knobs: list[dict[str, Any]], concepts: list[dict[str, Any]]) -> Table:
    """The strongest, for all concepts and within one."""
    rows, more = [], 0
    for joint in (True, False):
        these = [KnobEffect(**knob) for knob in knobs if (knob["concept"] is None) == joint]
        more += max(0, len(these) - KNOBS_SHOWN)
        for effect in these[:KNOBS_SHOWN]:
            other = "" if effect.other is None else f"{_value(effect.other)} {effect.other_moves:+.1f}"
            name = _knob_name(_value(effect.name), effect.concept, concepts)
            kept = number(effect.retention, missing="–")
            rows.append((name, effect.span, f"{effect.moves:.1f}", number(effect.monotonicity), other, kept))
    numbers = ("moves", "monot.", "kept")
    columns = ("knob", "in the list", "moves", "monot.", "moves too", "kept")
    return table(columns, rows, numbers, f"{f'{more} more with --json; ' if more else ''}{EFFECTS_LEGEND}")


def _value(attribute: str) -> str:
    """The value of an attribute that a column marks, or the attribute itself."""
    return shortened(attribute.rpartition(": ")[2], 12)


def _knob_name(name: str, concept: int | None, concepts: list[dict[str, Any]]) -> str:
    where = "all concepts" if concept is None else f"{concept} {concepts[concept]['name'] or ''}".strip()
    return shortened(f"{shortened(name, 16)}, {where}", 28)


def _control(control: dict[str, Any], concepts: list[dict[str, Any]]) -> Table:
    rows, more = [], 0
    for joint in (True, False):
        knobs = [knob for knob in control["knobs"] if (knob["concept"] is None) == joint]
        best = sorted(knobs, key=lambda knob: -KnobEffect(**knob).strength)[:KNOBS_SHOWN]
        for knob in best:
            rows.append((_knob_name(knob["name"], knob["concept"], concepts), knob["users"], *_cells(knob)))
        more += len(knobs) - len(best)
    rows.append(("mean of all knobs", "", *_cells(control["mean"])))
    if control["random"] is not None:
        rows.append(("random directions", "", number(control["random"])))
    if control["beside_mean"] is not None:
        rows.append(("the other model", "", *_cells(control["beside_mean"])))
    numbers = ("users", "monot.", "leakage", "NDCG kept", "overlap", "smooth")
    return table(("knob", *numbers), rows, numbers, f"{f'{more} more with --json; ' if more else ''}{KNOBS_LEGEND}")


def _cells(values: dict[str, Any]) -> list[str]:
    return [
        number(values[name], missing="–") for name in ("monotonicity", "leakage", "retention", "overlap", "smoothness")
    ]
