"""Callbacks follow a training, and never stop it."""

import sys

import pytest

import macrid
from macrid.callbacks import Callback, MLflow, TensorBoard, scalars, scores
from macrid.models.epoch import Epoch


class Recorder(Callback):
    """Writes down what it is told, and fails on request."""

    def __init__(self, fails_at=None):
        self.calls, self.fails_at = [], fails_at

    def _take(self, what, about):
        self.calls.append((what, about))
        if what == self.fails_at:
            raise RuntimeError("the disk is full\nand more")

    def start(self, settings):
        self._take("start", settings)

    def epoch(self, record):
        self._take("epoch", record)

    def end(self, metrics):
        self._take("end", metrics)


def train(split, out, **options):
    settings = {"concepts": 3, "dim": 8, "epochs": 2, "neighbours": 0, "device": "cpu", "baselines": False}
    return macrid.train(split, out, **settings, **options)


@pytest.fixture(scope="module")
def watched(shop_split, tmp_path_factory):
    """A training with three callbacks, of which the second fails: (run, all callbacks)."""
    callbacks = [Recorder(), Recorder("epoch"), Recorder()]
    with pytest.warns(macrid.CallbackWarning) as caught:
        run = train(shop_split, tmp_path_factory.mktemp("watched") / "run", callbacks=callbacks)
    assert [str(each.message) for each in caught] == [
        "Recorder failed after an epoch; training goes on without it: the disk is full"
    ]
    return run, callbacks


def test_a_training_tells_its_settings_epochs_and_scores(watched):
    run, (first, _, third) = watched
    assert [what for what, _ in first.calls] == ["start", "epoch", "epoch", "end"]
    settings = first.calls[0][1]
    assert (settings["model"], settings["dim"], settings["training"]["epochs"]) == ("MacridVAE", 8, 2)
    assert settings["data"]["items"] == len(run.model.items)
    assert [record for what, record in first.calls if what == "epoch"] == run.model.log
    assert first.calls[-1][1] == run.metrics
    assert third.calls == first.calls


def test_one_that_fails_is_told_nothing_more(watched):
    _, (_, failing, _) = watched
    assert [what for what, _ in failing.calls] == ["start", "epoch"]


@pytest.mark.parametrize("moment", ["start", "end"])
def test_no_failure_stops_the_training(shop_split, tmp_path, moment):
    with pytest.warns(macrid.CallbackWarning, match=f"at the {moment}"):
        run = macrid.train(
            shop_split, tmp_path / "run", model="popularity", baselines=False, callbacks=[Recorder(moment)]
        )
    assert macrid.load(run.path).items == run.model.items


def test_an_interrupted_training_ends_without_scores(shop_split, tmp_path):
    recorder = Recorder()

    def interrupt(event):
        if event.epoch is not None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(shop_split, tmp_path / "run", callbacks=[recorder], progress=interrupt)
    assert recorder.calls[-1] == ("end", None)


def test_something_else_is_refused_before_the_training(shop_split, tmp_path):
    with pytest.raises(macrid.MacridError, match=r"has no start\(\); derive it"):
        train(shop_split, tmp_path / "run", callbacks=[print])
    assert not (tmp_path / "run").exists()


def test_a_callback_follows_fit(shop_split):
    with Recorder() as recorder:
        model = macrid.MacridVAE(concepts=3, dim=8, neighbours=0)
        model.fit(shop_split.train, epochs=2, device="cpu", on_epoch=recorder)
    assert recorder.calls == [("start", {}), *(("epoch", record) for record in model.log), ("end", {})]


EPOCHS = [Epoch(1, 10.5, 2.0, 0.25, 2.5, True, 0.1, 3), Epoch(2, 9.5, 2.0, None, None, False, 0.1)]
METRICS = {"test": {"users": 5, "metrics": {"ndcg@100": {"mean": 0.5, "se": 0.1}}}, "training": {"device": "cpu"}}


def test_epochs_and_metrics_become_named_numbers():
    assert dict(scalars(EPOCHS[1])) == {"loss": 9.5, "kl": 2.0, "seconds": 0.1}
    assert dict(scalars(EPOCHS[0]))["validation/ndcg@100"] == 0.25
    assert dict(scores(METRICS)) == {"test/users": 5.0, "test/ndcg@100": 0.5}


def test_tensorboard_reads_the_curves_and_scores(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = TensorBoard(tmp_path / "logs")
    board.start({"dim": 8, "training": {"epochs": 2}})
    for record in EPOCHS:
        board.epoch(record)
    board.end(METRICS)
    events = EventAccumulator(str(tmp_path / "logs"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(1, 10.5), (2, 9.5)]
    assert [(event.step, event.value) for event in events.Scalars("final/test/ndcg@100")] == [(2, 0.5)]
    assert b"training/epochs" in events.Tensors("settings/text_summary")[0].tensor_proto.string_val[0]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of MLflow's own parts
@pytest.mark.slow
def test_mlflow_reads_the_curves_settings_and_scores(tmp_path):
    pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    from mlflow.tracking import MlflowClient

    uri = f"sqlite:///{tmp_path}/mlflow.db"
    log = MLflow(uri, "shop", name="first", tags={"by": "test"})
    log.start({"dim": 8, "training": {"epochs": 2}})
    for record in EPOCHS:
        log.epoch(record)
    log.end(METRICS)
    client = MlflowClient(tracking_uri=uri)
    (run,) = client.search_runs([client.get_experiment_by_name("shop").experiment_id])
    assert (run.info.run_name, run.info.status, run.data.tags["by"]) == ("first", "FINISHED", "test")
    assert run.data.params == {"dim": "8", "training/epochs": "2"}
    assert [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, "loss")] == [(1, 10.5), (2, 9.5)]
    assert run.data.metrics["test/ndcg_at_100"] == 0.5
    assert run.data.metrics["validation/ndcg_at_100"] == 0.25


@pytest.mark.parametrize(("kind", "package", "extra"), [(TensorBoard, "torch.utils.tensorboard", "tensorboard"),
                                                       (MLflow, "mlflow", "mlflow")])  # fmt: skip
def test_a_missing_package_is_an_error_that_says_what_to_install(kind, package, extra, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, package, None)
    for name in [name for name in sys.modules if name.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(macrid.MacridError, match=rf"pip install 'macrid\[{extra}\]'"):
        kind(str(tmp_path))
