"""Why an item is recommended: pulls are those of leaving out one item after the other, asked one at a time."""

import copy
import json

import numpy as np
import pytest

import macrid
from macrid.concepts import naming
from macrid.concepts.meaning import meaning_of
from macrid.control import explain as module
from macrid.control.explain import explain
from macrid.errors import FallbackWarning, MacridError, RangeWarning, RequestError, UnknownItemsWarning


@pytest.fixture(scope="module", params=["MacridVAE", "MultVAE", "EASE", "Popularity"])
def either(request, trained):
    model, split = trained
    if request.param == "MacridVAE":
        return model
    training = {"epochs": 2, "batch_size": 50} if request.param == "MultVAE" else {}
    return getattr(macrid, request.param)().fit(split.train, device="cpu", **training)


def pulls_one_by_one(model, history, item):
    """id → the score with the whole history less that without it."""
    place = model.items[:].index(item)

    def score(items):
        return float(model.scores(model.histories([items]))[0, place])

    return {out: score(history) - score([kept for kept in history if kept != out]) for out in history}


def test_pulls_are_those_of_leaving_items_out_one_at_a_time(either):
    history = either.items[3:40:5]
    reasons = explain(either, history, n=4, most=99)
    assert [reason.item.id for reason in reasons] == either.recommend(history, 4).ids
    assert [reason.item.score for reason in reasons] == pytest.approx(
        [item.score for item in either.recommend(history, 4)], abs=1e-5
    )
    for reason in reasons:
        expected = pulls_one_by_one(either, history, reason.item.id)
        assert {pull.id: pull.amount for pull in reason.pulls} == pytest.approx(expected, abs=2e-5)
        amounts = [pull.amount for pull in reason.pulls]
        assert amounts == sorted(amounts, reverse=True)


def test_given_items_are_explained_in_order_with_their_strongest_pulls(either):
    history, items = either.items[:6], [either.items[90], either.items[2], either.items[50]]
    reasons = explain(either, history, items, most=2)
    assert [reason.item.id for reason in reasons] == items
    scores = either.scores(either.histories([history]))[0]
    for reason, place in zip(reasons, (90, 2, 50), strict=True):
        assert reason.item.score == pytest.approx(float(scores[place]), abs=1e-5)
        assert len(reason.pulls) == 2
        expected = pulls_one_by_one(either, history, reason.item.id)
        assert reason.pulls[0].amount == pytest.approx(max(expected.values()), abs=2e-5)


def test_a_single_item_is_compared_with_an_empty_history(either):
    history, (reason,) = either.items[:1], explain(either, either.items[:1], n=1)
    whole, empty = either.scores(either.histories([history, []])).numpy()
    place = either.items[:].index(reason.item.id)
    assert [(pull.id, pull.amount) for pull in reason.pulls] == [
        (history[0], pytest.approx(float(whole[place] - empty[place]), abs=1e-5))
    ]


def test_an_empty_history_has_no_pulls(either):
    for reason in explain(either, [], n=3):
        assert reason.pulls == ()
        assert reason.share in (None, 0.0)


def test_unknown_items_are_ignored_with_a_warning(either):
    history = either.items[:5]
    with pytest.warns(UnknownItemsWarning, match="no such thing"):
        reasons = explain(either, [*history, "no such thing"], n=2, most=9)
    assert reasons == explain(either, history, n=2, most=9)
    with pytest.raises(RequestError, match="no such thing"):
        explain(either, ["no such thing"], strict=True)
    with pytest.warns(UnknownItemsWarning), pytest.warns(FallbackWarning):
        reasons = explain(either, ["no such thing"], n=2)
    assert [reason.item.id for reason in reasons] == either.recommend([], 2).ids
    assert [reason.pulls for reason in reasons] == [(), ()]
    with pytest.raises(RequestError, match="'no such thing'"):
        explain(either, history, ["no such thing"])


def test_bad_counts_and_unfitted_models_are_refused(either):
    with pytest.raises(RequestError, match="-1"):
        explain(either, either.items[:3], most=-1)
    with pytest.raises(RequestError, match="0"):
        explain(either, either.items[:3], n=0)
    with pytest.raises(MacridError, match=type(either).__name__):
        explain(type(either)(), ["x"])
    assert explain(either, either.items[:3], []) == []
    assert all(reason.pulls == () for reason in explain(either, either.items[:3], most=0))


