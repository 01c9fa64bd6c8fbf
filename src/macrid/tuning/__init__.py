"""Search for settings in the paper's space with Optuna's TPE, several trainings at once."""

from macrid.tuning.search import tune
from macrid.tuning.space import Range, space_of

__all__ = ["Range", "space_of", "tune"]
