"""macrid: recommendations that come apart into concepts and dimensions a person can name and move."""

from typing import TYPE_CHECKING, Any

from macrid.errors import MacridError
from macrid.version import __version__

if TYPE_CHECKING:
    from macrid import datasets
    from macrid.concepts.understanding import understand
    from macrid.control.batch import recommend_many
    from macrid.control.explain import explain
    from macrid.control.steer import steer
    from macrid.control.traverse import traverse
    from macrid.data.interactions import Interactions
    from macrid.data.split import HeldOut, Split
    from macrid.evaluation.ranking import evaluate
    from macrid.models.macridvae import MacridVAE
    from macrid.models.multvae import MultDAE, MultVAE
    from macrid.models.reference import EASE, Popularity
    from macrid.runs import load
    from macrid.workflow import TrainedRun, train

__all__ = [
    "EASE",
    "HeldOut",
    "Interactions",
    "MacridError",
    "MacridVAE",
    "MultDAE",
    "MultVAE",
    "Popularity",
    "Split",
    "TrainedRun",
    "__version__",
    "datasets",
    "evaluate",
    "explain",
    "load",
    "recommend_many",
    "steer",
    "train",
    "traverse",
    "understand",
]

_HOME = {  # imported when first used, so that `import macrid` and `macrid --help` do not wait for torch
    "EASE": "macrid.models.reference",
    "HeldOut": "macrid.data.split",
    "Interactions": "macrid.data.interactions",
    "MacridVAE": "macrid.models.macridvae",
    "MultDAE": "macrid.models.multvae",
    "MultVAE": "macrid.models.multvae",
    "Popularity": "macrid.models.reference",
    "Split": "macrid.data.split",
    "TrainedRun": "macrid.workflow",
    "datasets": "macrid.datasets",
    "evaluate": "macrid.evaluation.ranking",
    "explain": "macrid.control.explain",
    "load": "macrid.runs",
    "recommend_many": "macrid.control.batch",
    "steer": "macrid.control.steer",
    "train": "macrid.workflow",
    "traverse": "macrid.control.traverse",
    "understand": "macrid.concepts.understanding",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'macrid' has no attribute '{name}'")
    from importlib import import_module

    home = import_module(_HOME[name])
    return home if home.__name__ == f"macrid.{name}" else getattr(home, name)


def __dir__() -> list[str]:
    return sorted(__all__)
