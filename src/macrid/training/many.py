"""Many small models at once: configurations of one shape, trained side by side on one GPU.

A small data set does not fill a GPU, and most of a search over settings is small models. Here their parameters get a
leading dimension and one program computes them all: the same batches of users, each model its own noise, its own
learning rate, beta, …, and its own early stopping. Models that have stopped leave the program when half have.
On a CPU, where nothing is gained, the models are trained one after the other.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import scipy.sparse as sp
import torch
from torch import Tensor, nn

from macrid.data.interactions import Interactions
from macrid.errors import SettingsError, TrainingError
from macrid.evaluation.ranking import evaluate
from macrid.models.base import checked
from macrid.models.devices import choose_device, explained, on_device
from macrid.models.neural import NeuralRecommender
from macrid.ops.sparse import backend_for
from macrid.settings import TrainingSettings
from macrid.training.average import Average
from macrid.training.batches import DeviceHistories
from macrid.training.loop import (
    Epoch,
    beta_of,
    check_fits,
    check_loss,
    check_weights,
    choose_precision,
    effective_concepts,
    epoch_seed,
)
from macrid.training.step import Captured, products

if TYPE_CHECKING:
    from macrid.data.split import HeldOut

SHAPE = (
    "concepts",
    "dim",
    "temperature",
    "hidden_layers",
    "width",
    "similarity",
)  # equal in all models, if they have it
TRAINING_SHAPE = (
    "batch_size",
    "epochs",
    "average",
    "balance",
    "likelihood",
    "precision",
    "device",
)  # equal in all trainings


def fit_many(
    models: Sequence[NeuralRecommender],
    train: Interactions | sp.csr_array,
    *,
    validation: HeldOut,
    training: Sequence[Mapping[str, Any]] | None = None,
    on_epoch: Callable[[int, Epoch], None] | None = None,
) -> list[TrainingError | None]:
    """Fit every model in place, as `model.fit` would, with the weights of its best epoch.

    training: the training settings of each model; batch size, epochs, average, balance, likelihood, precision and
        device must be the same for all, as must the class and shape of the models (concepts, dim, temperature,
        hidden layers, width, similarity).
        Everything else may differ: beta, prior_std, dropout, total_correlation, start, learning rate, l2, clip,
        beta_warmup, patience and seed. With the sampled likelihood, or concepts="auto", models are trained one after
        the other. Labels cannot be given here; fit such models one by one.
    on_epoch: called with the number of a model and its `Epoch`.
    Returns for every model None, or what made its training break off; the others are not disturbed by it.
    """
    if not models:
        return []
    given = training or [{}] * len(models)
    if len(given) != len(models):
        raise SettingsError(f"{len(given)} training settings were given for {len(models)} models; give one for each")
    if len({type(model) for model in models}) > 1:
        raise SettingsError("models trained side by side must be of one class; group them by it")
    settings = [
        TrainingSettings.make({**model.training_defaults, **values})
        for model, values in zip(models, given, strict=True)
    ]
    _check_equal([model.settings for model in models], SHAPE)
    _check_equal(settings, TRAINING_SHAPE)
    data = checked(train, validation)
    device = choose_device(settings[0].device)
    alone = settings[0].likelihood == "sampled" or getattr(models[0].settings, "concepts", None) == "auto"
    if alone or not _side_by_side(device):
        return [
            _fit_alone(number, model, data, validation, own, on_epoch)
            for number, (model, own) in enumerate(zip(models, settings, strict=True))
        ]
    with on_device(device), explained(models[0], settings[0], data.matrix.shape[0]):
        starts: dict[tuple[str, int], NeuralRecommender] = {}  # models with one seed start alike
        for model, own in zip(models, settings, strict=True):
            start = getattr(model.settings, "start", "random"), own.seed
            model.prepare(data, own, like=starts.get(start))
            starts.setdefault(start, model)
        check_fits(models[0])
        group = _Group(models, settings, data.matrix, validation, device, on_epoch)
        try:
            group.run()
        finally:
            group.finish()
    return group.errors


def _fit_alone(
    number: int,
    model: NeuralRecommender,
    data: Interactions,
    validation: HeldOut,
    settings: TrainingSettings,
    on_epoch: Callable[[int, Epoch], None] | None,
) -> TrainingError | None:
    tell = None if on_epoch is None else (lambda record: on_epoch(number, record))
    try:
        model.fit(data, validation=validation, on_epoch=tell, **settings.model_dump())
    except TrainingError as error:
        return error
    return None


@dataclass
class _Member:
    """One model of the group and how far it is."""

    number: int
    model: NeuralRecommender
    settings: TrainingSettings
    best: dict[str, Tensor] = field(default_factory=dict)
    best_epoch: int = 0
    best_score: float = -1.0


class _Group:
    """The models still in training, their stacked parameters and the moments of Adam."""

    def __init__(
        self,
        models: Sequence[NeuralRecommender],
        settings: Sequence[TrainingSettings],
        matrix: sp.csr_array,
        validation: HeldOut,
        device: torch.device,
        on_epoch: Callable[[int, Epoch], None] | None,
    ) -> None:
        self.members = [_Member(n, model, own) for n, (model, own) in enumerate(zip(models, settings, strict=True))]
        self.data = DeviceHistories(matrix, device, settings[0].balance)
        self.validation, self.on_epoch = validation, on_epoch
        self.generator, self.device = torch.Generator(device), device
        self.count = torch.zeros((), device=device)  # steps taken
        self.moments: list[tuple[Tensor, Tensor]] = []
        self.average: Average
        self.errors: list[TrainingError | None] = [None] * len(models)
        self._stack(range(len(models)))

    def run(self) -> None:
        settings = self.members[0].settings
        users = self.data.users
        for epoch in range(1, settings.epochs + 1):
            started = time.monotonic()
            self.generator.manual_seed(epoch_seed(settings.seed, epoch))
            betas = [beta_of(member.model, member.settings, epoch) for member in self.members]
            self.beta.copy_(torch.tensor(betas))
            batches = torch.randperm(users, generator=self.generator, device=self.device).split(
                settings.users_per_step(users)
            )
            losses = torch.stack([self.step(batch) * len(batch) for batch in batches]).double().sum(dim=0) / users
            self.average.update()
            with self.average.used():
                stopped = self._score(epoch, losses.tolist(), time.monotonic() - started)
            self.active.copy_(torch.tensor([float(not flag) for flag in stopped]))
            if all(stopped):
                break
            if sum(stopped) * 2 >= len(stopped):
                self._stack([place for place, flag in enumerate(stopped) if not flag])

    def finish(self) -> None:
        """Give the models tensors of their own again, those of their best epochs."""
        for member in self.members:
            self._finish(member)

    def _score(self, epoch: int, losses: list[list[float]], seconds: float) -> list[bool]:
        """Evaluate the models that still learn; which of all have stopped."""
        stopped = []
        for place, member in enumerate(self.members):
            if self.errors[member.number] or epoch - 1 - member.best_epoch >= member.settings.patience:
                stopped.append(True)
                continue
            try:
                check_loss(losses[place][0], epoch, member.model)
                check_weights(member.model, epoch)
            except TrainingError as error:
                self.errors[member.number] = error
                stopped.append(True)
                continue
            ndcg = evaluate(member.model, self.validation, ("ndcg@100",))["ndcg@100"].mean
            best = ndcg > member.best_score
            if best:
                member.best = {name: value.clone() for name, value in member.model.network.state_dict().items()}
                member.best_epoch, member.best_score = epoch, ndcg
            in_use = effective_concepts(member.model.network)
            loss, kl = losses[place]
            own = seconds / max(1, len(self.members) - sum(stopped))
            concepts = getattr(member.model.network, "concepts", None)
            record = Epoch(epoch, loss, kl, ndcg, in_use, best, own, concepts)
            member.model.log.append(record)
            if self.on_epoch is not None:
                self.on_epoch(member.number, record)
            stopped.append(epoch - member.best_epoch >= member.settings.patience)
        return stopped

    def _finish(self, member: _Member) -> None:
        best = member.best or member.model.network.state_dict()
        for name, parameter in member.model.network.named_parameters():
            parameter.data = best[name].clone()

    def _stack(self, places: Sequence[int] | range) -> None:
        """Go on with the models at these places only."""
        places = list(places)
        for place, member in enumerate(self.members):
            if place not in places:
                self._finish(member)
        which = torch.tensor(places, device=self.device)
        self.members = [self.members[place] for place in places]
        networks = [member.model.network for member in self.members]
        self.network = stacked(networks)
        average = Average(self.network, self.members[0].settings.average)
        if self.moments:
            self.moments = [(mean[which], square[which]) for mean, square in self.moments]
            average.weights = {name: value[which] for name, value in self.average.weights.items()}
        else:
            self.moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in self.network.parameters()]
        self.average = average
        for place, network in enumerate(networks):  # each model sees its part of the stacked tensors
            for own, whole in zip(network.parameters(), self.network.parameters(), strict=True):
                own.data = whole.data[place]
        first = self.members[0].settings
        self.network.precision = choose_precision(first.precision, self.device)
        self.rates, self.l2, self.clip = (
            torch.tensor([getattr(member.settings, name) for member in self.members], device=self.device)
            for name in ("learning_rate", "l2", "clip")
        )
        self.beta, self.active = torch.zeros_like(self.rates), torch.ones_like(self.rates)
        self.step = Captured(self._step, self.generator, self.device)

    def _step(self, users: Tensor) -> Tensor:
        """One step of all models; loss and KL of each: (models, 2)."""
        from macrid.ops.adam_triton import adam_models

        with products(self.network.precision, self.device):
            histories = self.data.batch(users)
            loss = self.network.loss(histories, self.network.draw_noise(histories, self.generator), self.beta)
            self.network.zero_grad(set_to_none=True)
            loss.total.sum().backward()
        parameters = list(self.network.parameters())
        gradients = [p.grad for p in parameters if p.grad is not None]
        norm = torch.stack([g.flatten(1).square().sum(dim=1) for g in gradients]).sum(dim=0).sqrt()
        scale = (norm / self.clip).clamp(min=1.0)
        self.count += 1
        for parameter, gradient, (mean, square) in zip(parameters, gradients, self.moments, strict=True):
            adam_models(parameter.data, mean, square, gradient, self.count, scale, self.rates * self.active, self.l2)
        return torch.stack([loss.total.detach(), loss.kl.detach()], dim=1)


def stacked(networks: Sequence[Any]) -> Any:
    """One network whose parameters have a leading dimension: (models, …)."""
    whole = copy.deepcopy(networks[0])
    parameters = [dict(network.named_parameters()) for network in networks]
    for name in parameters[0]:
        owner, _, attribute = name.rpartition(".")
        tensor = torch.stack([own[name].detach() for own in parameters])
        setattr(whole.get_submodule(owner), attribute, nn.Parameter(tensor))
    device = whole.item_vectors.device
    whole.prior_std = torch.tensor([float(network.prior_std) for network in networks], device=device)
    whole.dropout = torch.tensor([float(network.dropout) for network in networks], device=device)
    if any(getattr(network, "total_correlation", 0.0) for network in networks):
        whole.total_correlation = torch.tensor([network.total_correlation for network in networks], device=device)
    return whole


def _side_by_side(device: torch.device) -> bool:
    return backend_for(torch.empty(0, device=device)) == "triton"


def _check_equal(settings: Sequence[Any], names: Sequence[str]) -> None:
    for name in names:
        values = {getattr(own, name, None) for own in settings}
        if len(values) > 1:
            told = ", ".join(map(repr, sorted(values, key=repr)[:3]))
            raise SettingsError(f"models trained side by side must have the same {name}, not {told}; group them by it")
