"""Whether search finds what was meant: the share of misspelt titles whose item comes first, and the time per query.

    MACRID_DATA=… python -m benchmarks.search                          # writes benchmarks/results/search.json
    MACRID_DATA=… PYTHONPATH=OTHER/src python -m benchmarks.search --as before
    python -m benchmarks.search --table                                # the table of docs/serving.md

Every kind of misspelling is made of 1,000 titles drawn at random, without the year, wherever a title allows it: a
title of one word has no words to join. Items of the same title, such as remakes, count as one. Times are of single
queries, prefixes of titles and hostile texts among them, over generated titles: words of real ones, combined anew and
partly altered, so that there are many different words. They are
processor times, which are the times of an idle machine: a query runs on one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("GOMP_SPINCOUNT", "2000")

import numpy as np
import pyarrow as pa
from benchmarks.measuring import circumstances, filled_from, rounded, show

from macrid.concepts.names import short_title
from macrid.control.search import Search
from macrid.data import catalog
from macrid.data.ids import Ids

RESULTS = Path(__file__).parent / "results" / "search.json"
PAGE = Path(__file__).parents[1] / "docs" / "serving.md"
VOWELS = "aeiouy"
KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
ARTICLES = ("the", "a", "an")

# Misspellings


def _place(words: Sequence[str], dice: random.Random, fewest: int = 3) -> tuple[int, int] | None:
    """A letter of a word of at least so many letters, every one as likely: its word and place."""
    letters = [(at, place) for at, word in enumerate(words) if len(word) >= fewest for place in range(len(word))]
    return dice.choice(letters) if letters else None


def slip(change: Callable[[str, int, random.Random], str | None]) -> Callable[[str, random.Random], str | None]:
    """A kind of misspelling that changes one letter."""

    def misspell(title: str, dice: random.Random) -> str | None:
        words = title.split()
        for _ in range(20):
            if (chosen := _place(words, dice)) is None:
                return None
            at, place = chosen
            changed = change(words[at], place, dice)
            if changed is not None and changed != words[at]:
                return " ".join([*words[:at], changed, *words[at + 1 :]])
        return None

    return misspell


def swapped(word: str, place: int, dice: random.Random) -> str | None:
    pair = word[place : place + 2]
    return word[:place] + pair[::-1] + word[place + 2 :] if pair.isalpha() and len(pair) == 2 else None


def missing(word: str, place: int, dice: random.Random) -> str | None:
    return word[:place] + word[place + 1 :] if word[place].isalpha() else None


def doubled(word: str, place: int, dice: random.Random) -> str | None:
    return word[:place] + word[place] + word[place:] if word[place].isalpha() else None


def neighbouring(word: str, place: int, dice: random.Random) -> str | None:
    near = neighbours(word[place].lower())
    return word[:place] + dice.choice(near) + word[place + 1 :] if near else None


def neighbours(letter: str) -> str:
    """Keys beside a letter, on an English keyboard."""
    for row, keys in enumerate(KEYS):
        if (at := keys.find(letter)) >= 0:
            beside = [keys[place : place + 1] for place in (at - 1, at + 1) if place >= 0]
            above = KEYS[row - 1][at : at + 2] if row else ""
            below = KEYS[row + 1][max(at - 1, 0) : at + 1] if row < 2 else ""
            return "".join(beside) + above + below
    return ""


def other_vowel(word: str, place: int, dice: random.Random) -> str | None:
    letter = word[place].lower()
    return word[:place] + dice.choice(VOWELS.replace(letter, "")) + word[place + 1 :] if letter in VOWELS else None


def extra(word: str, place: int, dice: random.Random) -> str | None:
    return word[:place] + dice.choice("abcdefghijklmnopqrstuvwxyz") + word[place:]


def plain(title: str, dice: random.Random) -> str:
    """In lower case, without punctuation."""
    return " ".join(re.sub(r"[^\w\s]", "", title).lower().split())


def headless(title: str, dice: random.Random) -> str | None:
    """Without the first letter of a word of at least four."""
    words = title.split()
    long = [at for at, word in enumerate(words) if len(word) >= 4]
    if not long:
        return None
    at = dice.choice(long)
    return " ".join([*words[:at], words[at][1:], *words[at + 1 :]])


def joined(title: str, dice: random.Random) -> str | None:
    words = title.split()
    if len(words) < 2:
        return None
    at = dice.randrange(len(words) - 1)
    return " ".join([*words[:at], words[at] + words[at + 1], *words[at + 2 :]])


def all_joined(title: str, dice: random.Random) -> str | None:
    words = plain(title, dice).split()
    return "".join(words) if 2 <= len(words) <= 4 else None


def split(title: str, dice: random.Random) -> str | None:
    """A word of at least six letters in two."""
    words = title.split()
    long = [at for at, word in enumerate(words) if len(word) >= 6]
    if not long:
        return None
    at = dice.choice(long)
    place = dice.randrange(2, len(words[at]) - 1)
    return " ".join([*words[:at], words[at][:place], words[at][place:], *words[at + 1 :]])


def without_article(title: str, dice: random.Random) -> str | None:
    words = title.split()
    return " ".join(words[1:]) if len(words) > 1 and words[0].lower() in ARTICLES else None


def without_word(title: str, dice: random.Random) -> str | None:
    """Of a title of at least four words, any but the first."""
    words = title.split()
    if len(words) < 4:
        return None
    at = dice.randrange(1, len(words))
    return " ".join([*words[:at], *words[at + 1 :]])


SLIPS = {
    "swapped letters": slip(swapped),
    "missing letter": slip(missing),
    "doubled letter": slip(doubled),
    "neighbouring key": slip(neighbouring),
    "wrong vowel": slip(other_vowel),
    "extra letter": slip(extra),
}


def two_slips(title: str, dice: random.Random) -> str | None:
    """One after the other, in titles of at least eight letters."""
    first, second = dice.choices([*SLIPS.values(), joined, without_word], k=2)
    once = first(title, dice) if sum(map(str.isalpha, title)) >= 8 else None
    return None if once is None else second(once, dice)


Misspell = Callable[[str, random.Random], str | None]
KINDS: dict[str, Misspell] = {
    "lower case, no punctuation": plain,
    "no article": without_article,
    **SLIPS,
    "no first letter": headless,
    "two words joined": joined,
    "all words joined": all_joined,
    "word split": split,
    "word missing": without_word,
    "two of these": two_slips,
}


def misspellings(titles: Sequence[str], seed: int) -> Iterator[tuple[str, int, str]]:
    """Kind, place of the title, and query; slips in lower case half the time, as listed ("Matrix, The") a tenth."""
    dice = random.Random(seed)
    for place, title in enumerate(titles):
        listed = re.sub(r"\s*\(\d{4}\)$", "", title)
        for kind, misspell in KINDS.items():
            form = listed if dice.random() < 0.1 else short_title(title)
            query = misspell(plain(form, dice) if dice.random() < 0.5 else form, dice)
            if query is not None and query.strip():
                yield kind, place, query


# Measuring


def search_of(ids: Ids, titles: Sequence[str | None], popularity: np.ndarray, table: pa.Table) -> Search:
    try:
        return Search(ids, titles, popularity, table)
    except TypeError:  # an earlier one, which knows no attributes
        return Search(ids, titles, popularity)  # type: ignore[call-arg]


def accuracy(data: str, count: int, seed: int, wrong: list[tuple[str, str, str, str]]) -> dict[str, Any]:
    """By kind: how many queries, and the share of them with the right item first, and among the first five."""
    train = catalog.load_split(data)[0].train
    titles = train.table.column("title").to_pylist()
    search = search_of(train.items, titles, train.popularity, train.table)
    chosen = random.Random(seed).sample(range(len(titles)), min(count, len(titles)))
    names = [short_title(title).lower() for title in titles]
    hits: dict[str, list[tuple[bool, bool]]] = {kind: [] for kind in KINDS}
    for kind, place, query in misspellings([titles[at] for at in chosen], seed):
        found = [names[at] for at in search.find(query, limit=5)[0]]
        right = names[chosen[place]]
        hits[kind].append((found[:1] == [right], right in found))
        if found[:1] != [right]:
            wrong.append((kind, query, titles[chosen[place]], found[0] if found else "nothing"))
    every = [hit for kind in hits.values() for hit in kind]
    return {
        kind: {
            "queries": len(of),
            "first": np.mean([first for first, _ in of]),
            "five": np.mean([any_ for _, any_ in of]),
        }
        for kind, of in [*hits.items(), ("all", every)]
    }


def generated(items: int, seed: int = 0) -> tuple[list[str], pa.Table]:
    """Titles of words of real ones, half of the long words with other vowels; years and genres."""
    dice, table = random.Random(seed), catalog.load_split("ml-1m")[0].train.table
    real = [short_title(title).split() for title in table.column("title").to_pylist()]
    words, lengths = [word for title in real for word in title], [len(title) for title in real]

    def altered(word: str) -> str:
        if len(word) < 5 or dice.random() < 0.5:
            return word
        return "".join(dice.choice(VOWELS) if letter in VOWELS and dice.random() < 0.5 else letter for letter in word)

    years = [dice.randrange(1930, 2026) for _ in range(items)]
    titles = [
        f"{' '.join(altered(word) for word in dice.choices(words, k=dice.choice(lengths)))} ({year})" for year in years
    ]
    genres = dice.choices(table.column("genres").to_pylist(), k=items)
    return titles, pa.table({"title": titles, "genres": genres, "year": years})


HOSTILE = (
    "!!!",
    "e" * 200,
    "a b c d e f g h i j k l m n o p q r s t u v w x y z " * 3,
    "\ud800",
    "👜 👜",
    "…",
    "the a of",
)


def times(items: int, seed: int) -> dict[str, Any]:
    """Milliseconds per query at so many items, and to build the index."""
    titles, table = generated(items)
    popularity = np.random.default_rng(0).pareto(1, items) * 10
    search = search_of(Ids(range(items)), titles, popularity, table)
    building = _milliseconds(search, "a") / 1_000
    dice = random.Random(seed)
    queries = {"misspelt": [query for _, _, query in misspellings(dice.sample(titles, 100), seed)]}
    queries["prefix"] = [short_title(title)[: dice.randrange(1, 9)] for title in dice.sample(titles, 500)]
    queries["attributes"] = [
        f"{dice.choice(genres.split('|'))} {year}"
        for genres, year in dice.sample([(row["genres"], row["year"]) for row in table.to_pylist()], 200)
    ]
    queries["hostile"] = list(HOSTILE)
    taken = {kind: [_milliseconds(search, query) for query in some] for kind, some in queries.items()}
    every = [value for values in taken.values() for value in values]
    about = {"items": items, "words": len({word for title in titles for word in title.split()}), "index, s": building}
    return {**about, **{kind: _spread(values) for kind, values in [*taken.items(), ("all", every)]}}


def _milliseconds(search: Search, query: str) -> float:
    """Processor time, for a query runs on one thread: whatever else the machine does is not meant."""
    start = time.thread_time()
    search.find(query, limit=12)
    return 1_000 * (time.thread_time() - start)


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {"median": float(np.median(values)), "p95": float(np.quantile(values, 0.95)), "worst": max(values)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--as", dest="name", default="after", choices=("before", "after"))
    parser.add_argument("--data", nargs="+", default=["ml-1m", "ml-latest-small"])
    parser.add_argument("--titles", type=int, default=1_000)
    parser.add_argument("--items", type=int, nargs="*", default=[50_000, 100_000])
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument(
        "--wrong", type=int, default=0, metavar="N", help="show so many of the queries that fail; write no results"
    )
    parser.add_argument("--table", action="store_true", help="write the table of docs/serving.md and stop")
    asked = parser.parse_args()
    if asked.table:
        write_table()
        return
    wrong: list[tuple[str, str, str, str]] = []
    found: dict[str, Any] = {**circumstances(), "seed": asked.seed}
    found["accuracy"] = {data: accuracy(data, asked.titles, asked.seed, wrong) for data in asked.data}
    for data, kinds in found["accuracy"].items():
        print(data)
        rows = [
            (kind, f"{of['queries']:,}", *(f"{of[part]:.1%}" for part in ("first", "five")))
            for kind, of in kinds.items()
        ]
        show(("", "queries", "first", "first five"), rows)
    found["times"] = [times(items, asked.seed) for items in asked.items]
    for of in found["times"]:
        print(f"{of['items']:,} items, {of['words']:,} words, index in {of['index, s']:.1f} s; milliseconds")
        rows = [
            (kind, *map("{:.1f}".format, spread.values())) for kind, spread in of.items() if isinstance(spread, dict)
        ]
        show(("", "median", "p95", "worst"), rows)
    if asked.wrong:
        show(("kind", "query", "title", "first"), random.Random(0).sample(wrong, min(asked.wrong, len(wrong))))
        return
    results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps({**results, asked.name: rounded(found)}, indent=2) + "\n", encoding="utf-8")


def write_table() -> None:
    parts = {"search": (RESULTS.name, table_of)}
    PAGE.write_text(filled_from(PAGE.read_text("utf-8"), RESULTS.parent, parts), encoding="utf-8")


def table_of(results: dict[str, Any]) -> str:
    before, after = results["before"]["accuracy"], results["after"]["accuracy"]
    lines = [f"| the right item is first | {' | '.join(after)} |", f"| --- |{' ---: |' * len(after)}"]
    for kind in next(iter(after.values())):
        shares = (f"{100 * kinds[kind]['first']:.1f} %" for kinds in after.values())
        lines.append(f"| {kind} | {' | '.join(shares)} |")
    queries = " and ".join(f"{kinds['all']['queries']:,}" for kinds in after.values())
    replaced = " and ".join(f"{100 * kinds['all']['first']:.1f} %" for kinds in before.values())
    about = f"{queries} queries, of 1,000 titles each, without the year; the search that this one replaced: {replaced}."
    lines += ["", about, "", "| items | index, s | a query, ms: median | 95 % | worst |", f"|{' ---: |' * 5}"]
    for spread in results["after"]["times"]:
        figures = [f"{spread['all'][part]:.1f}" for part in ("median", "p95", "worst")]
        lines.append(f"| {spread['items']:,} | {spread['index, s']:.1f} | {' | '.join(figures)} |")
    machine, date = results["after"]["machine"]["cpu"], results["after"]["date"]
    return "\n".join([*lines, "", f"Processor time of one thread, {machine}, {date}; `python -m benchmarks.search`."])


if __name__ == "__main__":
    main()
