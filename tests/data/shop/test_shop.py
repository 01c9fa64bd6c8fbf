"""The built-in shop: what it promises about its data, and that its truth is the truth."""

from __future__ import annotations

import hashlib
import tracemalloc
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.stats import chi2

from macrid.data.ids import Ids
from macrid.data.shop import Laws, Shop, generate, law, ndcg, pictures
from macrid.data.shop.assortment import CATEGORIES, FACTORS
from macrid.data.split import HeldOut
from macrid.errors import RequestError, SettingsError


@pytest.fixture(scope="module")
def shop() -> Shop:
    return generate(seed=3)


@pytest.fixture(scope="module")
def crowd() -> Shop:
    """Few items and many users, so that frequencies come close to probabilities."""
    return generate(users=30_000, items=70, seed=5, interactions=330_000)


def drawn(shop: Shop, place: int) -> np.ndarray:
    """(users,) the item each user took as number `place`."""
    starts = np.cumsum(np.bincount(shop.interactions.pairs[0])) - np.bincount(shop.interactions.pairs[0])
    return shop.interactions.pairs[1][starts + place]


def surprise(observed: np.ndarray, expected: np.ndarray) -> float:
    """How likely a chi-square statistic at least this large is."""
    return float(chi2.sf(((observed - expected) ** 2 / expected).sum(), len(expected) - 1))


