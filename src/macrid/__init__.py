"""macrid: recommendations that come apart into concepts and dimensions a person can name and move."""

from typing import TYPE_CHECKING, Any

from macrid.errors import (
    CollapseWarning,
    DataError,
    EditedWarning,
    LeftOutWarning,
    MacridError,
    RangeWarning,
    RequestError,
    RunError,
    SettingsError,
    StudyError,
    TrainingError,
    UnknownItemsWarning,
)
from macrid.version import __version__

if TYPE_CHECKING:
    from macrid import datasets
    from macrid.concepts.meaning import Axes, Fit, Meaning
    from macrid.concepts.names import ConceptName, DimensionName, Names
    from macrid.concepts.understanding import Choice, understand
    from macrid.control.batch import recommend_many
    from macrid.control.explain import Pull, Reason, explain
    from macrid.control.moves import Move
    from macrid.control.state import Effect
    from macrid.control.steer import Change, Steered, steer
    from macrid.control.traverse import Stop, Traversal, traverse
    from macrid.data.ids import Ids
    from macrid.data.interactions import Interactions, ReadReport
    from macrid.data.split import HeldOut, Split
    from macrid.evaluation.ranking import Evaluation, Metric, evaluate
    from macrid.models.base import Encoding, Posterior, Recommendations, Recommender, ScoredItem
    from macrid.models.epoch import Epoch
    from macrid.models.macridvae import MacridVAE
    from macrid.models.multvae import MultDAE, MultVAE
    from macrid.models.reference import EASE, Popularity
    from macrid.runs import load
    from macrid.workflow import Progress, TrainedRun, train

__all__ = [
    "EASE", "Axes", "Change", "Choice", "CollapseWarning", "ConceptName", "DataError", "DimensionName", "EditedWarning",
    "Effect", "Encoding", "Epoch", "Evaluation", "Fit", "HeldOut", "Ids", "Interactions", "LeftOutWarning",
    "MacridError", "MacridVAE", "Meaning", "Metric", "Move", "MultDAE", "MultVAE", "Names", "Popularity", "Posterior",
    "Progress", "Pull", "RangeWarning", "ReadReport", "Reason", "Recommendations", "Recommender", "RequestError",
    "RunError", "ScoredItem", "SettingsError", "Split", "Steered", "Stop", "StudyError", "TrainedRun", "TrainingError",
    "Traversal", "UnknownItemsWarning", "__version__", "datasets", "evaluate", "explain", "load", "recommend_many",
    "steer", "train", "traverse", "understand",
]  # fmt: skip

_HOME = {  # imported when first used, so that `import macrid` and `macrid --help` do not wait for torch
    name: module
    for module, names in {
        "macrid.concepts.meaning": "Axes Fit Meaning",
        "macrid.concepts.names": "ConceptName DimensionName Names",
        "macrid.concepts.understanding": "Choice understand",
        "macrid.control.batch": "recommend_many",
        "macrid.control.explain": "Pull Reason explain",
        "macrid.control.moves": "Move",
        "macrid.control.state": "Effect",
        "macrid.control.steer": "Change Steered steer",
        "macrid.control.traverse": "Stop Traversal traverse",
        "macrid.data.ids": "Ids",
        "macrid.data.interactions": "Interactions ReadReport",
        "macrid.data.split": "HeldOut Split",
        "macrid.evaluation.ranking": "Evaluation Metric evaluate",
        "macrid.models.base": "Encoding Posterior Recommendations Recommender ScoredItem",
        "macrid.models.macridvae": "MacridVAE",
        "macrid.models.multvae": "MultDAE MultVAE",
        "macrid.models.reference": "EASE Popularity",
        "macrid.runs": "load",
        "macrid.models.epoch": "Epoch",
        "macrid.workflow": "Progress TrainedRun train",
    }.items()
    for name in names.split()
}


if not TYPE_CHECKING:  # a type checker would take any name for granted

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name == "datasets":
            return import_module("macrid.datasets")
        if name not in _HOME:
            raise AttributeError(f"module 'macrid' has no attribute '{name}'")

        return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
