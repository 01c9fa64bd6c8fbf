"""Data sets by name: their files, where those are published, how they are split, and the counts to expect.

Files are looked up in `$MACRID_DATA/<folder>`, then in the user's cache (`$MACRID_CACHE`, else `$XDG_CACHE_HOME/macrid`
or `~/.cache/macrid`), which also holds downloads.
"""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any, Literal

from macrid.data import store
from macrid.data.download import Progress, fetch_archive
from macrid.data.movielens import count_raw, read_movielens
from macrid.data.netflix import read_netflix
from macrid.data.released import PARTS, read_released
from macrid.data.split import Split
from macrid.errors import DataError
from macrid.files import recover

UNCHANGED = {"by": "users", "at": None, "last": None, "half_life": None}
NETFLIX_TITLES = "movie_titles.csv|movie_titles.txt"


@dataclass(frozen=True)
class Recipe:
    """How ratings become a split: keep ratings at or above a threshold, then users with enough items; hold some out."""

    min_rating: float
    heldout: int
    min_items: int = 5


@dataclass(frozen=True)
class Counts:
    users: int
    items: int
    interactions: int

    def __str__(self) -> str:
        return f"{self.users:,} users, {self.items:,} items and {self.interactions:,} interactions"


@dataclass(frozen=True)
class Entry:
    """One data set of the catalogue.

    layouts: alternative sets of files, relative to `folder`; 'a|b' means either file.
    page, archive: where it is published; the archive is a zip file that anyone may download.
    recipe: None if it is published as a split.
    expected: counts of the split (its items are those of the training users); raw: counts of the files.
    """

    name: str
    what: str
    reader: str
    folder: str = ""
    layouts: tuple[tuple[str, ...], ...] = ()
    page: str = ""
    archive: str | None = None
    licence: str = ""
    recipe: Recipe | None = None
    expected: Counts | None = None
    raw: Counts | None = None

    @property
    def has_times(self) -> bool:
        return self.reader == "movielens"

    @property
    def files(self) -> tuple[str, ...]:
        """The files of the usual layout; the first holds the events."""
        return self.layouts[0] if self.layouts else ()

    def missing(self, folder: Path) -> tuple[str, ...]:
        """The files that `folder` lacks of its closest layout; empty if a layout is complete."""
        missing = [
            tuple(file for file in layout if not any((folder / name).is_file() for name in file.split("|")))
            for layout in self.layouts
        ]
        return min(missing, key=len, default=())


def _movielens(
    name: str, what: str, recipe: Recipe, files: tuple[str, str], expected: Counts | None, raw: Counts, folder: str = ""
) -> Entry:
    folder = folder or name
    page = f"https://grouplens.org/datasets/movielens/{folder.removeprefix('ml-').removesuffix('-small')}/"
    archive = f"https://files.grouplens.org/datasets/movielens/{folder}.zip"
    licence = "research use, no redistribution (GroupLens)"
    return Entry(name, what, "movielens", folder, (files,), page, archive, licence, recipe, expected, raw)


def _alishop(name: str, what: str, folder: str, categories: str, expected: Counts) -> Entry:
    files = (*(f"{part}.csv" for part in PARTS), "unique_sid.txt", categories)
    page = "https://jianxinma.github.io/disentangle-recsys.html"
    return Entry(name, what, "released", f"alishop-7c/{folder}", (files,), page, None, "none stated", None, expected)


