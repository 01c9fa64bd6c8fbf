"""macrid: recommendations that come apart into concepts and dimensions a person can name and move."""

from typing import TYPE_CHECKING, Any

from macrid.errors import (
    CallbackWarning,
    ClusterError,
    CollapseWarning,
    DatabaseError,
    DataError,
    EditedWarning,
    FallbackWarning,
    IndexWarning,
    LeftOutWarning,
    MacridError,
    RangeWarning,
    RequestError,
    RulesWarning,
    RunError,
    SettingsError,
    StudyError,
    TrainingError,
    UnknownItemsWarning,
)
from macrid.openmp import spin_briefly
from macrid.version import __version__

spin_briefly()  # before torch is loaded, which nothing above does

if TYPE_CHECKING:
    from macrid import callbacks, datasets
    from macrid.additions import AddedItems, NewItem, add_items, remove_items
    from macrid.concepts.meaning import Axes, Fit, Meaning
    from macrid.concepts.names import ConceptName, DimensionName, Names
    from macrid.concepts.understanding import Choice, understand
    from macrid.control.account import Account, Part, Stage
    from macrid.control.batch import recommend_many
    from macrid.control.explain import Pull, Reason, Reasons, explain
    from macrid.control.moves import Move
    from macrid.control.rules import Boost, Rules
    from macrid.control.state import Effect
    from macrid.control.steer import Change, Steered, steer
    from macrid.control.traverse import Stop, Traversal, traverse
    from macrid.data.ids import Ids
    from macrid.data.interactions import Interactions, ReadReport
    from macrid.data.split import HeldOut, Split
    from macrid.differences import diff
    from macrid.evaluation.comparison import Comparison, Difference, compare
    from macrid.evaluation.ranking import Evaluation, Metric, evaluate
    from macrid.fitting import Progress
    from macrid.models.base import Recommender
    from macrid.models.epoch import Epoch
    from macrid.models.macridvae import MacridVAE
    from macrid.models.multvae import MultDAE, MultVAE
    from macrid.models.reference import EASE, Popularity
    from macrid.models.results import DiversityCost, Encoding, Placement, Posterior, Recommendations, ScoredItem, Shelf
    from macrid.report.frames import knobs
    from macrid.runs import load
    from macrid.workflow import TrainedRun, train

__all__ = [
    "EASE", "Account", "AddedItems", "Axes", "Boost", "CallbackWarning", "Change", "Choice", "ClusterError",
    "CollapseWarning", "Comparison", "ConceptName", "DataError", "DatabaseError", "Difference", "DimensionName",
    "DiversityCost", "EditedWarning", "Effect", "Encoding", "Epoch", "Evaluation", "FallbackWarning", "Fit", "HeldOut",
    "Ids", "IndexWarning", "Interactions", "LeftOutWarning", "MacridError", "MacridVAE", "Meaning", "Metric", "Move",
    "MultDAE", "MultVAE", "Names", "NewItem", "Part", "Placement", "Popularity", "Posterior", "Progress", "Pull",
    "RangeWarning", "ReadReport", "Reason", "Reasons", "Recommendations", "Recommender", "RequestError", "Rules",
    "RulesWarning", "RunError", "ScoredItem", "SettingsError", "Shelf", "Split", "Stage", "Steered", "Stop",
    "StudyError", "TrainedRun", "TrainingError", "Traversal", "UnknownItemsWarning", "__version__", "add_items",
    "callbacks", "compare", "datasets", "diff", "evaluate", "explain", "knobs", "load", "recommend_many",
    "remove_items", "steer", "train", "traverse", "understand",
]  # fmt: skip

_HOME = {  # imported when first used, so that `import macrid` and `macrid --help` do not wait for torch
    name: module
    for module, names in {
        "macrid.additions": "AddedItems NewItem add_items remove_items",
        "macrid.concepts.meaning": "Axes Fit Meaning",
        "macrid.concepts.names": "ConceptName DimensionName Names",
        "macrid.concepts.understanding": "Choice understand",
        "macrid.control.account": "Account Part Stage",
        "macrid.control.batch": "recommend_many",
        "macrid.control.explain": "Pull Reason Reasons explain",
        "macrid.control.moves": "Move",
        "macrid.control.rules": "Boost Rules",
        "macrid.control.state": "Effect",
        "macrid.control.steer": "Change Steered steer",
        "macrid.control.traverse": "Stop Traversal traverse",
        "macrid.data.ids": "Ids",
        "macrid.data.interactions": "Interactions ReadReport",
        "macrid.data.split": "HeldOut Split",
        "macrid.differences": "diff",
        "macrid.evaluation.comparison": "Comparison Difference compare",
        "macrid.evaluation.ranking": "Evaluation Metric evaluate",
        "macrid.fitting": "Progress",
        "macrid.models.base": "Recommender",
        "macrid.models.results": "DiversityCost Encoding Placement Posterior Recommendations ScoredItem Shelf",
        "macrid.models.macridvae": "MacridVAE",
        "macrid.models.multvae": "MultDAE MultVAE",
        "macrid.models.reference": "EASE Popularity",
        "macrid.report.frames": "knobs",
        "macrid.runs": "load",
        "macrid.models.epoch": "Epoch",
        "macrid.workflow": "TrainedRun train",
    }.items()
    for name in names.split()
}


if not TYPE_CHECKING:  # a type checker would take any name for granted

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name in ("callbacks", "datasets"):
            return import_module(f"macrid.{name}")
        if name not in _HOME:
            raise AttributeError(f"module 'macrid' has no attribute '{name}'")

        return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
