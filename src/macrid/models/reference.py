"""Baselines: EASE (Steck 2019), computed in one step, and popularity, the same for everyone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self, Unpack

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from torch import Tensor

from macrid.data.interactions import Interactions, are_weighted
from macrid.errors import RequestError, TrainingError
from macrid.models.base import Recommender, checked, min_rating_of
from macrid.models.devices import choose_device, memory_left, on_device
from macrid.ops.batches import relative
from macrid.ops.topk import BLOCK, pairs
from macrid.settings import (
    EASEKeywords,
    EASESettings,
    PopularityKeywords,
    PopularitySettings,
    TrainingKeywords,
    TrainingSettings,
    takes,
)

if TYPE_CHECKING:
    from macrid.data.split import HeldOut


class ClosedForm(Recommender):
    """A model computed in one step instead of trained in epochs."""

    falls_back = True
    _tensors: dict[str, Tensor]

    @takes(TrainingSettings)
    def fit(
        self,
        train: Interactions | sp.csr_array,
        *,
        validation: HeldOut | None = None,
        progress: bool | None = None,
        **training: Unpack[TrainingKeywords],
    ) -> Self:
        """Compute the model.

        validation: only checked, as there are no epochs to choose from.
        progress: without effect, likewise.
        training: the fields of `macrid.settings.TrainingSettings`, of which only device has an effect.
        """
        data = checked(train, validation)
        settings = self.training_settings(training)
        device = choose_device(settings.device)
        with on_device(device):
            self._tensors = self._solve(relative(data.matrix), device)
        self.items, self.table, self.popularity = data.items, data.table, data.popularity
        self.training, self.log = settings, []
        self.validation, self.min_rating = validation, min_rating_of(data)
        return self

    def _solve(self, matrix: sp.csr_array, device: torch.device) -> dict[str, Tensor]:
        """The model's tensors from users × items."""
        values = matrix.data if are_weighted(matrix) else None
        shares = np.bincount(matrix.indices, values, minlength=matrix.shape[1]) / matrix.shape[0]
        return {"shares": torch.from_numpy(shares.astype(np.float32)).to(device)}

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"shares": (len(self.items),)}

    @property
    def shares(self) -> Tensor:
        """(items,) the share of train users who have each item; with weights, those of their interactions."""
        return self._tensors["shares"]

    @property
    def device(self) -> torch.device:
        self.check_fitted()
        return self.shares.device

    def to(self, device: str) -> Self:
        self.check_fitted()
        place = choose_device(device)
        self._tensors = {name: value.to(place) for name, value in self._tensors.items()}
        return self

    def state(self) -> dict[str, Tensor]:
        self.check_fitted()
        return {name: value.cpu().contiguous() for name, value in self._tensors.items()}

    def load_state(self, state: dict[str, Tensor]) -> None:
        shapes = {name: tuple(value.shape) for name, value in state.items()}
        if shapes != self._shapes():
            raise ValueError(f"model.safetensors holds {shapes} instead of {self._shapes()}")
        self._tensors = {name: value.float() for name, value in state.items()}


class EASE(ClosedForm):
    """Embarrassingly shallow autoencoder: X ≈ X B, where no item may explain itself.

    min |X − X B|² + regularisation |B|² with diag(B) = 0 has the solution B = −P / diag(P) outside the diagonal,
    P = (XᵀX + regularisation I)⁻¹. A score predicts the entry of X, mostly between 0 and 1.
    """

    settings_class = EASESettings
    settings: EASESettings

    @takes(EASESettings)
    def __init__(self, **settings: Unpack[EASEKeywords]) -> None:
        super().__init__(**settings)

    @property
    def weights(self) -> Tensor:
        """(items, items) how much the row's item speaks for the column's item [B]."""
        return self._tensors["weights"]

    def scores(self, histories: sp.csr_array) -> Tensor:
        """X B; the shares of the items for an empty history."""
        batch = self.to_device(histories)
        with on_device(self.device):
            items, offsets = batch.items.long(), F.pad(batch.stops, (1, 0))
            scores = F.embedding_bag(
                items, self.weights, offsets, mode="sum", per_sample_weights=batch.values, include_last_offset=True
            )
            return torch.where(batch.counts[:, None] > 0, scores, self.shares)

    def _solve(self, matrix: sp.csr_array, device: torch.device) -> dict[str, Tensor]:
        return {
            "weights": ease_weights(matrix, device, self.settings.regularisation),
            **super()._solve(matrix, device),
        }

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {"weights": (len(self.items), len(self.items)), **super()._shapes()}

    def item_vectors(self) -> Tensor:
        return self.weights


