"""Turned axes: no score changes, planted structure is found, chance is not, and a run keeps them."""

import copy
import json

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from scipy.special import log_softmax, logsumexp
from scipy.stats import spearmanr

import macrid
from macrid import runs
from macrid.concepts import axes as axes_module
from macrid.concepts import naming
from macrid.concepts.axes import (
    FEWEST_ITEMS,
    KINDS,
    attribute_axes,
    find,
    independent,
    significant,
    use,
    weights_of,
)
from macrid.concepts.meaning import Axes, Fit, meaning_of
from macrid.concepts.space import space_of
from macrid.data.attributes import Column
from macrid.errors import MacridError, RequestError, RunError

DIM = 16
seeds = st.integers(0, 2**32 - 1)


def a_rotation(random, dim):
    return np.linalg.qr(random.normal(size=(dim, dim)))[0]


def unit(vectors):
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def a_number(name, values):
    return Column(name, name, "number", np.asarray(values, dtype=float))


# No score changes


@pytest.fixture(
    scope="module", params=[("hard", "cosine"), ("soft", "cosine"), ("hard", "inner"), ("soft", "inner")], ids="-".join
)
def either(request, wide):
    """(model, histories) of every assignment and similarity."""
    model, split = wide
    assignment, similarity = request.param
    if request.param == ("soft", "cosine"):
        return model, split.test.history
    other = macrid.MacridVAE(concepts=7, dim=DIM, assignment=assignment, similarity=similarity)
    return other.fit(split.train, epochs=1, batch_size=100, seed=2, device="cpu"), split.test.history


def scores_turned(model, histories, rotation):
    """Equations of the paper in float64 with everything of concept k turned by rotation[k]: (users, items)."""
    s, network, is_cosine = model.settings, model.network, model.settings.similarity == "cosine"
    items, prototypes = (table.detach().numpy().astype(float) for table in (network.item_vectors, network.prototypes))
    if is_cosine:
        items, prototypes = unit(items), unit(prototypes)
    components = space_of(model).components(histories).astype(float)
    rotation = rotation.astype(float)
    logits, products = [], []
    for k, turn in enumerate(rotation):
        turned = items @ turn.T
        logits.append(turned @ (turn @ prototypes[k]) / s.temperature)
        products.append(components[:, k] @ turn.T @ turned.T / s.temperature)  # (users, items)
    log_c = log_softmax(np.stack(logits, axis=1), axis=1)  # (items, concepts)
    if s.assignment == "hard":
        log_c = np.where(log_c == log_c.max(axis=1, keepdims=True), 0.0, -np.inf)
    return log_softmax(logsumexp(np.stack(products, axis=2) + log_c, axis=2), axis=1)


@pytest.mark.parametrize("by", ["independence", "attributes"])
def test_scores_in_turned_coordinates_are_those_of_the_model(either, by):
    model, histories = either
    rotation = find(model, by).rotation
    assert np.abs(rotation - np.eye(DIM)).max() > 0.5  # really turned
    scores, turned = model.scores(histories).numpy(), scores_turned(model, histories, rotation)
    np.testing.assert_allclose(turned, scores, atol=1e-5)
    plain = scores_turned(model, histories, np.stack([np.eye(DIM)] * 7))
    best = np.argsort(-plain, axis=1, kind="stable")
    along = np.take_along_axis(turned, best, axis=1)
    assert np.diff(along, axis=1).max() < 2e-6  # the same ranking, but for what float32 cannot tell apart


@pytest.mark.parametrize("by", ["independence", "attributes"])
def test_axes_in_use_change_no_score_and_no_recommendation(own, wide, by):
    model, split = wide
    use(own, find(own, by))
    assert torch.equal(own.scores(split.test.history), model.scores(split.test.history))
    history = model.items[:5]
    assert own.recommend(history, 20) == model.recommend(history, 20)


@pytest.mark.parametrize("by", KINDS)
def test_axes_are_orthonormal(wide, by):
    found = find(wide[0], by)
    assert found.by == by
    assert found.rotation.shape == (7, DIM, DIM)
    products = found.rotation.astype(float) @ found.rotation.astype(float).transpose(0, 2, 1)
    np.testing.assert_allclose(products, np.broadcast_to(np.eye(DIM), (7, DIM, DIM)), atol=1e-5)
    if by == "original":
        np.testing.assert_array_equal(found.rotation, np.broadcast_to(np.eye(DIM), (7, DIM, DIM)))


