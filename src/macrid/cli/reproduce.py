"""macrid reproduce: the paper's tables and figures."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer
from rich.table import Table
from rich.text import Text

from macrid.cli.common import console, error_console, print_json, step_progress, table
from macrid.errors import MacridError


def reproduce(
    what: list[str] = typer.Argument(help="Any of table1, figure2, figure3 and figure4, or all."),
    out: Path = typer.Option(..., "--out", "-o", help="Folder for numbers, pictures and the report."),
    quick: bool = typer.Option(False, "--quick", help="Small settings: minutes, not hours; the numbers mean little."),
    data: list[str] = typer.Option([], "--data", help="Only this data set of Table 1; repeatable."),
    seeds: int | None = typer.Option(None, "--seeds", help="Seeds for Table 1. Default: 3."),
    configurations: int | None = typer.Option(
        None, "--configurations", help="Per method in Figure 4 (the paper: 2,000). Default: 300."
    ),
    trials: int | None = typer.Option(
        None, "--trials", help="Tune again, with this many trials each (the paper: 200)."
    ),
    device: str = typer.Option("auto", "--device", help="auto, cpu, cuda or cuda:N."),
    report: Path | None = typer.Option(None, "--report", help="The report. Default: results.md in --out."),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """Compute the paper's tables and figures, and report them beside the published ones.

    Finished parts are kept in --out: rerun the same command to continue. Missing data sets are named and skipped.

    Example: macrid reproduce all --quick --out paper/
    """
    from macrid.data import catalog
    from macrid.errors import CollapseWarning
    from macrid.models.devices import choose_device
    from macrid.paper import table1
    from macrid.paper.report import write_report
    from macrid.paper.reproduce import QUICK, Plan, Reproduction
    from macrid.tuning.space import BUDGET_DIM

    blocks = _blocks(what)
    choose_device(device)
    options = {"seeds": seeds, "configurations": configurations, "trials": trials}
    counts: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    for name, value in counts.items():
        if value < 1:
            raise MacridError(f"--{name} is {value}; it must be at least 1")
    plan = replace(QUICK if quick else Plan(), **counts)
    for name in data:
        catalog.entry(name)  # raises if there is no such data set
    plan = replace(plan, data=tuple(data) or table1.DATA, fetched=(*plan.fetched, *data))
    plan = replace(plan, training={**plan.training, "device": device})
    warnings.simplefilter("ignore", CollapseWarning)  # runs that collapse are part of the result
    results = {}
    with step_progress() as progress:
        bar = progress.add_task("", total=None, status="")

        def on_part(name: str, ready: bool) -> None:
            progress.update(bar, description=name, status="" if ready else "computing", advance=int(ready))
            if not error_console.is_terminal and not ready:
                error_console.print(name)

        def on_missing(message: str) -> None:
            error_console.print(f"skipped: {message}", style="yellow", soft_wrap=True)

        path = report or out / "results.md"
        work = Reproduction(out, plan, on_part, on_missing)
        work.prepare(blocks, path)
        for block in blocks:
            progress.update(bar, total=work.parts_of(block), completed=0)
            results[block] = work.run(block)
            write_report(out, path)
    if json:
        print_json({"report": str(path), "blocks": results})
        return
    if "table1" in results and results["table1"]["rows"]:
        console.print(_table(results["table1"]["rows"]))
        console.print(f"of 2Md: parameters as a multiple of 2 · items · {BUDGET_DIM}", style="dim")
    console.print(f"{path}: written", soft_wrap=True)


def _blocks(what: list[str]) -> list[str]:
    from macrid.paper.reproduce import BLOCKS

    unknown = [name for name in what if name not in (*BLOCKS, "all")]
    if unknown:
        raise MacridError(f"no table or figure '{unknown[0]}'; choose from {', '.join(BLOCKS)} and all")
    return [name for name in BLOCKS if name in what or "all" in what]


def _table(rows: list[dict[str, Any]]) -> Table:
    from macrid.paper import table1
    from macrid.tuning.space import BUDGET_DIM

    numbers = ("NDCG@100", "Recall@20", "Recall@50", "params", "of 2Md")
    lines: list[Sequence[Any]] = []
    last = None
    for row in rows:
        scores = table1.summary(row["runs"]).values()
        count = row["runs"][0]["parameters"]
        size = [f"{count / 1e6:.2f} M", f"{count / (2 * row['items'] * BUDGET_DIM):.2f}"]
        cells = [f"{mean:.3f}±{se:.3f}".replace("0.", ".") for mean, se in scores]
        if row["data"] != last:
            lines.append([Text(row["data"], "bold")])
        lines.append([f"  {table1.METHODS[row['method']]}", *cells, *size])
        last = row["data"]
    return table(("", *numbers), lines, numbers)