class Popularity(ClosedForm):
    """The most popular items for everyone. A score is the share of train users who have the item."""

    settings_class = PopularitySettings

    @takes(PopularitySettings)
    def __init__(self, **settings: Unpack[PopularityKeywords]) -> None:
        super().__init__(**settings)

    def scores(self, histories: sp.csr_array) -> Tensor:
        return self.shares.repeat(self.to_device(histories).batch, 1)

    def item_vectors(self) -> Tensor:
        raise RequestError("popularity has no similar items; use another model, such as ease or macridvae")


def ease_weights(matrix: sp.csr_array, device: torch.device, regularisation: float) -> Tensor:
    """B of EASE: (items, items)."""
    dtype = _precision(matrix.shape[1], device)
    inverse = _inverse_by_users if 3 * matrix.shape[0] < matrix.shape[1] else _inverse
    try:
        p = inverse(matrix, regularisation, dtype, device)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        p = torch.full((1, 1), torch.nan)
    weights = p.div_(-p.diagonal().clone()).float()
    if not weights.isfinite().all():
        raise TrainingError(f"regularisation is {regularisation:g}, too low for this data; raise it")
    weights.diagonal().zero_()
    return weights


def _precision(items: int, device: torch.device) -> torch.dtype:
    """Double if matrices of items × items fit in memory, else single; an error if these do not fit either."""
    left = memory_left(device)
    for dtype in (torch.float64, torch.float32):
        needed = (3 if device.type == "cuda" else 2) * dtype.itemsize * items**2  # inverting on a GPU makes copies
        if needed <= left:
            return dtype
    raise TrainingError(
        f"EASE stores a number for every pair of items: {items:,} items need {needed / 2**30:,.1f} GiB, but"
        f" {left / 2**30:,.1f} GiB is free on {device}; keep fewer items, or choose another model or start"
    )


def _inverse(matrix: sp.csr_array, regularisation: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """P = (XᵀX + regularisation I)⁻¹ by a Cholesky factorisation in place: (items, items)."""
    p = gram(matrix, device).to(dtype)
    p.diagonal().add_(regularisation)
    torch.linalg.cholesky(p, out=p)
    return torch.cholesky_inverse(p, out=p)


def _inverse_by_users(matrix: sp.csr_array, regularisation: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The same as (I − WᵀW) / regularisation, W = L⁻¹X, LLᵀ = XXᵀ + regularisation I: faster for few users."""
    factor = gram(matrix.T.tocsr(), device).to(dtype)  # (users, users)
    factor.diagonal().add_(regularisation)
    factor = torch.linalg.cholesky(factor)
    x = torch.zeros(matrix.shape, dtype=dtype, device=device)
    x[pairs(matrix, device)] = torch.from_numpy(matrix.data).to(x)
    w = torch.linalg.solve_triangular(factor, x, upper=False)
    del factor, x
    p = (w.t() @ w).neg_()
    p.diagonal().add_(1)
    return p.div_(regularisation)


def gram(matrix: sp.csr_array, device: torch.device) -> Tensor:
    """XᵀX in single precision, which holds counts of users exactly: (columns, columns)."""
    users, items = matrix.shape
    gram = torch.zeros(items, items, device=device)
    if device.type == "cuda":
        at_once = max(1, BLOCK["cuda"] // items)
        for start in range(0, users, at_once):
            part = matrix[start : start + at_once]
            block = torch.zeros(part.shape, device=device)
            block[pairs(part, device)] = torch.from_numpy(part.data).to(block)
            gram.addmm_(block.t(), block)
        return gram
    by_item = matrix.T.tocsr()
    at_once = max(1, BLOCK["cpu"] // items)

    def fill(start: int) -> None:
        (by_item[start : start + at_once] @ matrix).toarray(out=gram[start : start + at_once].numpy())

    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        list(pool.map(fill, range(0, items, at_once)))  # raises what went wrong
    return gram
