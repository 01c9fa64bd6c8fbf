"""What a trial says about a cohort, against the same said naively about each user's list."""

import copy

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

import macrid
from macrid.concepts.space import space_of
from macrid.control.cohort import Cohort
from macrid.control.moves import Move
from macrid.control.rules import Rules
from macrid.control.trial import MOST_NAMED, try_on

N = 10
CHEAP = Rules(where="price < 40")


@pytest.fixture(scope="module")
def world(trained):
    model, split = trained
    return model, split, Cohort(model, split.test.history, targets=split.test.target)


@pytest.fixture(scope="module")
def moved(world):
    """(lists before, lists after, trial)"""
    cohort = world[2]
    moves, rules = [Move(towards="price", amount=-1.5)], [Rules(at_most={"category": 4})]
    before, after = cohort.lists(N).listed.tolist(), cohort.lists(N, moves, rules).listed.tolist()
    return before, after, try_on(cohort, N, moves, rules)


def test_without_moves_and_rules_nothing_changes_and_accuracy_is_that_of_evaluate(world):
    model, split, cohort = world
    trial, scores = try_on(cohort, N), macrid.evaluate(model, split.test)
    assert (trial.new, trial.kept, trial.unchanged, trial.short_users) == (0, 1, len(cohort), 0)
    assert [*trial.losses, *trial.gains, *trial.changes, *trial.short] == []
    assert (trial.accuracy.users, trial.accuracy.same) == (scores.users, scores.users)
    for name in ("ndcg@100", "recall@20"):
        assert trial.accuracy.metrics[name].before.mean == pytest.approx(scores[name].mean)
        assert trial.accuracy.metrics[name].after.se == pytest.approx(scores[name].se)
        assert trial.accuracy.metrics[name].difference.mean == 0


def test_how_much_of_the_lists_is_new(moved):
    before, after, trial = moved
    new = [len(set(b) - set(a)) for a, b in zip(before, after, strict=True)]
    assert trial.new == pytest.approx(np.mean(new) / N)
    assert trial.kept == pytest.approx(1 - np.mean(new) / N)
    places = [np.mean([a[place] != b[place] for a, b in zip(before, after, strict=True)]) for place in range(N)]
    assert trial.changed_places == pytest.approx(places)
    assert [each.new for each in trial.per_user] == new
    assert [each.new for each in trial.changes] == sorted(new, reverse=True)[:MOST_NAMED]


def test_attributes_move_in_their_own_terms(world, moved):
    model, (before, after, trial) = world[0], moved
    price, category = (np.array(model.table[name].to_pylist()) for name in ("price", "category"))
    found = {each.name: each for each in trial.attributes}
    assert found["price"].before == pytest.approx(np.mean([price[items].mean() for items in before]))
    assert found["price"].after == pytest.approx(np.mean([price[items].mean() for items in after]))
    assert found["price"].after < found["price"].before
    assert found["price"].moves < 0
    assert found["price"].label == f"{found['price'].before:.3g} → {found['price'].after:.3g}"
    bags = next(each for name, each in found.items() if name.startswith("category: "))
    value = bags.name.removeprefix("category: ")
    assert bags.is_share
    assert bags.after == pytest.approx(np.mean([(category[items] == value).mean() for items in after]))
    assert bags.label.endswith(" % of the list")
    assert [abs(each.moves) for each in trial.attributes] == sorted(
        (abs(e.moves) for e in trial.attributes), reverse=True
    )


def test_shares_coverage_and_popularity_are_those_of_the_lists(world, moved):
    model, (before, after, trial) = world[0], moved
    concepts = space_of(model).concept_of
    for lists, shares in zip((before, after), trial.shares, strict=True):
        expected = [np.mean([(concepts[items] == k).mean() for items in lists]) for k in range(7)]
        assert shares == pytest.approx(expected)
        assert sum(shares) == pytest.approx(1)
    assert trial.coverage == tuple(len({item for items in lists for item in items}) for lists in (before, after))
    assert trial.popularity == pytest.approx(
        [np.mean([model.popularity[items].mean() for items in lists]) for lists in (before, after)]
    )


