"""Recommendations for every user in a file: Parquet or CSV in, Parquet out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from macrid.cli.common import error_console, step_progress, working
from macrid.errors import DataError

if TYPE_CHECKING:
    from macrid.models.base import Recommender


def recommend_for_all(
    model: Recommender, source: Path, output: Path, n: int, columns: dict[str, Any], limits: dict[str, Any]
) -> dict[str, Any]:
    """Write n items for every user who has that many left.

    columns: user, item, rating and min_rating. limits: exclude_seen, include and exclude.
    """
    from macrid.control.batch import recommend_many
    from macrid.data.histories import read_histories

    with working(f"reading {source}"):
        users = read_histories(source, model.items, **columns)
    error_console.print(str(users.report), soft_wrap=True)
    with step_progress() as progress:
        bar = progress.add_task("recommending", total=len(users.users), status="")

        def show(done: int, total: int) -> None:
            progress.update(bar, completed=done, total=total, status=f"{done:,} users")

        table = recommend_many(model, users, n, **limits, progress=show)
    _write(output, table)
    answered = table.num_rows // n
    left_out = len(users.users) - answered
    return {"output": str(output), "users": answered, "left_out": left_out, "unknown": len(users.unknown)}


def _write(output: Path, table: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from macrid.files import write_atomically

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    try:
        write_atomically(output, sink.getvalue().to_pybytes())
    except OSError as error:
        raise DataError(f"{output}: cannot be written ({error.strerror or error})") from error
