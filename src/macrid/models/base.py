"""The interface every model has: fit, recommend, similar_items, encode, save. Ids are the caller's own, everywhere."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, ClassVar, NamedTuple, Self, Unpack, overload

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
import torch
from torch import Tensor

from macrid.data.frames import Kind, to_frame
from macrid.data.ids import Id, Ids, first_few
from macrid.data.interactions import Interactions, csr_from_pairs
from macrid.data.split import HeldOut
from macrid.errors import DataError, MacridError, RequestError, UnknownItemsWarning
from macrid.models.epoch import Epoch
from macrid.ops.batches import DeviceHistories
from macrid.ops.sparse import Histories
from macrid.ops.topk import BLOCK, best_of, pairs
from macrid.settings import Settings, TrainingKeywords, TrainingSettings, takes


@dataclass(frozen=True)
class ScoredItem:
    """One recommended or similar item."""

    id: Id
    score: float
    title: str | None = None
    concept: int | None = None

    def as_json(self) -> dict[str, Any]:
        return {"id": str(self.id), "title": self.title, "score": self.score, "concept": self.concept}


@dataclass(frozen=True)
class Recommendations(Sequence[ScoredItem]):
    """Items, best first, and the ids of the history that the model does not know."""

    items: tuple[ScoredItem, ...]
    unknown: tuple[Id, ...] = ()

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> ScoredItem: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ScoredItem, ...]: ...
    def __getitem__(self, index: int | slice) -> ScoredItem | tuple[ScoredItem, ...]:
        return self.items[index]

    def __iter__(self) -> Iterator[ScoredItem]:
        return iter(self.items)

    @property
    def ids(self) -> list[Id]:
        return [item.id for item in self.items]

    def to_frame(self, as_: Kind = "arrow") -> Any:
        """One row per item: rank, item, score and, where a model has them, concept and title.

        as_: a `pyarrow.Table`, or a frame of "pandas" or "polars".
        """
        columns = {"item": self.ids, "score": [item.score for item in self.items]}
        for name in ("concept", "title"):
            values = [getattr(item, name) for item in self.items]
            if any(value is not None for value in values):
                columns[name] = values
        return to_frame(pa.table({"rank": range(1, len(self) + 1), **columns}), as_)

    def __str__(self) -> str:
        return "\n".join(
            f"{rank:>3}  {item.score:8.3f}  {item.id}{'' if item.title is None else '  ' + item.title}"
            for rank, item in enumerate(self.items, start=1)
        )


class Encoding(NamedTuple):
    """A history as the model sees it."""

    confidence: np.ndarray  # (concepts,) how much of the history lies in each concept
    components: np.ndarray  # (concepts, dim)


class Posterior(NamedTuple):
    """What the model believes about many users: independent normal distributions. Both (users, concepts, dim)."""

    mean: np.ndarray
    std: np.ndarray


class Recommender(ABC):
    """A model of who likes what. Every user is a fold-in: there is no user table, a new user needs no retraining."""

    settings_class: ClassVar[Any] = Settings
    has_epochs: ClassVar[bool] = False
    """Whether it is trained in epochs, which can be watched, interrupted and resumed."""
    has_components: ClassVar[bool] = False
    """Whether its users have components, so that `encode` and `posterior` answer."""
    score_name: ClassVar[str] = "score"
    """What people call a score of this model."""

    def __init__(self, **settings: Any) -> None:
        self.settings = self.settings_class.make(settings)
        self.items: Ids = Ids([])
        self.table: pa.Table | None = None
        self.popularity: np.ndarray = np.zeros(0, dtype=np.int64)
        self.training: TrainingSettings | None = None
        self.validation: HeldOut | None = None
        """The held-out users it was fitted with."""
        self.min_rating: float | None = None
        """Of the interactions it was fitted to, if their ratings had to reach one."""
        self.log: list[Epoch] = []

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

    @abstractmethod
    def scores(self, histories: sp.csr_array) -> Tensor:
        """A score of every item for every history, larger is better: (users, items), on the model's device."""

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """All learned numbers by name."""

    @abstractmethod
    def load_state(self, state: dict[str, Tensor]) -> None:
        """Take over what `state` returned; `items` are set before."""

    @property
    def device(self) -> torch.device:
        """Where its numbers are."""
        return torch.device("cpu")

    @abstractmethod
    def to(self, device: str) -> Self:
        """Move to a device: auto, cpu, cuda, cuda:N."""

    @abstractmethod
    def item_vectors(self) -> Tensor:
        """(items, dim) such that close items have a cosine close to 1."""

    def concepts_of_items(self) -> np.ndarray | None:
        """The concept of every item, in the order of `items`; None for a model without concepts."""
        return None

    def __repr__(self) -> str:
        told = ", ".join(f"{name}={getattr(self.settings, name)!r}" for name in sorted(self.settings.model_fields_set))
        return f"{type(self).__name__}({told}){'' if not len(self.items) else f' of {len(self.items):,} items'}"

    def recommend(
        self,
        history: Iterable[Id],
        n: int = 10,
        *,
        exclude_seen: bool = True,
        include: Iterable[Id] | None = None,
        exclude: Iterable[Id] | None = None,
    ) -> Recommendations:
        """Exactly n items for one history, best first; scores are log-probabilities where a model has them.

        exclude_seen: leave out the items of the history.
        include: choose among these only, all of them known. exclude: leave these out, known or not.
        Unknown items are named in an `UnknownItemsWarning` and left aside; if none is known, that is an error. An empty
        history is allowed and gives what suits nobody in particular.
        """
        known, unknown = self.lookup(history)
        candidates = self.candidates(include, exclude)
        positions, scores = self.top(self.matrix([known]), n, exclude_seen=exclude_seen, candidates=candidates)
        return Recommendations(self.describe(positions[0], scores[0]), tuple(unknown))

    def top(
        self,
        histories: sp.csr_array,
        n: int,
        *,
        exclude_seen: bool = True,
        seen: sp.csr_array | None = None,
        candidates: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Positions in `items` and scores of the n best items for many histories at once: (users, n) each.

        seen: what `exclude_seen` leaves out, users × items; the histories themselves unless given.
        candidates: a mask over items, True where an item may be chosen.
        """
        seen = histories if seen is None else seen
        hidden = seen if exclude_seen else None
        self.check_enough(n, int(self.items_left(hidden, candidates).min(initial=len(self.items))))
        positions, scores = self.rank(histories, n, hidden, candidates)
        return positions.cpu().numpy(), scores.cpu().numpy()

    def items_left(self, hidden: sp.csr_array | None, allowed: np.ndarray | None) -> np.ndarray:
        """How many items each user may still be recommended; one number for all if nothing is hidden."""
        count = len(self.items) if allowed is None else int(allowed.sum())
        if hidden is None:
            return np.array([count])
        lengths = np.diff(hidden.indptr)
        if allowed is not None:
            lengths = np.diff(np.concatenate([[0], np.cumsum(allowed[hidden.indices])])[hidden.indptr])
        return count - lengths

    def check_enough(self, n: int, left: int) -> None:
        """n is a number of items, and so many are left."""
        if not isinstance(n, int | np.integer) or n < 1:
            raise RequestError(f"n is {n}; ask for a whole number of items, at least 1")
        if left < n:
            raise RequestError(
                f"{n} items were asked for, but {left} of {len(self.items):,} are left after all exclusions;"
                " ask for fewer or exclude less"
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
        """The n items whose vectors point most in the direction of this one's; scores are cosines."""
        (position,) = self.positions([item], "item")
        if not isinstance(n, int | np.integer) or not 1 <= n < len(self.items):
            raise RequestError(f"n is {n}; there are {len(self.items) - 1:,} other items, ask for 1 to that many")
        vectors = self.item_vectors()
        lengths = torch.linalg.vector_norm(vectors, dim=1).clamp_(min=1e-12)
        cosine = (vectors @ vectors[position]) / (lengths * lengths[position])
        cosine[position] = -torch.inf
        best = cosine.topk(n)
        return Recommendations(self.describe(best.indices.cpu().numpy(), best.values.cpu().numpy()))

    def encode(self, history: Iterable[Id]) -> Encoding:
        """Confidence per concept (how much of the history lies in it) and one component per concept."""
        raise self._without_components()

    def posterior(self, histories: sp.csr_array) -> Posterior:
        """Means and standard deviations of the components of many histories; one concept where there are none."""
        raise self._without_components()

    def _without_components(self) -> RequestError:
        return RequestError(f"{type(self).__name__} has no components; ask another model, such as macridvae")

    def save(self, folder: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Write a run. The folder appears whole or not at all.

        It holds weights, settings, items and log; axes and names, which a MacridVAE gets now if it has none; and the
        validation users of `fit` with the scores on them. For test users and baselines, too, see `macrid.train`.
        """
        from macrid.workflow import save

        save(self, folder, overwrite=overwrite)

    def histories(self, histories: Iterable[Iterable[Id]]) -> sp.csr_array:
        """Many histories of ids as users × items; unknown items are warned about and left aside."""
        return self.matrix([self.lookup(history, required=False)[0] for history in histories])

    def matrix(self, histories: Sequence[np.ndarray]) -> sp.csr_array:
        self.check_fitted()
        rows = np.repeat(np.arange(len(histories)), [len(history) for history in histories])
        return csr_from_pairs(rows, np.concatenate([*histories, np.zeros(0, int)]), (len(histories), len(self.items)))

    def lookup(self, history: Iterable[Id], required: bool = True) -> tuple[np.ndarray, list[Id]]:
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
            told = f"{_named(unknown)} not in the catalogue; {self.id_hint()}"
            if required and len(unknown) == len(ids):
                raise RequestError(f"no item of the history is known: {told}")
            warnings.warn(f"left aside: {told}", UnknownItemsWarning, stacklevel=3)
        return positions[positions >= 0], unknown

    def positions(self, ids: Iterable[Id], what: str) -> np.ndarray:
        self.check_fitted()
        ids = [ids] if isinstance(ids, str | int) else list(ids)
        positions = self.items.positions(ids)
        unknown = [value for value, position in zip(ids, positions, strict=True) if position < 0]
        if unknown:
            raise RequestError(f"{what}: {_named(unknown)} not in the catalogue; {self.id_hint()}")
        return positions

    def candidates(self, include: Iterable[Id] | None, exclude: Iterable[Id] | None) -> np.ndarray | None:
        if include is None and exclude is None:
            return None
        allowed = np.full(len(self.items), include is None)
        if include is not None:
            allowed[self.positions(include, "include")] = True
        if exclude is not None:
            allowed[self.lookup(exclude, required=False)[0]] = False
        return allowed

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
        return f"its ids are {kind} such as {', '.join(map(repr, self.items[:3]))}"

    def check_fitted(self) -> None:
        if not len(self.items):
            raise MacridError(f"this {type(self).__name__} has learned nothing yet; call fit, or macrid.load a run")


def min_rating_of(data: Interactions) -> float | None:
    return None if data.report is None else data.report.min_rating


def as_interactions(source: Interactions | sp.csr_array) -> Interactions:
    """Interactions as they are; the rows and columns of a scipy matrix become integer ids."""
    if isinstance(source, Interactions):
        return source
    if sp.issparse(source):
        matrix = sp.csr_array(source, copy=True)
        if not np.isfinite(matrix.data).all():
            raise DataError("the matrix holds values that are not numbers; every value must be finite")
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        users, items = (Ids.range(count) for count in matrix.shape)
        return Interactions.from_pairs(rows, matrix.indices, users, items)
    raise DataError(f"fit needs Interactions or a scipy CSR, not {type(source).__name__}; see Interactions.read")


def checked(train: Interactions | sp.csr_array, validation: HeldOut | None) -> Interactions:
    """The interactions, if they can be learned from and the held-out users belong to them."""
    data = as_interactions(train)
    if validation is not None and not isinstance(validation, HeldOut):
        raise DataError(f"validation is {type(validation).__name__}; give held-out users, such as split.validation")
    if validation is not None and validation.history.shape[1] != len(data.items):
        raise DataError(
            f"the validation users have {validation.history.shape[1]:,} items and the train users"
            f" {len(data.items):,}; take both from one split"
        )
    if validation is not None and validation.target.nnz == 0:
        raise DataError(
            "no validation user has anything to predict, which takes five items known from the train users;"
            " hold out more users, or fit without validation"
        )
    if len(data) == 0:
        raise DataError("there are no interactions to learn from")
    return data


def _named(ids: Sequence[Id]) -> str:
    return f"{first_few(ids)} {'is' if len(ids) == 1 else 'are'}"
