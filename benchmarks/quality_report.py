"""Tables of what benchmarks/quality.py measured, written into docs/results.md and docs/disentanglement.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.quality import LEVERS, METRICS, SMALL_DATA, TENTH_OF, Job, unpacked

from macrid.evaluation.agreement import ari

DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- quality: begin -->", "<!-- quality: end -->"
DRAWS = 10_000  # of the bootstrap
EARLIER = "best, neighbours not fitted again"
"""The preset when most levers were measured: compare them with this row."""
Row = dict[str, Any]
Measured = dict[Job, Row]


def write(measured: Measured) -> None:
    """Put the tables between the marks of both pages."""
    _put(DOCS / "results.md", results(measured))
    _put(DOCS / "disentanglement.md", concepts(measured))


def _put(file: Path, text: str) -> None:
    page = file.read_text("utf-8")
    if BEGIN not in page:
        page = f"{page.rstrip()}\n\n{BEGIN}\n{END}\n"
    before, rest = page.split(BEGIN, 1)
    file.write_text(f"{before}{BEGIN}\n\n{text.strip()}\n\n{END}{rest.split(END, 1)[1]}", "utf-8")


def results(measured: Measured) -> str:
    lines = ["## Best, paper, EASE and MultVAE", "", _origin(measured), ""]
    lines += table(
        ("data", "method", *METRICS, "NDCG less EASE's (95 %)", "numbers per item", "MB", "s", "on"),
        (_accuracy(measured, data, each) for data in _data(measured) for each in ("best", "paper", "EASE", "MultVAE")),
    )
    lines += ["", _splits(measured), "", *_subsamples(measured), ""]
    levers = [lever for lever in LEVERS if any(job.method == lever and job.split is None for job in measured)]
    if levers:
        lines += ["### Each lever alone, and best without it", ""]
        lines += [
            "NDCG@100 of validation users, by which settings are chosen, and of test users; means over seeds. Levers"
            f' below "{EARLIER}" were measured when that was best, with a learning rate of 0.003, a patience of 15 and'
            " starts that differed by seed: compare them with that row.",
            "",
        ]
        first = [lever for lever in levers if _is_recent(measured, lever)]
        levers = ["best", *first, EARLIER, *(lever for lever in levers if lever not in first)]
        head = ("data", "settings", "validation", "test", "popular items' best share", "hard / soft", "ARI over seeds")
        lines += table(head, (_lever(measured, d, m) for d in _data(measured) for m in levers))
    return "\n".join(lines)


def concepts(measured: Measured) -> str:
    lines = ["## Concepts on real data", "", _origin(measured), ""]
    lines += [
        f'"{EARLIER}" is best of an earlier version, with more seeds, whose starts differed by seed.'
        " *Best share*: how much an item belongs to its likeliest concept, the median of the 100 most popular items and"
        " the mean over items and over choices. *Hard / soft*: NDCG@100 if items count in their likeliest concept only."
        " *ARI*: agreement of the concepts of two trainings, the mean over pairs of seeds. *Name fit*: popular items"
        " that carry their concept's name, and in brackets how many choices over all items carry it. *Monotonicity*"
        " and *retention*: of the ten strongest knobs, chosen on validation users and measured on test users. *Cards*:"
        " of 24, in a concept that is given a share of 90 %.",
        "",
    ]
    shares = ("best share, popular", "items", "choices", "hard / soft")
    people = ("name fit", "monotonicity", "retention", "cards")
    head = ("data", "preset", "seeds", "concepts", *shares, "NMI", "ARI", *people)
    lines += table(
        head, (_crispness(measured, data, each) for data in _data(measured) for each in ("best", EARLIER, "paper"))
    )
    lines += ["", "Names of the concepts, first seed:", ""]
    for data in _data(measured):
        named = [row for each in ("best", EARLIER) for row in rows(measured, data, each) if row.get("names")]
        for row in named[:1]:
            lines.append(f"- **{data}**: {'; '.join(name or '(none)' for name in row['names'])}")
    return "\n".join(lines)


def _is_recent(measured: Measured, method: str) -> bool:
    """Whether all its rows are of a version that notes the number of train users."""
    return all("train_users" in row for job, row in measured.items() if job.method == method)


def rows(measured: Measured, data: str, method: str) -> list[Row]:
    """Of the published split, by seed."""
    chosen = [job for job in measured if (job.data, job.split, job.method) == (data, None, method)]
    return [measured[job] for job in sorted(chosen, key=lambda job: job.seed)]


def _data(measured: Measured) -> list[str]:
    names = (job.data for job in measured if job.method == "best")
    return list(dict.fromkeys(name for name in names if not name.endswith(TENTH_OF)))


def _origin(measured: Measured) -> str:
    abouts = {
        (about["machine"]["gpu"] or about["machine"]["cpu"], about["date"], about["versions"]["macrid"])
        for about in (row["about"] for row in measured.values())
    }
    where = "; ".join(f"{machine}, {date}, macrid {version}" for machine, date, version in sorted(abouts))
    return (
        f"Measured by `python -m benchmarks.quality` ({where}). Settings and epochs are chosen on validation users."
        " Three things were chosen with results of test users in view, too: the rule for the weight of neighbours (on"
        " ml-latest-small), their regularisation, and how fast they fade when somebody moves a user (on ml-1m)."
    )


def _accuracy(measured: Measured, data: str, method: str) -> Sequence[str] | None:
    chosen = rows(measured, data, method)
    if not chosen:
        return None
    scores = [_digits(np.mean([row["test"][metric] for row in chosen])) for metric in METRICS]
    items = len(unpacked(rows(measured, data, "best")[0]["labels"]))
    return (
        data,
        method,
        *scores,
        _gain(chosen, rows(measured, data, "EASE")) if method != "EASE" else "",
        f"{np.mean([row['parameters'] for row in chosen]) / items:,.0f}",
        f"{np.mean([row['bytes'] for row in chosen]) / 2**20:,.1f}",
        f"{np.mean([row['seconds'] for row in chosen]):,.0f}",
        "GPU" if chosen[0]["about"]["machine"]["gpu"] else "CPU",
    )


def _gain(chosen: Sequence[Row], ease: Sequence[Row]) -> str:
    """Mean over users of the difference, with a bootstrap interval paired by user."""
    if not ease:
        return ""
    gains = np.mean([row["per_user"] for row in chosen], axis=0) - np.mean([row["per_user"] for row in ease], axis=0)
    return interval(gains)


def interval(gains: np.ndarray) -> str:
    draws = np.random.default_rng(0).integers(len(gains), size=(DRAWS, len(gains)))
    low, high = np.percentile(gains[draws].mean(axis=1), (2.5, 97.5))
    return f"{gains.mean():+.4f} ({low:+.4f} to {high:+.4f})".replace("-", "−")


def _splits(measured: Measured) -> str:
    """ml-latest-small over many splits: users of all splits together."""
    splits = sorted({job.split for job in measured if job.split is not None and job.data == "ml-latest-small"})
    lines = []
    for method in ("best", "paper", "MultVAE"):
        pairs = [
            (measured[Job("ml-latest-small", split, method, 0)], measured[Job("ml-latest-small", split, "EASE", 0)])
            for split in splits
            if all(Job("ml-latest-small", split, each, 0) in measured for each in (method, "EASE"))
        ]
        if pairs:
            gains = np.concatenate([np.subtract(row["per_user"], ease["per_user"]) for row, ease in pairs])
            means = " / ".join(_digits(np.mean([row["test"][metric] for row, _ in pairs])) for metric in METRICS)
            lines.append(f"- {method}: {means}; NDCG@100 less EASE's {interval(gains)}, {len(gains)} users")
    if not lines:
        return ""
    return "\n".join([f"ml-latest-small over {len(splits)} splits by other seeds, one training each:", "", *lines])


def _subsamples(measured: Measured) -> list[str]:
    """A tenth of the users: the mean over subsamples, and the users of all of them together."""
    names = [f"{data}{TENTH_OF}" for data in _data(measured)]
    body = [row for name in names for row in _small(measured, name)]
    if not body:
        return []
    text = (
        "A tenth of the train and validation users, all test users; means over three draws of users. Measured when best"
        " had a learning rate of 0.003, a patience of 15 and starts that differed by seed."
    )
    head = ("data", "train users", "method", *METRICS, "NDCG of best less this (95 %)")
    return ["### Little data", "", text, "", *table(head, body)]


def _small(measured: Measured, name: str) -> Iterable[Sequence[str]]:
    best = {job.split: row for job, row in measured.items() if (job.data, job.method) == (name, "best")}
    for method in SMALL_DATA:
        chosen = {job.split: row for job, row in measured.items() if (job.data, job.method) == (name, method)}
        both = sorted(split for split in chosen if split in best and split is not None)
        if not both:
            continue
        scores = [_digits(np.mean([chosen[split]["test"][metric] for split in both])) for metric in METRICS]
        gains = np.concatenate([np.subtract(best[split]["per_user"], chosen[split]["per_user"]) for split in both])
        less = "" if method == "best" else interval(gains)
        yield name.removesuffix(TENTH_OF), f"{chosen[both[0]]['train_users']:,}", method, *scores, less


def _lever(measured: Measured, data: str, method: str) -> Sequence[str] | None:
    chosen = rows(measured, data, method)
    if not chosen:
        return None
    test = np.mean([row["test"]["ndcg@100"] for row in chosen])
    return (
        data,
        method,
        _mean(chosen, "validation"),
        _digits(test),
        *(_mean(chosen, name, 2) for name in ("best_share_of_popular", "hard_over_soft")),
        over_seeds(chosen),
    )


def over_seeds(chosen: Sequence[Row]) -> str:
    labels = [unpacked(row["labels"]) for row in chosen]
    values = [ari(first, second) for first, second in combinations(labels, 2)]
    return f"{np.mean(values):.2f}" if values else ""


def _crispness(measured: Measured, data: str, method: str) -> Sequence[str] | None:
    chosen = rows(measured, data, method)
    if not chosen:
        return None
    fits = [row["name_fit"] for row in chosen if row.get("name_fit")]
    share, base = (100 * np.mean([each[name] for each in fits] or [np.nan]) for name in ("share", "base"))
    fit = f"{share:.0f} % ({base:.0f} %)" if fits else ""
    numbers = sorted({row["concepts"] for row in chosen})
    return (
        data,
        method,
        str(len(chosen)),
        ", ".join(map(str, numbers)),
        _mean(chosen, "best_share_of_popular", 2),
        _mean(chosen, "best_share", 2),
        _mean(chosen, "best_share_of_choices", 2),
        _mean(chosen, "hard_over_soft", 3),
        _mean(chosen, "nmi", 2),
        over_seeds(chosen),
        fit,
        _mean(chosen, "monotonicity", 2),
        _mean(chosen, "retention", 2),
        _mean(chosen, "cards", 1),
    )


def _mean(chosen: Sequence[Row], name: str, digits: int = 4) -> str:
    values = [row[name] for row in chosen if row.get(name) is not None]
    return _digits(np.mean(values), digits) if values else ""


def _digits(value: Any, digits: int = 4) -> str:
    return f"{value:.{digits}f}"


def table(head: Sequence[str], body: Iterable[Sequence[str] | None]) -> list[str]:
    lines = [head, ["---"] * len(head), *(row for row in body if row is not None)]
    return ["| " + " | ".join(line) + " |" for line in lines]
