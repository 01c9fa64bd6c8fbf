"""macrid evaluate: metrics by name, per user, and against another run."""

import json
import re

import pyarrow.parquet as pq
import pytest

import macrid
from macrid import runs
from macrid.evaluation.metrics import DEFINITIONS, SETS


@pytest.fixture(scope="module")
def ease_run(trained, tmp_path_factory):
    split = trained[1]
    folder = tmp_path_factory.mktemp("ease") / "run"
    model = macrid.EASE().fit(split.train)
    runs.save(model, folder, heldout={"validation": split.validation, "test": split.test})
    return folder


def metrics_of(answer):
    return list(json.loads(answer[1])["metrics"])


def test_metrics_are_given_by_name_or_as_a_set(invoke, trained_run):
    assert metrics_of(invoke("evaluate", trained_run, "--metrics", "graph", "--json")) == ["recall_all@20", "ndcg@20"]
    answer = invoke("evaluate", trained_run, "--metrics", "ndcg@10, map@10,coverage@20", "--metric", "mrr", "--json")
    assert metrics_of(answer) == ["ndcg@10", "map@10", "coverage@20", "mrr"]
    code, out, _ = invoke("evaluate", trained_run, "--metrics", "gini@10,diversity:category@5")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["Gini@10", "Diversity:category@5", "(50"]


def test_the_help_names_every_metric_and_set(invoke):
    words = re.findall(r"[a-z_]+", invoke("evaluate", "--help", columns=200)[1])
    assert {*DEFINITIONS, *SETS} <= {*words}


def test_an_unknown_metric_is_refused_before_anything_is_read(invoke, tmp_path):
    code, _, err = invoke("evaluate", tmp_path / "nowhere", "--metrics", "ndcg@10,auc")
    assert code == 1
    assert "unknown metric 'auc'; use ndcg@k," in err


def test_scores_of_users_are_written_as_parquet(invoke, trained_run, tmp_path):
    code, out, err = invoke("evaluate", trained_run, "--metrics", "ndcg@10", "--per-user", tmp_path / "u.parquet")
    assert code == 0
    assert err == f"{tmp_path / 'u.parquet'}: 50 users\n"
    table = pq.read_table(tmp_path / "u.parquet")
    assert table.column_names == ["user", "ndcg@10"]
    assert f"{sum(table['ndcg@10'].to_pylist()) / 50:.4f}" in out
    assert invoke("evaluate", trained_run, "--per-user", tmp_path / "u.csv")[0] == 2
    assert invoke("evaluate", trained_run, "--per-user", tmp_path / "no" / "u.parquet")[0] == 1


def test_two_runs_are_compared_on_the_same_users(invoke, trained_run, ease_run, trained):
    code, out, _ = invoke("evaluate", trained_run, "--against", ease_run, "--metrics", "ndcg@10,recall@5", "--json")
    assert code == 0
    answer = json.loads(out)
    assert list(answer["models"]) == [str(trained_run), str(ease_run)]
    model, split = trained
    truth = macrid.compare({"a": model, "b": macrid.EASE().fit(split.train)}, split.test, "ndcg@10,recall@5")
    for shown, known in zip(answer["differences"], truth.differences, strict=True):
        assert (shown["metric"], shown["second"]) == (known.metric, str(ease_run))
        assert shown["mean"] == pytest.approx(known.mean, abs=1e-6)
        assert shown["p"] == pytest.approx(known.p, abs=0.01)
    assert f"{ease_run} − {trained_run}: " in invoke("evaluate", trained_run, "--against", ease_run)[1]


def test_runs_with_other_users_are_not_compared(invoke, trained_run, shop, tmp_path):
    split = shop.split(heldout=50, seed=7)
    other = tmp_path / "other"
    runs.save(macrid.Popularity().fit(split.train), other, heldout={"test": split.test})
    code, _, err = invoke("evaluate", trained_run, "--against", other)
    assert code == 1
    assert f"{other}: its test users differ from those of {trained_run}" in err
    code, _, err = invoke("evaluate", trained_run, "--against", trained_run)
    assert code == 1
    assert "cannot be compared with itself" in err
