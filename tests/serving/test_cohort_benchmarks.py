"""The benchmarks of sliders over many users measure what they say, on a small run."""

from types import SimpleNamespace

import pytest
from benchmarks import cohort, control_report, global_sliders

from macrid.control.trial import Accuracy, Comparison
from macrid.evaluation.ranking import Metric


def test_every_slider_has_both_ends_what_else_moves_and_what_it_costs(shop_run):
    found = global_sliders.measured(shop_run, users=40)
    assert found["users"] == 40
    assert found["sliders"]
    for slider in found["sliders"]:
        assert slider["less"] < slider["more"]
        assert slider["less"] <= slider["today"] + 1e-9 or slider["more"] >= slider["today"] - 1e-9
        assert all(each["name"] != slider["name"] for each in slider["others"])
        assert 0 <= slider["kept"]["full"] <= slider["kept"]["moderate"] <= 1
        assert slider["left"]["full"]["share"] < 1.2
    lines = global_sliders.table(found).splitlines()
    assert len(lines) == 2 + len(found["sliders"]) + 2
    assert "40 test users" in lines[-1]


def test_every_way_is_measured_together_and_apart(shop_run):
    found = cohort.measured(shop_run, users=15, rounds=1)
    assert (found["users"], found["items"]) == (15, 500)
    assert all(each["together"] > 0 < each["apart"] for each in found["ways"].values())
    times = {name: {"median": 150.0, "p95": 200.0, "worst": 250.0} for name in cohort.SERVED}
    text = control_report.cohort({**found, **times})
    assert all(way in text for way in found["ways"])
    assert "150 ms (95 %: 200)" in text


def test_the_share_of_accuracy_left_is_that_of_the_means():
    def tried(after):
        score = Comparison(Metric(0.5, 0.1), Metric(after, 0.1), Metric(after - 0.5, 0.01))
        return SimpleNamespace(accuracy=Accuracy(1, {"ndcg@100": score}, 0, 1))

    assert global_sliders._left([tried(0.4), tried(0.3)]) == pytest.approx({"share": 0.7, "se": 0.02})
