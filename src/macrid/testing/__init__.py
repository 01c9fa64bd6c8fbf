"""Tests for your own models: inherit `RecommenderContract` and define `make`. Needs pytest."""

import pytest

pytest.register_assert_rewrite("macrid.testing.contract")

from macrid.testing.contract import RecommenderContract, checkerboard, named_checkerboard  # noqa: E402

__all__ = ["RecommenderContract", "checkerboard", "named_checkerboard"]
