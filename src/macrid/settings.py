"""Settings: frozen, checked when made, every field documented. What a model is stands apart from how it is trained."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self, TypedDict, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from macrid.errors import SettingsError

REMOVED = {"total_correlation": 0.0}
"""Settings that runs and checkpoints of earlier versions may have, with the values that changed nothing."""
ADDED = {"assignment_temperature": None, "whole_history": "off", "concept_shares": "off", "neighbours": 0}
"""Settings that runs and checkpoints of earlier versions lack, with the values that change nothing."""
WIDEST = 10**8
"""Neurons in a layer; far beyond what fits in memory."""
MOST = 10**9
"""Epochs, users per step and other counts; beyond any use."""
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
COMMON, TRAINING, ADVANCED = PANELS = "Common", "Training", "Advanced"
"""Groups of settings in help texts and tables, in this order; a field without one is advanced."""
Common = Annotated[T, COMMON]
Training = Annotated[T, TRAINING]


class Settings(BaseModel):
    """Base class: unknown names and invalid values raise a `SettingsError`."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_booleans(cls, value: Any, info: ValidationInfo) -> Any:
        """Except where expected: they are numbers to Python."""
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation is not bool:
            raise PydanticCustomError("boolean", "it cannot be true or false")
        return value

    @classmethod
    def make(cls, values: Mapping[str, Any] | None = None, /, **more: Any) -> Self:
        """Build from keyword arguments; a bad value is named together with what it may be."""
        try:
            return cls(**{**(values or {}), **more})
        except ValidationError as error:
            raise SettingsError("; ".join(_messages(cls, error.errors()))) from None

    @classmethod
    def panel(cls, name: str) -> str:
        """Which of the `PANELS` a field belongs to."""
        return next((each for each in cls.model_fields[name].metadata if each in PANELS), ADVANCED)


def takes(settings: type[Settings]) -> Callable[[F], F]:
    """Show the fields of settings in the signature of a function that takes them as its `**` arguments."""

    def mark(function: F) -> F:
        signature = inspect.signature(function)
        named = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        types = get_type_hints(settings)
        fields = [each.replace(annotation=types[name]) for name, each in inspect.signature(settings).parameters.items()]
        function.__signature__ = signature.replace(parameters=[*named, *fields])  # type: ignore[attr-defined]
        return function

    return mark


class MacridVAESettings(Settings):
    """Settings of a MacridVAE, with the paper's symbols in brackets."""

    concepts: Common[Annotated[int, Field(ge=1, le=1024)] | Literal["auto", "merge"]] = "auto"
    """Number of concepts [K]; auto: the number of groups that are plain in the data, or 10 if there is none; merge:
    training starts with 20 and merges similar ones, as in the paper's supplement."""
    dim: Common[int] = Field(100, ge=2, le=4096)
    """Dimensions of item vectors, prototypes and components [d]."""
    temperature: float = Field(0.1, gt=0)
    """Divides every similarity [tau]; lower is sharper. Unless set, lower for large catalogues of which users know
    little."""
    prior_std: float = Field(0.075, gt=0)
    """Standard deviation of the prior over components [sigma_0]."""
    beta: Common[float] = Field(5.0, ge=0)
    """Weight of the KL divergence [beta]."""
    hidden_layers: int = Field(0, ge=0, le=3)
    """Hidden layers of the encoder's shared network [f_nn]."""
    width: int = Field(100, ge=1, le=WIDEST)
    """Neurons in each hidden layer."""
    dropout: Training[float] = Field(0.6, ge=0, lt=1)
    """Share of each history, and of each hidden layer's input, dropped at random in training. Unless set, higher for
    short histories."""
    assignment: Literal["hard", "soft"] = "soft"
    """An item's concepts outside training: the most likely one (hard, as in the paper's text), or all, weighted by
    probability (soft)."""
    similarity: Literal["cosine", "inner"] = "cosine"
    """Cosine, or the inner product, which the paper shows to collapse."""
    start: Literal["svd", "svd-encoder", "ease", "random"] = "svd-encoder"
    """Initial weights. svd: item vectors from a truncated SVD, prototypes from spherical k-means on them; svd-encoder:
    context vectors too, so the encoder starts by adding up items; ease: both from an SVD of EASE's weights, which needs
    memory for every pair of items; random."""
    merge_below: float = Field(0.7, ge=0, lt=1)
    """With concepts="merge": merge two concepts whose divergence is below this share of the mean over all pairs."""
    assignment_temperature: float | None = Field(0.07, gt=0)
    """Divides the similarities of items and prototypes; lower makes an item belong to fewer concepts. Unless set, 0.7
    times `temperature`; none: the same, as in the paper."""
    whole_history: Literal["on", "off"] = "on"
    """Whether a component also sees the whole history; off: only the items of its own concept, as in the paper."""
    concept_shares: Literal["on", "off"] = "on"
    """Whether concepts are weighted by their shares of the history, to a learned power; off: as in the paper."""
    neighbours: Common[int] = Field(128, ge=0, le=4096)
    """Other items whose presence in a history adds to an item's score, the strongest of EASE's weights; how much they
    add is chosen on validation users. 0: none, as in the paper."""

    @model_validator(mode="after")
    def _check_shares(self) -> Self:
        if self.concepts == 1 and self._was_set("concept_shares") and self.concept_shares == "on":
            raise PydanticCustomError("shares", "concept_shares is 'on', but concepts is 1; drop one of the two")
        return self

    def suited_to(self, items: int, items_per_user: float) -> Self:
        """With `temperature`, `assignment_temperature` and `dropout` from the size of the data, unless they were set.

        Sharp enough to lift a user's few items above all others: exp(0.6 / temperature) is at least items divided by
        items_per_user, where 0.6 is a typical cosine of a component and one of the user's items.
        """
        range_ = math.log(max(items / max(items_per_user, 1.0), 1.0))
        temperature = self.temperature if self._was_set("temperature") else min(0.1, max(0.05, 0.6 / max(range_, 1.0)))
        suited: dict[str, Any] = {
            "temperature": temperature,
            "assignment_temperature": 0.7 * temperature,
            "dropout": min(0.7, max(0.6, 0.6 + 0.1 * math.log2(50 / max(items_per_user, 1.0)))),
        }
        if self.concepts == 1:
            suited["concept_shares"] = "off"
        return self.model_copy(update={name: value for name, value in suited.items() if not self._was_set(name)})

    def _was_set(self, name: str) -> bool:
        return name in self.model_fields_set


