"""macrid train --tensorboard and --mlflow."""

import pytest

from macrid.data import store


@pytest.fixture
def prepared(shop_split, tmp_path):
    store.write(shop_split, tmp_path / "data")
    return tmp_path / "data"


def test_a_training_is_logged_for_tensorboard(invoke, prepared, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    options = ["--model", "popularity", "--no-baselines", "--tensorboard", tmp_path / "logs"]
    code, _, err = invoke("train", prepared, "--out", tmp_path / "run", *options)
    assert code == 0, err
    events = EventAccumulator(str(tmp_path / "logs"))
    events.Reload()
    assert "final/test/ndcg@100" in events.Tags()["scalars"]


def test_an_mlflow_server_that_is_away_is_a_warning(invoke, prepared, tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    options = ["--model", "popularity", "--no-baselines", "--mlflow", "http://127.0.0.1:9"]
    code, out, err = invoke("train", prepared, "--out", tmp_path / "run", *options)
    assert code == 0
    assert "warning: MLflow failed at the start; training goes on without it" in err
    assert "ready" in out
