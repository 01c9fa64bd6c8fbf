"""The interface of every model: fit, recommend, similar_items, encode, save. Ids are always the caller's."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import torch
from torch import Tensor

from macrid.data.ids import Id, Ids, first_few
from macrid.data.interactions import Interactions, csr_from_pairs
from macrid.data.pictures import Pictures
from macrid.data.split import HeldOut
from macrid.errors import DataError, MacridError, RequestError, UnknownItemsWarning
from macrid.models.epoch import Epoch
from macrid.models.params import Parameters
from macrid.models.results import Encoding, Placement, Posterior, Recommendations, ScoredItem
from macrid.ops.batches import DeviceHistories
from macrid.ops.sparse import Histories
from macrid.ops.topk import BLOCK, best_of, pairs
from macrid.settings import Settings, TrainingKeywords, TrainingSettings, takes

if TYPE_CHECKING:
    from macrid.control.rules import Rules


class Recommender(Parameters, ABC):
    """Recommends items from a history. There is no table of users, so a new user needs no retraining."""

    settings_class: ClassVar[Any] = Settings
    has_epochs: ClassVar[bool] = False
    """Whether training runs in epochs, which can be watched, interrupted and resumed."""
    has_components: ClassVar[bool] = False
    """Whether `encode` and `posterior` are available."""
    training_defaults: dict[str, Any] = {}  # noqa: RUF012
    """Where this model's defaults differ from those of `TrainingSettings`."""
    falls_back: ClassVar[bool] = False
    """Whether it gives an empty history what is popular; otherwise the engine does."""
    score_name: ClassVar[str] = "score"
    """What to call a score of this model."""

    def __init__(self, **settings: Any) -> None:
        self.settings = self.settings_class.make(settings)
        self.given = settings
        self.items: Ids = Ids([])
        self.table: pa.Table | None = None
        self.popularity: np.ndarray = np.zeros(0, dtype=np.int64)
        self.training: TrainingSettings | None = None
        self.validation: HeldOut | None = None
        """The held-out users passed to `fit`."""
        self.min_rating: float | None = None
        """The lowest rating that counted in the training data, if there was a threshold."""
        self.log: list[Epoch] = []
        self.placements: tuple[Placement, ...] = ()
        """Of the last items, which came after training."""

    @abstractmethod
    @takes(TrainingSettings)
    def fit(
        self,
        train: Interactions | sp.csr_array,
        *,
        validation: HeldOut | None = None,
        **training: Unpack[TrainingKeywords],
    ) -> Self:
        """Learn from interactions."""

    def training_settings(self, given: Mapping[str, Any]) -> TrainingSettings:
        """The settings of a training, where some are given."""
        return TrainingSettings.make({**self.training_defaults, **given})

    @abstractmethod
    def scores(self, histories: sp.csr_array) -> Tensor:
        """A score for every history and item, higher is better: (users, items), on the model's device."""

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """All learned tensors by name."""

    @abstractmethod
    def load_state(self, state: dict[str, Tensor]) -> None:
        """Restore what `state` returned; `items` must be set first."""

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @abstractmethod
    def to(self, device: str) -> Self:
        """Move to a device: auto, cpu, cuda, cuda:N."""

    @abstractmethod
    def item_vectors(self) -> Tensor:
        """(items, dim), where similar items have a cosine close to 1."""

    def concepts_of_items(self) -> np.ndarray | None:
        """The concept of each item, in the order of `items`; None if the model has no concepts."""
        return None

    @property
    def pictures(self) -> Pictures:
        return Pictures(self.items, self.table)

    @property
    def trained_items(self) -> int:
        """How many of the items were there in training; later ones follow."""
        return len(self.items) - len(self.placements)

    def placement(self, position: int) -> Placement | None:
        """How an item that came after training got its vectors."""
        return self.placements[position - self.trained_items] if position >= self.trained_items else None

    def __repr__(self) -> str:
        changed = sorted(self.settings.model_fields_set)
        settings = ", ".join(f"{name}={getattr(self.settings, name)!r}" for name in changed)
        return f"{type(self).__name__}({settings}){'' if not len(self.items) else f' of {len(self.items):,} items'}"

    def recommend(
        self,
        history: Iterable[Id],
        n: int = 10,
        *,
        exclude_seen: bool = True,
        include: Iterable[Id] | None = None,
        exclude: Iterable[Id] | None = None,
        where: str | None = None,
        rules: Rules | Mapping[str, Any] | None = None,
        strict: bool = False,
    ) -> Recommendations:
        """The n best items for one history, best first; scores are log-probabilities where a model has them.

        exclude_seen: leave out the items of the history.
        include: recommend only these. exclude: never recommend these.
        where: only items that meet a condition, such as "price < 30 and genre = 'Comedy'".
        rules: `macrid.Rules` or their JSON, which apply as well: pins, boosts, diversity, shelves, …
        Unknown ids are ignored with an `UnknownItemsWarning`. If the history has no known item, the list has what is
        popular, `fallback` is True, and unless the history is empty a `FallbackWarning` says so. Fewer than n items
        come with a `RulesWarning`. strict: all of these are errors, except an empty history, and a known item beside
        unknown ones is enough.
        """
        from macrid.control.recommend import recommend

        return recommend(
            self, history, n, exclude_seen=exclude_seen, include=include, exclude=exclude, where=where, rules=rules,
            strict=strict, depth=1,
        )  # fmt: skip

    def top(
        self,
        histories: sp.csr_array,
        n: int,
        *,
        exclude_seen: bool = True,
        seen: sp.csr_array | None = None,
        candidates: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Positions in `items` and scores of the n best items for each history: (users, n) each.

        seen: what `exclude_seen` leaves out, users × items; by default the histories.
        candidates: a mask over items, True where an item may be recommended.
        """
        seen = histories if seen is None else seen
        hidden = seen if exclude_seen else None
        self.check_enough(n, int(self.items_left(hidden, candidates).min(initial=len(self.items))))
        positions, scores = self.rank(histories, n, hidden, candidates)
        return positions.cpu().numpy(), scores.cpu().numpy()

    def items_left(self, hidden: sp.csr_array | None, allowed: np.ndarray | None) -> np.ndarray:
        """How many items can still be recommended to each user; a single number if nothing is hidden."""
        count = len(self.items) if allowed is None else int(allowed.sum())
        if hidden is None:
            return np.array([count])
        lengths = np.diff(hidden.indptr)
        if allowed is not None:
            lengths = np.diff(np.concatenate([[0], np.cumsum(allowed[hidden.indices])])[hidden.indptr])
        return count - lengths

    def check_enough(self, n: int, left: int) -> None:
        """Raise unless n is a positive integer and at most `left`."""
        if not isinstance(n, int | np.integer) or n < 1:
            raise RequestError(f"n is {n}; it must be a whole number, at least 1")
        if left < n:
            raise RequestError(
                f"{n} items requested, but only {left} of {len(self.items):,} are left after exclusions;"
                " request fewer or exclude less"
            )

    def rank(
        self, histories: sp.csr_array, n: int, hidden: sp.csr_array | None = None, allowed: np.ndarray | None = None
    ) -> tuple[Tensor, Tensor]:
        """Positions and scores of the n best items, best first: (users, n) each.

        Items that are hidden (users × items) or not allowed (items,) come last, with −inf.
        """
        users, items = histories.shape
        at_once = max(1, BLOCK["cpu"] // items)
        positions, scores = [torch.empty(0, n, dtype=torch.long)], [torch.empty(0, n)]
        for start in range(0, users, at_once):
            values = self.scores(histories[start : start + at_once]).clone()
            best = best_of(
                values,
                n,
                hidden=None if hidden is None else pairs(hidden[start : start + at_once], values.device),
                allowed=None if allowed is None else torch.from_numpy(allowed).to(values.device),
            )
            scores.append(best[0].cpu())
            positions.append(best[1].cpu())
        return torch.cat(positions), torch.cat(scores)

    def similar_items(self, item: Id, n: int = 10) -> Recommendations:
        """The n items whose vectors are closest to this one's by cosine, which is the score."""
        (position,) = self.positions([item], "item")
        if not isinstance(n, int | np.integer) or not 1 <= n < len(self.items):
            raise RequestError(f"n is {n}; it must be from 1 to {len(self.items) - 1:,}, the number of other items")
        vectors = self.item_vectors()
        lengths = torch.linalg.vector_norm(vectors, dim=1).clamp_(min=1e-12)
        cosine = (vectors @ vectors[position]) / (lengths * lengths[position])
        cosine[position] = -torch.inf
        best = cosine.topk(n)
        items = self.describe(best.indices.cpu().numpy(), best.values.cpu().numpy())
        return Recommendations(items, pictures=self.pictures)

    def encode(self, history: Iterable[Id]) -> Encoding:
        """Confidence per concept (how much of the history lies in it) and one component per concept."""
        raise self._without_components()

    def posterior(self, histories: sp.csr_array) -> Posterior:
        """Means and standard deviations of the components; a model without concepts counts as one concept."""
        raise self._without_components()

    def _without_components(self) -> RequestError:
        return RequestError(f"{type(self).__name__} has no components; use another model, such as MacridVAE")

    def save(self, folder: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write a run, completely or not at all.

        It holds weights, settings, items and log; axes and names, computed now if a MacridVAE has none; and the
        validation users of `fit` with their scores. `macrid.train` adds test users and baselines.
        """
        from macrid.workflow import save

        save(self, folder, overwrite=overwrite)

    def histories(self, histories: Iterable[Iterable[Id]]) -> sp.csr_array:
        """Histories of ids as users × items; unknown items are ignored with a warning."""
        return self.matrix([self.lookup(history, required=False)[0] for history in histories])

    def matrix(self, histories: Sequence[np.ndarray]) -> sp.csr_array:
        self.check_fitted()
        rows = np.repeat(np.arange(len(histories)), [len(history) for history in histories])
        return csr_from_pairs(rows, np.concatenate([*histories, np.zeros(0, int)]), (len(histories), len(self.items)))

    def lookup(self, history: Iterable[Id], required: bool = True, stacklevel: int = 3) -> tuple[np.ndarray, list[Id]]:
        """Distinct positions of the known items, and the unknown ids."""
        self.check_fitted()
        if isinstance(history, str | int):
            raise RequestError(f"a history is a list of item ids, not {history!r}; write [{history!r}]")
        try:
            ids = list(dict.fromkeys(history))
        except TypeError:
            raise RequestError("a history is a list of item ids, strings or integers") from None
        positions = self.items.positions(ids)
        unknown = [value for value, position in zip(ids, positions, strict=True) if position < 0]
        if unknown:
            message = f"{_unknown(unknown)}; {self.id_hint()}"
            if required and len(unknown) == len(ids):
                raise RequestError(f"no known item in the history; {message}")
            warnings.warn(f"ignored {message}", UnknownItemsWarning, stacklevel=stacklevel)
        return positions[positions >= 0], unknown

    def positions(self, ids: Iterable[Id], what: str) -> np.ndarray:
        self.check_fitted()
        ids = [ids] if isinstance(ids, str | int) else list(ids)
        positions = self.items.positions(ids)
        unknown = [value for value, position in zip(ids, positions, strict=True) if position < 0]
        if unknown:
            raise RequestError(f"{what}: {_unknown(unknown)}; {self.id_hint()}")
        return positions

    def describe(self, positions: np.ndarray, scores: np.ndarray) -> tuple[ScoredItem, ...]:
        concepts = self.concepts_of_items()
        titles = None
        if self.table is not None and "title" in self.table.column_names:
            titles = self.table.column("title").take(pa.array(positions)).to_pylist()
        return tuple(
            ScoredItem(
                self.items[position],
                float(scores[rank]),
                None if titles is None or titles[rank] is None else str(titles[rank]),
                None if concepts is None else int(concepts[position]),
                self.placement(int(position)),
            )
            for rank, position in enumerate(positions)
        )

    def to_device(self, histories: sp.csr_array) -> Histories:
        self.check_fitted()
        if histories.shape[1] != len(self.items):
            raise DataError(f"the histories have {histories.shape[1]:,} items, the model has {len(self.items):,}")
        return DeviceHistories(histories, self.device).all()

    def id_hint(self) -> str:
        kind = "integers" if self.items.are_integers else "strings"
        return f"ids are {kind} such as {', '.join(map(repr, self.items[:3]))}"

    def check_fitted(self) -> None:
        if not len(self.items):
            raise MacridError(f"this {type(self).__name__} is not trained yet; call fit, or macrid.load a run")


def min_rating_of(data: Interactions) -> float | None:
    return None if data.report is None else data.report.min_rating


def as_interactions(source: Interactions | sp.csr_array) -> Interactions:
    """Interactions, where row and column numbers of a scipy matrix become integer ids."""
    if isinstance(source, Interactions):
        return source
    if sp.issparse(source):
        matrix = sp.csr_array(source, copy=True)
        if not np.isfinite(matrix.data).all():
            raise DataError("the matrix has NaN or infinite values; all must be finite")
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        users, items = (Ids.range(count) for count in matrix.shape)
        return Interactions.from_pairs(rows, matrix.indices, users, items)
    raise DataError(f"fit needs Interactions or a scipy CSR, not {type(source).__name__}; see Interactions.read")


def checked(train: Interactions | sp.csr_array, validation: HeldOut | None) -> Interactions:
    """The interactions; an error if there are none or the held-out users do not match."""
    data = as_interactions(train)
    if validation is not None and not isinstance(validation, HeldOut):
        raise DataError(f"validation is {type(validation).__name__}; pass held-out users, such as split.validation")
    if validation is not None and validation.history.shape[1] != len(data.items):
        raise DataError(
            f"the validation users have {validation.history.shape[1]:,} items and the train users"
            f" {len(data.items):,}; take both from one split"
        )
    if validation is not None and validation.target.nnz == 0:
        raise DataError(
            "no validation user has an item to predict, which takes five items that occur in the train data;"
            " hold out more users, or fit without validation"
        )
    if len(data) == 0:
        raise DataError("there are no interactions to train on")
    return data


def _unknown(ids: Sequence[Id]) -> str:
    return f"{len(ids)} unknown item{'s' * (len(ids) > 1)}: {first_few(ids)}"
