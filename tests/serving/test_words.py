"""POST /v1/words: wishes in words for any client."""


def test_wishes_come_back_as_moves_a_condition_and_items(client):
    body = {"text": "like bag-0001, more mugs, cheaper, no blue, flurb"}
    answer = client.post("/v1/words", json=body)
    assert answer.status_code == 200
    wishes = answer.json()
    assert [entry["id"] for entry in wishes["history"]] == ["bag-0001"]
    assert wishes["history"][0]["title"]
    assert {"towards": "price", "amount": -0.6} in wishes["moves"]
    assert wishes["where"] == "colour != 'blue' or colour is missing"
    assert [entry["text"] for entry in wishes["not_understood"]] == ["flurb"]
    assert len(wishes["understood"]) == 4
    again = client.post("/v1/recommend", json={"history": ["bag-0001"], "moves": wishes["moves"], "n": 5})
    assert again.status_code == 200
    assert len(again.json()["items"]) == 5


def test_an_empty_or_long_wish_is_refused(client):
    for text in ("", "   ", "x" * 1001, None):
        assert client.post("/v1/words", json={"text": text}).status_code == 422


def test_a_renamed_concept_is_known_by_its_new_name(client_of, own_run):
    client = client_of(own_run)
    assert client.post("/v1/words", json={"text": "more rucksacks"}).json()["moves"] == []
    concept = next(each["concept"] for each in client.get("/v1/model").json()["concepts"] if each["name"] == "bags")
    assert client.patch(f"/v1/concepts/{concept}", json={"name": "rucksacks"}).status_code == 200
    assert client.post("/v1/words", json={"text": "more rucksacks"}).json()["moves"] == [
        {"concept": concept, "share": 0.5}
    ]