# Independence, and in how many directions


def test_planted_independent_sources_are_recovered_up_to_sign_and_order():
    from sklearn.decomposition import FastICA

    random = np.random.default_rng(0)
    sources = random.uniform(-1, 1, size=(4000, 5)) * [3.0, 1.0, 0.5, 2.0, 1.5]
    turn = a_rotation(random, 5)
    points = sources @ turn
    points -= points.mean(axis=0)
    found = independent(points, random)
    np.testing.assert_allclose(found @ found.T, np.eye(5), atol=1e-9)
    cosines = np.abs(found @ turn.T)
    assert sorted(cosines.argmax(axis=1)) == list(range(5))
    assert cosines.max(axis=1).min() > 0.995
    theirs = FastICA(whiten="unit-variance", random_state=0, tol=1e-8, max_iter=1000).fit_transform(points)
    alike = np.abs(np.corrcoef((points @ found.T).T, theirs.T)[:5, 5:])
    assert sorted(alike.argmax(axis=1)) == list(range(5))
    assert alike.max(axis=1).min() > 0.995


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("rank", [0, 1, 3, 6])
def test_the_planted_rank_is_found_whatever_the_axes(rank, turned):
    random = np.random.default_rng(20 + rank)
    points = random.normal(size=(600, DIM))
    points[:, :rank] *= 3
    points = points @ a_rotation(random, DIM) if turned else points
    assert significant(points - points.mean(axis=0), random) == rank