def test_long_histories_are_scored_in_parts(either, monkeypatch):
    history = either.items[::4]
    whole = explain(either, history, n=3, most=99)
    monkeypatch.setattr(module, "SCORES_AT_ONCE", 7 * len(either.items))
    for one, other in zip(whole, explain(either, history, n=3, most=99), strict=True):
        assert {pull.id: pull.amount for pull in one.pulls} == pytest.approx(
            {pull.id: pull.amount for pull in other.pulls}, abs=1e-5
        )


def test_a_repeated_item_counts_once(either):
    history = either.items[:4]
    assert explain(either, [*history, *history], n=2) == explain(either, history, n=2)


def test_shares_of_a_history_sum_to_one_over_concepts(trained):
    model, split = trained
    history = [model.items[place] for place in split.test.history[[0]].indices]
    concepts = model.concepts_of_items()
    items = [model.items[int(np.flatnonzero(concepts == k)[0])] for k in range(7)]
    reasons = explain(model, history, items)
    assert [reason.item.concept for reason in reasons] == list(range(7))
    assert sum(reason.share for reason in reasons) == pytest.approx(1, abs=1e-5)
    confidence = model.encode(history).confidence
    assert [reason.share for reason in reasons] == pytest.approx((confidence / confidence.sum()).tolist(), abs=1e-5)


def test_models_without_concepts_tell_no_share(either):
    if not isinstance(either, macrid.MacridVAE):
        (reason,) = explain(either, either.items[:3], n=1)
        assert (reason.share, reason.concept_name, reason.item.concept) == (None, None, None)


def test_names_titles_and_json(trained):
    model = copy.deepcopy(trained[0])
    history = model.items[:5]
    assert explain(model, history, n=1)[0].concept_name is None
    meaning_of(model).names = naming.find(model).renamed(model.concepts_of_items()[7].item(), "Mine")
    (reason,) = explain(model, history, [model.items[7]])
    titles = dict(zip(model.items, model.table.column("title").to_pylist(), strict=True))
    assert reason.concept_name == "Mine"
    assert [pull.title for pull in reason.pulls] == [titles[pull.id] for pull in reason.pulls]
    told = json.loads(json.dumps(reason.as_json(), allow_nan=False))
    assert told["concept_name"] == "Mine"
    assert told["id"] == str(model.items[7])
    assert told["pulls"][0] == {
        "id": str(reason.pulls[0].id),
        "title": reason.pulls[0].title,
        "amount": reason.pulls[0].amount,
    }


def test_what_is_seen_can_be_explained_too(trained):
    model, _ = trained
    history = model.items[:30]
    reasons = explain(model, history, n=20, exclude_seen=False)
    assert {reason.item.id for reason in reasons} & set(history)


def test_accounts_are_of_the_places_in_the_list_with_moves_and_rules(trained):
    model, history = trained[0], trained[0].items[3:40:5]
    moves, rules = [{"concept": 2, "share": 0.6}], {"boosts": [{"where": "price < 30", "amount": 0.5}]}
    steered = macrid.steer(model, history, moves=moves, n=5, rules=rules)
    reasons = explain(model, history, n=5, moves=moves, rules=rules)
    assert [reason.item.id for reason in reasons] == steered.ids
    assert [reason.account.rank for reason in reasons] == [1, 2, 3, 4, 5]
    before = {item.id: rank for rank, item in enumerate(steered.before, start=1)}
    assert {reason.item.id: reason.account.before.rank for reason in reasons if reason.item.id in before} == {
        item: rank for item, rank in before.items() if item in steered.ids
    }
    for reason, item in zip(reasons, steered, strict=True):
        assert reason.parts is reason.account.parts
        boost = sum(part.amount for part in reason.parts if part.rule == "boosts")
        assert reason.account.score == pytest.approx(item.score + boost, abs=2e-3)
        told = json.loads(json.dumps(reason.as_json(), allow_nan=False))
        assert told["account"]["rank"] == reason.account.rank
    plain = explain(model, history, steered.ids)
    assert [reason.pulls for reason in plain] == [reason.pulls for reason in reasons]
    with pytest.warns(RangeWarning):
        explain(model, history, moves=[{"concept": 1, "dimension": 0, "to": 5}])


def test_places_in_a_frame_add_up_to_the_rank(either):
    reasons = explain(either, either.items[3:40:5], n=4)
    frame = reasons.to_parts("pandas")
    sums = frame.groupby("rank")[["places", "amount"]].sum()
    assert (-sums["places"]).to_dict() == {rank: rank for rank in range(1, 5)}
    assert sums["amount"].tolist() == pytest.approx([reason.account.score for reason in reasons])
    assert frame["item"].unique().tolist() == [reason.item.id for reason in reasons]
    assert f"place 1 of {len(either.items) - 8}" in reasons._repr_html_()
