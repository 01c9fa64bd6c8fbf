"""All interactions with the times of their events, in memory, where a split by time is made.

Only numbers are kept there: ids were numbered before, so events take much less memory than where they are read into it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from macrid.data.ids import Ids
from macrid.data.interactions import Interactions, ReadReport
from macrid.data.large.engine import ExhaustedError
from macrid.data.reading import clean_events
from macrid.data.weighing import Measured

BYTES_PER_EVENT = 192  # of memory at most, with weights and times


def check_memory(rows: int, by: str, memory: int) -> None:
    """An error, before anything is numbered, if so many events would take more memory."""
    if rows * BYTES_PER_EVENT > memory:
        needed = -(-rows * BYTES_PER_EVENT // 2**30)
        raise ExhaustedError(
            f"a split by {by} takes up to {needed} GiB of memory for {rows:,} events; allow it with --memory"
            f" {needed}GiB, or hold out users (--split users or stable), which takes little"
        )


def interactions(
    events: dict[str, np.ndarray], users: Ids, items: Ids, report: ReadReport, *, min_items: int, table: Any,
    encoding: str | None,
) -> Interactions:  # fmt: skip
    """From the codes of the users and items of all events, with their times and weights; see `clean_events`.

    events: in the order of their places in the file or, if they have none, by user and item.
    """
    places = events.pop("place", None)
    order = np.lexsort((events["item"], events["user"])) if places is None else np.argsort(places)
    ordered = {name: events.pop(name)[order] for name in list(events)}
    return clean_events(
        ordered["user"], ordered["item"], users, items, report, min_items=min_items, items=table, encoding=encoding,
        measured=Measured(ordered.get("time"), ordered.get("weight")),
    )  # fmt: skip
