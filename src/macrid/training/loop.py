"""The training loop: Adam, early stopping on validation NDCG@100, checkpoints."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from macrid.errors import CollapseWarning, RunError, SettingsError, TrainingError
from macrid.evaluation.agreement import is_collapsed
from macrid.files import claimed
from macrid.models.devices import choose_device
from macrid.models.epoch import Epoch
from macrid.models.warm import digest_of
from macrid.ops import kernels
from macrid.ops.ahead import compile_ahead
from macrid.ops.partition import Precision
from macrid.ops.shards import WHOLE
from macrid.ops.streaming import histories_on
from macrid.settings import TrainingSettings
from macrid.training import adaptive
from macrid.training import checkpoint as checkpoints
from macrid.training.adam import Adam
from macrid.training.average import Average
from macrid.training.distributed import check_together, current, join, losses_explained
from macrid.training.interrupts import no_lost_interrupts
from macrid.training.likelihoods import described, has_stalled, likelihood_for, settled
from macrid.training.linear import add_neighbours
from macrid.training.mesh import Mesh, become_whole
from macrid.training.parallel import DividedHistories, ParallelStep
from macrid.training.step import Step
from macrid.training.supervision import supervised
from macrid.training.validation import validation_ndcg

if TYPE_CHECKING:
    from macrid.data.labels import Labels
    from macrid.data.split import HeldOut
    from macrid.models.neural import NeuralRecommender

__all__ = ["check_together", "join", "losses_explained", "train"]

LARGEST_DIM = 512  # of the kernels
CHECKPOINT_SECONDS = 2.0  # at least, between two checkpoints
REHEARSED = 8  # users
STEPS_BETWEEN_CHECKS = 50  # of the loss for NaN on a CPU; on a GPU, where a check has to wait, once per epoch


def train(
    model: NeuralRecommender,
    matrix: sp.csr_array,
    validation: HeldOut | None,
    settings: TrainingSettings,
    *,
    labels: Labels | None = None,
    checkpoint: str | PathLike[str] | None = None,
    resume: bool = False,
    on_epoch: Callable[[Epoch], None] | None = None,
    on_step: Callable[[int, int], None] | None = None,
) -> None:
    """Train `model.network` in place and fill `model.log`; the best weights are kept even if interrupted.

    In several processes, all call this together, and the first one has the result.
    """
    folder = None if checkpoint is None else Path(checkpoint)
    check_fits(model)
    ranks, mesh = current(), _meet(model, matrix, settings)
    with (
        supervised(model, labels, matrix, settings),
        nullcontext() if folder is None or not ranks.leads else claimed(folder / checkpoints.FILE, RunError),
        no_lost_interrupts() as check_interrupt,
    ):
        network: Any = model.network
        if mesh is not None:
            mesh.divide(network)
        network.precision = choose_precision(settings.precision, model.device)
        network.scratch = settings.scratch_mib << 18  # numbers of four bytes
        optimiser = Adam(network.parameters(), settings.learning_rate, settings.l2)
        data = _data(matrix, model.device, settings, mesh)
        about = {"model": type(model).__name__, "labels": None if labels is None else labels.digest()}
        if model.started_from is not None:
            about["warm_start"] = digest_of(model.started_from)
        belongs_to = checkpoints.fingerprint(
            {"train": matrix} if validation is None else {"train": matrix, "validation": validation.target},
            {**about, **model.settings.model_dump(), **settings.model_dump()},
        )
        state = checkpoints.State(network, optimiser, Average(network, settings.average), belongs_to)
        progress = state.progress
        if model.started_from is not None:
            state.average.update()  # half of the start was learned
        if folder is not None and not resume and ranks.leads:
            checkpoints.remove(folder)
        elif folder is not None and resume:
            progress = checkpoints.read(folder, state, WHOLE if mesh is None else mesh.shards)
            model.log = [Epoch(**line) for line in progress.log]
            _check_progress(ranks.share(progress.epoch), progress.epoch, folder)
        progress.likelihood = progress.likelihood or ranks.share(
            likelihood_for(network, matrix, settings, model.device) if ranks.leads else None
        )
        was_chosen = settings.likelihood == "auto" and progress.likelihood == "sampled"
        settings = settled(settings, progress.likelihood, matrix.shape[1])
        model.settled = described(settings)
        step = _step(network, optimiser, data, torch.Generator(model.device), settings, mesh)
        if mesh is None:
            compile_ahead(partial(_rehearse, model, step, validation), model.device)

        written, adapts = -math.inf, getattr(model.settings, "concepts", None) == "merge"
        try:
            while progress.epoch < settings.epochs and progress.epoch - progress.best_epoch < settings.patience:
                if was_chosen and has_stalled([record.ndcg for record in model.log]):
                    break
                started = time.monotonic()
                epoch = progress.epoch + 1
                loss, kl = _run_epoch(model, step, epoch, on_step, check_interrupt)
                _check_weights(model, epoch, mesh)
                may_merge = adapts and not adaptive.settled([record.concepts or 0 for record in model.log])
                if may_merge and adaptive.merge_alike(network, optimiser, model.settings.merge_below):
                    step = _step(network, optimiser, data, step.generator, settings, mesh)
                    state.average.weights.pop("prototypes", None)
                    progress.best_score = -1.0  # the best was for another number of concepts
                state.average.update()
                with state.average.used():
                    ndcg = None if validation is None else validation_ndcg(model, validation, mesh)
                    is_best = ndcg is None or ndcg > progress.best_score
                    if is_best:
                        state.best = {name: value.detach().clone() for name, value in network.state_dict().items()}
                        progress.best_epoch, progress.best_score = epoch, -1.0 if ndcg is None else ndcg
                    in_use = _effective_concepts(network)
                seconds, concepts = time.monotonic() - started, getattr(network, "concepts", None)
                record = Epoch(epoch, loss, kl, ndcg, in_use, is_best, seconds, concepts)
                model.log.append(record)
                progress.log.append(asdict(record))
                progress.epoch = epoch
                if on_epoch is not None:
                    on_epoch(record)
                if folder is not None and ranks.share(time.monotonic() - written > CHECKPOINT_SECONDS):
                    checkpoints.write(folder, state, mesh)
                    written = time.monotonic()
            if folder is not None:
                checkpoints.write(folder, state, mesh)
        except BaseException:
            if mesh is not None and mesh.leads and not mesh.shards.is_whole:
                _restore_whole(model, folder, state)
            raise
        finally:
            if state.best:
                network.load_state_dict(state.best)
    if mesh is not None:
        mesh.collect(network)
    if not ranks.leads:
        return
    add_neighbours(model, matrix, validation)
    _warn_of_collapse(model)


def _meet(model: NeuralRecommender, matrix: sp.csr_array, settings: TrainingSettings) -> Mesh | None:
    """The place of this process among others; None if it is alone."""
    ranks, network = current(), model.network
    if ranks.size == 1:
        return None
    concepts = ranks.share(getattr(network, "concepts", None))  # the first process has chosen their number
    if concepts is not None and not ranks.leads:
        network.prototypes.data = network.prototypes.data.new_empty(concepts, network.prototypes.shape[1])
    return Mesh(matrix.shape[1], settings.item_shards, choose_device(settings.device))


def _data(matrix: sp.csr_array, device: torch.device, settings: TrainingSettings, mesh: Mesh | None) -> Any:
    if mesh is None:
        return histories_on(matrix, device, settings.balance, settings.interactions_mib)
    return DividedHistories(matrix, device, settings.balance, mesh.shards)


def _step(
    network: Any, optimiser: Adam, data: Any, generator: torch.Generator, settings: TrainingSettings, mesh: Mesh | None
) -> Step | ParallelStep:
    if mesh is None:
        return Step(network, optimiser, data, generator, settings)
    return ParallelStep(network, optimiser, data, generator, settings, mesh)


def _check_progress(first: int, own: int, folder: Path) -> None:
    if first != own:
        raise RunError(
            f"{folder}: rank {current().rank} sees a checkpoint of epoch {own}, rank 0 one of epoch {first}; all"
            " processes need the same folder, such as on a shared disk"
        )


def _restore_whole(model: NeuralRecommender, folder: Path | None, state: checkpoints.State) -> None:
    """After an interruption, with the items divided: the best weights of the last checkpoint, if there is one."""
    best, log = ({}, []) if folder is None else checkpoints.read_best(folder)
    state.best, model.log = {}, [Epoch(**line) for line in log] if best else []
    for name, parameter in model.network.named_parameters():
        parameter.data = best.get(name, parameter.data).to(parameter.device)
    become_whole(model.network, model.device)


def _rehearse(model: NeuralRecommender, step: Any, validation: HeldOut | None) -> None:
    """Whatever launches the kernels of an epoch, which must not be launched: they would change the weights."""
    users = torch.arange(step.settings.users_per_step(step.data.users), device=model.device)
    step.rehearsal()(users)
    model.network.zero_grad()
    if validation is not None:
        model.top(validation.history[:REHEARSED], 1)


def _run_epoch(
    model: NeuralRecommender,
    step: Step | ParallelStep,
    epoch: int,
    on_step: Callable[[int, int], None] | None,
    check_interrupt: Callable[[], None],
) -> tuple[float, float]:
    """One pass over the train users; returns mean loss and KL per user."""
    settings, users, device = step.settings, step.data.users, model.device
    generator = step.generator.manual_seed(epoch_seed(settings.seed, epoch))
    step.beta.fill_(beta_of(model, settings, epoch))
    batches = torch.randperm(users, generator=generator, device=device).split(settings.users_per_step(users))
    sizes = step.data.sizes(batches) if settings.likelihood == "sampled" else [None] * len(batches)
    step.data.plan(batches)
    losses: list[Tensor] = []
    for number, (batch, size) in enumerate(zip(batches, sizes, strict=True), start=1):
        check_interrupt()
        losses.append(step(batch, size) * len(batch))
        if number == len(batches) or (device.type == "cpu" and number % STEPS_BETWEEN_CHECKS == 0):
            _check_finite(losses, epoch, len(batches), model)
        if on_step is not None:
            on_step(number, len(batches))
    total, kl = (torch.stack(losses).double().sum(dim=0) / users).tolist()
    return total, kl


def _check_finite(losses: list[Tensor], epoch: int, steps: int, model: NeuralRecommender) -> None:
    """Stop training if a loss is not finite; only the weights of the best epoch remain usable."""
    bad = (~torch.isfinite(torch.stack(losses)[:, 0])).nonzero()
    if len(bad):
        step = int(bad[0]) + 1
        _stop(
            f"the loss became {float(losses[step - 1][0]):g} in epoch {epoch}, step {step} of {steps}"
            f" (step {(epoch - 1) * steps + step} overall)",
            model,
        )


def _check_weights(model: NeuralRecommender, epoch: int, mesh: Mesh | None) -> None:
    """The last step of an epoch can overflow the weights after the last loss was computed."""
    overflow = not all(torch.isfinite(parameter.norm()) for parameter in model.network.parameters())
    if overflow if mesh is None else mesh.any(overflow):
        _stop(f"weights overflowed in the last step of epoch {epoch}", model)


def _stop(problem: str, model: NeuralRecommender) -> NoReturn:
    scored = [record.epoch for record in model.log if record.best]
    kept = f"the weights of epoch {scored[-1]} are kept" if scored else "no epoch was finished"
    raise TrainingError(f"{problem}; {kept}. Try a smaller learning rate, or a higher temperature")


def choose_precision(precision: Literal["auto"] | Precision, device: torch.device) -> Precision:
    """ "auto" is bf16 where the hardware has it."""
    if precision != "auto":
        return precision
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    return "bf16" if torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported() else "fp32"


def check_fits(model: NeuralRecommender) -> None:
    """On a GPU, kernels hold a whole vector on the chip, which limits dim; concept shares need one dimension more."""
    dim, limit = getattr(model.settings, "dim", 0), LARGEST_DIM
    if getattr(model.settings, "concept_shares", None) == "on":
        limit -= 1
    if dim > limit and kernels.serve(model.network.item_vectors):
        raise SettingsError(f"dim is {dim}; the limit on a GPU is {limit}; lower it, or train on the CPU")


def beta_of(model: NeuralRecommender, settings: TrainingSettings, epoch: int) -> float:
    """Beta in this epoch, which grows during warm-up."""
    beta = getattr(model.settings, "beta", 0.0)
    return beta * (min(1.0, epoch / settings.beta_warmup) if settings.beta_warmup else 1.0)


def epoch_seed(seed: int, epoch: int) -> int:
    return int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0] >> 1)


def _effective_concepts(network: Any) -> float | None:
    return network.effective_concepts() if hasattr(network, "effective_concepts") else None


def _warn_of_collapse(model: NeuralRecommender) -> None:
    in_use = _effective_concepts(model.network)
    concepts = getattr(model.network, "concepts", 1)
    if in_use is not None and is_collapsed(in_use, concepts):
        other = (("similarity", "inner", "cosine"), ("start", "random", "svd"))
        remedies = [
            f"{name}='{better}'" for name, worse, better in other if getattr(model.settings, name, None) == worse
        ]
        remedies += ["a smaller learning rate", "another seed", f"about {max(1, round(in_use))} concepts"]
        warnings.warn(
            f"only {in_use:.1f} of {concepts} concepts are effectively used; try {', '.join(remedies[:-1])}, or"
            f" {remedies[-1]}",
            CollapseWarning,
            stacklevel=4,
        )