_ENTRIES = (
    Entry("shop", "the built-in shop: 7 categories, generated, with a known truth", "shop", licence="MIT"),
    _movielens(
        "ml-latest-small", "MovieLens latest-small, ratings of 4 and more (the paper's ML-100k)", Recipe(4, 50),
        ("ratings.csv", "movies.csv"), Counts(603, 5_697, 47_922), Counts(610, 9_724, 100_836),
    ),
    _movielens(
        "ml-100k", "MovieLens 100K of 1998, ratings of 4 and more", Recipe(4, 50),
        ("u.data", "u.item"), None, Counts(943, 1_682, 100_000),
    ),
    _movielens(
        "ml-1m", "MovieLens 1M, ratings of 4 and more", Recipe(4, 500),
        ("ratings.dat", "movies.dat"), Counts(6_034, 3_502, 575_235), Counts(6_040, 3_706, 1_000_209),
    ),
    _movielens(
        "ml-1m-ge3", "MovieLens 1M, ratings of 3 and more (the paper's table of statistics)", Recipe(3, 500),
        ("ratings.dat", "movies.dat"), Counts(6_038, 3_605, 836_452), Counts(6_040, 3_706, 1_000_209), folder="ml-1m",
    ),
    _movielens(
        "ml-20m", "MovieLens 20M, ratings of 4 and more", Recipe(4, 10_000),
        ("ratings.csv", "movies.csv"), Counts(136_677, 20_108, 9_990_030), Counts(138_493, 26_744, 20_000_263),
    ),
    Entry(
        "netflix", "Netflix Prize, ratings of 4 and more", "netflix", "netflix",
        layouts=(
            ("training_set/mv_0000001.txt", NETFLIX_TITLES),
            (*(f"combined_data_{number}.txt" for number in range(1, 5)), NETFLIX_TITLES),
        ),
        page="https://www.kaggle.com/datasets/netflix-inc/netflix-prize-data",
        licence="research use, no redistribution (Netflix)",
        recipe=Recipe(4, 40_000),
        expected=Counts(463_435, 17_769, 56_880_037),
        raw=Counts(480_189, 17_770, 100_480_507),
    ),
    _alishop(
        "alishop-7c", "AliShop-7C, clicks in a shop with 7 categories, as the paper's authors split it",
        "pro_sg", "item_cate.csv", Counts(10_668, 20_591, 767_493),
    ),
    _alishop(
        "alishop-7c-4k", "AliShop-7C, a split of the 4,000 held-out users alone",
        "derived_4k_pro_sg", "item_cate_sid.csv", Counts(4_000, 19_362, 285_778),
    ),
)  # fmt: skip
_BY_NAME = {entry.name: entry for entry in _ENTRIES}


def names() -> list[str]:
    return list(_BY_NAME)


def entry(name: str) -> Entry:
    if name not in _BY_NAME:
        raise DataError(f"unknown data set '{name}'; choose from {', '.join(_BY_NAME)}")
    return _BY_NAME[name]


def cache_folder() -> Path:
    """Where downloads go."""
    if folder := os.environ.get("MACRID_CACHE"):
        return Path(folder).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "macrid"


def portable(message: str) -> str:
    """A message with this machine's data folders replaced by the variables that name them."""
    if folder := os.environ.get("MACRID_DATA"):
        message = message.replace(str(Path(folder).expanduser()), "$MACRID_DATA")
    return message.replace(str(cache_folder()), "$MACRID_CACHE")


def locate(entry: Entry) -> Path | None:
    """The folder that has every file of the data set, or None."""
    return next((folder for folder in _places(entry) if entry.layouts and not entry.missing(folder)), None)


def status(entry: Entry) -> str:
    """Whether its files are present, can be downloaded, or must be supplied."""
    if not entry.layouts:
        return "built in"
    if locate(entry) is not None:
        return "at hand"
    return "downloads" if entry.archive else "bring files"


def load(
    name: str,
    *,
    download: bool = True,
    progress: Progress | None = None,
    split: Literal["users", "stable", "time", "last"] = "users",
    at: Any = None,
    last: int | None = None,
    half_life: float | None = None,
) -> Split:
    """A data set as a split, made by its recipe and checked against its published counts.

    download: fetch it into the cache if it is not on this machine.
    progress: called with the bytes downloaded so far and in total.
    split, at, last, half_life: for data sets with times, as in `Interactions.read` and `Interactions.split`.
    """
    dataset = entry(name)
    changes: dict[str, Any] = {"by": split, "at": at, "last": last, "half_life": half_life}
    if changes == UNCHANGED:
        changes = {}
    elif not dataset.has_times:
        known = ", ".join(other.name for other in _ENTRIES if other.has_times)
        raise DataError(f"{name}: has no times, which other splits and a half-life need; {known} have")
    if dataset.reader == "shop":
        from macrid.data.shop import generate

        return generate(seed=0).split()
    folder = locate(dataset)
    if folder is None:
        if not (download and dataset.archive):
            raise DataError(_missing_message(dataset))
        folder = _download(dataset, progress)
    try:
        result = _read(dataset, folder, **changes)
    except DataError as error:
        raise DataError(f"{name}, in {folder}: {error}") from error
    _check_counts(dataset, folder, result, by=split)
    return result


def load_split(source: str | os.PathLike[str], progress: Progress | None = None) -> tuple[Split, dict[str, Any]]:
    """The split of a prepared folder or a data set of the catalogue, and what a run should remember of its origin.

    progress: called with the bytes done and in all while downloading.
    """
    path, name = Path(source), os.fspath(source)
    recover(path)
    if (path / "about.json").is_file() or (path.is_dir() and name not in _BY_NAME):
        recipe = store.read_about(path).get("recipe") or {}
        known = {"source": "folder", "path": os.path.abspath(path), "min_rating": recipe.get("min_rating")}
        known |= {name: recipe[name] for name in ("split", "weight", "weights", "half_life") if name in recipe}
        return store.read(path), known
    if name in _BY_NAME:
        rules = _BY_NAME[name].recipe
        known = {"source": "catalogue", "name": name, "min_rating": rules and rules.min_rating}
        return load(name, progress=progress), known
    if path.is_file():
        raise DataError(f"{source}: is a file; prepare it first: `macrid data prepare {quote(name)} --out DIR`")
    raise DataError(f"{source}: neither a prepared folder nor a name of the catalogue{did_you_mean(name)}")