def test_heavy_points_do_not_make_noise_significant():
    """Shuffling coordinates one by one, as is usual, finds five directions here and more."""
    random, found = np.random.default_rng(2), []
    weights = weights_of(1000 // (np.arange(800) + 5) + 1)
    for _ in range(10):
        points = random.normal(size=(800, 32)) * random.uniform(0.5, 2, size=(800, 1))
        points -= np.average(points, axis=0, weights=weights)
        found.append(significant(points * np.sqrt(weights)[:, None], random))
    assert np.mean(found) < 0.5


def planted_sources(random, concepts=7, items=560):
    """Vectors with independent uniform coordinates of three sizes in a rotation of each concept's own, and noise."""
    of = np.arange(items) % 2
    turns = [a_rotation(random, DIM) for _ in range(2)]
    sources = 0.1 * random.normal(size=(items, DIM))
    sources[:, :3] = random.uniform(-1, 1, size=(items, 3)) * [1.2, 1.0, 0.8]
    return np.stack([sources[i] @ turns[k] for i, k in enumerate(of)]), of, turns


def test_axes_of_independence_are_the_planted_sources_of_each_concept(place):
    random = np.random.default_rng(3)
    vectors, of, turns = planted_sources(random)
    model = place(vectors, of, popularity=random.integers(1, 40, size=560))
    found = find(model, "independence")
    assert found.fits == ()  # nothing goes with popularity here
    for k in (0, 1):
        cosines = np.abs(found.rotation[k][:3] @ turns[k][:3].T)
        assert cosines.argmax(axis=1).tolist() == [0, 1, 2]  # the most varied first
        assert cosines.max(axis=1).min() > 0.97


def test_popularity_goes_first_where_it_can_be_told(place):
    random = np.random.default_rng(4)
    vectors, of, _ = planted_sources(random)
    direction = unit(random.normal(size=DIM))
    popularity = random.integers(1, 400, size=560)
    vectors += np.outer(np.log(popularity) / 3, direction)
    model = place(vectors, of, popularity=popularity)
    found = find(model, "independence")
    assert [(fit.concept, fit.dimension, fit.attribute) for fit in found.fits] == [
        (0, 0, "popularity"),
        (1, 0, "popularity"),
    ]
    for k in (0, 1):
        along = vectors[of == k] @ found.rotation[k].T
        told = [abs(spearmanr(popularity[of == k], along[:, j]).statistic) for j in range(DIM)]
        assert told[0] > 0.7
        assert max(told[1:]) < 0.3


def test_a_concept_of_few_items_keeps_the_original_axes(place):
    random = np.random.default_rng(5)
    vectors, _, _ = planted_sources(random)
    concepts = np.repeat([0, 1, 2], [FEWEST_ITEMS - 1, FEWEST_ITEMS, 560 - 2 * FEWEST_ITEMS + 1])
    table = {"year": vectors[:, 0] + 0.01 * random.normal(size=560)}
    for by in ("independence", "attributes"):
        found = find(place(vectors, concepts, table), by)
        for k in (0, 3, 4, 5, 6):
            np.testing.assert_array_equal(found.rotation[k], np.eye(DIM))
        assert not np.allclose(found.rotation[1], np.eye(DIM), atol=0.1)
        assert not [fit for fit in found.fits if fit.concept in (0, 3, 4, 5, 6)]


# Attributes


def test_a_planted_direction_is_found_and_its_strength_is_that_on_new_items():
    random = np.random.default_rng(6)
    direction = unit(random.normal(size=DIM))
    vectors = unit(random.normal(size=(4000, DIM)))
    values = vectors @ direction + 0.15 * random.normal(size=4000)
    values[random.random(4000) < 0.2] = np.nan
    column, own = a_number("year", values), np.arange(300)
    axes, fits = attribute_axes(vectors[own], np.ones(300), own, [column], random, concept=3)
    assert axes.shape == (1, DIM)
    assert axes[0] @ direction > 0.97  # and it grows along it
    ((concept, dimension, name, strength, p),) = fits
    assert (concept, dimension, name, p) == (3, 0, "year", 1 / 200)
    fresh = np.flatnonzero(np.isfinite(values))[300:]
    assert strength == pytest.approx(spearmanr(values[fresh], vectors[fresh] @ axes[0]).statistic, abs=0.05)


def test_axes_are_in_order_of_strength_orthogonal_and_only_for_what_is_told():
    random = np.random.default_rng(7)
    vectors = unit(random.normal(size=(300, DIM)))
    noise = random.normal(size=(4, 300))
    columns = [
        a_number("weak", vectors[:, 0] + 0.4 * noise[0]),
        a_number("strong", -vectors[:, 1] + 0.05 * noise[1]),
        a_number("middle", vectors[:, 2] + 0.2 * noise[2]),
        a_number("again", -vectors[:, 1] + 0.1 * noise[3]),  # the same as one before: nothing is left of it
        a_number("shuffled", random.permutation(vectors[:, 3])),
    ]
    axes, fits = attribute_axes(vectors, np.ones(300), np.arange(300), columns, random)
    assert [(fit.dimension, fit.attribute) for fit in fits] == [(0, "strong"), (1, "middle"), (2, "weak")]
    assert [fit.strength for fit in fits] == sorted((fit.strength for fit in fits), reverse=True)
    np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(axes[:, [1, 2, 0]], np.diag([-1, 1, 1]), atol=0.2)


def test_a_direction_is_fitted_where_the_attribute_is_known_and_rare_items_count_less():
    random = np.random.default_rng(8)
    vectors = unit(random.normal(size=(400, DIM)))
    right, wrong = vectors[:, 0], vectors[:, 1]
    heavy = np.arange(400) < 200
    column = a_number("year", np.where(heavy, right, wrong))
    weights = np.where(heavy, 1.9, 0.1)
    axes, _ = attribute_axes(vectors, weights, np.arange(400), [column], random)
    assert axes[0, 0] > 0.95
    partly = a_number("year", np.where(heavy, right, np.nan))
    axes, _ = attribute_axes(vectors, np.ones(400), np.arange(400), [partly], random)
    assert axes[0, 0] > 0.97


def test_many_shuffled_attributes_get_no_axis():
    """The best of two hundred is far beyond 1 in 100 of one of them."""
    random, wrong = np.random.default_rng(9), 0
    for _ in range(5):
        vectors = unit(random.normal(size=(100, DIM)))
        numbers = [a_number(f"n{j}", random.normal(size=100)) for j in range(100)]
        tags = [Column(f"t: {j}", "t", "tag", (random.random(100) < 0.3).astype(float)) for j in range(100)]
        wrong += len(attribute_axes(vectors, np.ones(100), np.arange(100), numbers + tags, random)[1])
    assert wrong == 0


def test_p_of_one_shuffled_attribute_is_right_at_one_in_twenty():
    random, often, times = np.random.default_rng(10), 0, 150
    vectors = unit(random.normal(size=(60, DIM)))
    fold, weights = np.arange(60) % axes_module.FOLDS, np.ones(60)
    held_out = axes_module._from_others(vectors, fold)
    for time in range(times):
        scores = axes_module.scores_of(random.normal(size=60))[:, None]
        told = axes_module._told(held_out, scores, axes_module._directions(vectors, scores, weights, fold), fold)[0]
        if time % 10 == 0:  # it is the same for all attributes that are known of the same items
            spread = axes_module._spread(vectors, scores, weights, fold, random)
        often += axes_module._chance(told, spread, 1) <= 0.05
    assert 1 <= often <= 16  # 7.5 are expected


def test_more_dimensions_than_items_fit_noise_but_get_no_axis():
    random = np.random.default_rng(11)
    vectors = unit(random.normal(size=(45, 64)))
    noise = [random.normal(size=45) for _ in range(20)]
    columns = [a_number(f"n{j}", values) for j, values in enumerate(noise)]
    for values in noise:
        centred = vectors - vectors.mean(axis=0)
        direction = np.linalg.solve(centred.T @ centred + axes_module.RIDGE * np.eye(64), centred.T @ values)
        assert spearmanr(values, vectors @ direction).statistic > 0.6
    assert attribute_axes(vectors, np.ones(45), np.arange(45), columns, random) == (
        pytest.approx(np.zeros((0, 64))),
        [],
    )


def test_cross_validated_strength_is_that_of_a_loop_over_folds():
    random = np.random.default_rng(12)
    vectors, weights = random.normal(size=(80, 5)), random.uniform(0.5, 1.5, size=80)
    values = vectors[:, 0] + random.normal(size=80)
    values[::11] = np.nan
    fold = random.permutation(80) % 5
    scores = axes_module.scores_of(values)
    said = np.empty(80)
    for number in range(5):
        train = (fold != number) & np.isfinite(values)
        mean = np.average(vectors[train], axis=0, weights=weights[train])
        x, w = vectors[train] - mean, np.diag(weights[train])
        y = scores[train] - np.average(scores[train], weights=weights[train])
        direction = np.linalg.solve(x.T @ w @ x + 3.0 * np.eye(5), x.T @ w @ y)
        direction /= np.linalg.norm(direction)
        said[fold == number] = (vectors[fold == number] - vectors[fold != number].mean(axis=0)) @ direction
    known = np.isfinite(values)
    directions = axes_module._directions(vectors, scores[:, None], weights, fold)
    told = axes_module._told(axes_module._from_others(vectors, fold), scores[:, None], directions, fold)
    assert told[0] == pytest.approx(spearmanr(said[known], values[known]).statistic, abs=1e-9)


def test_columns_known_of_different_items_are_fitted_as_if_alone():
    random = np.random.default_rng(13)
    vectors, fold = random.normal(size=(60, 4)), np.arange(60) % 5
    values = random.normal(size=(60, 6))
    values[:20, 1] = values[:20, 4] = values[50:, 2] = np.nan
    scores = np.stack([axes_module.scores_of(column) for column in values.T], axis=1)
    together = axes_module._directions(vectors, scores, np.ones(60), fold)
    for c in range(6):
        alone = axes_module._directions(vectors, scores[:, [c]], np.ones(60), fold)
        np.testing.assert_allclose(together[:, [c]], alone, atol=1e-9)


def test_attributes_of_the_shop_are_told_and_only_those_asked_for(wide):
    model = wide[0]
    found = find(model, "attributes")
    assert len({fit.attribute for fit in found.fits}) > 2
    assert min(fit.strength for fit in found.fits) >= 0.2
    name = max(found.fits, key=lambda fit: fit.strength).attribute
    for asked in ([name], name, [name, name]):
        only = find(model, "attributes", attributes=asked)
        assert {fit.attribute for fit in only.fits} == {name}
        assert {fit.dimension for fit in only.fits} == {0}
    space = space_of(model)
    for fit in found.fits:
        values = next(c for c in axes_module.columns_of(model) if c.name == fit.attribute).values[
            space.own(fit.concept)
        ]
        along = space.items[space.own(fit.concept)] @ found.rotation[fit.concept, fit.dimension]
        known = np.isfinite(values)
        assert spearmanr(values[known], along[known]).statistic > 0.2


# Ranges


def test_ranges_are_percentiles_of_users_who_have_the_concept(wide):
    model, split = wide
    histories = split.train.matrix[:200]
    found = find(model, "independence", histories=histories)
    components, confidence = model.posterior(histories).mean, model.confidence(histories)
    for k in range(7):
        chosen = confidence[:, k] >= 1
        chosen = chosen if chosen.sum() >= 20 else chosen | True
        along = components[chosen, k].astype(float) @ found.rotation[k].T.astype(float)
        np.testing.assert_allclose(found.low[k], np.percentile(along, 1, axis=0), atol=1e-5)
        np.testing.assert_allclose(found.high[k], np.percentile(along, 99, axis=0), atol=1e-5)


def test_ranges_are_those_of_the_users_that_the_model_keeps_and_unknown_without_any(own):
    kept = find(own, "original")
    np.testing.assert_array_equal(kept.low, find(own, "original", histories=own.sample).low)
    low, high = space_of(own).range_of(3)
    np.testing.assert_array_equal(low, kept.low[3])
    np.testing.assert_array_equal(high, kept.high[3])
    other = copy.deepcopy(own)
    other.sample, other.cached = None, None
    assert find(other, "original").low is None
    assert space_of(other).range_of(3) is None


# Requests


def test_the_same_seed_gives_the_same_axes(wide):
    for by in ("independence", "attributes"):
        one, two = find(wide[0], by, seed=4), find(wide[0], by, seed=4)
        np.testing.assert_array_equal(one.rotation, two.rotation)
        assert one.fits == two.fits


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"by": "magic"}, "axes by 'magic' are not known; choose from original, independence, attributes"),
        ({"by": "attributes", "attributes": ["colour of x"]}, "no attribute 'colour of x'; items have popularity"),
        ({"by": "attributes", "attributes": []}, "no attributes to turn axes by"),
        (
            {"by": "independence", "attributes": ["price"]},
            "attributes go with by='attributes', not with by='independence'",
        ),
    ],
)
def test_what_cannot_be_asked_for(wide, asked, told):
    with pytest.raises(RequestError, match=told):
        find(wide[0], **asked)


