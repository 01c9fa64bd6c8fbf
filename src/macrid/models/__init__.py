"""Models by name, as the command line and runs use it."""

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
    """The class with this name, in any case; your own models are known once imported."""
    known = {kind.__name__.lower(): kind for kind in _subclasses(Recommender) if not isabstract(kind)} | MODELS
    if name.lower() not in known:
        model_settings(name)  # says which models there are
    return known[name.lower()]


def _subclasses(kind: Any) -> Iterator[type[Recommender]]:
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)
