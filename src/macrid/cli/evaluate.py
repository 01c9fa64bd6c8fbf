"""macrid evaluate: score a run on held-out users."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import typer

from macrid.cli.common import console, print_json, working


def evaluate(
    run: Path = typer.Argument(help="A run."),
    split: Literal["test", "validation"] = typer.Option("test", help="Which held-out users."),
    data: str | None = typer.Option(None, help="Another prepared folder or catalogue name over the same items."),
    metric: list[str] = typer.Option([], help="ndcg@K or recall@K, any K; repeatable. Default: the paper's three."),
    nothing_to_predict: Literal["skip", "zero"] = typer.Option(
        "skip", help="Users with nothing to predict: skip them, or count them as zero like the authors' code."
    ),
    device: str = typer.Option("auto", help="auto, cpu, cuda or cuda:N."),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """Fold in held-out users and score how well their hidden items are ranked.

    Example: macrid evaluate runs/ml-1m --split test --metric ndcg@10
    """
    from macrid.cli.common import load_split
    from macrid.errors import DataError
    from macrid.evaluation import ranking
    from macrid.runs import load, read_heldout

    with working("scoring"):
        model = load(run, device)
        if data is None:
            heldout = read_heldout(run, split)
        else:
            other, _ = load_split(data)
            if other.items != model.items:
                raise DataError(f"{data}: its items differ from those of {run}; give the data the run was trained on")
            heldout = getattr(other, split)
        result = ranking.evaluate(
            model, heldout, tuple(metric) or ranking.PAPER_METRICS, nothing_to_predict=nothing_to_predict
        )
    if json:
        print_json({"split": split, **result.as_json()})
    else:
        console.print(str(result))
