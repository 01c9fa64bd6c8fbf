"""Small linear algebra on one thread.

BLAS divides even a product of hundreds of rows over all cores. On a machine that is busy, or has many cores, waiting
for its threads then takes several times as long as the work.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def one_blas_thread(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator: numpy and scipy have one BLAS thread while the function runs. torch has threads of its own."""

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        with _libraries().limit(limits=1):
            return function(*args, **kwargs)

    return wrapper


@cache
def _libraries() -> Any:
    """The BLAS of numpy and that of scipy, which may be two."""
    import numpy  # noqa: F401  (loads its own)
    import scipy.linalg  # noqa: F401  (likewise)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")
