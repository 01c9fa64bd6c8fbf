import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from macrid.evaluation.disentanglement import nmi


def test_the_same_partition_under_other_names_scores_one():
    assert nmi(np.array([0, 0, 1, 1, 2]), np.array(["b", "b", "a", "a", "c"])) == pytest.approx(1)


def test_independent_partitions_score_zero():
    assert nmi(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])) == pytest.approx(0, abs=1e-12)


def test_a_known_case_by_hand():
    # H(a) = H(b) = ln 2; joint 3/8, 1/8, 1/8, 3/8
    a, b = np.array([0, 0, 0, 0, 1, 1, 1, 1]), np.array([0, 0, 0, 1, 1, 1, 1, 0])
    joint = -(0.75 * np.log(3 / 8) + 0.25 * np.log(1 / 8))
    assert nmi(a, b) == pytest.approx((2 * np.log(2) - joint) / np.log(2))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=60))
def test_it_is_symmetric_and_between_zero_and_one(pairs):
    a, b = np.array(pairs).T
    assert nmi(a, b) == pytest.approx(nmi(b, a))
    assert -1e-9 <= nmi(a, b) <= 1 + 1e-9
