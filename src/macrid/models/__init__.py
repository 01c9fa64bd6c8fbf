"""Models, by the name a command line and a run call them."""

from __future__ import annotations

from macrid.models.base import Recommender
from macrid.models.macridvae import MacridVAE
from macrid.models.multvae import MultDAE, MultVAE
from macrid.models.reference import EASE, Popularity
from macrid.settings import model_settings

MODELS: dict[str, type[Recommender]] = {
    kind.__name__.lower(): kind for kind in (MacridVAE, MultVAE, MultDAE, EASE, Popularity)
}


def model_class(name: str) -> type[Recommender]:
    """The class behind a name, in upper or lower case."""
    model_settings(name)
    return MODELS[name.lower()]