def test_accuracy_is_compared_user_by_user_and_says_who_gains_and_loses(world, moved):
    cohort, trial = world[2], moved[2]
    known = [each for each in trial.per_user if each.before is not None]
    gains = np.array([each.after - each.before for each in known])
    accuracy = trial.accuracy
    assert len(known) == accuracy.users == int((np.diff(cohort.targets.indptr) > 0).sum())
    assert (accuracy.gained, accuracy.lost, accuracy.same) == ((gains > 0).sum(), (gains < 0).sum(), (gains == 0).sum())
    assert accuracy.lost > 0
    difference = accuracy.metrics["ndcg@100"].difference
    assert (difference.mean, difference.se) == pytest.approx((gains.mean(), gains.std() / np.sqrt(len(gains))))
    assert [each.gain for each in trial.losses] == pytest.approx(np.sort(gains[gains < 0])[:MOST_NAMED])
    assert [each.gain for each in trial.gains] == pytest.approx(-np.sort(-gains[gains > 0])[:MOST_NAMED])
    assert sum(each.users for each in trial.tastes) == len(cohort)
    mean = sum(each.users * each.new for each in trial.tastes) / len(cohort)
    assert mean == pytest.approx(trial.new)


def test_a_list_of_the_rules_counts_as_continued_by_the_best_of_the_rest(world):
    """NDCG@100 by its definition, for one user."""
    _, split, cohort = world
    user = int(np.argmax(np.diff(split.test.target.indptr)))
    trial = try_on(cohort, N, [], [Rules(diversity=0.7)])
    ranking = cohort.lists(N, rules=[Rules(diversity=0.7)]).positions[user].tolist()
    target = set(split.test.target[[user]].indices.tolist())
    gain = sum(1 / np.log2(rank + 1) for rank, item in enumerate(ranking, start=1) if item in target)
    best = sum(1 / np.log2(rank + 1) for rank in range(1, len(target) + 1))
    assert trial.per_user[user].after == pytest.approx(gain / best)


def test_lists_that_cannot_be_filled_are_counted_and_their_missing_places_are_not_new(world):
    model, _, cohort = world
    three = tuple(model.items[:3])
    trial = try_on(cohort, N, [], [Rules(include=three, strict=True)])
    assert trial.short_users == len(cohort)
    assert all(each.length <= 3 for each in trial.short)
    assert trial.new + trial.kept <= 0.3 + 1e-9
    none = try_on(cohort, N, [], [Rules(where="price < 0")])
    assert (none.new, none.kept, none.coverage[1], none.shares[1]) == (0, 0, 0, (0.0,) * 7)
    assert none.accuracy.metrics["ndcg@100"].after.mean == 0
    assert none.attributes == ()


def test_without_targets_there_is_no_accuracy_and_only_lists_are_compared(world):
    model, split, _ = world
    trial = try_on(Cohort(model, split.test.history), N, [Move(concept=1, share=0.9)])
    assert trial.accuracy is None
    assert trial.losses == trial.gains == ()
    assert trial.changes
    assert trial.as_json()["accuracy"] is None
    assert all(each.before is None for each in trial.per_user)
    nothing = Cohort(model, split.test.history, targets=sp.csr_array(split.test.target.shape))
    assert try_on(nothing, N).accuracy is None


def test_standing_rules_are_in_force_before_and_after(world):
    cohort = world[2]
    standing = {"standing": (CHEAP,)}
    trial = try_on(cohort, N, **standing)
    assert trial.new == 0
    assert trial.coverage[0] == len(np.unique(cohort.lists(N, rules=[CHEAP]).listed))
    assert try_on(cohort, N, [], [CHEAP], **standing).new == 0
    assert try_on(cohort, N, [], [CHEAP]).new > 0


def test_a_model_without_concepts_or_attributes_has_neither(shop_split):
    model = macrid.Popularity().fit(shop_split.train.matrix)
    first = model.items[int(np.argmax(model.popularity))]
    trial = try_on(Cohort(model, shop_split.test.history), N, [], [Rules(exclude=(first,))])
    assert (trial.shares, trial.tastes) == (((), ()), ())
    assert {each.name for each in trial.attributes} == {"popularity"}
    assert trial.new > 0


def test_dates_move_as_dates(trained):
    model = copy.deepcopy(trained[0])
    days = np.datetime64("2020-01-01") + np.arange(len(model.items)) // 2 * np.timedelta64(1, "D")
    model.table = model.table.append_column("since", pa.array(days.astype("M8[s]")))
    cohort = Cohort(model, trained[1].test.history)
    trial = try_on(cohort, N, [], [Rules(where="since >= '2020-03-01'")])
    since = next(each for each in trial.attributes if each.name == "since")
    before, after = since.label.split(" → ")
    assert before < "2020-03-01" <= after < "2020-04-01"


def test_the_json_has_everything_but_single_users(moved):
    content = moved[2].as_json()
    assert content["accuracy"]["metrics"]["ndcg@100"]["difference"]["se"] > 0
    assert content["coverage"].keys() == {"before", "after"}
    assert content["changes"][0]["row"] == moved[2].changes[0].row
    assert "per_user" not in content
