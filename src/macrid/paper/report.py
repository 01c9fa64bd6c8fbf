"""results.md: a reproduction in plain words. Every number in it comes from the JSON files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from os.path import relpath
from pathlib import Path
from typing import Any

import numpy as np

from macrid.errors import MacridError, first_line
from macrid.evaluation.metrics import PAPER_METRICS
from macrid.paper import figure3, figure4, table1
from macrid.paper.parts import write
from macrid.paper.plots import rank_correlation
from macrid.paper.reproduce import BLOCKS
from macrid.tuning.space import BUDGET_DIM

METRICS = ("NDCG@100", "Recall@20", "Recall@50")


def write_report(folder: Path, path: Path) -> None:
    """Write the report on the blocks in `folder`."""
    write(path, report(read_blocks(folder), relpath(folder, path.parent)))


def read_blocks(folder: Path) -> dict[str, dict[str, Any]]:
    blocks = {}
    for block in BLOCKS:
        path = folder / f"{block}.json"
        if not path.exists():
            continue
        try:
            blocks[block] = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(blocks[block], dict) or not {"block", "quick", "about"} <= set(blocks[block]):
                raise ValueError("not written by `macrid reproduce`")
        except ValueError as error:
            raise MacridError(f"{path}: damaged ({first_line(error)}); run that block again") from None
    return blocks


def report(blocks: dict[str, dict[str, Any]], pictures: str) -> str:
    """The report in Markdown. pictures: their folder, relative to the report."""
    sections = {"table1": _table1, "figure2": _figure2, "figure3": _figure3, "figure4": _figure4}
    parts = ["# Results", _head(blocks)]
    for name, section in sections.items():
        parts += section(blocks[name], pictures) if name in blocks else []
    if "table1" in blocks and blocks["table1"]["rows"]:
        parts += _settings(blocks["table1"])
    return "\n\n".join(parts) + "\n"


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = (columns, ["---"] * len(columns), *rows)
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in lines)


def _head(blocks: dict[str, dict[str, Any]]) -> str:
    text = "Tables and figures of [Ma et al. (2019)](https://arxiv.org/abs/1910.14238), computed by `macrid reproduce`."
    quick = ", ".join(name for name, block in blocks.items() if block["quick"])
    if quick:
        text += (
            f"\n\n**{quick}: quick settings, with only a few epochs. They show that everything runs; the numbers mean"
            " little.**"
        )
    rows = [
        (
            name,
            *(where[part] for part in ("machine", "versions", "date")),
            "" if number else f"{block['about']['seconds']:,.0f}",
        )
        for name, block in blocks.items()
        for number, where in enumerate(block["about"]["machines"])
    ]
    return f"{text}\n\n{_table(('block', 'machine', 'versions', 'date', 'computing time (s)'), rows)}"


def _table1(block: dict[str, Any], _: str) -> list[str]:
    rows = block["rows"]
    seeds = max((len(row["runs"]) for row in rows), default=0)
    parts = ["## Table 1: collaborative filtering"]
    if rows:
        parts.append(
            f"Scores on test users: the mean over {seeds} seed{'s' if seeds != 1 else ''} (one for EASE and Popularity,"
            " which are not random) ± the mean standard error over users, as in the paper. Test users play no part in"
            " choosing settings. Users with nothing to predict are skipped. Parameters are in millions, and in brackets"
            f" as a multiple of 2 · items · {BUDGET_DIM}."
        )
    for data in dict.fromkeys(row["data"] for row in rows):
        parts.append(_block_of(data, [row for row in rows if row["data"] == data]))
    parts += [f"**{data}: not included.** {reason}" for data, reason in block["missing"].items()]
    if rows:
        parts += ["### What agrees with the paper and what does not", *_findings(rows)]
    return parts


def _block_of(data: str, rows: list[dict[str, Any]]) -> str:
    best = {name: max(table1.summary(row["runs"])[name][0] for row in rows) for name in PAPER_METRICS}
    lines = []
    for row in rows:
        cells = []
        for name, (mean, error) in table1.summary(row["runs"]).items():
            bold = "**" if mean == best[name] else ""
            cells.append(f"{bold}{_dot(mean)}{bold} ± {_dot(error)}")
        ndcg = [run["test"]["ndcg@100"] for run in row["runs"]]
        spread = f"{_dot(min(ndcg), 4)}–{_dot(max(ndcg), 4)}" if len(ndcg) > 1 else ""
        count = row["runs"][0]["parameters"]
        size = f"{count / 1e6:.2f} ({count / (2 * row['items'] * BUDGET_DIM):.2f})"
        published = " / ".join(_dot(value) for value in table1.PAPER.get(data, {}).get(row["method"], ()))
        lines.append((table1.METHODS[row["method"]], *cells, spread, size, published))
    columns = ("method", *METRICS, "spread of NDCG over seeds", "parameters", "the paper")
    return f"### {data}\n\n{_table(columns, lines)}"


def _findings(rows: list[dict[str, Any]]) -> list[str]:
    scores = {(row["data"], row["method"]): table1.summary(row["runs"]) for row in rows}
    lines = []
    for data in dict.fromkeys(row["data"] for row in rows):
        ours = scores[data, "macridvae"]
        others = [method for method in table1.METHODS if method not in ("macridvae", "popularity")]
        gaps = []
        for other in others:
            gap = [ours[metric][0] - scores[data, other][metric][0] for metric in ours]
            gaps.append(f"against {table1.METHODS[other]} {_signed(gap)}")
        for method, paper in table1.PAPER.get(data, {}).items():
            gap = [mean - value for (mean, _), value in zip(scores[data, method].values(), paper, strict=True)]
            gaps.append(f"our {table1.METHODS[method]} against the paper's {_signed(gap)}")
        lines.append(f"- **{data}**: MacridVAE " + "; ".join(gaps) + ".")
    return [
        _order(scores, list(dict.fromkeys(row["data"] for row in rows))),
        "Differences in NDCG@100 / Recall@20 / Recall@50:",
        "\n".join(lines),
        "Notes:",
        _notes(rows),
    ]


def _order(scores: dict[tuple[str, str], dict[str, tuple[float, float]]], data: list[str]) -> str:
    """Where MacridVAE is ahead of the other networks, as in the paper."""
    behind = {
        name: [
            f"{table1.METHODS[other]} is ahead in {metric} by {_dot(mean - ours, 4)} (standard error {_dot(error)})"
            for other in ("multdae", "multvae")
            for metric, (ours, error), (mean, _) in zip(
                METRICS, scores[name, "macridvae"].values(), scores[name, other].values(), strict=True
            )
            if mean > ours
        ]
        for name in data
    }
    ahead = _and([name for name in data if not behind[name]])
    sentences = [f"On {ahead} MacridVAE is ahead of MultDAE and β-MultVAE in every metric."] * bool(ahead)
    same = [name for name in data if not behind[name] and name in table1.PAPER and _paper_is_ahead(name)]
    sentences += [f"The paper finds the same on {_and(same)}."] * bool(same)
    sentences += [f"On {name} it is not always ahead: {'; '.join(behind[name])}." for name in data if behind[name]]
    return " ".join(sentences)


def _paper_is_ahead(data: str) -> bool:
    macridvae, *others = (table1.PAPER[data][method] for method in ("macridvae", "multdae", "multvae"))
    return all(value > other[number] for other in others for number, value in enumerate(macridvae))


def _and(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _notes(rows: list[dict[str, Any]]) -> str:
    """What explains the differences, each sentence only where it applies."""
    lines = [
        "- *Every network is tuned in the same way*, over its part of the paper's space (β-MultVAE's beta on a log"
        " scale, to include values below 1), with early stopping on the same users and weights averaged over epochs."
        " Each is tuned twice, once with every item of every history counting equally, as in the paper, and once with"
        " long histories weighed down (`balance`); the one that does better on validation users is used. EASE has only"
        " one setting, which is tuned separately.",
        "- *MacridVAE starts from a closed form*, an SVD of the training interactions or of EASE's weights, whichever"
        " does better on validation users after tuning; the baselines start at random, as published. The row with a"
        " random start uses the same settings otherwise: the difference between the two rows is due to the start, not"
        " the model. Concepts stay soft outside training; see `docs/model.md` for the evidence.",
    ]
    if {"ml-1m", "ml-1m-ge3"} & {row["data"] for row in rows}:
        lines.append(
            "- *The paper's ML-1M is two data sets.* Its table of statistics counts ratings of 3 and above (ml-1m-ge3),"
            " its released split has ratings of 4 and above (ml-1m), and its scores match the latter."
        )
    size = {(row["data"], row["method"]): row["runs"][0]["parameters"] for row in rows}
    times = [size[data, "ease"] / size[data, "macridvae"] for data in dict.fromkeys(row["data"] for row in rows)]
    ndcg = {(row["data"], row["method"]): table1.summary(row["runs"])["ndcg@100"][0] for row in rows}
    best = [data for data in dict.fromkeys(row["data"] for row in rows) if ndcg[data, "ease"] > ndcg[data, "macridvae"]]
    lines.append(
        f"- *EASE is not in the paper.* It is a linear model with a weight for every pair of items, which makes it"
        f" {' to '.join(map(str, sorted({round(min(times)), round(max(times))})))} times as large as MacridVAE here."
        + (f" On {_and(best)} it has the better NDCG@100." if best else "")
    )
    few = {row["data"]: row["runs"][0]["users"] for row in rows if row["runs"][0]["users"] < 200}
    lines += [
        f"- *{data} has only {users} test users* with something to predict: differences below a standard error or two"
        " mean nothing, and the best of many trials on so few validation users is partly luck."
        for data, users in few.items()
    ]
    return "\n".join(lines)


def _figure2(block: dict[str, Any], pictures: str) -> list[str]:
    parts = ["## Figure 2: do concepts match the categories?"]
    if "missing" in block:
        return [*parts, *(f"**Not included.** {reason}" for reason in block["missing"].values())]
    names = {
        "nmi": "NMI",
        "ari": "ARI",
        "purity": "purity",
        "matched_accuracy": "Hungarian accuracy",
        "effective_concepts": "concepts in use",
        "ndcg@100": "NDCG@100",
    }
    means, lines = {}, []
    for similarity, runs in block["runs"].items():
        rows = [(str(run["seed"]), run) for run in runs]
        means[similarity] = {key: float(np.mean([run[key] for run in runs])) for key in names}
        for seed, run in [*rows, ("**mean**", means[similarity])]:
            cells = [f"{run[key]:.1f}" if key == "effective_concepts" else _dot(run[key]) for key in names]
            lines.append((similarity, seed, *cells))
    cosine, inner = means["cosine"], means["inner"]
    return [
        *parts,
        f"{block['data']}, K = 7, default settings, every seed. Categories are used only for scoring.",
        f"![five maps of items and users]({pictures}/figure2.png)",
        "*t-SNE of item vectors and of every user's two most confident components (seed 0). Categories have the colours"
        " of their matching concepts.*",
        _table(("similarity", "seed", *names.values()), lines),
        f"The paper shows a single picture, in which concepts and categories look alike. In numbers, cosine reaches a"
        f" mean NMI of {_dot(cosine['nmi'], 2)} and puts {cosine['matched_accuracy']:.0%} of the items in the concept"
        f" that matches their category; inner products reach {_dot(inner['nmi'], 2)} and"
        f" {inner['matched_accuracy']:.0%}. Of the seven concepts, {cosine['effective_concepts']:.1f} are in effective"
        f" use with cosine and {inner['effective_concepts']:.1f} with inner products"
        + (
            ": the collapse onto one concept that the paper saw does not happen from our start, but cosine agrees"
            " better with the categories and ranks better."
            if inner["effective_concepts"] > 3.5
            and cosine["nmi"] > inner["nmi"]
            and cosine["ndcg@100"] > inner["ndcg@100"]
            else "."
        ),
    ]


def _figure3(block: dict[str, Any], pictures: str) -> list[str]:
    parts = [
        "## Figure 3: items that differ in one dimension",
        "Walks as in section 2.4 of the paper, along axes turned after training (`docs/control.md`), which changes no"
        " recommendation. Strips are chosen by rule, not by hand: the strongest named dimension of each of"
        f" {_number(max((len(result['strips']) for result in block['data'].values()), default=0))} concepts, except"
        " popularity, each attribute once, starting from the most popular item in the middle of the dimension that"
        f" clearly belongs to the concept. Items with fewer than {figure3.MIN_USERS} users are excluded, because little"
        " is known about them. Item attributes are used for turning and naming, never in training.",
    ]
    for data, result in block["data"].items():
        if result["strips"]:
            named = ", ".join(
                f"{s['concept_name']} by {s['name']} ({_dot(s['strength'], 2)}; this walk {_dot(s['follows'], 2)})"
                for s in result["strips"]
            )
            parts.append(f"![walks on {data}]({pictures}/figure3-{data}.png)")
            parts.append(f"*{data}, seed {result['seed']}: {named}. In brackets: the attribute's rank correlation with"
                         " the dimension over the concept, and with the place in this walk. The ends are those of the"
                         " concept; a walk continues while its prototype remains the closest.*")  # fmt: skip
    if block["data"]:
        lines = []
        for data, result in block["data"].items():
            m = result["measured"]
            numbers = (_dot(m[name], 2) for name in ("monotonicity", "cosine", "cosine_of_random_items"))
            lines.append((data, m["dimensions"], f"{m['walks']:,}", *numbers))
        columns = "named dimensions", "walks", "attribute follows", "cosine to the start", "of two random items"
        parts.append(
            f"The same for every named dimension (strength at least {figure3.MIN_STRENGTH}, except popularity), from"
            " random items: the attribute's rank correlation with the place in a walk, averaged over walks, and how"
            " similar the items stay to their start in everything but the dimension. For comparison, the cosine of two"
            " random items of the same concept."
        )
        parts.append(_table(("data", *columns), lines))
    return [*parts, *(f"**{data}: not included.** {reason}" for data, reason in block["missing"].items())]


def _number(count: int) -> str:
    return ("no", "one", "two", "three", "four", "five")[count] if count < 6 else str(count)


def _figure4(block: dict[str, Any], pictures: str) -> list[str]:
    parts = ["## Figure 4: independence against accuracy"]
    if "missing" in block:
        return [*parts, *(f"**Not included.** {reason}" for reason in block["missing"].values())]
    lines: list[Sequence[Any]] = []
    for method, points in block["points"].items():
        if not points:
            lines.append((figure4.METHODS[method], "all diverged", *[""] * 6))
            continue
        whole, inside, ndcg = (
            np.array([point[key] for point in points])
            for key in ("independence", "independence_per_concept", "ndcg@100")
        )
        scores = (_dot(value) for value in (np.median(whole), np.median(inside), np.median(ndcg), ndcg.max()))
        lines.append((figure4.METHODS[method], len(points), *scores, _rank(whole, ndcg), _rank(inside, ndcg)))
    columns = (
        "method", "configurations", "independence, median (whole)", "within concepts", "NDCG@100, median", "best",
        "rank correlation with NDCG (whole)", "within concepts",
    )  # fmt: skip
    return [
        *parts,
        f"{block['data']} (the paper's ML-100k): {block['configurations']} random configurations of each method, with"
        " beta and prior_std [sigma_0] drawn from the paper's space (β-MultVAE's beta from 0.001 to 100 on a log scale)"
        " and everything else as tuned. Independence is 1 − the mean |correlation| between two dimensions of the means"
        " of all training users, for the whole representation and within each concept.",
        f"![independence against NDCG]({pictures}/figure4.png)",
        _table(columns, lines),
        "The paper claims that high accuracy goes with high independence, and that K = 7 beats K = 1 in both."
        + _verdict(block["points"]),
        "The figures within concepts ignore pairs of dimensions from different concepts: with K = 7 these are six out"
        " of seven pairs, and a dimension of one concept is not meant to say anything about another.",
    ]


def _verdict(points: dict[str, list[dict[str, float]]]) -> str:
    """Which of the paper's two claims hold for these numbers."""
    if not all(points.values()):
        return ""
    values = {
        method: {key: np.array([point[key] for point in of_method]) for key in ("independence", "ndcg@100")}
        for method, of_method in points.items()
    }
    ranks = [rank_correlation(each["independence"], each["ndcg@100"]) for each in values.values()]
    first = "holds for all three methods" if all((rank or 0) > 0 for rank in ranks) else "does not hold for all"
    seven, one = values["macridvae-7"], values["macridvae-1"]
    medians = {key: [float(np.median(each[key])) for each in (seven, one)] for key in seven}
    holds = {key: "holds" if a > b else "does not hold" for key, (a, b) in medians.items()}
    return (
        f" The first claim {first} here. By medians, the second {holds['ndcg@100']} for accuracy"
        f" ({_dot(medians['ndcg@100'][0])} against {_dot(medians['ndcg@100'][1])}) and {holds['independence']} for"
        f" independence ({_dot(medians['independence'][0])} against {_dot(medians['independence'][1])}). The best model"
        f" with K = 7 has an NDCG@100 of {_dot(seven['ndcg@100'].max())}, the best with K = 1"
        f" {_dot(one['ndcg@100'].max())}."
    )


