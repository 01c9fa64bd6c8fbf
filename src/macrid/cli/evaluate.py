"""macrid evaluate: score a run on held-out users, or compare it with others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from macrid.cli.common import console, error_console, print_json, working
from macrid.errors import DataError, RunError

if TYPE_CHECKING:
    from macrid.data.split import HeldOut
    from macrid.evaluation.ranking import Evaluation
    from macrid.models.base import Recommender

TRAINED_ON_EVERYBODY = "its final model was trained on everybody, so nobody is left to score it on"


def evaluate(
    run: Path = typer.Argument(help="A run."),
    split: Literal["test", "validation"] = typer.Option("test", help="Which held-out users."),
    data: str | None = typer.Option(None, help="Another prepared folder or catalogue name over the same items."),
    metrics: str = typer.Option(
        "",
        help="Comma-separated: ndcg@K, recall@K, recall_all@K, precision@K, map@K, mrr@K, hit_rate@K, coverage@K,"
        " gini@K, novelty@K, diversity@K, calibration@K (the last two also by attribute: diversity:genres@10); or a"
        " set: paper (the default), graph.",
    ),
    metric: list[str] = typer.Option([], help="One of these metrics; repeatable."),
    against: list[Path] = typer.Option(
        [], help="Another run with the same held-out users: paired differences; repeatable."
    ),
    per_user: Path | None = typer.Option(None, help="Write a Parquet file: user and a column per metric."),
    nothing_to_predict: Literal["skip", "zero"] = typer.Option(
        "skip", help="Users with nothing to predict: skip them, or count them as zero like the authors' code."
    ),
    device: str = typer.Option("auto", help="auto, cpu, cuda or cuda:N."),
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """Fold in held-out users and score how well their hidden items are ranked.

    A run trained with --final has learned from these users too; then the scores are those of the model before it.

    Example: macrid evaluate runs/ml-1m --split test --metric ndcg@10

    Example: macrid evaluate runs/ml-1m --metrics ndcg@10,map@10,coverage@20

    Example: macrid evaluate runs/ml-1m --against runs/ease --metrics graph
    """
    from macrid.evaluation import ranking
    from macrid.evaluation.comparison import compared
    from macrid.evaluation.metrics import metric_names, parse
    from macrid.runs import read_metrics

    if against and per_user is not None:
        raise typer.BadParameter("--per-user writes the scores of one run; remove --against")
    if per_user is not None and per_user.suffix.lower() not in (".parquet", ".pq"):
        raise typer.BadParameter(f"--per-user {per_user}: scores are written as Parquet; use a name ending in .parquet")
    names = metric_names([*(part.strip() for part in metrics.split(",") if part.strip()), *metric] or ["paper"])
    for name in names:
        parse(name)
    if "final" in (stored := read_metrics(run)):
        chosen = {"--data": data, "--against": against, "--per-user": per_user}
        chosen["--nothing-to-predict"] = None if nothing_to_predict == "skip" else nothing_to_predict
        for option in (option for option, value in chosen.items() if value):
            raise RunError(f"{run}: {TRAINED_ON_EVERYBODY}; remove {option} to see the stored scores")
        _show_stored(run, stored, split, tuple(names) if metrics or metric else (), json)
        return
    with working("scoring"):
        heldout = None
        results: dict[str, Evaluation] = {}
        for path in dict.fromkeys([run, *against]):
            model, group = _read(path, split, data, device)
            if heldout is not None:
                _check_same_users(run, path, split, heldout, group)
            heldout = group
            results[str(path)] = ranking.evaluate(model, group, names, nothing_to_predict=nothing_to_predict)
        if against and len(results) < 2:
            raise RunError(f"{run}: cannot be compared with itself; give another run with --against")
        comparison = compared(results) if against else None
    result = results[str(run)]
    if per_user is not None:
        _write(result, per_user)
    if json:
        print_json({"split": split, **(result if comparison is None else comparison).as_json()})
    else:
        console.print(str(result if comparison is None else comparison))


def _read(run: Path, split: str, data: str | None, device: str) -> tuple[Recommender, HeldOut]:
    from macrid.cli.common import load_split
    from macrid.runs import load, read_heldout, read_metrics

    if "final" in read_metrics(run):
        raise RunError(f"{run}: {TRAINED_ON_EVERYBODY}; compare runs trained without --final")
    model = load(run, device, added=False)
    if data is None:
        return model, read_heldout(run, split, added=False)
    other, _ = load_split(data)
    if other.items != model.items:
        raise DataError(f"{data}: its items differ from those of {run}; give the data the run was trained on")
    return model, getattr(other, split)


def _check_same_users(run: Path, other: Path, split: str, first: HeldOut, second: HeldOut) -> None:
    """A run keeps the histories and targets of its users, but not their ids."""
    for one, two in ((first.history, second.history), (first.target, second.target)):
        if one.shape != two.shape or (one != two).nnz:
            raise RunError(
                f"{other}: its {split} users differ from those of {run}, so there is nothing to pair; train both on one"
                " prepared folder"
            )


def _write(result: Evaluation, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from macrid.files import write_atomically, writing

    sink = pa.BufferOutputStream()
    pq.write_table(result.to_frame(), sink)
    with writing(path, DataError):
        write_atomically(path, sink.getvalue().to_pybytes())
    error_console.print(f"{path}: {result.users:,} users", soft_wrap=True)


def _show_stored(run: Path, stored: dict[str, Any], split: str, metrics: tuple[str, ...], json: bool) -> None:
    """The scores of the first model of a run with a final one."""
    from macrid.evaluation.ranking import Evaluation, Metric

    if split not in stored:
        raise RunError(f"{run}: has no scores on {split} users, and {TRAINED_ON_EVERYBODY}")
    scores = stored[split]
    unknown = [name for name in metrics if name not in scores["metrics"]]
    if unknown:
        raise RunError(
            f"{run}: {TRAINED_ON_EVERYBODY}, and {unknown[0]} was not stored; choose from"
            f" {', '.join(scores['metrics'])}, or train without --final"
        )
    shown = {name: scores["metrics"][name] for name in metrics or scores["metrics"]}
    if json:
        of = stored["final"]["scores_are_of"]
        print_json({"split": split, **scores, "metrics": shown, "scores_are_of": of})
        return
    values = {name: Metric(*(_number(each[part]) for part in ("mean", "se"))) for name, each in shown.items()}
    console.print(str(Evaluation(scores["users"], scores["skipped"], values, {})))
    note = f"{run}: these are stored scores of {stored['final']['scores_are_of']}; {TRAINED_ON_EVERYBODY}"
    error_console.print(note, soft_wrap=True)


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
