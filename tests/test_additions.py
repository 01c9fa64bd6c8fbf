"""Items added to models and runs after training."""

import copy
import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import macrid
from macrid import manifest, runs
from macrid.additions import add_items, added_items, remove_items
from macrid.cold import Placer
from macrid.errors import DataError, RequestError, RunError
from tests.failing import operations, with_failure

ROWS = [
    {"id": "new-1", "title": "Small red leather bag", "category": "bags", "price": 60.0, "colour": "red"},
    {"id": "new-2", "title": "Blue mug", "category": "mugs", "price": 12},
]


@pytest.fixture(scope="module")
def placer(trained):
    return Placer.fit(trained[0])


@pytest.fixture(scope="module")
def saved(trained, tmp_path_factory):
    model, split = trained
    folder = tmp_path_factory.mktemp("saved") / "run"
    runs.save(model, folder, heldout={"validation": split.validation, "test": split.test}, data={"source": "x"})
    return folder


@pytest.fixture
def run(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "run")


def test_added_items_stay_in_the_run_and_its_weights_unchanged(run, trained, placer):
    before, weights = (run / "model.safetensors").read_bytes(), runs.weights_digest(run)
    report = add_items(run, ROWS, placer=placer)
    assert [item.id for item in report.items] == ["new-1", "new-2"]
    assert json.loads(json.dumps(report.as_json()))["strength"]["attributes"][:2] == ["title", "category"]
    assert ((run / "model.safetensors").read_bytes(), runs.weights_digest(run)) == (before, weights)
    model, count = runs.load(run, "cpu"), len(trained[0].items)
    assert model.items[count:] == ["new-1", "new-2"]
    assert model.table.slice(count).to_pylist()[0]["size"] is None
    assert model.popularity[count:].tolist() == [0, 0]
    assert [item.as_json() for item in added_items(model)] == [item.as_json() for item in report.items]
    assert model.recommend([trained[0].items[0], "new-1"], n=3).unknown == ()
    assert runs.read_heldout(run, "test").history.shape[1] == count + 2
    assert macrid.evaluate(model, runs.read_heldout(run, "test"))["ndcg@100"].mean > 0
    assert runs.load(run, "cpu", added=False).items == trained[0].items
    assert runs.examine(run) == {}


def test_a_new_item_is_placed_where_items_like_it_are(run, trained, placer):
    model = trained[0]
    categories = model.table.column("category").to_pylist()
    for category in ("bags", "mugs"):
        report = add_items(run, [{"id": "x", "category": category}], dry_run=True, placer=placer)
        members = np.array([value == category for value in categories])
        usual = np.bincount(model.concepts_of_items()[members]).argmax()
        assert report.items[0].concept == usual
    assert not (run / "added.parquet").exists()  # a dry run


def test_explanations_say_how_a_new_item_was_placed(run, trained, placer):
    add_items(run, ROWS, placer=placer)
    model = runs.load(run, "cpu")
    (reason,) = macrid.explain(model, [trained[0].items[0]], ["new-1"])
    assert reason.as_json()["new"] is True
    assert reason.as_json()["placed"].startswith(
        "placed by its attributes: title, category, price, colour; strength 0."
    )
    (old,) = macrid.explain(model, [trained[0].items[0]], [trained[0].items[1]])
    assert "new" not in old.as_json()


def test_events_count_with_the_histories_of_their_users(run, trained, placer):
    ids = trained[0].items
    events = pa.table({"user": ["a", "a", "b", "b", "c"], "item": [ids[0], "new-1", ids[1], "new-1", "new-2"]})
    report = add_items(run, [*ROWS, {"id": "new-3"}], events, placer=placer)
    assert [item.placement.events for item in report.items] == [2, 0]  # c has no other item
    assert "placed by 2 events and its attributes" in str(report.items[0].placement)
    assert report.skipped == ("new-3",)
    assert "new-3" in report.notes[-1]
    assert runs.load(run, "cpu").popularity[-2:].tolist() == [2, 0]
    lists = add_items(run, [{"id": "new-3"}], [[ids[0], ids[2], "new-3", "unheard"]], placer=placer)
    assert lists.items[0].placement.attributes == ()
    assert "'unheard'" in lists.notes[0]


def test_adding_again_needs_update_and_keeps_places(run, placer):
    add_items(run, ROWS, placer=placer)
    with pytest.raises(DataError, match=r"already added: 'new-1'.*--update"):
        add_items(run, ROWS[:1], placer=placer)
    add_items(
        run, [{"id": "new-1", "category": "mugs"}, {"id": "new-0", "category": "bags"}], update=True, placer=placer
    )
    items = added_items(runs.load(run, "cpu"))
    assert [item.id for item in items] == ["new-1", "new-2", "new-0"]
    assert items[0].concept == items[1].concept
    assert remove_items(run, ["new-1", "new-0"]) == ["new-1", "new-0"]
    assert [item.id for item in added_items(runs.load(run, "cpu"))] == ["new-2"]
    remove_items(run, ["new-2"])
    assert added_items(runs.load(run, "cpu")) == []
    with pytest.raises(RequestError, match="'new-2' was not added"):
        remove_items(run, ["new-2"])