def _rank(a: np.ndarray, b: np.ndarray) -> str:
    rank = rank_correlation(a, b)
    return "" if rank is None else f"{rank:+.2f}".replace("-", "−")


def _settings(block: dict[str, Any]) -> list[str]:
    lines = []
    for row in block["rows"]:
        config, search = row["config"], row["search"]
        cells = (_listed(config[part].items()) for part in ("settings", "training"))
        source = f"study {search['study']}, {search['trials']} trials" if search else "defaults"
        lines.append((row["data"], table1.METHODS[row["method"]], *cells, source))
    origin = "in this run (`--trials`)" if block["trials"] else "earlier and shipped in `src/macrid/paper/tuned/`"
    return [
        "## Tuned settings",
        f"Tuned by `macrid tune`, {origin}: TPE over the paper's space, with the best trials confirmed on more seeds. A"
        " data set whose name is not in the last column uses the settings of another. The files can be passed to"
        " `macrid train --config`.",
        _table(("data", "method", "settings", "training", "source"), lines),
    ]


def _listed(values: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in values)


def _signed(values: list[float]) -> str:
    return " / ".join(f"{'+' if value >= 0 else '−'}{_dot(abs(value))}" for value in values)


def _dot(value: float, digits: int = 3) -> str:
    """.427"""
    return f"{value:.{digits}f}".removeprefix("0")
