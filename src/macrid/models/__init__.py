"""Models, by the name a command line and a run call them."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import isabstract
from typing import Any

from macrid.models.base import Recommender
from macrid.models.macridvae import MacridVAE
from macrid.models.multvae import MultDAE, MultVAE
from macrid.models.reference import EASE, Popularity
from macrid.settings import model_settings

MODELS: dict[str, type[Recommender]] = {
    kind.__name__.lower(): kind for kind in (MacridVAE, MultVAE, MultDAE, EASE, Popularity)
}


def model_class(name: str) -> type[Recommender]:
    """The class behind a name, in upper or lower case; other people's models are known once they are imported."""
    others = {kind.__name__.lower(): kind for kind in _heirs(Recommender) if not isabstract(kind)}
    if name.lower() not in MODELS and name.lower() in others:
        return others[name.lower()]
    model_settings(name)
    return MODELS[name.lower()]


def _heirs(kind: Any) -> Iterator[type[Recommender]]:
    for heir in kind.__subclasses__():
        yield heir
        yield from _heirs(heir)