def test_an_attribute_that_cannot_be_told_is_an_error(place):
    random = np.random.default_rng(14)
    model = place(random.normal(size=(560, DIM)), np.arange(560) % 7, {"luck": random.normal(size=560)})
    with pytest.raises(RequestError, match="none of luck can be told from the item vectors; nothing was turned"):
        find(model, "attributes", attributes=["luck"])
    assert find(model, "attributes").fits == ()


def test_models_without_concepts_or_without_training_have_no_axes(shop_split):
    popular = macrid.Popularity().fit(shop_split.train)
    with pytest.raises(MacridError, match="Popularity has no concepts to look at or move; train a macridvae"):
        find(popular, "original")
    with pytest.raises(MacridError, match="learned nothing yet"):
        find(macrid.MacridVAE(), "original")


def test_axes_of_another_shape_or_of_unknown_kinds_are_refused(own):
    with pytest.raises(RequestError, match=r"axes of shape \(2, 3, 3\) do not fit 7 concepts of 16"):
        use(own, Axes("independence", np.stack([np.eye(3)] * 2)))
    axes = find(own, "independence")
    with pytest.raises(RequestError, match="'attributes' was not found yet"):
        use(own, axes, ["independence"] * 6 + ["attributes"])
    with pytest.raises(RequestError, match="one each; these are 6"):
        use(own, axes, ["independence"] * 6)
    assert meaning_of(own).in_use == ()
    use(own, axes, ["independence"] * 6 + ["original"])
    space = space_of(own)
    np.testing.assert_array_equal(space.axes(0), axes.rotation[0])
    np.testing.assert_array_equal(space.axes(6), np.eye(DIM))
    np.testing.assert_allclose(space.turned(2), space.items[space.own(2)] @ axes.rotation[2].T, atol=1e-6)


