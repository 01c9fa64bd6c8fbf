"""results.md: the numbers of a reproduction in plain words. Every figure in it comes from the JSON files beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from macrid.errors import MacridError, first_line
from macrid.evaluation.ranking import PAPER_METRICS
from macrid.paper import figure3, figure4, table1
from macrid.paper.plots import rank_correlation
from macrid.paper.reproduce import BLOCKS
from macrid.tuning.space import BUDGET_DIM

METRICS = ("NDCG@100", "Recall@20", "Recall@50")


def write_report(folder: Path, path: Path) -> None:
    """From the blocks that are in `folder`."""
    from os.path import relpath

    from macrid.files import write_atomically

    try:
        write_atomically(path, report(read_blocks(folder), relpath(folder, path.parent)))
    except OSError as error:
        raise MacridError(f"{path}: cannot be written ({error.strerror or error})") from error


def read_blocks(folder: Path) -> dict[str, dict[str, Any]]:
    found = {}
    for block in BLOCKS:
        path = folder / f"{block}.json"
        if not path.exists():
            continue
        try:
            found[block] = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(found[block], dict) or not {"block", "quick", "about"} <= set(found[block]):
                raise ValueError("not what `macrid reproduce` writes")
        except ValueError as error:
            raise MacridError(f"{path}: damaged ({first_line(error)}); run that block again") from None
    return found


def report(blocks: dict[str, dict[str, Any]], pictures: str) -> str:
    """Markdown. pictures: the folder of the pictures as seen from the report."""
    quick = any(block["quick"] for block in blocks.values())
    parts = ["# Results", _head(blocks, quick)]
    if "table1" in blocks:
        parts += _table1(blocks["table1"])
    if "figure2" in blocks:
        parts += _figure2(blocks["figure2"], pictures)
    if "figure3" in blocks:
        parts += _figure3(blocks["figure3"], pictures)
    if "figure4" in blocks:
        parts += _figure4(blocks["figure4"], pictures)
    if "table1" in blocks and blocks["table1"]["rows"]:
        parts += _settings(blocks["table1"])
    return "\n\n".join(parts) + "\n"


def _head(blocks: dict[str, dict[str, Any]], quick: bool) -> str:
    lines = [
        "Tables and figures of [Ma et al. (2019)](https://arxiv.org/abs/1910.14238), computed by `macrid reproduce`."
    ]
    if quick:
        named = ", ".join(name for name, block in blocks.items() if block["quick"])
        lines.append(
            f"\n**Quick settings in {named}: a few epochs. This shows that everything runs; the numbers mean little.**"
        )
    lines += ["", "| block | computed on | with | on | seconds of computing |", "| --- | --- | --- | --- | --- |"]
    for name, block in blocks.items():
        for where in block["about"]["machines"]:
            seconds = f"{block['about']['seconds']:,.0f}" if where is block["about"]["machines"][0] else ""
            lines.append(f"| {name} | {where['machine']} | {where['versions']} | {where['date']} | {seconds} |")
    return "\n".join(lines)


# Table 1


def _table1(block: dict[str, Any]) -> list[str]:
    rows = block["rows"]
    seeds = max((len(row["runs"]) for row in rows), default=0)
    parts = ["## Table 1: collaborative filtering"]
    if rows:
        parts.append(
            f"Test users; the mean over {seeds} seed{'s' if seeds != 1 else ''} (one for EASE and Popularity, which"
            " have nothing random) ± the mean standard error over users, as in the paper. Test users have no part in"
            " the choice of settings. Users with nothing to predict are left out. Parameters in millions, and as a"
            f" multiple of 2 · items · {BUDGET_DIM}."
        )
    for data in dict.fromkeys(row["data"] for row in rows):
        parts.append(_block_of(data, [row for row in rows if row["data"] == data]))
    parts += [f"**{data}: left out.** {why}" for data, why in block["missing"].items()]
    if rows:
        parts += ["### What agrees with the paper, and what does not", *_findings(rows)]
    return parts


def _block_of(data: str, rows: list[dict[str, Any]]) -> str:
    lines = [
        f"### {data}",
        "",
        f"| method | {' | '.join(METRICS)} | spread of NDCG over seeds | parameters | the paper |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    best = {name: max(table1.summary(row["runs"])[name][0] for row in rows) for name in PAPER_METRICS}
    for row in rows:
        scores = table1.summary(row["runs"])
        cells = [
            f"{'**' if scores[name][0] == best[name] else ''}{_dot(scores[name][0])}"
            f"{'**' if scores[name][0] == best[name] else ''} ± {_dot(scores[name][1])}"
            for name in PAPER_METRICS
        ]
        ndcg = [run["test"]["ndcg@100"] for run in row["runs"]]
        spread = f"{_dot(min(ndcg), 4)}–{_dot(max(ndcg), 4)}" if len(ndcg) > 1 else ""
        count = row["runs"][0]["parameters"]
        size = f"{count / 1e6:.2f} ({count / (2 * row['items'] * BUDGET_DIM):.2f})"
        paper = table1.PAPER.get(data, {}).get(row["method"])
        told = " / ".join(_dot(value) for value in paper) if paper else ""
        lines.append(f"| {table1.METHODS[row['method']]} | {' | '.join(cells)} | {spread} | {size} | {told} |")
    return "\n".join(lines)


def _findings(rows: list[dict[str, Any]]) -> list[str]:
    scores = {(row["data"], row["method"]): table1.summary(row["runs"]) for row in rows}
    lines = []
    for data in dict.fromkeys(row["data"] for row in rows):
        own = scores[data, "macridvae"]
        others = [method for method in table1.METHODS if method not in ("macridvae", "popularity")]
        told = [_against(own, scores[data, other], table1.METHODS[other]) for other in others]
        for method, paper in table1.PAPER.get(data, {}).items():
            gaps = [mean - value for (mean, _), value in zip(scores[data, method].values(), paper, strict=True)]
            told.append(f"our {table1.METHODS[method]} against the paper's {_signed(gaps)}")
        lines.append(f"- **{data}**: MacridVAE " + "; ".join(told) + ".")
    return [
        _order(scores, list(dict.fromkeys(row["data"] for row in rows))),
        "Differences in NDCG@100 / Recall@20 / Recall@50:",
        "\n".join(lines),
        "What to know about them:",
        _known(rows),
    ]


def _order(scores: dict[tuple[str, str], dict[str, tuple[float, float]]], data: list[str]) -> str:
    """Where MacridVAE is before the other networks, as in the paper."""
    behind = {
        name: [
            f"in {metric} {table1.METHODS[other]} is ahead by {_dot(mean - own, 4)} (a standard error is {_dot(error)})"
            for other in ("multdae", "multvae")
            for metric, (own, error), (mean, _) in zip(
                METRICS, scores[name, "macridvae"].values(), scores[name, other].values(), strict=True
            )
            if mean > own
        ]
        for name in data
    }
    ahead = _and([name for name in data if not behind[name]])
    told = [f"On {ahead} MacridVAE is ahead of MultDAE and β-MultVAE in every metric."] * bool(ahead)
    same = [name for name in data if not behind[name] and name in table1.PAPER and _paper_is_ahead(name)]
    told += [f"So it is in the paper on {_and(same)}."] * bool(same)
    told += [f"On {name} it is not everywhere: {'; '.join(behind[name])}." for name in data if behind[name]]
    return " ".join(told)


def _paper_is_ahead(data: str) -> bool:
    own, *others = (table1.PAPER[data][method] for method in ("macridvae", "multdae", "multvae"))
    return all(value > other[number] for other in others for number, value in enumerate(own))


def _and(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _known(rows: list[dict[str, Any]]) -> str:
    """What explains the differences, each sentence only where it holds."""
    lines = [
        "- *Every network gets the same search* over its part of the paper's space (beta of β-MultVAE on a log scale,"
        " so that values below 1 are tried), early stopping on the same users, and weights averaged over epochs. It is"
        " searched twice, with all items of all histories counting alike, as in the paper, and with"
        " long histories held back (`balance`); the better one on validation users is taken."
        " EASE has one setting, which is searched on its own.",
        "- *MacridVAE starts from a closed form*, an SVD of the train interactions or of EASE's weights, whichever does"
        " better on validation users with the settings found; the baselines start at random, as published. The row with"
        " a random start has the same settings otherwise: what is between the two rows is the start, not the model."
        " Concepts stay soft when not training; `docs/model.md` has the evidence.",
    ]
    if {"ml-1m", "ml-1m-ge3"} & {row["data"] for row in rows}:
        lines.append(
            "- *The paper's ML-1M is two data sets.* Its table of statistics counts ratings of 3 and more (ml-1m-ge3),"
            " its released split has ratings of 4 and more (ml-1m), and its scores fit the latter."
        )
    size = {(row["data"], row["method"]): row["runs"][0]["parameters"] for row in rows}
    times = [size[data, "ease"] / size[data, "macridvae"] for data in dict.fromkeys(row["data"] for row in rows)]
    ndcg = {(row["data"], row["method"]): table1.summary(row["runs"])["ndcg@100"][0] for row in rows}
    best = [data for data in dict.fromkeys(row["data"] for row in rows) if ndcg[data, "ease"] > ndcg[data, "macridvae"]]
    lines.append(
        f"- *EASE is not in the paper.* It is a linear model with a number for every pair of items:"
        f" {' to '.join(map(str, sorted({round(min(times)), round(max(times))})))} times the size of MacridVAE here."
        + (f" On {_and(best)} it has the better NDCG@100." if best else "")
    )
    few = {row["data"]: row["runs"][0]["users"] for row in rows if row["runs"][0]["users"] < 200}
    lines += [
        f"- *{data} has {users} test users* with something to predict: differences below a standard error or two mean"
        " nothing, and the best of many trials on as few validation users owes something to luck."
        for data, users in few.items()
    ]
    return "\n".join(lines)


def _against(own: dict[str, tuple[float, float]], other: dict[str, tuple[float, float]], name: str) -> str:
    return f"against {name} {_signed([own[metric][0] - other[metric][0] for metric in own])}"


# Figure 2


def _figure2(block: dict[str, Any], pictures: str) -> list[str]:
    parts = ["## Figure 2: do concepts find the categories?"]
    if "missing" in block:
        return [*parts, *(f"**Left out.** {why}" for why in block["missing"].values())]
    names = {
        "nmi": "NMI",
        "ari": "ARI",
        "purity": "purity",
        "matched_accuracy": "Hungarian accuracy",
        "effective_concepts": "concepts in use",
        "ndcg@100": "NDCG@100",
    }
    lines = [f"| similarity | seed | {' | '.join(names.values())} |", "| --- | --- |" + " --- |" * len(names)]
    means = {}
    for similarity, runs in block["runs"].items():
        rows = [(str(run["seed"]), run) for run in runs]
        means[similarity] = {key: float(np.mean([run[key] for run in runs])) for key in names}
        for seed, run in [*rows, ("**mean**", means[similarity])]:
            cells = [f"{run[key]:.1f}" if key == "effective_concepts" else _dot(run[key]) for key in names]
            lines.append(f"| {similarity} | {seed} | {' | '.join(cells)} |")
    cosine, inner = means["cosine"], means["inner"]
    return [
        *parts,
        f"{block['data']}, K = 7, default settings. Every seed is shown. Categories are used for scoring only.",
        f"![five maps of items and users]({pictures}/figure2.png)",
        "*t-SNE of item vectors and of every user's two most confident components (seed 0). Colours of categories are"
        " matched to concepts.*",
        "\n".join(lines),
        f"The paper shows one picture in which concepts and categories look alike. In numbers, cosine reaches a mean"
        f" NMI of {_dot(cosine['nmi'], 2)} and puts {cosine['matched_accuracy']:.0%} of the items into the concept"
        f" matched to their category; inner products reach {_dot(inner['nmi'], 2)} and"
        f" {inner['matched_accuracy']:.0%}. Of seven concepts {cosine['effective_concepts']:.1f} are in use with cosine"
        f" and {inner['effective_concepts']:.1f} with inner products"
        + (
            ": the collapse onto one concept that the paper saw does not happen from our start, but cosine agrees"
            " better and ranks better."
            if inner["effective_concepts"] > 3.5
            and cosine["nmi"] > inner["nmi"]
            and cosine["ndcg@100"] > inner["ndcg@100"]
            else "."
        ),
    ]


# Figure 3


def _figure3(block: dict[str, Any], pictures: str) -> list[str]:
    parts = [
        "## Figure 3: items that differ in one dimension",
        "Walks as in section 2.4 of the paper, along axes that were turned after training (`docs/control.md`), which"
        " changes no recommendation. Shown is the strongest named dimension of each of"
        f" {_number(max((len(own['strips']) for own in block['data'].values()), default=0))} concepts, popularity"
        " aside, each attribute once, from the most popular item in the middle of the dimension that clearly belongs"
        " to the concept: a rule, not a choice of good examples. Items that fewer than"
        f" {figure3.MIN_USERS} users had are left out: little is known of them."
        " Attributes of items are used for turning and naming, never in training.",
    ]
    for data, own in block["data"].items():
        if own["strips"]:
            named = ", ".join(
                f"{s['concept_name']} by {s['name']} ({_dot(s['strength'], 2)}; this walk {_dot(s['follows'], 2)})"
                for s in own["strips"]
            )
            parts.append(f"![walks on {data}]({pictures}/figure3-{data}.png)")
            parts.append(f"*{data}, seed {own['seed']}: {named}. In brackets the rank correlation of the attribute with"
                         " the dimension over the concept, and with the place in this walk. The ends are those of the"
                         " concept; a walk goes as far as its prototype stays the closest.*")  # fmt: skip
    if block["data"]:
        lines = [
            "| data | named dimensions | walks | attribute follows | cosine to the start | of two items of a concept |",
            "| --- | --- | --- | --- | --- | --- |",
        ]
        for data, own in block["data"].items():
            m = own["measured"]
            numbers = [_dot(m[name], 2) for name in ("monotonicity", "cosine", "cosine_of_random_items")]
            lines.append(f"| {data} | {m['dimensions']} | {m['walks']:,} | {' | '.join(numbers)} |")
        parts.append(
            "The same for every named dimension (strength from 0.3 on, popularity aside), from items drawn at random:"
            " the rank correlation of the place in a walk with the attribute, a mean over walks, and how like their"
            " start the items stay in everything but the dimension."
        )
        parts.append("\n".join(lines))
    return [*parts, *(f"**{data}: left out.** {why}" for data, why in block["missing"].items())]


def _number(count: int) -> str:
    return ("no", "one", "two", "three", "four", "five")[count] if count < 6 else str(count)


# Figure 4


def _figure4(block: dict[str, Any], pictures: str) -> list[str]:
    parts = ["## Figure 4: independence against accuracy"]
    if "missing" in block:
        return [*parts, *(f"**Left out.** {why}" for why in block["missing"].values())]
    lines = [
        "| method | configurations | independence, median (whole) | inside a concept | NDCG@100, median | best |"
        " rank correlation with NDCG (whole) | inside a concept |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for method, points in block["points"].items():
        whole, inside, ndcg = (
            np.array([point[key] for point in points])
            for key in ("independence", "independence_per_concept", "ndcg@100")
        )
        if not points:
            lines.append(f"| {figure4.METHODS[method]} | all diverged | | | | | | |")
            continue
        lines.append(
            f"| {figure4.METHODS[method]} | {len(points)} | {_dot(np.median(whole))} | {_dot(np.median(inside))}"
            f" | {_dot(np.median(ndcg))} | {_dot(ndcg.max())} | {_rank(whole, ndcg)} | {_rank(inside, ndcg)} |"
        )
    return [
        *parts,
        f"{block['data']} (the paper's ML-100k): {block['configurations']} random configurations of each method, beta"
        " and prior_std [sigma_0] drawn from the paper's space (beta of β-MultVAE from 0.001 to 100 on a log scale),"
        " everything else as tuned. Independence is 1 − the mean |correlation| between two dimensions of the means of"
        " all train users; of the whole representation, and of each concept's part alone.",
        f"![independence against NDCG]({pictures}/figure4.png)",
        "\n".join(lines),
        "The paper says that high accuracy goes with high independence and that K = 7 is better than K = 1 in both."
        + _held_against_the_paper(block["points"]),
        "The second column of independence leaves out pairs of dimensions of different concepts: with K = 7 they are"
        " six of seven pairs, and no dimension of one concept is meant to say anything about another.",
    ]


def _held_against_the_paper(points: dict[str, list[dict[str, float]]]) -> str:
    """Which of the two statements hold for these numbers."""
    if not all(points.values()):
        return ""
    found = {
        method: {key: np.array([point[key] for point in own]) for key in ("independence", "ndcg@100")}
        for method, own in points.items()
    }
    ranks = [rank_correlation(own["independence"], own["ndcg@100"]) for own in found.values()]
    together = "holds for all three methods" if all((rank or 0) > 0 for rank in ranks) else "does not hold for all"
    seven, one = found["macridvae-7"], found["macridvae-1"]
    medians = {key: [float(np.median(own[key])) for own in (seven, one)] for key in seven}
    holds = {key: "holds" if a > b else "does not hold" for key, (a, b) in medians.items()}
    return (
        f" The first {together} here. The second {holds['ndcg@100']} for accuracy, taking medians"
        f" ({_dot(medians['ndcg@100'][0])} against {_dot(medians['ndcg@100'][1])}), and {holds['independence']} for"
        f" independence ({_dot(medians['independence'][0])} against {_dot(medians['independence'][1])}); the best model"
        f" with K = 7 has an NDCG@100 of {_dot(seven['ndcg@100'].max())}, the best with K = 1 of"
        f" {_dot(one['ndcg@100'].max())}."
    )


def _rank(a: np.ndarray, b: np.ndarray) -> str:
    found = rank_correlation(a, b)
    return "" if found is None else f"{found:+.2f}".replace("-", "−")


# Settings


def _settings(block: dict[str, Any]) -> list[str]:
    lines = ["| data | method | settings | training | found by |", "| --- | --- | --- | --- | --- |"]
    for row in block["rows"]:
        config, search = row["config"], row["search"]
        cells = (_listed(config[part].items()) for part in ("settings", "training"))
        found = f"study {search['study']}, {search['trials']} trials" if search else "defaults"
        lines.append(f"| {row['data']} | {table1.METHODS[row['method']]} | {' | '.join(cells)} | {found} |")
    again = "with `--trials`" if block["trials"] else "before; they come with macrid (`src/macrid/paper/tuned/`)"
    return [
        "## Tuned settings",
        f"Found by `macrid tune` {again}: TPE over the paper's space, the best trials confirmed with more seeds. A data"
        " set whose own name is not in the last column uses the settings of another. `macrid train --config` takes the"
        " files.",
        "\n".join(lines),
    ]


def _listed(values: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in values)


def _signed(values: list[float]) -> str:
    return " / ".join(f"{'+' if value >= 0 else '−'}{_dot(abs(value))}" for value in values)


def _dot(value: float, digits: int = 3) -> str:
    """.427"""
    return f"{value:.{digits}f}".removeprefix("0")
