"""Settings: frozen, checked when made, every field documented. What a model is stands apart from how it is trained."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self, TypedDict, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from macrid.errors import SettingsError

REMOVED = {"total_correlation": 0.0}
"""Settings that runs and checkpoints of earlier versions may have, with the values that changed nothing."""
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
COMMON, TRAINING, ADVANCED = PANELS = "Common", "Training", "Advanced"
"""Groups of settings in help texts and tables, in this order; a field without one is advanced."""
Common = Annotated[T, COMMON]
Training = Annotated[T, TRAINING]


class Settings(BaseModel):
    """The base of all settings: unknown names and wrong values are refused with a `SettingsError`."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_booleans(cls, value: Any) -> Any:
        """Which are numbers to Python; no setting is one."""
        if isinstance(value, bool):
            raise PydanticCustomError("boolean", "true and false are no values of this setting")
        return value

    @classmethod
    def make(cls, values: Mapping[str, Any] | None = None, /, **more: Any) -> Self:
        """Build from keyword arguments; a bad value is named together with what it may be."""
        try:
            return cls(**{**(values or {}), **more})
        except ValidationError as error:
            raise SettingsError("; ".join(_say_all(cls, error.errors()))) from None

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
    """What a MacridVAE is. The paper's symbol stands in brackets."""

    concepts: Common[Annotated[int, Field(ge=1, le=1024)] | Literal["auto"]] = 7
    """How many concepts [K]; auto begins with 20 and merges those that are alike."""
    dim: Common[int] = Field(100, ge=2, le=4096)
    """Dimensions of item vectors, prototypes and components [d]."""
    temperature: float = Field(0.1, gt=0)
    """Divides every similarity [tau]; smaller is sharper."""
    prior_std: float = Field(0.075, gt=0)
    """Standard deviation of the prior over components [sigma_0]."""
    beta: Common[float] = Field(1.0, ge=0)
    """Weight of the KL divergence [beta]."""
    hidden_layers: int = Field(0, ge=0, le=3)
    """Hidden layers of the encoder's shared network [f_nn]."""
    width: int = Field(100, ge=1)
    """Neurons in each hidden layer."""
    dropout: Training[float] = Field(0.5, ge=0, lt=1)
    """Share of a history left out at random in training; also of what goes into each hidden layer."""
    assignment: Literal["hard", "soft"] = "soft"
    """Concepts of an item when not training: the most likely one (hard, the paper's text), or all by probability."""
    similarity: Literal["cosine", "inner"] = "cosine"
    """Cosine, or the inner product that the paper shows to collapse."""
    start: Literal["svd", "svd-encoder", "ease", "random"] = "svd"
    """Before training: item vectors from a truncated SVD and prototypes from spherical k-means on them; the same with
    context vectors, too, so that the encoder starts by adding up items; both from an SVD of EASE's weights, which takes
    memory for every pair of items; or random numbers."""
    merge_below: float = Field(0.7, ge=0, lt=1)
    """With concepts="auto": merge two whose items diverge by less than this share of the mean over all pairs."""


class MacridVAEKeywords(TypedDict, total=False):
    """`MacridVAESettings` as keyword arguments, for editors and type checkers."""

    concepts: int | Literal["auto"]
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


class MultDAESettings(Settings):
    """What a MultDAE is."""

    dim: Common[int] = Field(100, ge=2, le=4096)
    """Dimensions of the two tables of item vectors."""
    hidden_layers: int = Field(0, ge=0, le=3)
    """Hidden layers between the tables."""
    width: int = Field(100, ge=1)
    """Neurons in each hidden layer."""
    dropout: Training[float] = Field(0.5, ge=0, lt=1)
    """Share of a history left out at random in training."""


class MultDAEKeywords(TypedDict, total=False):
    """`MultDAESettings` as keyword arguments."""

    dim: int
    hidden_layers: int
    width: int
    dropout: float