@pytest.mark.parametrize(("concept", "dimension"), [(7, 0), (-1, 0), (True, 0), ("0", 0), (0, 16), (0, 1.0), (0, -1)])
def test_unknown_concepts_and_dimensions_are_refused(wide, concept, dimension):
    with pytest.raises(RequestError, match=r"this model has (concept|dimension)s 0 to"):
        space_of(wide[0]).check(concept, dimension)


# What a model works out once


def test_what_was_worked_out_is_kept_until_weights_change(own, shop_split, tmp_path):
    space = space_of(own)
    assert space_of(own) is space
    own.to("cpu")
    moved = space_of(own)
    assert moved is not space
    np.testing.assert_array_equal(moved.items, space.items)
    state = {name: -value for name, value in own.state().items()}
    own.load_state(state)
    np.testing.assert_array_equal(space_of(own).items, -space.items)
    own.fit(shop_split.train, epochs=1, batch_size=100, device="cpu")
    assert space_of(own).items.shape == (160, DIM)


def test_a_copy_of_a_model_has_a_space_of_its_own(wide):
    one = wide[0]
    space = space_of(one)
    for other in (copy.copy(one), copy.deepcopy(one)):
        assert space_of(other).model is other
    assert space_of(one) is space


def test_training_again_forgets_axes_and_names(own, shop_split):
    use(own, find(own, "independence"))
    meaning_of(own).names = naming.find(own)
    own.fit(shop_split.train, epochs=1, batch_size=100, device="cpu")
    assert (meaning_of(own).axes, meaning_of(own).in_use, meaning_of(own).names) == ({}, (), None)
    np.testing.assert_array_equal(space_of(own).axes(0), np.eye(DIM))


