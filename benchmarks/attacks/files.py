"""Bad files: events, items, labels and JSON with damage, odd encodings and values that nobody meant.

A file must be read as a strict reader reads it, or be refused in one line. What is read differently, or accepted though
it is malformed, counts as silent unless the command says so.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import math
import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.attacks import Outcome
from benchmarks.attacks.calling import Ending, call, preload

TIMES = 1_300
MIN_RATING = 2
MISSING = ("", "nan", "NaN", "null", "NULL")
NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
BYTES = (b"\0", b"\xff", b"\xe9", b'"', b"\r", b",", b"\n", b"\x1f", b"\xc3", b"\x80", b"::", b"\t",
         b"\xef\xbb\xbf", b"\xf0\x9f\x92\xa5", b"\x1b[31m", b"\\", b"\xed\xa0\x80")  # fmt: skip
CELLS = ("", "nan", "inf", "-inf", "1e999", "²", "٣", "007", "9" * 5_000, str(2**70), "NULL", " ", '"', "a\tb",
         "\u2028", "\ufeff", "-0", "+5", "0x10", "1_000", "true", "\x7f", "é", "x" * 70_000)  # fmt: skip
Truth = set[tuple[str, str]] | None
"""The pairs of users and items in a file; None if a strict reader refuses it."""


def attack(times: int | None, seed: int) -> list[Outcome]:
    preload()
    count, draw = times or TIMES, random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        return [
            _events(base, draw, count * 45 // 100, "CSV files of events, changed", ","),
            _events(base, draw, count * 10 // 100, "'::' files of events, changed", "::"),
            _items(base, draw, count * 17 // 100),
            _parquet(base, draw, count * 15 // 100),
            _labels(base, draw, count * 3 // 100),
            _json(base, draw, count * 10 // 100),
        ]


def rows(draw: random.Random, users: int = 24, items: int = 18) -> list[list[str]]:
    return [
        [f"u{user}", f"i{item}", str(draw.randint(1, 5))]
        for user in range(users)
        for item in draw.sample(range(items), 8)
    ]


def _with_events(folder: Path, draw: random.Random) -> Path:
    folder.mkdir()
    events = [["user", "item", "rating"], *rows(draw)]
    (folder / "e.csv").write_text("\n".join(",".join(row) for row in events) + "\n")
    return folder


def _events(base: Path, draw: random.Random, times: int, name: str, mark: str) -> Outcome:
    outcome = Outcome(name, "read as a strict reader reads it, or refused in one line")
    suffix = "dat" if mark == "::" else "csv"
    for number in range(times):
        header = ["user", "item", "rating"]
        content = changed(draw, [header, *rows(draw)] if mark == "," else rows(draw), mark)
        folder = base / f"{suffix}{number}"
        folder.mkdir()
        (folder / f"e.{suffix}").write_bytes(content)
        options = ["--user-col", "user", "--item-col", "item", "--rating-col", "rating"] if mark == "," else []
        ending = call([*prepare(f"e.{suffix}"), *options], folder)
        outcome.note(_judged(ending, folder, f"e.{suffix}", lambda text: strict_pairs(text, mark), content))
        shutil.rmtree(folder)
    return outcome


def prepare(source: str) -> list[Any]:
    limits = ["--min-items", 1, "--heldout", 3, "--min-rating", MIN_RATING]
    return ["data", "prepare", source, "--out", "out", *limits]


def _judged(ending: Ending, folder: Path, name: str, truth: Callable[[str], Truth], content: bytes) -> str | None:
    if (problem := ending.problem()) is not None:
        return problem
    if ending.code != 0:
        return None if name in ending.err else "refused without the name of the file"
    text, said = decoded(content), re.search(r"encoding ([\w-]+)", ending.err)
    if said is not None:
        text = content.decode(said[1], "replace")
    expected = None if text is None else truth(text)
    if expected is None:
        return "silent: accepted though malformed"
    return None if same_pairs(folder / "out", expected) else "silent: read as something else"


def decoded(content: bytes) -> str | None:
    """None if it is neither UTF-8 nor has the mark of UTF-16."""
    marked = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return content.decode("utf-16" if marked else "utf-8-sig")
    except UnicodeDecodeError:
        return None


def strict_rows(text: str, mark: str) -> list[list[str]] | None:
    """The cells of every line; None if quotes do not match or rows differ in length."""
    if "\0" in text:
        return None
    try:
        if mark == "::":
            lines = [line for line in re.split("\r\n|\r|\n", text) if line]
            read = [line.replace("::", "\x1f").split("\x1f") for line in lines]
        else:
            csv.field_size_limit(2**31 - 1)
            read = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True) if row]
    except csv.Error:
        return None
    return read if read and len({len(row) for row in read}) == 1 else None


def strict_pairs(text: str, mark: str) -> Truth:
    read = strict_rows(text, mark)
    if read is None:
        return None
    places = [0, 1, 2]
    if mark == ",":
        header, *read = read
        if any(header.count(name) != 1 for name in ("user", "item", "rating")):
            return None
        places = [header.index(name) for name in ("user", "item", "rating")]
    elif len(read[0]) < 3:
        return None
    elif read[0][:2] == ["UserID", "MovieID"]:
        del read[0]
    cells = [[row[place] for place in places] for row in read]
    if any(user in MISSING or item in MISSING or not NUMBER.fullmatch(rating) for user, item, rating in cells):
        return None
    if not all(math.isfinite(float(rating)) for _, _, rating in cells):
        return None
    return {(user, item) for user, item, rating in cells if float(rating) >= MIN_RATING}


def same_pairs(folder: Path, expected: set[tuple[str, str]]) -> bool:
    """Whether a prepared folder has these pairs, but for items that no train user has."""
    try:
        return _has_pairs(folder, expected)
    except UnicodeDecodeError:  # ids that are no text
        return False


def _has_pairs(folder: Path, expected: set[tuple[str, str]]) -> bool:
    items = [str(item) for item in pq.read_table(folder / "items.parquet").column("id").to_pylist()]
    users = pq.read_table(folder / "users.parquet")
    groups = users.column("group").cast(pa.string()).to_pylist()
    ids = {group: [str(user) for user, own in zip(users.column("id").to_pylist(), groups, strict=True) if own == group]
           for group in ("train", "validation", "test")}  # fmt: skip
    pairs = set()
    for path in folder.glob("*.indptr.npy"):
        matrix = path.name.removesuffix(".indptr.npy")
        starts, columns = np.load(path), np.load(folder / f"{matrix}.indices.npy")
        for user, start, end in zip(ids[matrix.split("_")[0]], starts[:-1], starts[1:], strict=True):
            pairs |= {(user, items[column]) for column in columns[start:end]}
    known = {(user, item) for user, item in expected if item in set(items)}
    return pairs == known and {user for user, _ in expected} == {user for own in ids.values() for user in own}


def changed(draw: random.Random, table: list[list[str]], mark: str) -> bytes:
    """A table as a file, with one to three kinds of damage."""
    table, kinds = [list(row) for row in table], draw.choices(("cell", "row", "text", "bytes"), (3, 2, 1, 5), k=1)
    kinds += draw.choices(("none", "cell", "row", "bytes"), (6, 1, 1, 1), k=2)
    end = draw.choices(("\n", "\r\n", "\r"), (8, 1, 1))[0]
    for kind in kinds:
        if kind == "cell":
            row = draw.choice(table)
            row[draw.randrange(len(row))] = draw.choice(CELLS)
        elif kind == "row":
            _change_rows(draw, table)
    text = end.join(mark.join(row) for row in table) + draw.choice((end, ""))
    content = text.encode(draw.choices(("utf-8", "utf-8-sig", "utf-16"), (8, 1, 1))[0])
    if "text" in kinds:
        content = _mixed(draw, text)
    for _ in range(kinds.count("bytes")):
        content = damaged(draw, content)
    return content


def _change_rows(draw: random.Random, table: list[list[str]]) -> None:
    place = draw.randrange(len(table))
    action = draw.randrange(7)
    if action == 0 and len(table[place]) > 1:
        table[place].pop()
    elif action == 1:
        table[place].append("more")
    elif action == 2:
        del table[place:]
    elif action == 3:
        table.insert(place, [])
    elif action == 4:
        table[0] = [draw.choice(("user", "", "id", "popularity", "x")) for _ in table[0]]
    elif action == 5:
        table.insert(0, ["UserID", "MovieID", "Rating"])
    else:
        for row in table:
            row.insert(0, draw.choice(("", "7")))


def _mixed(draw: random.Random, text: str) -> bytes:
    """With accents, in UTF-8, in Latin-1, or each line in one of them."""
    accents = re.sub(r"([ui])(\d)", lambda match: f"{match[1]}{draw.choice('éüñ')}{match[2]}", text)
    share = draw.choice((0.0, 0.02, 0.5, 0.98, 1.0))
    lines = accents.splitlines(keepends=True)
    return b"".join(line.encode("latin-1" if draw.random() < share else "utf-8", "replace") for line in lines)


def damaged(draw: random.Random, content: bytes) -> bytes:
    """With some bytes changed."""
    if not content:
        return content
    place, action = draw.randrange(len(content)), draw.randrange(7)
    far = min(len(content), place + draw.randint(1, 200))
    if action == 0:
        return content[:place] + bytes([content[place] ^ 1 << draw.randrange(8)]) + content[place + 1 :]
    if action == 1:
        return content[:place] + draw.choice(BYTES) + content[place + 1 :]
    if action == 2:
        return content[:place] + draw.choice(BYTES) + content[place:]
    if action == 3:
        return content[:place] + content[far:]
    if action == 4:
        return content[:far] + content[place:]
    if action == 5:
        return content[:place]
    return content[:place] + b'"' + content[place:far] + b'"' + content[far:]


def _items(base: Path, draw: random.Random, times: int) -> Outcome:
    outcome = Outcome("items tables, changed", "titles as a strict reader reads them, or refused in one line")
    folder = _with_events(base / "items", draw)
    for _ in range(times):
        header = ["id", "title", draw.choice(("price", "popularity", "popularity_", "title", "id_", ""))]
        table = [[f"i{item}", draw.choice((f"Zoë {item}", f'"Cafe, {item}"', f"Plain {item}")), str(item)]
                 for item in range(18)]  # fmt: skip
        content = changed(draw, [header, *table], ",")
        (folder / "i.csv").write_bytes(content)
        ending = call([*prepare("e.csv"), "--items", "i.csv", "--overwrite"], folder)
        outcome.note(_judged_items(ending, folder, content))
    return outcome


def _judged_items(ending: Ending, folder: Path, content: bytes) -> str | None:
    if (problem := ending.problem()) is not None:
        return problem
    if ending.code != 0:
        return None
    said = re.search(r"encoding ([\w-]+)", ending.err)
    text = content.decode(said[1], "replace") if said else decoded(content)
    read = None if text is None else strict_rows(text, ",")
    if read is None:
        return "silent: accepted though malformed"
    header, *table = read
    keys = [place for place, name in enumerate(header) if name in ("id", "i d", "ID")]
    titles = [place for place, name in enumerate(header) if name in ("title", "name")]
    if not keys or not titles:
        return None
    expected = {row[keys[0]]: row[titles[0]] for row in table}
    kept = pq.read_table(folder / "out" / "items.parquet")
    got = dict(zip(map(str, kept.column("id").to_pylist()), kept.column("title").to_pylist(), strict=True))
    wrong = any(got[item] != expected.get(item) for item in got)
    return "silent: read as something else" if wrong or len({*kept.column_names}) < kept.num_columns else None


def _parquet(base: Path, draw: random.Random, times: int) -> Outcome:
    outcome = Outcome("Parquet files, odd or damaged", "read as they are, or refused in one line")
    folder = base / "parquet"
    folder.mkdir()
    plain = rows(draw)
    truth = {(user, item) for user, item, rating in plain if int(rating) >= MIN_RATING}
    columns = {"user": [row[0] for row in plain], "item": [row[1] for row in plain],
               "rating": [float(row[2]) for row in plain]}  # fmt: skip
    odd = list(_odd_tables(columns))
    for number in range(times):
        path = folder / "e.parquet"
        if number < len(odd):
            table, is_fine = odd[number]
            pq.write_table(table, path)
        else:
            pq.write_table(pa.table(columns), path, write_page_checksum=True, compression=draw.choice(("zstd", "none")))
            path.write_bytes(damaged(draw, path.read_bytes()))
            is_fine = True
        ending = call([*prepare("e.parquet"), "--overwrite"], folder)
        problem = ending.problem()
        if problem is None and ending.code == 0:
            problem = None if is_fine and same_pairs(folder / "out", truth) else "silent: read as something else"
        outcome.note(problem)
    return outcome


def _odd_tables(columns: dict[str, list[Any]]) -> Iterator[tuple[pa.Table, bool]]:
    """Tables, and whether they can be read as what they say."""
    user, item, rating = (pa.array(columns[name]) for name in ("user", "item", "rating"))
    count = len(user)

    def table(**more: Any) -> pa.Table:
        return pa.table({"user": user, "item": item, "rating": rating, **more})

    for value in (math.nan, math.inf, -math.inf, None):
        yield table(rating=pa.array([*columns["rating"][:-1], value])), False
        yield table(rating=pa.array([value] * count, pa.float64())), False
    for kind in (pa.float32(), pa.float16(), pa.int8(), pa.uint64(), pa.string(), pa.decimal128(9, 2)):
        yield table(rating=rating.cast(kind)), True
    for kind in (pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        yield table(user=user.cast(kind)), True
    for value in ("", "nan", "NULL", None):
        yield table(user=pa.array([*columns["user"][:-1], value])), False
    bad = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(np.array([0, 2], np.int32)), pa.py_buffer(b"\xffu")]
    )
    yield table(user=pa.concat_arrays([user[:-1], bad])), False
    yield table(item=pa.concat_arrays([item[:-1], bad])), False
    others = [
        [[1]] * count, [{"a": 1}] * count, [b"x"] * count, [True] * count, [None] * count, [1.5] * count,
        [1e300] * count, [2.0**60] * count, pa.array([2**63] * count, pa.uint64()),
        pa.array([1] * count, pa.timestamp("s")), pa.array([1] * count, pa.duration("s")),
        pa.array(["1.5"] * count).cast(pa.decimal128(9, 2)),
    ]  # fmt: skip
    for other in others:
        yield table(user=pa.array(other)), False
        yield table(item=pa.array(other)), False
    for other in (["x"] * count, ["٣"] * count, ["1_0"] * count, [[1]] * count, [b"x"] * count, [{"a": 1}] * count):
        yield table(rating=pa.array(other)), False
    arrays = [user, item, rating]
    yield pa.Table.from_arrays([*arrays, user], ["user", "item", "rating", "user"]), False
    yield pa.Table.from_arrays([*arrays, rating], ["user", "item", "rating", "rating"]), False
    yield pa.Table.from_arrays([*arrays, user, user], ["user", "item", "rating", "", ""]), True
    yield pa.Table.from_arrays([*arrays, user], ["user", "item", "rating", "a.b"]), True
    yield pa.Table.from_arrays(arrays, ["a", "b", "c"]), False
    yield pa.table({}), False
    yield table()[:0], False


def _labels(base: Path, draw: random.Random, times: int) -> Outcome:
    outcome = Outcome("labels, wrong", "refused in one line")
    folder = _with_events(base / "labels", draw)
    call(prepare("e.csv"), folder)
    training = ["--epochs", 1, "--dim", 4, "--concepts", 3, "--neighbours", 0, "--no-baselines", "--overwrite"]
    wrong = ("inf", "1e999", "nan,nan", "²", "٣", '"', "1,2", "\udcff", "x", "9" * 5_000)
    for _ in range(times):
        lines = [f"i{item},{draw.choice('ab')},{item}" for item in range(12)]
        lines[draw.randrange(12)] = f"i{draw.randrange(12)},{draw.choice('ab')},{draw.choice(wrong)}"
        text = "item,concept,size\n" + "\n".join(lines) + "\n"
        (folder / "l.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
        ending = call(["train", "out", "--out", "run", "--labels", "l.csv", *training], folder)
        silent = "silent: accepted though malformed" if ending.code == 0 else None
        outcome.note(ending.problem() or silent)
    return outcome


def _json(base: Path, draw: random.Random, times: int) -> Outcome:
    outcome = Outcome("JSON files, deep, huge or not JSON", "refused in one line")
    folder = _with_events(base / "json", draw)
    call(prepare("e.csv"), folder)
    training = ["--epochs", 1, "--dim", 4, "--concepts", 3, "--neighbours", 0, "--no-baselines"]
    call(["train", "out", "--out", "run", *training], folder)
    (folder / "config.json").write_text('{"model": "macridvae", "settings": {"dim": 4}}')
    victims = {
        "config.json": ["train", "out", "--out", "other", "--config", "config.json", "--epochs", 1],
        "out/about.json": ["train", "out", "--out", "other", *training],
        "run/config.json": ["similar", "run", "i1"],
        "run/names.json": ["names", "run"],
        "run/effects.json": ["similar", "run", "i1"],
    }
    for _ in range(times):
        name = draw.choice([name for name in victims if (folder / name).exists()])
        kept = (folder / name).read_bytes()
        (folder / name).write_bytes(_bad_json(draw, kept))
        ending = call(victims[name], folder)
        problem = ending.problem()
        if problem is None and ending.code == 0:
            problem = "silent: accepted though malformed"
        outcome.note(problem)
        (folder / name).write_bytes(kept)
        shutil.rmtree(folder / "other", ignore_errors=True)
    return outcome


def _bad_json(draw: random.Random, content: bytes) -> bytes:
    deep = b"[" * 100_000 + b"]" * 100_000
    nested = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
    plain = [b"", b"{", b"[]", b"null", b"17", b'"x"', b"\xff\xfe", b"NaN", b"9" * 5_000, deep, nested, b"\0" * 40,
             b'{"model": "macridvae", "settings": {"dim": 1e999}}', b'{"model": "\xff"}', b'{"model": "nothing"}',
             b'{"model": "macridvae", "settings": {"dim": ' + b"9" * 400 + b"}}",
             b'{"model": "macridvae", "training": {"seed": ' + deep + b"}}",
             json.dumps({"model": "macridvae", "settings": {"\ud800": 1}}).encode()]  # fmt: skip
    return draw.choice([*plain, content[: len(content) // 2], b"\xef\xbb\xbf{" + content, content[:-2] + b',"\xff":1}'])
