"""Training on one's own file: what was understood of it, how the training goes, and the runs there are."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue, StrictInt, StringConstraints

from macrid.serving.schemas.wire import Wire

Column = Annotated[str, StringConstraints(max_length=10_000)]


class EventColumns(Wire):
    """Which column is which."""

    user: Column | None = None
    item: Column | None = None
    rating: Column | None = None


class ReadRequest(
    Wire, json_schema_extra={"examples": [{"columns": {"user": "who", "item": "what", "rating": "stars"}}]}
):
    columns: EventColumns | None = None
    """By default they are guessed by their names."""
    min_rating: float | None = None
    """Count only rows rated at least this high; by default every row counts."""


class TrainRequest(Wire, json_schema_extra={"examples": [{}, {"concepts": 7, "effort": "quick"}]}):
    concepts: Annotated[StrictInt, Field(ge=1, le=1024)] | Literal["auto"] = "auto"
    """How many; auto: as many as are plain in the data."""
    effort: Literal["quick", "best"] = "best"
    """Quick: at most 30 epochs, and no comparison with simple methods."""


class FileColumn(Wire):
    name: str
    kind: Literal["number", "text", "date", "yes or no", "list", "empty"]
    """Of its first values."""
    examples: list[str]


class EventCounts(Wire):
    """Rows are counted once: kept, or dropped for one reason."""

    rows: int
    users: int
    items: int
    below_min_rating: int
    duplicates: int
    short_users: int
    """Users with too few items, who are left out."""
    short_rows: int
    """Their rows."""
    kept_users: int
    kept_items: int
    kept_rows: int


class RatingCount(Wire):
    value: float
    rows: int


class Ratings(Wire):
    lowest: float
    highest: float
    values: list[RatingCount]
    """Empty if there are many."""


class ItemsTable(Wire):
    has_titles: bool
    attributes: list[str]
    notes: list[str]


class ExaminedFile(Wire):
    """What was understood of the files."""

    is_table: bool
    format: str | None
    columns: list[FileColumn]
    """The first of them, and those with a role."""
    columns_total: int
    preview: list[list[str]]
    """The first rows of these columns; a row may be short."""
    roles: dict[str, str | None]
    """The columns of user, item, rating and time; times are not needed."""
    counts: EventCounts | None
    ratings: Ratings | None
    items: ItemsTable | None
    problems: list[str]
    """What has to be put right first, with its rows."""
    warnings: list[str]
    can_train: bool


class CurvePoint(Wire):
    epoch: int
    accuracy: float | None
    """NDCG@100 on the validation users."""
    loss: float
    is_best: bool


class TrainingProgress(Wire):
    phase: str
    """starting, reading, training, scoring, understanding or comparing."""
    text: str
    done: int
    """Steps."""
    total: int | None
    epochs: int
    """At most."""
    curve: list[CurvePoint]
    notes: list[str]
    is_stopping: bool
    """Whether it finishes early."""
    seconds: float
    seconds_left: float | None
    """At most, in this phase."""


class TrainingResult(Wire):
    run: str
    """Its name; `POST /v1/reload` serves it."""
    accuracy: float | None
    """NDCG@100 on the test users."""
    baselines: dict[str, float | None]
    """The same of simple methods."""
    epochs: int | None
    best_epoch: int | None
    seconds: float | None
    concepts: int | None
    is_stopped: bool
    """Whether it finished early."""
    curve: list[CurvePoint]


class Training(Wire):
    """One file at a time."""

    state: Literal["idle", "uploading", "examining", "understood", "training", "ready"]
    message: str | None
    """What went wrong last."""
    files: dict[str, str]
    """Names of the files of events and items."""
    choice: dict[str, JsonValue]
    """As in the last request to read."""
    understood: ExaminedFile | None
    progress: TrainingProgress | None
    result: TrainingResult | None
    limit: int
    """Largest file, in bytes."""
