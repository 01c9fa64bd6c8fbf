"""DCI and MIG where the answer is known."""

import sys

import numpy as np
import pytest
from scipy.stats import ortho_group

from macrid.errors import DataError, MacridError
from macrid.evaluation.factors import dci, mig

RANDOM = np.random.default_rng(0)
VECTORS = RANDOM.normal(size=(600, 6))
FACTORS = {
    "number": np.exp(VECTORS[:, 0]),
    "noisy": VECTORS[:, 1] + 0.3 * RANDOM.normal(size=600),
    "label": np.array(["low", "middle", "high"])[np.digitize(VECTORS[:, 2], [-0.5, 0.5])],
    "yes": VECTORS[:, 3] > 0,
}
ROTATED = VECTORS @ ortho_group.rvs(6, random_state=1)


@pytest.fixture(scope="module")
def aligned():
    return dci(VECTORS, FACTORS)


@pytest.fixture(scope="module")
def rotated():
    return dci(ROTATED, FACTORS)


def test_dimensions_that_are_factors_have_dci_near_one(aligned):
    assert aligned.disentanglement > 0.95
    assert aligned.completeness > 0.95
    assert aligned.informativeness > 0.9
    assert aligned.importance.argmax(axis=0).tolist() == [0, 1, 2, 3]


def test_a_rotation_keeps_the_information_but_not_the_disentanglement(rotated):
    assert rotated.disentanglement < 0.4
    assert rotated.completeness < 0.4
    assert rotated.informativeness > 0.6


def test_informativeness_is_measured_on_held_out_items():
    noise = np.random.default_rng(1).normal(size=(600, 6))
    scores = dci(noise, FACTORS)
    assert scores.informativeness < 0.05
    assert max(scores.disentanglement, scores.completeness) < 0.1


def test_importances_are_shares(rotated):
    np.testing.assert_allclose(rotated.importance.sum(axis=0), 1)
    assert (rotated.importance >= 0).all()


def test_dci_is_deterministic_for_a_seed():
    few = {name: values[:150] for name, values in FACTORS.items()}
    first, second = (dci(VECTORS[:150], few, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.importance, second.importance)


def test_dimensions_that_are_factors_have_a_gap_near_one():
    exact = {name: FACTORS[name] for name in ("number", "yes")}
    assert mig(VECTORS, exact).mean > 0.9
    assert mig(VECTORS[:, :1], {"number": FACTORS["number"]}).mean > 0.9


def test_a_rotation_and_noise_have_no_gap_even_with_few_items():
    assert mig(ROTATED, FACTORS).mean < 0.15
    noise = np.random.default_rng(2).normal(size=(60, 50))
    scores = mig(noise, {"number": np.random.default_rng(3).normal(size=60)})
    assert scores.mean < 0.15
    assert scores.information.mean() < 0.1


def test_two_identical_dimensions_leave_no_gap():
    assert mig(VECTORS[:, [0, 0, 1]], {"number": FACTORS["number"]}).mean == 0


@pytest.mark.parametrize("rho", [0.5, -0.8])
def test_the_gap_of_a_gaussian_pair_is_its_mutual_information_as_a_share(rho):
    """With 20,000 items 20 bins keep 93 to 102 % of the information of the numbers themselves."""
    random = np.random.default_rng(5)
    vectors = random.normal(size=(20_000, 3))
    factor = rho * vectors[:, 1] + np.sqrt(1 - rho**2) * random.normal(size=20_000)
    found = mig(vectors, {"factor": factor})
    assert 0.93 < found.gaps["factor"] * np.log(20) / (-0.5 * np.log(1 - rho**2)) < 1.02
    assert found.information[[0, 2]].max() < 0.002


def test_the_gap_of_a_noisy_label_is_the_entropy_that_noise_leaves():
    """Binning loses nothing here, so the tolerance is that of the draw."""
    random, wrong = np.random.default_rng(6), 0.1
    vectors = random.normal(size=(20_000, 2))
    label = (vectors[:, 0] > 0) ^ (random.random(20_000) < wrong)
    lost = -(wrong * np.log2(wrong) + (1 - wrong) * np.log2(1 - wrong))
    assert mig(vectors, {"label": label}).mean == pytest.approx(1 - lost, abs=0.02)


def test_disentanglement_needs_two_factors_and_completeness_two_dimensions():
    noise = np.random.default_rng(1).normal(size=(120, 3))
    number = {"number": FACTORS["number"][:120]}
    scores = dci(noise, number, trees=3)
    assert np.isnan(scores.disentanglement)
    assert scores.completeness < 0.5
    assert np.isnan(dci(noise[:, :1], {**number, "yes": FACTORS["yes"][:120]}, trees=3).completeness)


@pytest.mark.parametrize("measure", [dci, mig])
def test_numbers_among_none_are_numbers(measure):
    number = FACTORS["number"].copy()
    number[:100] = np.nan
    mixed = np.array([None if np.isnan(value) else value for value in number], dtype=object)
    first, second = (measure(VECTORS, {"number": values}) for values in (number, mixed))
    table = "importance" if measure is dci else "information"
    np.testing.assert_array_equal(getattr(first, table), getattr(second, table))


@pytest.mark.parametrize("measure", [dci, mig])
def test_items_with_an_unknown_factor_are_ignored(measure):
    number, label = FACTORS["number"].copy(), FACTORS["label"].astype(object)
    number[:400], label[100:300] = np.nan, None
    whole = measure(VECTORS, {"number": number, "label": label})
    alone = measure(VECTORS[400:], {"number": FACTORS["number"][400:]})
    table = "importance" if measure is dci else "information"
    np.testing.assert_allclose(getattr(whole, table)[:, 0], getattr(alone, table)[:, 0])


@pytest.mark.parametrize("measure", [dci, mig])
@pytest.mark.parametrize(
    ("factors", "named"),
    [
        ({"colour": np.full(600, "red")}, "'colour' is red "),
        ({"price": np.full(600, 3)}, "'price' is 3.0 "),
        ({"price": np.full(600, np.nan)}, "'price' .* 0 items"),
        ({"price": np.zeros(5)}, "'price' has 5 .* 600 "),
        ({}, "factors"),
    ],
)
def test_unusable_factors_are_refused(measure, factors, named):
    with pytest.raises(DataError, match=named):
        measure(VECTORS, factors)


def test_without_scikit_learn_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(MacridError, match=r"pip install 'macrid\[plot\]'"):
        dci(VECTORS, FACTORS)