class MacridVAEKeywords(TypedDict, total=False):
    """`MacridVAESettings` as keyword arguments, for editors and type checkers."""

    concepts: int | Literal["auto", "merge"]
    dim: int
    temperature: float
    prior_std: float
    beta: float
    hidden_layers: int
    width: int
    dropout: float
    assignment: Literal["hard", "soft"]
    similarity: Literal["cosine", "inner"]
    start: Literal["svd", "svd-encoder", "ease", "random"]
    merge_below: float
    assignment_temperature: float | None
    whole_history: Literal["on", "off"]
    concept_shares: Literal["on", "off"]
    neighbours: int


class MultDAESettings(Settings):
    """Settings of a MultDAE."""

    dim: Common[int] = Field(100, ge=2, le=4096)
    """Dimensions of the two item tables."""
    hidden_layers: int = Field(0, ge=0, le=3)
    """Hidden layers between the item tables."""
    width: int = Field(100, ge=1, le=WIDEST)
    """Neurons in each hidden layer."""
    dropout: Training[float] = Field(0.5, ge=0, lt=1)
    """Share of each history dropped at random in training."""


class MultDAEKeywords(TypedDict, total=False):
    """`MultDAESettings` as keyword arguments."""

    dim: int
    hidden_layers: int
    width: int
    dropout: float


class MultVAESettings(MultDAESettings):
    """Settings of a beta-MultVAE."""

    beta: Common[float] = Field(0.2, ge=0)
    """Final weight of the KL divergence [beta], after `beta_warmup`."""


class MultVAEKeywords(MultDAEKeywords, total=False):
    """`MultVAESettings` as keyword arguments."""

    beta: float


class EASESettings(Settings):
    """Settings of an EASE."""

    regularisation: Common[float] = Field(300.0, gt=0)
    """Added to the diagonal of EASE's XᵀX [lambda]; higher trusts rare items less."""


class EASEKeywords(TypedDict, total=False):
    """`EASESettings` as keyword arguments."""

    regularisation: float


class PopularitySettings(Settings):
    """A Popularity has no settings."""


class PopularityKeywords(TypedDict):
    """No keyword arguments."""


MODELS: dict[str, type[Settings]] = {
    "macridvae": MacridVAESettings,
    "multvae": MultVAESettings,
    "multdae": MultDAESettings,
    "ease": EASESettings,
    "popularity": PopularitySettings,
}
"""The settings of every model, by the name that commands and runs call it."""


def model_settings(name: str) -> type[Settings]:
    """The settings of a model by its name, in upper or lower case."""
    if name.lower() not in MODELS:
        raise SettingsError(f"no model '{name}'; there are {', '.join(MODELS)}")
    return MODELS[name.lower()]


