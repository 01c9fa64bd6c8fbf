"""The endpoints, under /v1; the most frequent come first, because they match soonest."""

from macrid.serving.routes import (
    about,
    adding,
    cohort,
    concepts,
    items,
    people,
    rules,
    running,
    segments,
    steering,
    training,
    words,
)
from macrid.serving.routes.running import health

__all__ = ["health", "routers"]

routers = [
    part.router
    for part in (
        steering, people, cohort, about, items, adding, concepts, rules, words, segments, training, running
    )
]  # fmt: skip
