"""All formats of MovieLens: ratings.csv and movies.csv, ratings.dat and movies.dat ('::'), u.data and u.item."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from macrid.data.ids import whole_number
from macrid.data.interactions import Interactions
from macrid.data.tables import open_table, read_items
from macrid.errors import DataError

GENRES = ("unknown", "Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama",
          "Fantasy", "Film-Noir", "Horror", "Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War",
          "Western")  # fmt: skip
FIRST_GENRE = 5  # after id, title, release date, video release date and URL
YEAR = r"\((?P<year>\d{4})(?:[-–]\d{0,4})?\)\s*$"


def read_movielens(
    ratings: Path,
    movies: Path,
    min_rating: float,
    min_items: int,
    *,
    timed: bool = False,
    half_life: float | None = None,
) -> Interactions:
    """Ratings at or above the threshold, with title, genres and year.

    timed: with their times. half_life: in days.
    """
    names = {".data": (0, 1, 2), ".dat": ("user", "item", "rating"), ".csv": ("userId", "movieId", "rating")}
    columns: dict[str, Any] = dict(zip(("user", "item", "rating"), names[ratings.suffix], strict=True))
    if timed or half_life is not None:
        columns |= {"time": 3 if ratings.suffix == ".data" else "timestamp", "half_life": half_life}
    items = read_u_item(movies) if ratings.suffix == ".data" else read_movies(movies)
    return Interactions.read(ratings, **columns, min_rating=min_rating, min_items=min_items, items=items)


def read_movies(path: Path) -> pa.Table:
    """movies.csv or movies.dat: item, title, genres, and the year at the end of the title."""
    ids, columns, _ = read_items(path)
    return _with_year(columns.add_column(0, "item", ids.array), path)


def read_u_item(path: Path) -> pa.Table:
    """u.item of MovieLens 100K, whose genres are flags, with the columns of movies.dat."""
    rows: dict[str, list] = {"item": [], "title": [], "genres": []}
    for number, line in enumerate(path.read_text(encoding="latin-1").splitlines(), start=1):
        fields = line.split("|")
        flags = fields[FIRST_GENRE:]
        item = whole_number(fields[0])
        if len(flags) != len(GENRES) or item is None:
            raise DataError(
                f"{path}: line {number:,} is not an id, a title, three more fields and {len(GENRES)} genre flags,"
                f" separated by '|' ({len(fields)} fields); is this u.item?"
            )
        rows["item"].append(item)
        rows["title"].append(fields[1])
        rows["genres"].append("|".join(genre for genre, flag in zip(GENRES, flags, strict=True) if flag == "1"))
    return _with_year(pa.table(rows), path)


def count_raw(ratings: Path) -> tuple[int, int, int]:
    """Users, items and ratings in the file, before any filtering."""
    table = open_table(ratings, header=ratings.suffix != ".data")
    user, item = table.columns[:2]
    columns = table.read([user, item], text=[user, item])
    return len(table.read_ids(columns, user)[1]), len(table.read_ids(columns, item)[1]), columns.num_rows


def _with_year(table: pa.Table, path: Path) -> pa.Table:
    if "title" not in table.column_names:
        raise DataError(f"{path}: no titles; is this a MovieLens movies file?")
    titles = table.column("title").combine_chunks()
    years = pc.struct_field(pc.extract_regex(titles, YEAR), "year")
    return table.append_column("year", pc.if_else(pc.equal(years, ""), None, years).cast(pa.int32()))