class TrainingSettings(Settings):
    """How a model is trained."""

    epochs: Common[int] = Field(200, ge=1, le=MOST)
    """Maximum number of passes over the training users."""
    batch_size: Training[int | None] = Field(None, ge=1, le=MOST)
    """Users per step; by default 500, or fewer to give an epoch at least five steps."""
    learning_rate: Training[float] = Field(3e-3, gt=0)
    """Adam's learning rate."""
    l2: Training[float] = Field(0.0, ge=0)
    """L2 regularisation of all parameters."""
    beta_warmup: Training[int] = Field(0, ge=0, le=MOST)
    """Epochs over which beta grows linearly from 0."""
    clip: float = Field(5.0, gt=0)
    """Maximum gradient norm; longer gradients are scaled down to it."""
    patience: Training[int] = Field(15, ge=1, le=MOST)
    """Stop after this many epochs without a better validation NDCG@100."""
    balance: float = Field(0.0, ge=0, le=1)
    """How much to weigh down long histories: a user's likelihood is multiplied by items^−balance; 0 is the paper's
    plain sum."""
    average: float = Field(5.0, ge=1)
    """Epochs in the exponential moving average of the weights; 1 means no averaging."""
    likelihood: Literal["auto", "exact", "sampled"] = "auto"
    """Over all items (exact), or estimated from the history and a sample of others (sampled); auto: sampled for large
    catalogues where this machine trains several times faster that way (ending also when five epochs raise the
    validation score by less than 1%), and exact for all others."""
    negatives: int = Field(1024, ge=1, le=MOST)
    """With sampled likelihood: other items per step, shared by all its users. Unless set, auto takes a tenth of the
    items, up to 8,192, if that is more."""
    sampling: Literal["popularity", "log-uniform", "uniform"] = "popularity"
    """With sampled likelihood: draw by the root of popularity, log-uniformly by popularity rank, or uniformly."""
    label_weight: Training[float] = Field(0.1, ge=0)
    """With labels: the weight of an error about an item relative to one about an interaction."""
    precision: Literal["auto", "bf16", "tf32", "fp32"] = "auto"
    """Precision of matrix products; auto uses bf16 where the hardware has it."""
    scratch_mib: int = Field(16, ge=1, le=10**6)
    """Scratch memory on a CPU for the sum over all items, in MiB; less is slower."""
    interactions_mib: int | None = Field(None, ge=0, le=10**9)
    """GPU memory for interactions, in MiB; more of them are sent batch by batch. By default half of what is free."""
    seed: Common[int] = Field(0, ge=0, lt=2**63)
    """Random seed; on a CPU the same seed gives the same model."""
    device: Common[str] = "auto"
    """A GPU if available (auto), cpu, cuda, or cuda:1 for the second GPU. Of several processes, each takes its own."""
    item_shards: int = Field(1, ge=1, le=MOST)
    """In several processes: parts that the items are divided into, each held by one process; must divide the number of
    processes. 1: every process has all items."""

    def users_per_step(self, users: int) -> int:
        """The batch size for so many train users."""
        return max(1, min(self.batch_size or min(500, -(-users // 5)), users))

    def negatives_of(self, items: int) -> int:
        """The number of negatives for a catalogue of so many items."""
        if self.likelihood != "auto" or "negatives" in self.model_fields_set:
            return self.negatives
        return max(self.negatives, min(items // 10, 8192))


class TrainingKeywords(TypedDict, total=False):
    """`TrainingSettings` as keyword arguments."""

    epochs: int
    batch_size: int | None
    learning_rate: float
    l2: float
    beta_warmup: int
    clip: float
    patience: int
    balance: float
    average: float
    likelihood: Literal["auto", "exact", "sampled"]
    negatives: int
    sampling: Literal["popularity", "log-uniform", "uniform"]
    label_weight: float
    precision: Literal["auto", "bf16", "tf32", "fp32"]
    scratch_mib: int
    interactions_mib: int | None
    seed: int
    device: str
    item_shards: int


EASE_BASELINE_ITEMS = 8_000
"""The largest catalogue that gets EASE as a baseline: about ten seconds and 1 GB."""


class ServingSettings(Settings):
    """How a run is served over HTTP."""

    host: Common[str] = Field("127.0.0.1", min_length=1)
    """Address to listen on: 127.0.0.1 for this machine only, 0.0.0.0 for everyone."""
    port: Common[int] = Field(8000, ge=0, le=65535)
    """Port to listen on; 0 picks a free one."""
    token: Common[str | None] = Field(None, min_length=8, repr=False)
    """A secret of at least eight characters that every API request must send as `Authorization: Bearer …`."""
    open: Common[bool] = Field(False, strict=True)
    """Let anybody in: required to listen beyond this machine without a token."""
    workers: Common[int] = Field(1, ge=1, le=256)
    """Worker processes; they share the weights."""
    threads: int | None = Field(None, ge=1)
    """Model threads per process; by default chosen from the number of cores."""
    device: Common[str] = "cpu"
    """Where the model runs: cpu, cuda, cuda:1, or auto for a GPU if available."""
    edits: Literal["auto", "yes", "no"] = "auto"
    """Whether people may rename, reload, add items and change rules; auto: only if the service requires a token, or
    is local and has no other names (`hosts`), as behind a proxy."""
    training: Literal["auto", "yes", "no"] = "auto"
    """Whether people may bring a file and train on it, which writes runs beside this one; auto: only if they may edit,
    and the service is local, has no other names and has one process."""
    hosts: tuple[Annotated[str, Field(pattern=r"^(\*|(\*\.)?[^*]+)$")], ...] = ()
    """Accepted Host headers, such as shop.example or *.shop.example; by default this machine's names if it listens on
    a local address, otherwise any."""
    origins: tuple[str, ...] = ()
    """Web sites whose pages may call the API (CORS), such as https://shop.example."""
    pictures: Common[str | None] = None
    """A folder of pictures named by item id, such as bag-17.jpg."""
    users: Common[str | None] = None
    """A file of events whose users can be looked up by id; by default, the run's held-out users."""
    rules: Common[str | None] = None
    """A JSON file of rules for every answer, reread when it changes; `PUT /v1/rules` writes it. By default a file
    beside the run, called like it with `.rules.json` at the end, if there is one."""
    exclude_file: Common[str | None] = None
    """A file of item ids never to recommend, such as what is out of stock; reread when it changes."""
    include_file: Common[str | None] = None
    """A file of item ids to choose from; reread when it changes."""
    user_col: str | None = None
    """Its user column; guessed if not given."""
    item_col: str | None = None
    """Its item column; guessed if not given."""
    rating_col: str | None = None
    """Its rating column; items rated below the run's threshold count as seen but not as history."""
    events: Common[str | None] = Field(None, repr=False)
    """A database where users' events are kept, such as sqlite:///events.db or postgresql://user@host/name."""
    max_items: int = Field(1_000, ge=1)
    """Most items that one request may ask for."""
    max_history: int = Field(5_000, ge=1)
    """Most items in a history, in `include` and in `exclude`."""
    max_batch: int = Field(1_000, ge=1)
    """Most histories in a batch request."""
    max_moves: int = Field(20, ge=0)
    """Most moves in a request."""
    max_body: int = Field(4 * 2**20, ge=1_024)
    """Largest request body, in bytes."""
    max_upload: int = Field(2 * 2**30, ge=1_024)
    """Largest file to train on, in bytes."""
    max_header: int = Field(32 * 2**10, ge=1_024)
    """Largest request header, in bytes, including the address."""
    max_connections: int = Field(1_000, ge=1)
    """Most open connections per process, or fewer if the system limits open files; beyond that, those idle longest are
    closed."""
    max_waiting: int = Field(1_000, ge=1)
    """Requests that may wait for the model; further requests get 503."""
    together: int = Field(32, ge=1, le=4_096)
    """Requests that the model answers in one batch."""
    timeout: float = Field(30.0, gt=0)
    """Seconds before a request is abandoned."""
    header_timeout: float = Field(10.0, gt=0)
    """Seconds for a client to send a header."""
    idle_timeout: float = Field(75.0, gt=0)
    """Seconds before a connection without requests is closed."""
    drain: float = Field(1.0, ge=0)
    """Seconds during which a stopping server still accepts requests while it closes connections."""


def _messages(settings: type[Settings], details: Sequence[Any]) -> Iterator[str]:
    """One message per setting, even where a value fails both as a number and as a word."""
    words = {d["loc"][0]: d["ctx"]["expected"] for d in details if d["type"] == "literal_error" and len(d["loc"]) > 1}
    for detail in details:
        word = words.get(detail["loc"][0]) if detail["loc"] else None
        if word is None:
            yield _message(settings, detail)
        elif detail["type"] != "literal_error":
            yield f"{_message(settings, detail)}, or {word}"


def _plain(limit: float) -> str:
    return f"{limit:,}" if isinstance(limit, int) else f"{limit:g}"


def _message(settings: type[Settings], detail: Any) -> str:
    if not detail["loc"]:
        return str(detail["msg"])
    name = str(detail["loc"][0])
    if detail["type"] == "extra_forbidden":
        if settings is not TrainingSettings and name in TrainingSettings.model_fields:
            return f"'{name}' is a training setting; pass it to fit"
        return f"unknown setting '{name}'; choose from {', '.join(settings.model_fields) or 'none'}"
    limits = {"greater_than": ("gt", "above"), "greater_than_equal": ("ge", "at least"),
              "less_than": ("lt", "below"), "less_than_equal": ("le", "at most")}  # fmt: skip
    if detail["type"] in limits:
        key, words = limits[detail["type"]]
        return f"{name} is {detail['input']!r}; it must be {words} {_plain(detail['ctx'][key])}"
    if name == "token":
        return f"invalid token: {detail['msg'].lower()}"  # without the secret itself
    return f"{name} is {detail['input']!r}; {detail['msg'].lower()}"