def test_what_cannot_be_added_is_named(run, trained, placer):
    known = trained[0].items[4]
    with pytest.raises(DataError, match=f"from training: '{known}'"):
        add_items(run, [{"id": known}], placer=placer)
    with pytest.raises(DataError, match="row 2: 'price' is 'cheap'"):
        add_items(run, [{"id": "a", "price": 3.0}, {"id": "b", "price": "cheap"}], placer=placer)
    with pytest.raises(DataError, match=r"row 1: 'price' is 'cheap'.*a number"):
        add_items(run, [{"id": "b", "price": "cheap"}], placer=placer)
    with pytest.raises(DataError, match="row 1 is 7"):
        add_items(run, [7], placer=placer)
    with pytest.raises(DataError, match="no column looks like the item"):
        add_items(run, [{"price": 3.0}], placer=placer)
    report = add_items(run, [{"id": "b", "category": "bags", "ean": 7}], dry_run=True, placer=placer)
    assert report.notes == ("ignored column 'ean', unknown in training",)
    with pytest.raises(RequestError, match="Popularity cannot take new items"):
        add_items(macrid.Popularity().fit(trained[1].train), ROWS)


def test_integer_ids_stay_integers(shop_split):
    model = macrid.MacridVAE(concepts=2, dim=4, neighbours=0, start="random")
    data = macrid.Interactions(
        shop_split.train.matrix, shop_split.train.users, macrid.Ids.range(len(shop_split.items)), shop_split.table
    )
    model.fit(data, epochs=1, batch_size=100, device="cpu")
    add_items(model, [{"id": "900", "category": "bags"}])
    assert model.items[-1] == 900
    with pytest.raises(DataError, match="'b7' is not an integer"):
        add_items(model, [{"id": "b7", "category": "bags"}])


def test_a_model_in_memory_takes_items_and_saves_them(trained, placer, tmp_path):
    model = copy.deepcopy(trained[0])
    add_items(model, ROWS, placer=placer)
    add_items(model, [{"id": "new-2", "category": "bags"}], update=True, placer=placer)
    assert model.items[len(trained[0].items) :] == ["new-1", "new-2"]
    model.save(tmp_path / "run")
    loaded = runs.load(tmp_path / "run", "cpu")
    assert loaded.items == model.items
    assert torch.equal(loaded.network.item_vectors, model.network.item_vectors)
    assert loaded.placements == model.placements
    plain = runs.load(tmp_path / "run", "cpu", added=False)
    assert torch.equal(plain.network.item_vectors, trained[0].network.item_vectors)


def test_a_kill_at_any_file_operation_leaves_all_or_nothing(run, placer, tmp_path):
    def write(folder):
        add_items(folder, ROWS, placer=placer)

    count = operations(lambda: write(shutil.copytree(run, tmp_path / "counted")))
    for number in range(0, count, max(1, count // 8)):
        for kind in ("error", "kill"):
            folder = shutil.copytree(run, tmp_path / f"{number}-{kind}")
            succeeded = with_failure(lambda folder=folder: write(folder), number, kind, (RunError, OSError))
            present = [item.id for item in added_items(runs.load(folder, "cpu"))]
            assert present in ([], ["new-1", "new-2"])
            assert present or not succeeded


@pytest.mark.parametrize("name", ["added.parquet", "added.safetensors"])
def test_a_damaged_or_missing_overlay_is_named(run, placer, name):
    add_items(run, ROWS, placer=placer)
    content = (run / name).read_bytes()
    (run / name).write_bytes(content[:-20] + bytes(20))
    assert name in runs.examine(run)
    with pytest.raises(RunError, match=name):
        runs.load(run, "cpu")
    (run / name).unlink()
    with pytest.raises(RunError, match=name):
        runs.load(run, "cpu")


def test_an_overlay_of_other_weights_is_refused(run, placer, tmp_path):
    add_items(run, ROWS, placer=placer)
    model = runs.load(run, "cpu", added=False)
    with torch.no_grad():
        model.network.prototypes += 1
    other = tmp_path / "other"
    runs.save(model, other)
    for name in ("added.parquet", "added.safetensors"):
        shutil.copy(run / name, other / name)
    manifest.seal(other, runs.FILES)
    with pytest.raises(RunError, match="belongs to other weights"):
        runs.load(other, "cpu")


def test_an_item_added_by_another_process_meanwhile_is_not_lost(run, placer):
    weights = runs.weights_digest(run)
    add_items(run, ROWS[:1], placer=placer)
    add_items(run, ROWS[1:], placer=placer)
    assert [item.id for item in added_items(runs.load(run, "cpu"))] == ["new-1", "new-2"]
    with pytest.raises(RunError, match="replaced since it was opened"):
        runs.write_added(run, weights[::-1], lambda current: current)


def test_a_frame_and_a_file_are_read_alike(run, tmp_path, placer):
    pq.write_table(pa.table({"item_id": ["p1"], "name": ["Red bag"], "price": [5]}), tmp_path / "new.parquet")
    report = add_items(run, tmp_path / "new.parquet", dry_run=True, placer=placer)
    assert (report.items[0].title, report.items[0].placement.attributes) == ("Red bag", ("title", "price"))