def did_you_mean(name: str) -> str:
    close = difflib.get_close_matches(name, _BY_NAME, n=1)
    return f"; did you mean {close[0]}?" if close else f"; the names are {', '.join(_BY_NAME)}"


def _places(entry: Entry) -> list[Path]:
    places = [cache_folder() / entry.folder]
    if folder := os.environ.get("MACRID_DATA"):
        places.insert(0, Path(folder).expanduser() / entry.folder)
    return places


def _download(entry: Entry, progress: Progress | None) -> Path:
    assert entry.archive is not None
    folder = cache_folder() / entry.folder
    try:
        fetch_archive(entry.archive, folder, progress)
    except DataError as error:
        raise DataError(
            f"{entry.name}: the download failed ({error}). Try again to resume it, or fetch {entry.archive} yourself"
            f" and unpack it, with {_listed(entry.files)} in {folder}"
        ) from error
    if missing := entry.missing(folder):
        raise DataError(f"{entry.name}: {_listed(missing)} not in {entry.archive}; see {entry.page} for what changed")
    return folder


def _missing_message(entry: Entry) -> str:
    """Which files are missing where: in the folder that has some of them, else in the first one searched."""
    places = _places(entry)
    partial = [
        place for place in places if any((place / name).exists() for file in entry.files for name in file.split("|"))
    ]
    folder = (partial or places)[0]
    files = _listed(entry.missing(folder))
    if not partial and len(entry.layouts) > 1:
        files += f" (or {_listed(entry.layouts[1])})"
    source = f"download {entry.archive}" if entry.archive else "it cannot be downloaded automatically"
    return f"{entry.name}: missing {files} in {folder}; {source}, see {entry.page}, and put the files there"


def _listed(files: tuple[str, ...]) -> str:
    return ", ".join(file.replace("|", " or ") for file in files)


def _read(entry: Entry, folder: Path, half_life: float | None = None, **how: Any) -> Split:
    """half_life, how: of a data set with times."""
    if entry.recipe is None:
        return read_released(folder, categories=entry.files[-1])
    min_rating, heldout, min_items = entry.recipe.min_rating, entry.recipe.heldout, entry.recipe.min_items
    if entry.reader == "netflix":
        return read_netflix(folder, min_rating, min_items).split(heldout)
    ratings, movies = (folder / file for file in entry.files)
    if entry.expected is None and entry.raw is not None:
        counts = Counts(*count_raw(ratings))
        if counts != entry.raw:
            raise DataError(_mismatch(entry, entry.raw, counts, counts.interactions))
    data = read_movielens(ratings, movies, min_rating, min_items, timed=bool(how), half_life=half_life)
    return data.split(heldout if how.get("by", "users") == "users" else None, **how)


def _check_counts(entry: Entry, folder: Path, split: Split, by: str = "users") -> None:
    if entry.expected is None:
        return
    if by != "users":  # the counts are those of the usual split
        read = 0 if split.train.report is None else split.train.report.rows
        if entry.raw is not None and read != entry.raw.interactions:
            actual = Counts(entry.raw.users, entry.raw.items, read)
            raise DataError(f"{entry.name}, in {folder}: {_mismatch(entry, entry.raw, actual, read)}")
        return
    heldout = (split.validation, split.test)
    interactions = len(split.train) + sum(group.history.nnz + group.target.nnz for group in heldout)
    if entry.recipe is None and split.train.report is not None:
        interactions += split.train.report.duplicates  # published splits count rows
    users = len(split.train.users) + sum(len(group.users) for group in heldout)
    counts = Counts(users, len(split.items), int(interactions))
    if counts != entry.expected:
        rows = None if split.train.report is None else split.train.report.rows
        raise DataError(f"{entry.name}, in {folder}: {_mismatch(entry, entry.expected, counts, rows)}")


def _mismatch(entry: Entry, expected: Counts, actual: Counts, rows: int | None) -> str:
    """Expected and actual counts, and the file to look at."""
    suspect = f"{entry.files[0].split('/')[0]} is truncated or not the published file"
    if entry.raw is not None and rows is not None and rows != entry.raw.interactions:
        suspect += f" ({rows:,} rows instead of {entry.raw.interactions:,})"
    return (
        f"expected {expected}, found {actual}. Most likely {suspect}; download it again from {entry.page},"
        " or read your version as a file of events"
    )