class MultVAESettings(MultDAESettings):
    """What a beta-MultVAE is."""

    beta: Common[float] = Field(0.2, ge=0)
    """Weight of the KL divergence [beta], to which it is annealed (`beta_warmup`)."""


class MultVAEKeywords(MultDAEKeywords, total=False):
    """`MultVAESettings` as keyword arguments."""

    beta: float


class EASESettings(Settings):
    """What an EASE is."""

    regularisation: Common[float] = Field(300.0, gt=0)
    """Added to the diagonal of EASE's XᵀX [lambda]; more of it trusts rare items less."""


class EASEKeywords(TypedDict, total=False):
    """`EASESettings` as keyword arguments."""

    regularisation: float


class PopularitySettings(Settings):
    """A Popularity has none."""


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

    epochs: Common[int] = Field(200, ge=1)
    """Passes over the train users at most."""
    batch_size: Training[int | None] = Field(None, ge=1)
    """Users per step; by default 500, or fewer so that an epoch has at least five steps."""
    learning_rate: Training[float] = Field(3e-3, gt=0)
    """Of Adam."""
    l2: Training[float] = Field(0.0, ge=0)
    """L2 regularisation of all parameters."""
    beta_warmup: Training[int] = Field(0, ge=0)
    """Epochs over which beta grows linearly from 0."""
    clip: float = Field(5.0, gt=0)
    """Largest norm of a gradient; longer ones are shortened to it."""
    patience: Training[int] = Field(15, ge=1)
    """Stop after so many epochs without a better validation NDCG@100."""
    balance: float = Field(0.0, ge=0, le=1)
    """How far long histories are held back: a user's likelihood counts items^−balance; 0 is the paper's sum."""
    average: float = Field(5.0, ge=1)
    """Epochs over which weights are averaged, exponentially; 1 takes those of each epoch as they are."""
    likelihood: Literal["exact", "sampled"] = "exact"
    """Of a history: over all items, or estimated from its own items and some others (for very large catalogues)."""
    negatives: int = Field(1024, ge=1)
    """With the sampled likelihood: how many other items, drawn anew in each step for all its users."""
    sampling: Literal["popularity", "log-uniform", "uniform"] = "popularity"
    """How they are drawn: by the root of popularity, log-uniformly by its rank, or all alike."""
    label_weight: Training[float] = Field(0.1, ge=0)
    """With labels: what being wrong about an item counts, against being wrong about an interaction."""
    precision: Literal["auto", "bf16", "tf32", "fp32"] = "auto"
    """Of matrix products; auto is bf16 where the hardware has it, on a CPU for those of the gradients only."""
    scratch_mib: int = Field(16, ge=1)
    """Memory that the sum over all items may take on a CPU beside its results; less is slower."""
    seed: Common[int] = Field(0, ge=0, lt=2**63)
    """Seed of everything random; on a CPU the same seed gives the same model."""
    device: Common[str] = "auto"
    """A GPU if there is one (auto), cpu, cuda, or cuda:1 for the second one."""

    def users_per_step(self, users: int) -> int:
        """The batch size for so many train users."""
        return self.batch_size or min(500, max(1, -(-users // 5)))


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
    likelihood: Literal["exact", "sampled"]
    negatives: int
    sampling: Literal["popularity", "log-uniform", "uniform"]
    label_weight: float
    precision: Literal["auto", "bf16", "tf32", "fp32"]
    scratch_mib: int
    seed: int
    device: str


EASE_BASELINE_ITEMS = 8_000
"""The largest catalogue that gets EASE as a baseline: about ten seconds and 1 GB."""


class ServingSettings(Settings):
    """How a run is served over HTTP."""

    host: Common[str] = Field("127.0.0.1", min_length=1)
    """Address to listen on; 127.0.0.1 is reached from this machine only, 0.0.0.0 from everywhere."""
    port: Common[int] = Field(8000, ge=0, le=65535)
    """Port to listen on; 0 takes one that is free."""
    token: Common[str | None] = Field(None, min_length=8, repr=False)
    """A secret, of eight letters or more, that every request to the API must bring as `Authorization: Bearer …`."""
    workers: Common[int] = Field(1, ge=1, le=256)
    """Processes that answer; they share the weights."""
    threads: int | None = Field(None, ge=1)
    """Threads of the model in each process; by the cores if not given."""
    device: Common[str] = "cpu"
    """Where the model lives: cpu, cuda, cuda:1, or auto for a GPU if there is one."""
    edits: Literal["auto", "yes", "no"] = "auto"
    """Whether people may rename and reload; auto: if only this machine can reach it, or a token is asked for."""
    hosts: tuple[Annotated[str, Field(pattern=r"^(\*|(\*\.)?[^*]+)$")], ...] = ()
    """Names by which the service may be called (the Host header), such as shop.example or *.shop.example; if none is
    given, those of this machine where it listens on a local address, and any where it does not."""
    origins: tuple[str, ...] = ()
    """Web sites whose pages may call the API (CORS), such as https://shop.example."""
    pictures: Common[str | None] = None
    """A folder of pictures, named by item id: bag-17.jpg."""
    users: Common[str | None] = None
    """A file of events whose users can be asked for by their ids; the held-out users of the run if not given."""
    user_col: str | None = None
    """Its column of users; guessed if not given, and so are the others."""
    item_col: str | None = None
    """Its column of items."""
    rating_col: str | None = None
    """Its column of ratings; lower ones than the run was trained on are seen, but no part of a history."""
    max_items: int = Field(1_000, ge=1)
    """Items that one request may ask for."""
    max_history: int = Field(5_000, ge=1)
    """Items of one history, and of `include` and `exclude`."""
    max_batch: int = Field(1_000, ge=1)
    """Histories of one batch request."""
    max_moves: int = Field(20, ge=0)
    """Moves of one request."""
    max_body: int = Field(4 * 2**20, ge=1_024)
    """Bytes of one request."""
    max_waiting: int = Field(1_000, ge=1)
    """Requests that may wait for the model; more are told to come again."""
    together: int = Field(32, ge=1, le=4_096)
    """Requests that the model answers in one batch."""
    timeout: float = Field(30.0, gt=0)
    """Seconds after which a request is given up."""
    drain: float = Field(1.0, ge=0)
    """Seconds in which a server that is to end still takes new requests, closing connections one by one."""


def _say_all(settings: type[Settings], details: Sequence[Any]) -> Iterator[str]:
    """One message for each; a value that is neither a number nor the word it may be instead gets one, too."""
    words = {d["loc"][0]: d["ctx"]["expected"] for d in details if d["type"] == "literal_error" and len(d["loc"]) > 1}
    for detail in details:
        word = words.get(detail["loc"][0]) if detail["loc"] else None
        if word is None:
            yield _say(settings, detail)
        elif detail["type"] != "literal_error":
            yield f"{_say(settings, detail)}, or {word}"


def _say(settings: type[Settings], detail: Any) -> str:
    name = str(detail["loc"][0]) if detail["loc"] else "settings"
    if detail["type"] == "extra_forbidden":
        if settings is not TrainingSettings and name in TrainingSettings.model_fields:
            return f"'{name}' is a setting of the training; give it to fit"
        return f"no setting '{name}'; there are {', '.join(settings.model_fields) or 'none'}"
    limits = {"greater_than": ("gt", "above"), "greater_than_equal": ("ge", "at least"),
              "less_than": ("lt", "below"), "less_than_equal": ("le", "at most")}  # fmt: skip
    if detail["type"] in limits:
        key, words = limits[detail["type"]]
        return f"{name} is {detail['input']!r}; it must be {words} {detail['ctx'][key]:g}"
    if name == "token":
        return f"the token is no good: {detail['msg'].lower()}"  # a secret is not repeated
    return f"{name} is {detail['input']!r}; {detail['msg'].lower()}"
