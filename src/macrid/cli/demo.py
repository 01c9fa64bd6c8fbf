"""macrid demo: train, score and open the studio on the built-in shop, without a download."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer
from rich.table import Table
from rich.text import Text

from macrid.cli.common import console, error_console, items_table, print_json, table, working
from macrid.cli.serve import TRAINING, as_setting, start
from macrid.cli.train import Display, example_command, print_report
from macrid.errors import RangeWarning, RunError
from macrid.files import check_free
from macrid.settings import ServingSettings

if TYPE_CHECKING:
    from macrid.data.ids import Id
    from macrid.data.split import Split
    from macrid.models.macridvae import MacridVAE
    from macrid.workflow import TrainedRun

ORIGIN = {"source": "demo"}


def demo(
    out: Path = typer.Option(Path("demo-run"), "--out", "-o", help="The run to write; replaces an earlier demo."),
    no_serve: bool = typer.Option(False, "--no-serve", help="Stop after training and scoring."),
    port: int | None = typer.Option(
        None, "--port", "-p", help="The studio's port. Default: 8000, or the next free one."
    ),
    seed: int = typer.Option(0, help="Seed for the shop and the training."),
    overwrite: bool = typer.Option(False, help="Replace a folder that is not an earlier demo."),
    training: bool | None = TRAINING,
    json: bool = typer.Option(False, "--json", help="JSON on standard output."),
) -> None:
    """Train on the built-in shop, compare with the best possible score, show what was learned, and open the studio.

    Example: macrid demo --out demo-run
    """
    from macrid import runs
    from macrid.evaluation.agreement import nmi

    check_free(out, overwrite or _is_demo(out), RunError, replaceable=(*runs.FILES, runs.TRAINING))
    run, split = train_shop(out, seed, overwrite=True)
    model = cast("MacridVAE", run.model)
    report = dict(run.metrics)
    categories = split.train.table.column("category").to_numpy(zero_copy_only=False)  # type: ignore[union-attr]
    report["nmi"] = nmi(model.concepts_of_items(), categories)
    if json:
        print_json({"run": str(out), **report})
        return
    print_report(report)
    oracle = report["oracle"]["ndcg@100"]
    reached = report["test"]["metrics"]["ndcg@100"]["mean"] / oracle
    console.print(f"the best possible NDCG@100 here is {oracle:.4f}; this model reaches {reached:.0%} of it")
    console.print("\nconcepts and the shop's categories", style="bold", end="")
    console.print(f", which training never saw (NMI {report['nmi']:.2f})")
    console.print(_crossing(model, categories))
    matrix = split.test.history
    history = [split.items[position] for position in matrix.indices[matrix.indptr[0] : matrix.indptr[1]]]
    _show_a_user(model, history)
    _show_a_knob(model, history)
    console.print(f"\n{out}: ready; next: {example_command(model, out)}", soft_wrap=True)
    if not no_serve:
        console.print()
        settings = {"training": as_setting(training)} | ({} if port is None else {"port": port})
        start(out, ServingSettings.make(settings), or_next_port=port is None)


def train_shop(out: Path, seed: int = 0, **options: Any) -> tuple[TrainedRun, Split]:
    """Train on the built-in shop, showing progress; options: as for `macrid.train`."""
    from macrid.data.shop import generate
    from macrid.models.macridvae import MacridVAE
    from macrid.workflow import train

    with working("building the shop"):
        shop = generate(seed=seed)
        split = shop.split()
    error_console.print(
        f"the shop: {len(shop.interactions.users):,} users, {len(shop.interactions.items):,} items in"
        f" {len(shop.category_names)} categories, {len(shop.interactions):,} interactions"
    )
    model = MacridVAE(concepts=len(shop.category_names))
    best = {"oracle": {"ndcg@100": shop.oracle(split.test, split.items, 100)}}
    with Display() as display:
        run = train(split, out, model=model, progress=display, origin=ORIGIN, scores=best, seed=seed, **options)
    return run, split


def _is_demo(out: Path) -> bool:
    """Whether the folder holds only an earlier demo, which can be remade at any time."""
    from macrid import runs

    try:
        demo_made_it = runs.read_config(out).get("data") == ORIGIN
    except RunError:
        return False
    return demo_made_it and {entry.name for entry in out.iterdir()} <= {*runs.FILES, runs.TRAINING}


def _crossing(model: MacridVAE, categories: Any) -> Table:
    """Item counts: concepts in rows, categories in columns."""
    import numpy as np

    concept_of = model.concepts_of_items()
    names = sorted(set(categories))
    rows = []
    for concept in range(model.network.concepts):
        counts = [int(np.sum((concept_of == concept) & (categories == name))) for name in names]
        rows.append((concept, *(Text(str(c or "·"), "bold" if c and c == max(counts) else "dim") for c in counts)))
    return table(("concept", *names), rows, numbers=names)


def _show_a_knob(model: MacridVAE, history: list[Id]) -> None:
    """The named dimensions of the test user's main concept, and the effect of moving along the strongest."""
    import numpy as np

    from macrid.concepts.meaning import meaning_of
    from macrid.concepts.names import ends, label
    from macrid.control.steer import steer
    from macrid.data.attributes import POPULARITY

    names = meaning_of(model).names
    assert names is not None
    concept = int(np.argmax(model.encode(history).confidence))
    knobs = [entry for entry in names.dimensions if entry.concept == concept and entry.name is not None]
    described = ", ".join(f"{entry.name} ({' ↔ '.join(ends(entry))})" for entry in knobs)
    console.print(f"\nthe knobs of {label(names.concept(concept))}", style="bold", end="")
    console.print(f": {described or 'none is named'}")
    candidates = [entry for entry in knobs if entry.attribute != POPULARITY]
    if not candidates:
        return
    best = max(candidates, key=lambda entry: entry.strength or 0)
    own = [model.items[int(position)] for position in (model.concepts_of_items() == concept).nonzero()[0]]
    lists = []
    for sign in (-1, 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RangeWarning)  # as far as real users go
            move = {"concept": concept, "dimension": best.dimension, "by": 0.5 * sign}
            lists.append(steer(model, history, moves=[move], n=4, include=own))
    titles = ([item.title or item.id for item in items] for items in lists)
    console.print(table([f"{best.name} towards {end}" for end in ends(best)], zip(*titles, strict=True)))


def _show_a_user(model: MacridVAE, history: list[Id]) -> None:
    """One test user: the history by concept, and the recommendations."""
    from macrid.concepts.meaning import meaning_of
    from macrid.concepts.names import label

    confidence = model.encode(history).confidence
    names = meaning_of(model).names
    assert names is not None
    labels = {entry.concept: label(entry) for entry in names.concepts}
    share = ", ".join(
        f"{labels[k]} {confidence[k] / confidence.sum():.0%}" for k in (-confidence).argsort()[:3].tolist()
    )
    console.print("\na test user", style="bold", end="")
    console.print(f" with {len(history)} items ({share}) gets")
    console.print(items_table(model.recommend(history, 8), "log p"))
