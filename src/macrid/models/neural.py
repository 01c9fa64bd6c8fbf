"""What all recommenders with a torch network share: fit, encode, posterior, device."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from os import PathLike
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from macrid.data.ids import Id, Ids
from macrid.data.interactions import Interactions
from macrid.errors import SettingsError
from macrid.models.base import Recommender, checked, min_rating_of
from macrid.models.devices import choose_device, explained, on_device
from macrid.models.epoch import Epoch, shown_on, summary
from macrid.models.memory import check_memory
from macrid.models.neighbours import Neighbours
from macrid.models.results import Encoding, Posterior
from macrid.models.warm import training_from
from macrid.ops.shards import leads
from macrid.ops.sparse import Histories
from macrid.ops.topk import BLOCK, Decoder, Mixture, pairs, top
from macrid.progress import watched
from macrid.settings import TrainingKeywords, TrainingSettings, takes

if TYPE_CHECKING:
    from macrid.data.labels import Labels
    from macrid.data.split import HeldOut

ENCODED = 1 << 22  # numbers in the components of users ranked at once


class NeuralRecommender(Recommender):
    """A recommender with a torch network, trained by the training loop."""

    has_epochs = True
    has_components = True
    score_name = "log p"
    network: Any
    cached: Any = None
    """Anything computed from the weights, until they change."""
    kept_decoder: tuple[tuple[Any, ...], Decoder] | None = None
    """With the version of the weights it was computed from."""
    is_training: bool = False
    neighbours: Neighbours | None = None
    """The linear part of the scores, if any."""
    settled: dict[str, Any] | None = None
    """What training chose where its settings leave a choice: the likelihood, and negatives if it is sampled."""
    started_from: Any = None
    """The earlier model that the training starts or has started from, until its names are carried over."""

    @abstractmethod
    def _build(self, items: int) -> nn.Module:
        """The network for this many items."""

    @abstractmethod
    def _start(self, matrix: sp.csr_array, seed: int) -> None:
        """Initialise the network's parameters."""

    def _await_start(self) -> None:
        """What to do instead while the first of several processes initialises the parameters."""

    @property
    @abstractmethod
    def decoder(self) -> Decoder:
        """Turns components into item scores."""

    @abstractmethod
    def _mixture(self, histories: sp.csr_array, decoder: Decoder) -> Mixture:
        """What the decoder turns into scores."""

    @abstractmethod
    def confidence(self, histories: sp.csr_array) -> np.ndarray:
        """How much of each history lies in each concept: (users, concepts)."""

    @abstractmethod
    def _posterior(self, histories: Histories) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the components, both (batch, concepts, dim)."""

    def read_labels(self, source: Any, items: Ids) -> Labels:
        """Labels of these items, checked."""
        raise SettingsError(f"{type(self).__name__} has no concepts to label; remove labels, or train a MacridVAE")

    @takes(TrainingSettings)
    def fit(
        self,
        train: Interactions | sp.csr_array,
        *,
        validation: HeldOut | None = None,
        labels: Any = None,
        warm_start: Recommender | None = None,
        checkpoint: str | PathLike[str] | None = None,
        resume: bool = False,
        on_epoch: Callable[[Epoch], None] | None = None,
        on_step: Callable[[int, int], None] | None = None,
        progress: bool | None = None,
        **training: Unpack[TrainingKeywords],
    ) -> Self:
        """Train, and keep the weights of the epoch with the best validation NDCG@100.

        validation: held-out users over the same items; without them training runs for all epochs.
        labels: of some items, {"concept": {item: name}, attribute: {item: number}}, or a table or file with a column of
            item ids; see `macrid.data.labels`.
        warm_start: an earlier MacridVAE to start from, over much the same items. Its settings are the defaults, with a
            shorter schedule; concepts keep their numbers, and `save` keeps names and axes as far as they still fit.
        checkpoint: a folder for checkpoints; `resume=True` continues from the last one.
        on_epoch: called with an `Epoch` after each epoch, such as `print`; on_step with (steps done, steps per epoch).
        progress: show a bar; by default in a notebook, unless on_epoch or on_step is given.
        training: the fields of `macrid.settings.TrainingSettings`: epochs, batch_size, learning_rate, seed, device, …
        In processes started by torchrun, all call `fit` with the same arguments; the first one has the model then.
        """
        from macrid.training.loop import check_together, join, losses_explained
        from macrid.training.loop import train as train_network

        data = checked(train, validation)
        if warm_start is not None:
            self.check_warm_start(warm_start)
            training = training_from(warm_start, training)  # type: ignore[assignment]
        self.started_from = warm_start
        settings = self.training_settings(training)
        ranks = join(settings.device)
        with (
            losses_explained(ranks),
            on_device(choose_device(settings.device)),
            explained(self, settings, data.matrix.shape[0]),
            watched(progress, is_watched=on_epoch is not None or on_step is not None) as bar,
        ):
            checked_labels = None if labels is None else self.read_labels(labels, data.items)
            check_together(self, data.matrix, validation, settings)
            self.prepare(data, settings)
            self.validation, self.min_rating = validation, min_rating_of(data)
            if bar is not None:
                on_epoch, on_step = shown_on(bar, self, settings.epochs, on_epoch, on_step)
            self.is_training = True
            try:
                train_network(
                    self, data.matrix, validation, settings, labels=checked_labels, checkpoint=checkpoint,
                    resume=resume, on_epoch=on_epoch, on_step=on_step,
                )  # fmt: skip
            finally:
                self.is_training = False
            if bar is not None and self.log:
                bar.show(f"{len(self.log)} epochs", 1, 1, summary(self.log))
            if ranks.leads:
                self._after_training()
        return self

    def check_warm_start(self, old: Any) -> None:
        """A `SettingsError` if training cannot start from an earlier model."""
        raise SettingsError(f"a {type(self).__name__} has no warm start; train a MacridVAE, or start afresh")

    def _after_training(self) -> None:
        """Whatever a model does with its trained weights."""

    def prepare(self, data: Interactions, training: TrainingSettings) -> None:
        """Set up an untrained network."""
        self.training = training
        device = choose_device(training.device)
        check_memory(self, len(data.users), -(-len(data.items) // training.item_shards), training, device)
        self.items, self.table, self.popularity = data.items, data.table, data.popularity
        self.network = self._build(len(data.items))
        if leads():
            self._start(data.matrix, training.seed)
        else:
            self._await_start()
        if training.item_shards == 1:  # otherwise it may be too large for one
            self.network.to(device)
        self.log = []
        self._forget()

    @property
    def device(self) -> torch.device:
        self.check_fitted()
        return next(self.network.parameters()).device

    def to(self, device: str) -> Self:
        self.check_fitted()
        self.network.to(choose_device(device))
        self._forget()
        return self

    @torch.no_grad()
    def scores(self, histories: sp.csr_array) -> Tensor:
        with on_device(self.device):
            decoder = self.decoder
            return decoder.log_probabilities(self._mixture(histories, decoder))

    @torch.no_grad()
    def rank(
        self, histories: sp.csr_array, n: int, hidden: sp.csr_array | None = None, allowed: np.ndarray | None = None
    ) -> tuple[Tensor, Tensor]:
        decoder, device = self.decoder, self.device
        chosen = None if allowed is None else torch.from_numpy(allowed).to(device)
        at_once = ENCODED // (decoder.log_assignment.shape[1] * decoder.items.shape[1])
        if self.neighbours is not None:  # they give a number for every user and item
            at_once = min(at_once, BLOCK[device.type] // len(self.items))
        positions, log_p = [torch.empty(0, n, dtype=torch.long, device=device)], [decoder.items.new_empty(0, n)]
        with on_device(device):
            for start in range(0, histories.shape[0], max(1, at_once)):
                users = slice(start, start + max(1, at_once))
                mixture = self._mixture(histories[users], decoder)
                own = None if hidden is None else pairs(hidden[users], device)
                best = top(decoder, mixture, n, hidden=own, allowed=chosen)
                positions.append(best[0])
                log_p.append(best[1])
        return torch.cat(positions), torch.cat(log_p)

    def encode(self, history: Iterable[Id]) -> Encoding:
        histories = self.matrix([self.lookup(history)[0]])
        return Encoding(self.confidence(histories)[0], self.posterior(histories).mean[0])

    def posterior(self, histories: sp.csr_array) -> Posterior:
        with on_device(self.device):
            mean, std = self._posterior(self.to_device(histories))
        return Posterior(mean.cpu().numpy(), std.cpu().numpy())

    def state(self) -> dict[str, Tensor]:
        self.check_fitted()
        return {name: value.detach().cpu().contiguous() for name, value in self.network.state_dict().items()}

    def load_state(self, state: dict[str, Tensor]) -> None:
        self.network = self._build(len(self.items))
        self.network.load_state_dict(state, assign=True)  # no copy: the tensors may be memory-mapped
        self.network.requires_grad_(True)
        self._forget()

    def version(self) -> tuple[tuple[int, int], ...]:
        """Changes with the weights, except in training, when a GPU replays a recorded step."""
        return tuple((table.data_ptr(), table._version) for table in self.network.parameters())

    def _forget(self) -> None:
        self.cached = self.kept_decoder = None
