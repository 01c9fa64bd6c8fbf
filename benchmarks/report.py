"""Write docs/performance.md and its pictures from what was measured: python -m benchmarks.report

It reads benchmarks/results/: cpu.json and gpu.json of benchmarks/speed.py, accuracy-cpu.json and accuracy-gpu.json of
benchmarks/accuracy.py. What is not there is said not to be measured; what misses its target is said to miss it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import accuracy
from benchmarks.contenders import BF16, DENSE_LOOP, EXACT
from benchmarks.growth import SYMBOLS, WORDS, Growth, growths, law
from benchmarks.measuring import number, percent, times

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
FILE = ROOT / "docs" / "performance.md"
NOT_MEASURED = "Not measured."
STEEP = 1.05  # the exponent above which growth is called faster than in proportion
Results = dict[str, dict[str, Any]]


class Target(NamedTuple):
    """A figure that the project has set itself."""

    what: str
    at_most: bool
    bound: float
    unit: str
    value: Callable[[Results], float]
    """Of the results; a KeyError where it was not measured."""

    def row(self, results: Results) -> tuple[str, ...]:
        digits = 4 if self.bound < 0.1 else 2 if self.bound < 1 else 1
        asked = f"{'at most' if self.at_most else 'at least'} {self.bound:g}{self.unit}"
        try:
            value = self.value(results)
        except KeyError:
            return self.what, asked, "not measured", ""
        met = value <= self.bound if self.at_most else value >= self.bound
        return self.what, asked, f"{value:,.{digits}f}{self.unit}", "met" if met else "**missed**"


def measured(results: Results, file: str, part: str, key: str, **where: Any) -> float:
    """The value of the one row that agrees with `where`."""
    for row in _rows(results, file, part):
        if all(row.get(name) == value for name, value in where.items()) and row.get(key) is not None:
            return row[key]
    raise KeyError(key)


def most(results: Results, file: str, part: str, key: str) -> float:
    """Of all rows but those of the dense ways."""
    own = [row for row in _rows(results, file, part) if not row["name"].startswith("dense")]
    values = [row[key] for row in own if row.get(key) is not None]
    if not values:
        raise KeyError(key)
    return max(values)


def _rows(results: Results, file: str, part: str) -> list[dict[str, Any]]:
    found = results[file][part]
    return [] if found.get("quick") else found["rows"]


def _gpu_epoch(key: str, batch: int) -> Callable[[Results], float]:
    return lambda results: measured(results, "gpu", "epoch", key, name="macrid, bf16", batch=batch)


def _cpu_epoch(key: str, name: str) -> Callable[[Results], float]:
    return lambda results: measured(results, "cpu", "epoch", key, name=name)


def _large(key: str, name: str) -> Callable[[Results], float]:
    return lambda results: measured(results, "gpu", "large", key, name=name)


def _recommend(file: str, key: str, way: str) -> Callable[[Results], float]:
    return lambda results: measured(results, file, "recommend", key, assignment="soft", way=way)


def _slowest(results: Results) -> float:
    lines = accuracy.summary(results["accuracy-gpu"]["rows"])
    return {line["name"]: line["slowest"] for line in lines}["exact, bf16"]


SAMPLED = "macrid, sampled, 1,024 negatives"
TARGETS = (
    Target("GPU: an epoch of ML-20M's shape, batch 1,024", True, 0.07, " s", _gpu_epoch("seconds", 1024)),
    Target("GPU: the same, batch 4,096", True, 0.045, " s", _gpu_epoch("seconds", 4096)),
    Target("GPU: against the dense loop, batch 1,024", False, 10, "×", _gpu_epoch("speed_up", 1024)),
    Target("GPU: memory above the parameters, any batch", True, 1024, " MiB",
           lambda found: most(found, "gpu", "epoch", "peak_mib")),
    Target("GPU: a step over 10 million items, exact", True, 120, " ms", _large("milliseconds", "exact")),
    Target("GPU: the same, sampled", True, 15, " ms", _large("milliseconds", "sampled, 8,192 negatives")),
    Target("GPU: peak memory of either", True, 80, " GiB", lambda found: most(found, "gpu", "large", "peak_gib")),
    Target("GPU: recommending for 100,000 users", True, 2, " s", _recommend("gpu", "seconds", "all at once")),
    Target("GPU: `macrid train ml-1m`, kernels compiled before, the slowest seed", True, 15, " s", _slowest),
    Target("CPU: an exact epoch against the dense loop", False, 3, "×", _cpu_epoch("speed_up", EXACT)),
    Target("CPU: the same in bf16, the default on this CPU", False, 4, "×", _cpu_epoch("speed_up", BF16)),
    Target("CPU: the same at 20,000 items", False, 5, "×",
           lambda found: measured(found, "cpu", "wide", "speed_up", name=BF16)),
    Target("CPU: its memory, as a part of the dense loop's", True, 0.5, "", _cpu_epoch("memory_ratio", EXACT)),
    Target("CPU: a sampled epoch against the dense loop", False, 8, "×", _cpu_epoch("speed_up", SAMPLED)),
    Target("CPU: all users at once against one by one, dense", False, 20, "×",
           _recommend("cpu", "speed_up", "one by one, dense")),
)  # fmt: skip

WORDS_USED = """\
- *dense loop*: how public implementations are written, a dense array of users × items in every turn of a loop over the
  concepts (`benchmarks/dense.py`; tests hold its loss and gradients against macrid's). *All concepts at once*: the same
  as one array of users × concepts × items. *Compiled*: through `torch.compile`.
- *exact*, *sampled*: the likelihood over all items, or estimated from a user's own items and some others
  (`likelihood="sampled"`).
- *speed-up*: the dense loop's time over this one's, from the same run.
- *floor*: the matrix products that the exact likelihood cannot do without, 3 · 2 · users · K · M · d operations (4 · 2
  on a GPU, which takes the logits twice rather than store them), at the speed of a large matrix product measured in the
  same run; on a GPU also the bytes that Adam must read and write, at the measured speed of a copy. *Of the floor*: the
  floor's time over the time taken. On a CPU the floor is that of single precision.
- *memory*: on a CPU the peak of a fresh process above what it held after its imports and the data; on a GPU the peak
  above the parameters and the interactions, with Adam's moments. *Memory of a step*: above all three.
- *K, M, d, B, n*: concepts, items, dimensions, users a batch, interactions a user."""

AGAIN = """\
```console
$ MACRID_DATA=… make bench           # on this machine's CPU, then this page; without ML-1M a shop of its shape is used
$ make bench-gpu                     # the same on a GPU
$ MACRID_DATA=… .venv/bin/python -m benchmarks.accuracy --device cuda
$ .venv/bin/python -m benchmarks.report
```

`benchmarks/speed.py --only PART` measures one part again and leaves the others in the file as they are. On a CPU the
contenders take turns (A B C, A B C, …). The best of several epochs counts, since other work on a machine adds time."""


def text(results: Results) -> str:
    """The whole page."""
    sections = [
        "# Performance",
        "Generated by `benchmarks/report.py` from the files in `benchmarks/results/`. Figures in one table come from"
        " one run on one machine, unless a note above it says otherwise; compare ratios, not seconds, between"
        " machines.",
        "## What was asked for, and what was measured",
        _table(("", "target", "measured", ""), (target.row(results) for target in TARGETS)),
        "## An epoch on a GPU", *_part(results, "gpu", "epoch", _epoch),
        "## An epoch on a CPU", *_part(results, "cpu", "epoch", _epoch),
        *(("### 20,000 items", *_part(results, "cpu", "wide", _epoch)) if "wide" in results.get("cpu", {}) else ()),
        "## Ten million items", *_part(results, "gpu", "large", _large_section),
        "## How a step grows on a GPU", *_part(results, "gpu", "growth", lambda part: _growth(part, "gpu")),
        "## How a step grows on a CPU", *_part(results, "cpu", "growth", lambda part: _growth(part, "cpu")),
        "## Recommending on a GPU", *_part(results, "gpu", "recommend", _recommending),
        "## Recommending on a CPU", *_part(results, "cpu", "recommend", _recommending),
        "## Accuracy, and the time of a whole training, on a GPU", *_accuracy(results.get("accuracy-gpu")),
        "## Accuracy, and the time of a whole training, on a CPU", *_accuracy(results.get("accuracy-cpu")),
        "## What the words mean", WORDS_USED,
        "## Measure again", AGAIN,
    ]  # fmt: skip
    return "\n\n".join(sections) + "\n"


def _part(results: Results, file: str, name: str, section: Callable[[dict[str, Any]], list[str]]) -> list[str]:
    part = results.get(file, {}).get(name)
    return [NOT_MEASURED] if part is None else [_when(part), *section(part)]


def _when(part: dict[str, Any]) -> str:
    """Machine, versions and date."""
    about = part["measured"]
    machine, versions = about["machine"], about["versions"]
    where = f"{machine['gpu']}, beside " if machine["gpu"] else ""
    quick = " **A quick run on small shapes, no measurement.**" if part.get("quick") else ""
    return (
        f"Measured {about['date']} on {where}{machine['cpu']}, {machine['cores']} cores; macrid {versions['macrid']},"
        f" torch {versions['torch']}, triton {versions['triton']}.{quick}"
        + (f" {part['note']}" if part.get("note") else "")
    )


def _epoch(part: dict[str, Any]) -> list[str]:
    shape, floor = part["shape"], part["floor"]
    copies = f", copies run at {floor['gb_per_s']:,.0f} GB/s" if "gb_per_s" in floor else ""
    about = (
        f"{shape['data'][0].upper()}{shape['data'][1:]}: {shape['users']:,} train users, {shape['items']:,} items,"
        f" {shape['interactions']:,} interactions; K = {shape['concepts']}, d = {shape['dim']}. The floor is"
        f" {floor['tflop']:.3g} TFLOP at {floor['tflop_per_s']:.3g} TFLOP/s, {floor['seconds']:.3g} s{copies}."
    )
    rows = []
    for row in part["rows"]:
        if "failed" in row:
            rows.append((row["name"], f"{row['batch']:,}", "failed", "", "", "", ""))
            continue
        scaled = f" (from {row['scaled_from_steps']} steps)" if "scaled_from_steps" in row else ""
        rows.append(
            (
                row["name"] + scaled, f"{row['batch']:,}", number(row["seconds"], 3), times(row.get("speed_up")),
                percent(row.get("of_floor")), number(row.get("peak_mib"), 0), percent(row.get("memory_ratio")),
            )
        )  # fmt: skip
    header = ("", "batch", "s an epoch", "speed-up", "of the floor", "memory, MiB", f"of the {DENSE_LOOP}'s")
    failed = [f"{row['name']} failed: `{row['failed']}`" for row in part["rows"] if "failed" in row]
    return [about, *_in_words(part["rows"]), _table(header, rows), *failed]


def _in_words(rows: list[dict[str, Any]]) -> list[str]:
    """The dense loop against macrid's exact epochs in one sentence; nothing where one of them is missing."""
    loop = next((row for row in rows if row["name"] == DENSE_LOOP and "seconds" in row), None)
    own = [
        row for row in rows if row["name"].startswith("macrid") and "sampled" not in row["name"] and "seconds" in row
    ]
    same_batch = [row for row in own if loop is not None and row["batch"] == loop["batch"]]
    if loop is None or not same_batch:
        return []
    best = min(same_batch, key=lambda row: row["seconds"])
    memory = f", with {percent(best['memory_ratio'])} of its memory" if best.get("memory_ratio") else ""
    return [
        f"At batch {best['batch']:,} the fastest exact epoch ({best['name']}) takes {best['seconds']:.3g} s where the"
        f" dense loop takes {loop['seconds']:.3g} s: {times(loop['seconds'] / best['seconds'])}{memory}."
    ]


def _large_section(part: dict[str, Any]) -> list[str]:
    shape = part["shape"]
    about = (
        f"{shape['items']:,} items, {shape['interactions']:,} interactions of {shape['users']:,} users;"
        f" K = {shape['concepts']}, d = {shape['dim']}, batch {shape['batch']:,}, bf16; medians of single steps."
    )
    rows = (
        (row["name"], number(row["milliseconds"]), number(row["peak_gib"], 1), number(row.get("reserved_gib"), 1))
        for row in part["rows"]
    )
    return [about, _table(("", "ms a step", "peak, GiB", "set aside by torch, GiB"), rows)]


def _growth(part: dict[str, Any], file: str) -> list[str]:
    base = ", ".join(f"{SYMBOLS[axis]} = {size:,}" for axis, size in part["base"].items())
    rows = []
    for growth in growths(part["points"]):
        symbol = SYMBOLS[growth.axis]
        rows.append(
            (
                f"{WORDS[growth.axis]} ({symbol}), {growth.mode}", _span(growth.sizes, 0),
                _span(growth.milliseconds, 1), law(symbol, growth.of_time), law(symbol, growth.of_time_at_the_end),
                _span(growth.scratch_mib, 0), law(symbol, growth.of_memory),
            )
        )  # fmt: skip
    header = ("", "from … to", "ms a step", "grows as", "between the largest two", "memory of a step, MiB", "grows as")
    return [
        f"One size at a time around {base}, in {part['precision']}; grey lines grow in proportion.",
        f"![Time and memory of a step by every size](performance-{file}.png)",
        _faster_than_in_proportion(growths(part["points"])),
        _table(header, rows),
        *([f"Left out, for time: {'; '.join(part['left_out'])}."] if part["left_out"] else []),
    ]


def _faster_than_in_proportion(found: Sequence[Growth]) -> str:
    steep = [
        f"{WORDS[growth.axis]} ({growth.mode}: {law(SYMBOLS[growth.axis], value)})"
        for growth in found
        if (value := growth.of_time) is not None and value > STEEP
    ]
    if not steep:
        return f"Along no axis does time grow faster than in proportion (an exponent above {STEEP:g})."
    return f"Time grows faster than in proportion (an exponent above {STEEP:g}) along: {', '.join(steep)}."


def _span(values: Sequence[float], digits: int) -> str:
    return f"{values[0]:,.{digits}f} … {values[-1]:,.{digits}f}"


def _recommending(part: dict[str, Any]) -> list[str]:
    shape = part["shape"]
    rows = (
        (
            row["assignment"], row["way"], f"{row['users']:,}", number(row["seconds"]),
            f"{row['users'] / row['seconds']:,.0f}", times(row["speed_up"]),
        )
        for row in part["rows"]
    )  # fmt: skip
    header = ("assignment", "way", "users", "seconds", "users a second", "all at once is faster by")
    return [f"The best {shape['n']} of {shape['items']:,} items, seen ones left out.", _table(header, rows, left=2)]


def _accuracy(found: dict[str, Any] | None) -> list[str]:
    if found is None:
        return [NOT_MEASURED]
    rows = (
        (
            line["name"], str(line["seeds"]), f"{line['ndcg']:.4f} ± {line['se']:.4f}",
            f"{line['least']:.4f}–{line['most']:.4f}", f"{line['epochs']:.0f}", f"{line['seconds']:.1f}",
            f"{line['slowest']:.1f}",
        )
        for line in accuracy.summary(found["rows"])
    )  # fmt: skip
    header = ("", "seeds", "test NDCG@100", "least–most", "epochs", "seconds", "slowest seed")
    about = (
        f"`macrid train {found['data']}` in a fresh process, seconds of the whole command; means over seeds, the"
        " standard error is that of one seed over the test users."
    )
    return [_when(found), about, _table(header, rows)]


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    marks = ["---" if column < left else "---:" for column in range(len(header))]
    return "\n".join("| " + " | ".join(line) + " |" for line in (header, marks, *rows))


def read(folder: Path = RESULTS) -> Results:
    names = ("cpu", "gpu", "accuracy-cpu", "accuracy-gpu")
    files = {name: folder / f"{name}.json" for name in names}
    return {name: json.loads(file.read_text(encoding="utf-8")) for name, file in files.items() if file.exists()}


def main() -> None:
    results = read()
    for name in ("cpu", "gpu"):
        if "growth" in results.get(name, {}):
            from benchmarks.plots import draw

            draw(results[name]["growth"], FILE.parent / f"performance-{name}.png")
    FILE.write_text(text(results), encoding="utf-8")
    print(f"{FILE.relative_to(ROOT)}: written from {', '.join(results) or 'nothing'}")


if __name__ == "__main__":
    main()