def test_while_a_model_is_trained_nothing_is_kept(shop_split):
    model, seen = macrid.MacridVAE(concepts=3, dim=4), []
    model.fit(
        shop_split.train, epochs=2, batch_size=100, device="cpu", on_epoch=lambda _: seen.append(space_of(model).items)
    )
    assert not np.array_equal(*seen)
    vectors = unit(model.network.item_vectors.detach().numpy())
    np.testing.assert_allclose(space_of(model).items, vectors, atol=1e-6)


# Runs


@pytest.fixture(scope="module")
def turned_run(wide, tmp_path_factory):
    """(model, folder) with two kinds of axes, names, and one edit: do not change them."""
    model = copy.deepcopy(wide[0])
    use(model, find(model, "independence"))
    use(model, find(model, "attributes"), ["attributes"] * 4 + ["independence"] * 2 + ["original"])
    meaning_of(model).names = naming.find(model).renamed(2, "mine")
    folder = tmp_path_factory.mktemp("turned") / "run"
    runs.save(model, folder, heldout={"test": wide[1].test})
    return model, folder


@pytest.fixture
def run(turned_run, tmp_path):
    import shutil

    shutil.copytree(turned_run[1], tmp_path / "run")
    return tmp_path / "run"


def same(one, two):
    assert (meaning_of(one).in_use, meaning_of(one).names, set(meaning_of(one).axes)) == (
        meaning_of(two).in_use,
        meaning_of(two).names,
        set(meaning_of(two).axes),
    )
    for kind, axes in meaning_of(one).axes.items():
        assert axes.fits == meaning_of(two).axes[kind].fits
        for part in ("rotation", "low", "high"):
            np.testing.assert_array_equal(getattr(axes, part), getattr(meaning_of(two).axes[kind], part))


def test_a_run_keeps_axes_and_names(turned_run, run, wide):
    model = turned_run[0]
    again = macrid.load(run, "cpu")
    assert set(meaning_of(again).axes) == {"original", "independence", "attributes"}
    assert all(isinstance(fit, Fit) for fit in meaning_of(again).axes["attributes"].fits)
    same(again, model)
    np.testing.assert_array_equal(space_of(again).axes(5), space_of(model).axes(5))
    np.testing.assert_array_equal(again.sample.toarray(), wide[1].test.history.toarray())


SPARSE = {"sparsity.rotation": a_rotation(np.random.default_rng(0), DIM).astype(np.float32)[None].repeat(7, axis=0)}


def test_axes_of_a_kind_that_was_removed_stay_readable_where_they_are_in_use(run):
    """Earlier versions turned axes by sparsity, too."""
    rewritten(run, SPARSE)
    assert set(meaning_of(macrid.load(run, "cpu")).axes) == {"original", "independence", "attributes"}
    in_use = ("sparsity",) * 6 + ("attributes",)
    rewritten(run, SPARSE, in_use=json.dumps(in_use))
    model = macrid.load(run, "cpu")
    assert meaning_of(model).in_use == in_use
    np.testing.assert_array_equal(space_of(model).axes(5), SPARSE["sparsity.rotation"][5])
    runs.keep(model, run)
    same(macrid.load(run, "cpu"), model)


