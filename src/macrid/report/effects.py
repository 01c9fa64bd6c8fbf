"""What knobs do, measured in a bounded time and kept with a run; and what a large share does to a list."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import scipy.sparse as sp
import torch

from macrid.blas import one_blas_thread
from macrid.concepts.effects import KnobEffect
from macrid.concepts.meaning import meaning_of
from macrid.concepts.space import Space, draw, space_of
from macrid.control.state import faded, weight_change
from macrid.data.ids import Ids
from macrid.data.split import HeldOut
from macrid.errors import RequestError
from macrid.models.macridvae import MacridVAE
from macrid.ops.topk import Mixture, pairs, top
from macrid.report.controllability import MOST_LISTED, POSITIONS, measure
from macrid.report.knobs import Knob, knobs_of, named_knobs

WORK = 1.5e11  # multiplications: about 10 s on one core
MOST_ENCODED = 2000  # users, to choose from
MOST_USERS = 100  # for each knob
FEWEST_USERS = 30  # for each knob; if that is too much work, the last knobs are left out
CARDS = 24  # that the studio shows
LARGE_SHARE = 0.9
OLDEST = 7  # warm starts after which effects are measured again


@one_blas_thread
def measure_effects(
    model: MacridVAE, heldout: HeldOut | None = None, *, earlier: MacridVAE | None = None, seed: int = 0
) -> None:
    """Find out what every knob does to held-out users, and keep it in the model's meaning.

    heldout: validation users; by default the histories that the model keeps, without accuracy. Nothing is kept if there
    are no knobs, or too few users to measure them.
    earlier: the model that this one started from. Effects of knobs that both have are taken from there, unless they
    are OLDEST warm starts old.
    """
    meaning, space = meaning_of(model), space_of(model)
    meaning.effects = ()
    if heldout is None:
        if model.sample is None:
            return
        heldout = HeldOut(model.sample, sp.csr_array(model.sample.shape), Ids.range(model.sample.shape[0]))
    taken = {} if earlier is None else _taken_over(model, earlier)
    known = {column.name for column in space_of(earlier).columns} if earlier is not None and taken else set()
    knobs = [knob for knob in knobs_of(model, without=known) if _key(knob) not in taken]
    knobs, users = _affordable(space, knobs)
    if knobs:
        chosen = draw(np.arange(heldout.history.shape[0]), MOST_ENCODED, np.random.default_rng(seed))
        heldout = HeldOut(heldout.history[chosen], heldout.target[chosen], Ids.range(len(chosen)))
        with suppress(RequestError):  # too few users
            meaning.effects = measure(model, heldout, knobs, most_users=users, chance=False, seed=seed).knobs
    order = [None, *range(space.concepts)]
    effects = (*taken.values(), *meaning.effects)
    meaning.effects = tuple(sorted(effects, key=lambda effect: order.index(effect.concept)))


def _taken_over(model: MacridVAE, earlier: MacridVAE) -> dict[tuple[str, int | None, str], KnobEffect]:
    """Effects of knobs that are still there, one warm start older; none if some are too old."""
    effects = meaning_of(earlier).effects
    if any(effect.age >= OLDEST for effect in effects):
        return {}
    columns = {column.name for column in space_of(model).columns}
    here = {_key(knob) for knob in named_knobs(model)}
    return {
        _key(effect): effect.model_copy(update={"age": effect.age + 1})
        for effect in effects
        if _key(effect) in here or (effect.concept is None and effect.name in columns)
    }


def _key(knob: Knob | KnobEffect) -> tuple[str, int | None, str]:
    """Identifies a knob by its attribute, concept and axis."""
    return (knob.column.name if isinstance(knob, Knob) else knob.name), knob.concept, knob.axis


def _affordable(space: Space, knobs: Sequence[Knob]) -> tuple[list[Knob], int]:
    """As many knobs, in order, as `WORK` allows, and the number of users for each."""
    items = len(space.concept_of)
    listed = [min(MOST_LISTED, items if knob.concept is None else len(space.members(knob.concept))) for knob in knobs]
    retained = 2 * min(MOST_LISTED, items)
    work = np.cumsum([(POSITIONS * count + retained) * space.concepts * space.dim for count in listed])  # per user
    count = int(np.searchsorted(work, WORK / FEWEST_USERS, side="right"))
    return list(knobs[:count]), int(min(MOST_USERS, WORK / work[count - 1])) if count else 0


@torch.no_grad()
def cards_of_share(
    model: MacridVAE,
    histories: sp.csr_array,
    *,
    share: float = LARGE_SHARE,
    cards: int = CARDS,
    most_users: int = 300,
    seed: int = 0,
) -> np.ndarray:
    """How many of the best unseen items are in a concept with this share of the probability: (concepts,).

    Means over users; NaN for a concept without items.
    """
    space = space_of(model)
    users = draw(np.arange(histories.shape[0]), most_users, np.random.default_rng(seed))
    z, log_w = (torch.from_numpy(part).to(space.decoder.items) for part in space.encode(histories[users]))
    log_sums = space.decoder.log_sums(z) + log_w  # (users, concepts)
    hidden, concept_of = pairs(histories[users], z.device), space.decoder.concept_of
    means = np.full(space.concepts, np.nan)
    for k in range(space.concepts):
        if len(space.members(k)):
            weights = log_w.clone()
            change = weight_change(log_sums, k, share).to(weights)
            weights[:, k] += torch.where(change.isfinite(), change, 0)  # a concept of all items keeps its share
            linear = None
            if model.neighbours is not None:
                factor = faded((z, log_w), (z, weights), space.decoder.temperature)
                linear = factor[:, None] * model.neighbours.scores(histories[users])
            best = top(space.decoder, Mixture(z, weights, linear), cards, hidden=hidden)[0]
            means[k] = float((concept_of[best] == k).double().sum(dim=1).mean())
    return means
