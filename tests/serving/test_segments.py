"""Segments over HTTP, and what else the studio's map asks for."""

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

import macrid
from macrid import runs
from macrid.concepts.space import space_of
from macrid.data.ids import Ids
from macrid.data.interactions import Interactions
from macrid.report.profile import Profiler
from macrid.runs import read_heldout
from macrid.serving.schemas import about
from macrid.serving.schemas.segments import SegmentProfile

GENRES = ["Comedy|Drama", "Drama", None, "Comedy|Horror|Drama", "Horror", "Drama|Western"]


def ok(response):
    assert response.status_code == 200, response.text
    return response.json()


@pytest.fixture
def bags(shop_model):
    return [item for item in shop_model.items if item.startswith("bag-")][:30]


def test_a_segment_has_the_profile_that_its_statistics_give(client, shop_model, bags):
    content = SegmentProfile.model_validate(ok(client.post("/v1/segments/profile", json={"ids": [*bags, "x9"]})))
    assert (content.items, content.unknown) == (len(bags), ["x9"])
    positions = shop_model.items.positions(bags)
    expected = Profiler(shop_model, space_of(shop_model).concept_of).of(positions)
    assert [(entry.attribute, entry.value, entry.inside) for entry in content.more] == [
        (share.attribute, share.value, share.inside) for share in expected.more
    ]
    assert [(number.attribute, number.inside) for number in content.numbers] == [
        (shift.attribute, shift.inside) for shift in expected.numbers
    ]
    first = next(entry for entry in content.more if entry.attribute == "category")
    assert (first.label, first.inside, first.outside) == ("bags", 1.0, pytest.approx(first.outside))
    concepts = {concept["concept"]: concept["label"] for concept in ok(client.get("/v1/model"))["concepts"]}
    groups = [entry for entry in content.more if entry.concept is not None]
    assert groups
    assert all(entry.label == concepts[entry.concept] for entry in groups)
    popularity = dict(zip(shop_model.items, shop_model.popularity.tolist(), strict=True))
    counts = [item.popularity for item in content.examples]
    assert counts == sorted((popularity[bag] for bag in bags), reverse=True)[:12]


def test_customers_of_a_segment_are_counted_by_how_much_of_it_they_have(client, shop_run, shop_model, bags):
    wanted = set(shop_model.items.positions(bags).tolist())
    matrices = [read_heldout(shop_run, group).history for group in ("test", "validation")]
    histories = [set(matrix[[row]].indices.tolist()) for matrix in matrices for row in range(matrix.shape[0])]
    customers = ok(client.post("/v1/segments/profile", json={"ids": bags}))["customers"]
    assert customers["total"] == len(histories) == ok(client.get("/v1/model"))["users"]
    have = [len(history & wanted) for history in histories]
    assert customers["at_least"] == [sum(count >= least for count in have) for least in range(1, 21)]
    assert customers["a_tenth"] == sum(
        count > 0 and 10 * count >= len(history) for count, history in zip(have, histories, strict=True)
    )
    assert 0 < customers["at_least"][1] < customers["total"]


def test_a_segment_may_be_empty_or_of_a_model_without_concepts_but_not_larger_than_the_map(
    client, client_of, popularity_run, monkeypatch
):
    empty = ok(client.post("/v1/segments/profile", json={"ids": []}))
    assert (empty["items"], empty["more"], empty["customers"]["at_least"]) == (0, [], [])
    simple = ok(client_of(popularity_run).post("/v1/segments/profile", json={"ids": [0, 1, "2", "x"]}))
    assert (simple["items"], simple["unknown"], simple["customers"]["total"]) == (3, ["x"], 0)
    monkeypatch.setattr("macrid.serving.routes.segments.MOST_ON_MAP", 2)
    refused = client.post("/v1/segments/profile", json={"ids": ["a", "b", "c"]})
    assert refused.status_code == 422
    assert "the limit is 2" in refused.json()["detail"]


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    """A run whose items have several genres."""
    table = pa.table({"title": [f"Film {item}" for item in range(30)], "genres": GENRES * 5})
    table = table.append_column("year", [[1970 + item // 2 for item in range(30)]])
    matrix = sp.csr_array((np.random.default_rng(0).random((40, 30)) < 0.3).astype(np.float32))
    data = Interactions(matrix, Ids(list(range(40))), Ids([f"f{item}" for item in range(30)]), table)
    folder = tmp_path_factory.mktemp("films") / "run"
    runs.save(macrid.Popularity().fit(data), folder)
    return folder


def test_the_map_knows_all_values_of_an_item_most_frequent_first(client_of, films, monkeypatch):
    client = client_of(films)
    content = about.MapValues.model_validate(ok(client.get("/v1/map/values", params={"by": "genres"})))
    assert content.labels == ["Drama", "Comedy", "Horror", "Western"]
    ends = np.cumsum(content.counts)
    named = [
        {content.labels[value] for value in content.all[end - count : end]}
        for count, end in zip(content.counts, ends, strict=True)
    ]
    assert named == [set(texts.split("|")) if texts else set() for texts in GENRES * 5]
    firsts = [None if value is None else content.labels[int(value)] for value in content.values]
    assert firsts[:6] == ["Drama", "Drama", None, "Drama", "Horror", "Drama"]
    year = ok(client.get("/v1/map/values", params={"by": "year"}))
    assert "all" not in year or year["all"] is None
    monkeypatch.setattr("macrid.serving.card.MOST_CATEGORIES", 2)
    fewer = ok(client.get("/v1/map/values", params={"by": "genres"}))
    assert fewer["labels"] == ["Drama", "Comedy", "other"]
    assert fewer["all"][: sum(fewer["counts"][:4])] == [0, 1, 0, 0, 1, 2]


def test_items_are_looked_up_with_their_attributes_if_wanted(client_of, films):
    client = client_of(films)
    content = ok(client.post("/v1/items/lookup", json={"ids": ["f3", "f0", "x"], "attributes": True}))
    assert [(item["id"], item["title"], item["attributes"]) for item in content["items"]] == [
        ("f3", "Film 3", {"genres": GENRES[3], "year": 1971}),
        ("f0", "Film 0", {"genres": GENRES[0], "year": 1970}),
    ]
    about.ItemList.model_validate(content)
    assert "attributes" not in ok(client.post("/v1/items/lookup", json={"ids": ["f3"]}))["items"][0]
