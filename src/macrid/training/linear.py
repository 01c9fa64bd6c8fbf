"""After training: neighbours, the linear part of a MacridVAE's scores, with the weight that helps validation users."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from macrid.data.ids import Ids
from macrid.data.split import HeldOut
from macrid.evaluation.ranking import evaluate
from macrid.models.macridvae import MacridVAE
from macrid.models.neighbours import FEWEST_USERS, Choice, Neighbours, choose_weight

if TYPE_CHECKING:
    from macrid.models.neural import NeuralRecommender

MOST_USERS = 2000  # to choose the weight on


def add_neighbours(model: NeuralRecommender, matrix: sp.csr_array, validation: HeldOut | None) -> None:
    """Add the linear part to a trained model whose settings ask for one, unless it does not help."""
    if not isinstance(model, MacridVAE) or not model.settings.neighbours:
        return
    users = 0 if validation is None else int((np.diff(validation.target.indptr) > 0).sum())
    choice = Choice(0.0, f"{users} validation users have items to predict; choosing a weight takes {FEWEST_USERS}")
    if model.fixed_weight is not None:
        choice = Choice(model.fixed_weight)
        if choice.weight:
            model.neighbours = Neighbours.fit(matrix, model.settings.neighbours, model.device).times(choice.weight)
    elif validation is not None and users >= FEWEST_USERS:
        neighbours = Neighbours.fit(matrix, model.settings.neighbours, model.device)
        choice = _choose(model, neighbours, some_users(validation))
        model.neighbours = neighbours.times(choice.weight) if choice.weight else None
    model.neighbours_weight = choice.weight
    model.neighbours_note = None if choice.reason is None else f"no neighbours: {choice.reason}"


def _choose(model: MacridVAE, neighbours: Neighbours, validation: HeldOut) -> Choice:
    def ndcg(weight: float) -> np.ndarray:
        model.neighbours = neighbours.times(weight) if weight else None
        return evaluate(model, validation, ("ndcg@100",)).per_user["ndcg@100"]

    return choose_weight(ndcg)


def some_users(validation: HeldOut) -> HeldOut:
    """At most `MOST_USERS` of those with something to predict."""
    users = np.flatnonzero(np.diff(validation.target.indptr) > 0)
    if len(users) > MOST_USERS:
        users = np.sort(np.random.default_rng(0).choice(users, MOST_USERS, replace=False))
    ids = Ids([validation.users[user] for user in users.tolist()])
    return HeldOut(validation.history[users], validation.target[users], ids)