def test_keep_replaces_axes_and_names_and_nothing_else(turned_run, run):
    model = macrid.load(run, "cpu")
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    use(model, find(model, "independence"))
    meaning_of(model).names = meaning_of(model).names.renamed(1, "other")
    runs.keep(model, run)
    after = {path.name: path.read_bytes() for path in run.iterdir()}
    assert {name for name in after if after[name] != before.get(name)} == {"axes.safetensors", "names.json"}
    same(macrid.load(run, "cpu"), model)
    with pytest.raises(RunError, match="no such run"):
        runs.keep(model, run.parent / "nowhere")


def test_a_run_without_axes_and_names_still_loads(run):
    (run / "axes.safetensors").unlink()
    (run / "names.json").unlink()
    model = macrid.load(run, "cpu")
    assert (meaning_of(model).axes, meaning_of(model).in_use, meaning_of(model).names) == ({}, (), None)
    assert space_of(model).range_of(0) is not None  # from the held-out users that it keeps


def test_the_range_of_users_survives_where_no_users_are_kept(own, tmp_path):
    runs.save(own, tmp_path / "run")
    again = macrid.load(tmp_path / "run", "cpu")
    assert again.sample is None
    np.testing.assert_array_equal(space_of(again).range_of(2), space_of(own).range_of(2))


@pytest.mark.parametrize("name", ["axes.safetensors", "names.json"])
@pytest.mark.parametrize("damage", ["empty", "truncated", "garbage"])
def test_a_damaged_file_of_axes_or_names_is_named(run, name, damage):
    content = (run / name).read_bytes()
    (run / name).write_bytes(
        {"empty": b"", "truncated": content[: len(content) // 2], "garbage": b"\xff\x00" * 50}[damage]
    )
    with pytest.raises(RunError, match=name):
        macrid.load(run)


def rewritten(run, tensors=None, **about):
    """axes.safetensors with some tensors or metadata changed; None leaves them out."""
    path = run / "axes.safetensors"
    with safe_open(path, "numpy") as file:
        metadata = {**file.metadata(), **about}
    changed = {**load_file(path), **(tensors or {})}
    save_file(
        {name: value for name, value in changed.items() if value is not None},
        path,
        {name: value for name, value in metadata.items() if value is not None},
    )


EYE = np.stack([np.eye(DIM, dtype=np.float32)] * 7)


@pytest.mark.parametrize(
    "change",
    [
        {"tensors": {"independence.rotation": EYE[:6]}},
        {"tensors": {"independence.rotation": EYE[:, :8, :8]}},
        {"tensors": {"independence.rotation": EYE * np.float32(np.nan)}},
        {"tensors": {"independence.rotation": None}},
        {"tensors": {"attributes.low": EYE[:6, 0]}},
        {"in_use": json.dumps(["independence"] * 6)},
        {"in_use": json.dumps(["magic"] * 7)},
        {"in_use": "["},
        {"in_use": None},
        {"fits": json.dumps({"independence": [[0, 99, "year", 0.5, 0.01]]})},
        {"fits": json.dumps({"independence": [[0, 1, "year"]]})},
        {"fits": None},
    ],
)
def test_axes_that_do_not_fit_the_model_are_refused(run, change):
    rewritten(run, **change)
    with pytest.raises(RunError, match="damaged run"):
        macrid.load(run)


def test_names_that_do_not_fit_the_model_are_refused(run):
    told = json.loads((run / "names.json").read_text("utf-8"))
    few = {**told, "concepts": told["concepts"][:6], "dimensions": told["dimensions"][: 6 * DIM]}
    (run / "names.json").write_text(json.dumps(few))
    with pytest.raises(RunError, match=r"names\.json: 6 concepts and 96 dimensions, not 7 of 16 each"):
        macrid.load(run)
    told["concepts"][3]["name"] = 5
    (run / "names.json").write_text(json.dumps(told))
    with pytest.raises(RunError, match=r"names\.json: .*concepts\.3\.name"):
        macrid.load(run)


def test_axes_do_not_belong_to_a_model_without_concepts(turned_run, shop_split, tmp_path):
    macrid.Popularity().fit(shop_split.train).save(tmp_path / "run")
    (tmp_path / "run" / "names.json").write_bytes((turned_run[1] / "names.json").read_bytes())
    with pytest.raises(RunError, match="do not belong to a Popularity"):
        macrid.load(tmp_path / "run")