@pytest.fixture
def proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small shops are drawn like large ones."""
    monkeypatch.setattr(law, "RACE_CELLS", 0)
    monkeypatch.setattr(law, "TRY_COST", 0)


def test_another_seed_gives_another_shop() -> None:
    one, two = (generate(users=300, items=120, seed=seed) for seed in (0, 1))
    assert not np.array_equal(one.interactions.matrix.toarray(), two.interactions.matrix.toarray())
    assert not np.array_equal(one.factors["colour"], two.factors["colour"])
    assert not np.array_equal(one.share, two.share)


def test_a_small_shop_is_the_same_on_every_machine() -> None:
    shop = generate(users=50, items=80, seed=1)
    assert shop.interactions.items[0] == "bag-0001"
    assert shop.interactions.users[49] == "user-0050"
    assert len(shop.interactions) == 1704
    first = [shop.interactions.items[item] for item in shop.interactions.pairs[1][:5]]
    assert first == ["shirt-0002", "shirt-0006", "shirt-0001", "mug-0001", "watch-0007"]


def test_the_default_shop_is_the_one_it_always_was() -> None:
    shop = generate(seed=0)
    table = shop.interactions.table
    assert table is not None
    digest = hashlib.sha256()
    for positions in shop.interactions.pairs:
        digest.update(positions.astype("<i4").tobytes())
    for texts in (shop.interactions.users, shop.interactions.items, table.column("title").to_pylist()):
        digest.update("\n".join(map(str, texts)).encode())
    assert digest.hexdigest() == "b012b942eb993fc8c048ff6574146c98e727f915a9bd727c78736b149b96e345"


def test_every_user_likes_two_to_four_categories_and_touches_all(shop: Shop) -> None:
    liked = shop.likes.sum(axis=1)
    assert set(np.unique(liked)) == {2, 3, 4}
    assert np.allclose(shop.share.sum(axis=1), 1)
    assert (shop.share > 0).all()
    assert (shop.share * shop.likes).sum(axis=1).min() >= 1 - shop.laws.leak


def test_related_categories_are_liked_together(shop: Shop) -> None:
    likes = shop.likes.astype(float)
    together = likes.T @ likes / len(likes)
    lift = together / np.outer(likes.mean(axis=0), likes.mean(axis=0))
    name = {entry.name: position for position, entry in enumerate(CATEGORIES)}
    assert lift[name["bags"], name["shoes"]] > 1.3 * lift[name["bags"], name["mugs"]]
    assert lift[name["mugs"], name["lamps"]] > 1.3 * lift[name["lamps"], name["phone cases"]]


def test_users_have_the_requested_number_of_interactions_with_a_spread(shop: Shop) -> None:
    counts = np.diff(shop.interactions.matrix.indptr)
    assert counts.min() >= shop.laws.fewest == 10
    assert counts.mean() == pytest.approx(shop.laws.per_user, rel=0.02)
    assert counts.std() > 10
    asked = generate(users=400, items=200, interactions=12_000)
    assert len(asked.interactions) == pytest.approx(12_000, rel=0.02)


def test_no_user_has_an_item_twice(shop: Shop) -> None:
    rows, columns = shop.interactions.pairs
    assert len(np.unique(rows.astype(np.int64) * len(shop.category) + columns)) == len(rows)


def test_probabilities_sum_to_one_and_follow_the_documented_law(shop: Shop) -> None:
    users = [0, 17, 3999]
    fast = shop.probabilities(users)
    assert np.allclose(fast.sum(axis=1), 1, atol=1e-12)
    for row, user in enumerate(users):
        slow = np.zeros(len(shop.category))
        for item, category in enumerate(shop.category):
            match = 0.0
            for name in CATEGORIES[category].factors:
                gap = shop.factors[name][item] - shop.preferred[name][user, category]
                match -= 0.5 * shop.strength[name][user, category] * gap**2
            slow[item] = shop.popularity[item] * np.exp(match)
        for category in range(len(CATEGORIES)):
            own = shop.category == category
            slow[own] *= shop.share[user, category] / slow[own].sum()
        assert np.allclose(fast[row], slow, rtol=1e-9)


def test_first_choices_are_as_frequent_as_their_probabilities(crowd: Shop) -> None:
    expected = crowd.probabilities(np.arange(len(crowd.share))).sum(axis=0)
    observed = np.bincount(drawn(crowd, 0), minlength=len(expected))
    assert surprise(observed, expected) > 1e-4


def test_second_choices_are_drawn_from_the_remaining_items(crowd: Shop) -> None:
    chance = crowd.probabilities(np.arange(len(crowd.share)))
    rows = np.arange(len(chance))
    chance[rows, drawn(crowd, 0)] = 0
    expected = (chance / chance.sum(axis=1, keepdims=True)).sum(axis=0)
    observed = np.bincount(drawn(crowd, 1), minlength=len(expected))
    assert surprise(observed, expected) > 1e-4
    with_first = crowd.probabilities(rows).sum(axis=0)
    assert surprise(observed, with_first) < 1e-6  # the test can tell the difference


@pytest.mark.parametrize(
    ("tries", "turns"),
    [(64, 6), (2, 6), (0, 6), (64, 1), (2, 0)],
    ids=["proposed", "some weighed", "all weighed", "filled up by the race", "all by the race"],
)
@pytest.mark.slow
def test_large_shops_draw_first_second_and_third_choices_by_plackett_luce(
    monkeypatch: pytest.MonkeyPatch, proposed: None, tries: int, turns: int
) -> None:
    monkeypatch.setattr(law, "TRIES", tries)
    monkeypatch.setattr(law, "TURNS", turns)
    one, count = generate(users=1, items=42, seed=4, laws=Laws(strength=6)), 60_000
    twins = replace(
        one,
        share=np.repeat(one.share, count, axis=0),
        preferred={name: np.repeat(points, count, axis=0) for name, points in one.preferred.items()},
        strength={name: np.repeat(values, count, axis=0) for name, values in one.strength.items()},
    )
    rows, items = law.draw(twins, np.full(count, 3), np.random.SeedSequence(8))
    assert np.array_equal(rows, np.repeat(np.arange(count), 3))
    first, second, third = items.reshape(count, 3).T
    p = one.probabilities([0])[0]
    pairs = p[:, None] * p / (1 - p[:, None])  # (first, second)
    np.fill_diagonal(pairs, 0)
    left = 1 - p[:, None] - p
    np.fill_diagonal(left, 1)
    thirds = p * ((pairs / left).sum() - (pairs / left).sum(axis=0) - (pairs / left).sum(axis=1))
    assert thirds.sum() == pytest.approx(1)
    observed = np.bincount(first * 42 + second, minlength=42 * 42)
    assert observed[:: 42 + 1].sum() == 0
    often = pairs.ravel() * count > 5
    rest = [pairs.ravel()[~often].sum()]
    expected = np.concatenate([pairs.ravel()[often], rest]) * count
    assert surprise(np.append(observed[often], observed[~often].sum()), expected) > 1e-4
    assert surprise(np.bincount(third, minlength=42), thirds * count) > 1e-4
    assert surprise(np.bincount(third, minlength=42), p * count) < 1e-6  # the test can tell the difference


def test_large_and_small_shops_follow_the_same_law(shop: Shop, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue("proposed")
    large = generate(seed=3)
    assert not np.array_equal(large.interactions.pairs[1], shop.interactions.pairs[1])
    assert np.array_equal(large.interactions.matrix.indptr, shop.interactions.matrix.indptr)
    one, two = shop.interactions.popularity, large.interactions.popularity
    for category in range(7):
        own = (shop.category == category) & (one + two > 10)
        assert chi2.sf(((one - two)[own] ** 2 / (one + two)[own]).sum(), own.sum()) > 1e-4
    users = np.arange(1000)
    log = np.log(shop.probabilities(users))
    gap = [(data.interactions.matrix[users].toarray() * log).mean(axis=1) for data in (shop, large)]
    assert abs((gap[0] - gap[1]).mean()) < 4 * (gap[0] - gap[1]).std() / np.sqrt(len(users))
    best = [data.oracle(data.split().test, data.split().items) for data in (shop, large)]
    assert best[0] == pytest.approx(best[1], rel=0.05)


@pytest.mark.parametrize("strength", [2.1, 300.0])
def test_large_shops_give_every_user_the_requested_number_of_distinct_items(
    monkeypatch: pytest.MonkeyPatch, proposed: None, strength: float
) -> None:
    monkeypatch.setattr(law, "DRAWS_AT_ONCE", 1000)
    one, two = (generate(300, 120, seed=2, interactions=9_000, laws=Laws(strength=strength)) for _ in range(2))
    rows, columns = one.interactions.pairs
    assert len(np.unique(rows.astype(np.int64) * 120 + columns)) == len(rows)
    assert len(rows) == pytest.approx(9_000, rel=0.01)
    assert np.array_equal(columns, two.interactions.pairs[1])
    monkeypatch.undo()
    small = generate(300, 120, seed=2, interactions=9_000, laws=Laws(strength=strength))
    assert np.array_equal(rows, small.interactions.pairs[0])


def test_a_user_may_take_half_of_a_large_shop(proposed: None) -> None:
    shop = generate(users=40, items=100, interactions=1000, laws=Laws(activity_spread=3, leak=0.001))
    counts = np.diff(shop.interactions.matrix.indptr)
    assert counts.max() == 50
    assert shop.interactions.matrix.toarray().sum(axis=1).max() == 50


def test_popularity_is_long_tailed(shop: Shop) -> None:
    counts = np.sort(shop.interactions.popularity)[::-1]
    assert counts[: len(counts) // 5].sum() > 0.6 * counts.sum()
    assert counts[-len(counts) // 5 :].sum() < 0.05 * counts.sum()
    assert counts[0] < 0.6 * len(shop.share)


def test_categories_differ_in_size_and_each_has_popular_and_rare_items(shop: Shop) -> None:
    sizes = np.bincount(shop.category)
    assert len(set(sizes)) == len(CATEGORIES) == 7
    for category in range(7):
        counts = shop.interactions.popularity[shop.category == category]
        assert counts.max() > 10 * np.median(counts)


def test_preferences_are_independent_across_categories(shop: Shop) -> None:
    for name in ("size", "colour", "price"):
        points = shop.preferred[name][:, [name in entry.factors for entry in CATEGORIES]]
        between = np.corrcoef(points.T) - np.eye(points.shape[1])
        assert np.abs(between).max() < 0.08
        assert np.abs(points[:, 0] - points[:, 1]).mean() > 0.5


def test_users_take_items_near_their_preferred_points(shop: Shop) -> None:
    rows, columns = shop.interactions.pairs
    for category, entry in enumerate(CATEGORIES):
        keep = (shop.category[columns] == category) & shop.likes[rows, category]
        for name in entry.factors:
            taken = shop.factors[name][columns[keep]]
            assert np.corrcoef(taken, shop.preferred[name][rows[keep], category])[0, 1] > 0.25


def test_factors_are_known_exactly_where_a_category_has_them(shop: Shop) -> None:
    assert tuple(shop.factors) == FACTORS
    for name, values in shop.factors.items():
        has_factor = np.array([name in entry.factors for entry in CATEGORIES])[shop.category]
        assert np.array_equal(np.isnan(values), ~has_factor)
        assert np.nanmin(values) >= -1
        assert np.nanmax(values) <= 1


def test_the_items_table_gives_the_factors_in_words_and_units(shop: Shop) -> None:
    table = shop.interactions.table
    assert table is not None
    rows = table.to_pylist()
    assert [row["category"] for row in rows] == [shop.category_names[number] for number in shop.category]
    for column, factor in (("size", "size"), ("price", "price"), ("heel", "heel"), ("coolness", "colour")):
        for category in np.unique(shop.category[~np.isnan(shop.factors[factor])]):
            items = np.flatnonzero(shop.category == category)
            by_factor = items[np.argsort(shop.factors[factor][items])]
            assert all(rows[a][column] <= rows[b][column] for a, b in pairwise(by_factor))
    assert all(row["price"] > 0 for row in rows)
    assert {row["heel"] for row in rows if row["category"] != "shoes"} == {None}
    assert all(row["colour"] in row["title"].lower() for row in rows)


def test_colours_styles_and_titles_use_the_words_for_the_factors(shop: Shop) -> None:
    assert shop.interactions.table is not None
    for item, row in enumerate(shop.interactions.table.to_pylist()):
        entry = CATEGORIES[shop.category[item]]
        factors = {name: shop.factors[name][item] for name in entry.factors}
        words = {name: pictures.word(choices, factors[name]) for name, choices in entry.words.items()}
        words["colour"] = pictures.word(tuple(pictures.COLOURS), factors["colour"])
        words["style"] = pictures.word(pictures.STYLES, factors["style"]) if "style" in factors else None
        assert (row["colour"], row["style"]) == (words["colour"], words["style"])
        title = entry.title.format(**words).replace("plain", "")
        assert row["title"].lower() == " ".join(title.split()).lower()


def test_titles_read_like_a_shop(shop: Shop) -> None:
    table = shop.interactions.table
    assert table is not None
    titles = table.column("title").to_pylist()
    assert all(title[0].isupper() and "  " not in title and " ," not in title for title in titles)
    bags = [row for row in table.to_pylist() if row["category"] == "bags"]
    large, small = ([bag["size"] for bag in bags if bag["title"].startswith(word)] for word in ("Large", "Small"))
    assert min(large) > max(small)
    assert any("red" in bag["title"].split() and "leather bag" in bag["title"] for bag in bags)


def test_ndcg_equals_the_formula_written_as_a_loop() -> None:
    random = np.random.default_rng(0)
    for k in (1, 5, 30, 100):
        scores = random.normal(size=(20, 40))
        relevant = random.random((20, 40)) < 0.2
        relevant[:, 0] = True
        seen = (random.random((20, 40)) < 0.3) & ~relevant
        scores[seen] = -np.inf
        for user, value in enumerate(ndcg(scores, relevant, k)):
            ranked = sorted(range(40), key=lambda item: -scores[user, item])[:k]
            gain = sum(1 / np.log2(place + 2) for place, item in enumerate(ranked) if relevant[user, item])
            ideal = sum(1 / np.log2(place + 2) for place in range(min(k, int(relevant[user].sum()))))
            assert value == pytest.approx(gain / ideal)


def test_the_oracle_is_better_than_fifty_perturbations_of_it(shop: Shop) -> None:
    split = shop.split()
    held = split.test
    columns = shop.interactions.items.positions(split.items)
    chance = shop.probabilities(shop.interactions.users.positions(held.users))[:, columns]
    chance[held.history.toarray() > 0] = 0
    relevant = held.target.toarray() > 0
    best = shop.oracle(held, split.items)
    assert best == pytest.approx(ndcg(chance, relevant, 100).mean())
    random = np.random.default_rng(0)
    for _ in range(50):
        noisy = chance * np.exp(random.normal(0, 0.4, chance.shape))
        assert ndcg(noisy, relevant, 100).mean() < best


def test_factors_matter_and_popularity_alone_is_far_from_the_oracle(shop: Shop) -> None:
    split = shop.split()
    held, columns = split.test, shop.interactions.items.positions(split.items)
    best = shop.oracle(held, split.items)
    users = shop.interactions.users.positions(held.users)
    relevant, seen = held.target.toarray() > 0, held.history.toarray() > 0
    by_category = shop.share[users][:, shop.category[columns]] * shop.popularity[columns]
    by_popularity = np.tile(split.train.popularity.astype(float), (len(users), 1))
    for scores, most in ((by_category, 0.75), (by_popularity, 0.6)):
        scores[seen] = -np.inf
        assert ndcg(scores, relevant, 100).mean() < most * best


def test_the_oracle_skips_users_with_nothing_to_predict(shop: Shop) -> None:
    split = shop.split(heldout=30)
    held = split.test
    target = held.target.copy()
    target.data[: target.indptr[10]] = 0
    fewer = HeldOut(held.history[10:], held.target[10:], held.users.take(np.arange(10, 30)))
    emptied = shop.oracle(HeldOut(held.history, target, held.users), split.items)
    assert emptied == pytest.approx(shop.oracle(fewer, split.items))
    with pytest.raises(RequestError):
        shop.oracle(HeldOut(held.history, held.target * 0, held.users), split.items)


def test_the_oracle_refuses_users_and_items_of_another_shop(shop: Shop) -> None:
    split = shop.split(heldout=20)
    strangers = HeldOut(split.test.history, split.test.target, Ids([f"guest-{n}" for n in range(20)]))
    with pytest.raises(RequestError, match="'guest-0'"):
        shop.oracle(strangers, split.items)
    with pytest.raises(RequestError, match="'piano-1'"):
        shop.oracle(split.test, Ids(["piano-1"]))
    with pytest.raises(RequestError, match="k is 0"):
        shop.oracle(split.test, split.items, k=0)
    with pytest.raises(RequestError, match="5 items"):
        shop.oracle(split.test, split.items.take(np.arange(5)))


def test_a_tenth_of_the_users_is_held_out_by_default(shop: Shop) -> None:
    split = shop.split()
    assert len(split.validation.users) == len(split.test.users) == 400
    assert len(shop.split(heldout=50).test.users) == 50


def test_every_item_has_a_picture_with_its_title(shop: Shop) -> None:
    table = shop.interactions.table
    assert table is not None
    for position in range(0, len(shop.category), 7):
        root = ElementTree.fromstring(shop.picture(shop.interactions.items[position]))
        assert root.get("aria-label") == table.column("title")[position].as_py()
    with pytest.raises(RequestError, match="bag-9999"):
        shop.picture("bag-9999")


def test_memory_stays_below_a_matrix_of_users_and_items() -> None:
    users, items = 4_000, 4_000
    tracemalloc.start()
    try:
        shop = generate(users=users, items=items, interactions=60_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(shop.interactions) == pytest.approx(60_000, rel=0.02)
    assert peak < 0.5 * users * items * 8


def test_a_hundred_thousand_items_take_a_tenth_of_the_memory_of_users_and_items() -> None:
    users, items = 1_500, 100_000
    tracemalloc.start()
    try:
        shop = generate(users=users, items=items, interactions=45_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(shop.interactions) == pytest.approx(45_000, rel=0.01)
    assert peak < 0.1 * users * items * 8
    counts = np.sort(shop.interactions.popularity)[::-1]
    assert counts[: items // 5].sum() > 0.6 * counts.sum()
    assert shop.interactions.items[0] == "bag-00001"
    assert shop.interactions.items[items - 1] == "watch-10000"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"users": 0}, "users is 0"),
        ({"items": 10}, "items is 10; .* 42"),
        ({"seed": -1}, "seed is -1"),
        ({"users": 100, "interactions": 500}, "interactions is 500; .* 1,000 .* 30,000"),
        ({"users": 100, "interactions": 500_000}, "interactions is 500,000"),
    ],
)
def test_impossible_shops_are_refused_with_the_value_and_the_limit(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        generate(**arguments)  # type: ignore[arg-type]


def test_laws_out_of_range_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"leak is 1\.5"):
        Laws.make(leak=1.5)
    with pytest.raises(SettingsError, match="focus is 0"):
        Laws.make(focus=0)


def test_without_strength_factors_do_not_matter() -> None:
    shop = generate(users=50, items=80, laws=Laws(strength=0))
    for category in range(7):
        items = shop.category == category
        expected = np.outer(shop.share[:, category], shop.popularity[items])
        assert np.allclose(shop.probabilities(np.arange(50))[:, items], expected)
