"""Models, by the name a command line and a run call them."""

from __future__ import annotations

from macrid.errors import SettingsError
from macrid.models.base import Recommender
from macrid.models.macridvae import MacridVAE
from macrid.models.multvae import MultDAE, MultVAE
from macrid.models.reference import EASE, Popularity

MODELS: dict[str, type[Recommender]] = {
    "macridvae": MacridVAE,
    "multvae": MultVAE,
    "multdae": MultDAE,
    "ease": EASE,
    "popularity": Popularity,
}


def model_class(name: str) -> type[Recommender]:
    """The class behind a name, in upper or lower case."""
    if name.lower() not in MODELS:
        raise SettingsError(f"no model '{name}'; there are {', '.join(MODELS)}")
    return MODELS[name.lower()]
