"""Turned axes change no score, recover planted structure, ignore chance, and are saved with a run."""

import copy
import json
import re
import shutil

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from scipy.special import log_softmax, logsumexp
from scipy.stats import spearmanr

import macrid
from macrid import manifest, runs
from macrid.concepts import axes as axes_module
from macrid.concepts import naming
from macrid.concepts.axes import (
    KINDS,
    attribute_axes,
    find,
    independent,
    significant,
    use,
    weights_of,
)
from macrid.concepts.evidence import FEWEST_MEMBERS
from macrid.concepts.meaning import Axes, Fit, Meaning, meaning_of
from macrid.concepts.space import space_of
from macrid.data.attributes import Column
from macrid.errors import MacridError, RequestError, RunError
from macrid.report.effects import measure_effects
from tests.concepts.conftest import DIM, random_rotation, unit

TURNED = [kind for kind in KINDS if kind != "original"]
seeds = st.integers(0, 2**32 - 1)


def number_column(name, values):
    return Column(name, name, "number", np.asarray(values, dtype=float))


# No score changes


@pytest.fixture(
    scope="module", params=[("hard", "cosine"), ("soft", "cosine"), ("hard", "inner"), ("soft", "inner")], ids="-".join
)
def any_model(request, wide):
    """(model, histories) for every assignment and similarity."""
    model, split = wide
    assignment, similarity = request.param
    if request.param == ("soft", "cosine"):
        return model, split.test.history
    other = macrid.MacridVAE(concepts=7, dim=DIM, assignment=assignment, similarity=similarity)
    return other.fit(split.train, epochs=1, batch_size=100, seed=2, device="cpu"), split.test.history


def scores_turned(model, histories, rotation):
    """The paper's equations in float64, with all vectors of concept k turned by rotation[k]: (users, items)."""
    s, network, is_cosine = model.settings, model.network, model.settings.similarity == "cosine"
    items, prototypes = (table.detach().numpy().astype(float) for table in (network.item_vectors, network.prototypes))
    if is_cosine:
        items, prototypes = unit(items), unit(prototypes)
    components, log_weights = (part.astype(float) for part in space_of(model).encode(histories))
    rotation = rotation.astype(float)
    logits, products = [], []
    for k, turn in enumerate(rotation):
        turned = items @ turn.T
        logits.append(turned @ (turn @ prototypes[k]) / network.assignment_temperature)
        products.append(components[:, k] @ turn.T @ turned.T / s.temperature + log_weights[:, [k]])  # (users, items)
    log_c = log_softmax(np.stack(logits, axis=1), axis=1)  # (items, concepts)
    if s.assignment == "hard":
        log_c = np.where(log_c == log_c.max(axis=1, keepdims=True), 0.0, -np.inf)
    return log_softmax(logsumexp(np.stack(products, axis=2) + log_c, axis=2), axis=1)


@pytest.mark.parametrize("by", TURNED)
def test_turned_coordinates_give_the_same_scores(any_model, by):
    model, histories = any_model
    rotation = find(model, by).rotation
    assert np.abs(rotation - np.eye(DIM)).max() > 0.5  # really turned
    scores, turned = model.scores(histories).numpy(), scores_turned(model, histories, rotation)
    np.testing.assert_allclose(turned, scores, atol=1e-5)
    plain = scores_turned(model, histories, np.stack([np.eye(DIM)] * 7))
    best = np.argsort(-plain, axis=1, kind="stable")
    along = np.take_along_axis(turned, best, axis=1)
    assert np.diff(along, axis=1).max() < 2e-6  # the same ranking, up to float32 rounding


def test_axes_in_use_change_no_score_and_no_recommendation(editable, wide):
    model, split = wide
    use(editable, find(editable, "attributes"))
    assert torch.equal(editable.scores(split.test.history), model.scores(split.test.history))
    history = model.items[:5]
    assert editable.recommend(history, 20) == model.recommend(history, 20)


@pytest.mark.parametrize("by", KINDS)
def test_axes_are_orthonormal(wide, by):
    axes = find(wide[0], by)
    assert axes.by == by
    rotation, identity = axes.rotation.astype(float), np.stack([np.eye(DIM)] * 7)
    np.testing.assert_allclose(rotation @ rotation.transpose(0, 2, 1), identity, atol=1e-5)
    if by == "original":
        np.testing.assert_array_equal(rotation, identity)


# Independence, and the number of directions


def test_planted_independent_sources_are_recovered_up_to_sign_and_order():
    from sklearn.decomposition import FastICA

    random = np.random.default_rng(0)
    sources = random.uniform(-1, 1, size=(4000, 5)) * [3.0, 1.0, 0.5, 2.0, 1.5]
    turn = random_rotation(random, 5)
    points = sources @ turn
    points -= points.mean(axis=0)
    axes = independent(points, random)
    np.testing.assert_allclose(axes @ axes.T, np.eye(5), atol=1e-9)
    fast_ica = FastICA(whiten="unit-variance", random_state=0, tol=1e-8, max_iter=1000).fit_transform(points)
    for similarity in (axes @ turn.T, np.corrcoef((points @ axes.T).T, fast_ica.T)[:5, 5:]):
        assert sorted(np.abs(similarity).argmax(axis=1)) == list(range(5))
        assert np.abs(similarity).max(axis=1).min() > 0.995


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("rank", [0, 1, 3, 6])
def test_the_planted_rank_is_recovered_along_any_axes(rank, turned):
    random = np.random.default_rng(20 + rank)
    points = random.normal(size=(600, DIM))
    points[:, :rank] *= 3
    points = points @ random_rotation(random) if turned else points
    assert significant(points - points.mean(axis=0), random) == rank


def test_heavy_points_do_not_make_noise_significant():
    """The usual shuffling of single coordinates finds five directions here and more."""
    random, ranks = np.random.default_rng(2), []
    weights = weights_of(1000 // (np.arange(800) + 5) + 1)
    for _ in range(10):
        points = random.normal(size=(800, 32)) * random.uniform(0.5, 2, size=(800, 1))
        points -= np.average(points, axis=0, weights=weights)
        ranks.append(significant(points * np.sqrt(weights)[:, None], random))
    assert np.mean(ranks) < 0.5


def planted_sources(random, items=560):
    """Vectors, concepts and rotations: three independent uniform sources and noise, rotated in each of two concepts."""
    concepts = np.arange(items) % 2
    turns = [random_rotation(random) for _ in range(2)]
    sources = 0.1 * random.normal(size=(items, DIM))
    sources[:, :3] = random.uniform(-1, 1, size=(items, 3)) * [1.2, 1.0, 0.8]
    return np.stack([sources[i] @ turns[k] for i, k in enumerate(concepts)]), concepts, turns


def test_axes_by_independence_are_the_planted_sources_of_each_concept(place):
    random = np.random.default_rng(3)
    vectors, concepts, turns = planted_sources(random)
    model = place(vectors, concepts, popularity=random.integers(1, 40, size=560))
    axes = find(model, "independence")
    assert axes.fits == ()  # nothing follows popularity here
    for k in (0, 1):
        cosines = np.abs(axes.rotation[k][:3] @ turns[k][:3].T)
        assert cosines.argmax(axis=1).tolist() == [0, 1, 2]  # most varied first
        assert cosines.max(axis=1).min() > 0.97


def test_predictable_popularity_comes_first(place):
    random = np.random.default_rng(4)
    vectors, concepts, _ = planted_sources(random)
    popularity = random.integers(1, 400, size=560)
    vectors += np.outer(np.log(popularity) / 3, unit(random.normal(size=DIM)))
    axes = find(place(vectors, concepts, popularity=popularity), "independence")
    assert [fit[:3] for fit in axes.fits] == [(0, 0, "popularity"), (1, 0, "popularity")]
    for k in (0, 1):
        along = vectors[concepts == k] @ axes.rotation[k].T
        first, *others = (abs(spearmanr(popularity[concepts == k], along[:, j]).statistic) for j in range(DIM))
        assert first > 0.7
        assert max(others) < 0.3


@pytest.mark.parametrize("by", TURNED)
def test_a_concept_with_few_items_keeps_the_original_axes(place, by):
    random = np.random.default_rng(5)
    vectors, _, _ = planted_sources(random)
    concepts = np.repeat([0, 1, 2], [FEWEST_MEMBERS - 1, FEWEST_MEMBERS, 560 - 2 * FEWEST_MEMBERS + 1])
    axes = find(place(vectors, concepts, {"year": vectors[:, 0] + 0.01 * random.normal(size=560)}), by)
    small = (0, 3, 4, 5, 6)
    for k in small:
        np.testing.assert_array_equal(axes.rotation[k], np.eye(DIM))
    assert not np.allclose(axes.rotation[1], np.eye(DIM), atol=0.1)
    assert not [fit for fit in axes.fits if fit.concept in small]


# Attributes


def test_a_planted_direction_is_recovered_with_its_strength_on_new_items():
    random = np.random.default_rng(6)
    direction = unit(random.normal(size=DIM))
    vectors = unit(random.normal(size=(4000, DIM)))
    values = vectors @ direction + 0.15 * random.normal(size=4000)
    values[random.random(4000) < 0.2] = np.nan
    column, items = number_column("year", values), np.arange(300)
    axes, fits = attribute_axes(vectors[items], np.ones(300), items, [column], random, concept=3)
    assert axes.shape == (1, DIM)
    assert axes[0] @ direction > 0.97
    ((concept, dimension, name, strength, p),) = fits
    assert (concept, dimension, name, p) == (3, 0, "year", 1 / 200)
    fresh = np.flatnonzero(np.isfinite(values))[300:]
    assert strength == pytest.approx(spearmanr(values[fresh], vectors[fresh] @ axes[0]).statistic, abs=0.05)


def test_only_predicted_attributes_get_axes_strongest_first_and_orthogonal():
    random = np.random.default_rng(7)
    vectors = unit(random.normal(size=(300, DIM)))
    noise = random.normal(size=(4, 300))
    columns = [
        number_column("weak", vectors[:, 0] + 0.4 * noise[0]),
        number_column("strong", -vectors[:, 1] + 0.05 * noise[1]),
        number_column("middle", vectors[:, 2] + 0.2 * noise[2]),
        number_column("again", -vectors[:, 1] + 0.1 * noise[3]),  # the same as "strong": nothing is left of it
        number_column("shuffled", random.permutation(vectors[:, 3])),
    ]
    axes, fits = attribute_axes(vectors, np.ones(300), np.arange(300), columns, random)
    assert [(fit.dimension, fit.attribute) for fit in fits] == [(0, "strong"), (1, "middle"), (2, "weak")]
    assert [fit.strength for fit in fits] == sorted((fit.strength for fit in fits), reverse=True)
    np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(axes[:, [1, 2, 0]], np.diag([-1, 1, 1]), atol=0.2)


def test_unknown_values_do_not_count_and_rare_items_count_less():
    random = np.random.default_rng(8)
    vectors = unit(random.normal(size=(400, DIM)))
    right, wrong = vectors[:, 0], vectors[:, 1]
    heavy = np.arange(400) < 200
    column = number_column("year", np.where(heavy, right, wrong))
    weights = np.where(heavy, 1.9, 0.1)
    axes, _ = attribute_axes(vectors, weights, np.arange(400), [column], random)
    assert axes[0, 0] > 0.95
    partly = number_column("year", np.where(heavy, right, np.nan))
    axes, _ = attribute_axes(vectors, np.ones(400), np.arange(400), [partly], random)
    assert axes[0, 0] > 0.97


def test_many_shuffled_attributes_get_no_axis():
    """The best of two hundred would easily pass a test at 1 in 100 made for one."""
    random, axes = np.random.default_rng(9), 0
    for _ in range(5):
        vectors = unit(random.normal(size=(100, DIM)))
        numbers = [number_column(f"n{j}", random.normal(size=100)) for j in range(100)]
        tags = [Column(f"t: {j}", "t", "tag", (random.random(100) < 0.3).astype(float)) for j in range(100)]
        axes += len(attribute_axes(vectors, np.ones(100), np.arange(100), numbers + tags, random)[1])
    assert axes == 0


def test_one_shuffled_attribute_in_twenty_has_a_p_below_5_percent():
    random, count, times = np.random.default_rng(10), 0, 150
    vectors = unit(random.normal(size=(60, DIM)))
    fold, weights = np.arange(60) % axes_module.FOLDS, np.ones(60)
    held_out = axes_module._centred_by_fold(vectors, fold)
    for time in range(times):
        scores = axes_module.scores_of(random.normal(size=60))[:, None]
        directions = axes_module._directions(vectors, scores, weights, fold)
        strength = axes_module._strengths(held_out, scores, directions, fold)[0]
        if time % 10 == 0:  # the same for all attributes known for the same items
            spread = axes_module._spread(vectors, scores, weights, fold, random)
        count += axes_module._p_value(strength, spread, 1) <= 0.05
    assert 1 <= count <= 16  # 7.5 expected


def test_noise_that_many_dimensions_fit_gets_no_axis():
    random = np.random.default_rng(11)
    vectors = unit(random.normal(size=(45, 64)))
    columns = [number_column(f"n{j}", random.normal(size=45)) for j in range(20)]
    for column in columns:
        direction = axes_module.direction_of(vectors, np.ones(45), column.values)
        assert spearmanr(column.values, vectors @ direction).statistic > 0.6
    axes, fits = attribute_axes(vectors, np.ones(45), np.arange(45), columns, random)
    assert (axes.shape, fits) == ((0, 64), [])


def test_cross_validated_strength_is_that_of_a_loop_over_folds():
    random = np.random.default_rng(12)
    vectors, weights = random.normal(size=(80, 5)), random.uniform(0.5, 1.5, size=80)
    values = vectors[:, 0] + random.normal(size=80)
    values[::11] = np.nan
    fold = random.permutation(80) % 5
    scores = axes_module.scores_of(values)
    predictions = np.empty(80)
    for number in range(5):
        train, test = (fold != number) & np.isfinite(values), fold == number
        x, w = vectors[train] - np.average(vectors[train], axis=0, weights=weights[train]), np.diag(weights[train])
        y = scores[train] - np.average(scores[train], weights=weights[train])
        direction = unit(np.linalg.solve(x.T @ w @ x + 3.0 * np.eye(5), x.T @ w @ y))
        predictions[test] = (vectors[test] - vectors[~test].mean(axis=0)) @ direction
    known = np.isfinite(values)
    directions = axes_module._directions(vectors, scores[:, None], weights, fold)
    held_out = axes_module._centred_by_fold(vectors, fold)
    strengths = axes_module._strengths(held_out, scores[:, None], directions, fold)
    assert strengths[0] == pytest.approx(spearmanr(predictions[known], values[known]).statistic, abs=1e-9)


def test_columns_known_for_different_items_are_fitted_separately():
    random = np.random.default_rng(13)
    vectors, fold = random.normal(size=(60, 4)), np.arange(60) % 5
    values = random.normal(size=(60, 6))
    values[:20, 1] = values[:20, 4] = values[50:, 2] = np.nan
    scores = np.stack([axes_module.scores_of(column) for column in values.T], axis=1)
    together = axes_module._directions(vectors, scores, np.ones(60), fold)
    for c in range(6):
        alone = axes_module._directions(vectors, scores[:, [c]], np.ones(60), fold)
        np.testing.assert_allclose(together[:, [c]], alone, atol=1e-9)


def test_attributes_of_the_shop_are_predicted_and_can_be_selected(wide):
    model, space = wide[0], space_of(wide[0])
    axes = find(model, "attributes")
    assert len({fit.attribute for fit in axes.fits}) > 2
    columns = {column.name: column.values for column in axes_module.columns_of(model)}
    for fit in axes.fits:
        assert fit.strength >= 0.2
        members = space.members(fit.concept)
        values, along = (
            columns[fit.attribute][members],
            space.items[members] @ axes.rotation[fit.concept, fit.dimension],
        )
        known = np.isfinite(values)
        assert spearmanr(values[known], along[known]).statistic > 0.2
    name = max(axes.fits, key=lambda fit: fit.strength).attribute
    for selection in (name, [name, name]):
        fits = find(model, "attributes", attributes=selection).fits
        assert {(fit.attribute, fit.dimension) for fit in fits} == {(name, 0)}


# Ranges


def test_ranges_are_percentiles_of_users_who_have_the_concept(wide):
    model, split = wide
    histories = split.train.matrix[:200]
    axes = find(model, "independence", histories=histories)
    components, confidence = model.posterior(histories).mean, model.confidence(histories)
    for k in range(7):
        chosen = confidence[:, k] >= 1
        chosen = chosen if chosen.sum() >= 20 else chosen | True
        along = components[chosen, k].astype(float) @ axes.rotation[k].T.astype(float)
        np.testing.assert_allclose(axes.low[k], np.percentile(along, 1, axis=0), atol=1e-5)
        np.testing.assert_allclose(axes.high[k], np.percentile(along, 99, axis=0), atol=1e-5)


def test_ranges_come_from_the_users_the_model_keeps_and_are_unknown_without_any(editable):
    kept = find(editable, "original")
    np.testing.assert_array_equal(kept.low, find(editable, "original", histories=editable.sample).low)
    low, high = space_of(editable).range_of(3)
    np.testing.assert_array_equal(low, kept.low[3])
    np.testing.assert_array_equal(high, kept.high[3])
    other = copy.deepcopy(editable)
    other.sample, other.cached = None, None
    assert find(other, "original").low is None
    assert space_of(other).range_of(3) is None


# Requests


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ({"by": "magic"}, "'magic'"),
        ({"by": "attributes", "attributes": ["colour of x"]}, "'colour of x'"),
        ({"by": "attributes", "attributes": []}, "attributes"),
        ({"by": "independence", "attributes": ["price"]}, "'independence'"),
    ],
)
def test_invalid_requests_are_refused(wide, arguments, value):
    with pytest.raises(RequestError, match=value):
        find(wide[0], **arguments)


def test_selecting_only_unpredictable_attributes_is_an_error(place):
    random = np.random.default_rng(14)
    model = place(random.normal(size=(560, DIM)), np.arange(560) % 7, {"luck": random.normal(size=560)})
    with pytest.raises(RequestError, match="luck"):
        find(model, "attributes", attributes=["luck"])
    assert find(model, "attributes").fits == ()


def test_models_without_concepts_or_training_have_no_axes(shop_split):
    for model in (macrid.Popularity().fit(shop_split.train), macrid.MacridVAE()):
        with pytest.raises(MacridError, match=type(model).__name__):
            find(model, "original")


def test_every_concept_has_one_known_kind_of_axes(editable):
    with pytest.raises(RequestError, match=r"\(2, 3, 3\)"):
        use(editable, Axes("independence", np.stack([np.eye(3)] * 2)))
    axes = find(editable, "independence")
    with pytest.raises(RequestError, match="'attributes'"):
        use(editable, axes, ["independence"] * 6 + ["attributes"])
    with pytest.raises(RequestError, match="6"):
        use(editable, axes, ["independence"] * 6)
    assert meaning_of(editable).in_use == ()
    use(editable, axes, ["independence"] * 6 + ["original"])
    space = space_of(editable)
    np.testing.assert_array_equal(space.axes(0), axes.rotation[0])
    np.testing.assert_array_equal(space.axes(6), np.eye(DIM))
    np.testing.assert_allclose(space.turned(2), space.items[space.members(2)] @ axes.rotation[2].T, atol=1e-6)


# The cached space of a model


def test_the_space_is_cached_until_weights_change(editable, shop_split):
    space = space_of(editable)
    assert space_of(editable) is space
    editable.to("cpu")
    moved = space_of(editable)
    assert moved is not space
    np.testing.assert_array_equal(moved.items, space.items)
    editable.load_state({name: -value for name, value in editable.state().items()})
    np.testing.assert_array_equal(space_of(editable).items, -space.items)
    editable.fit(shop_split.train, epochs=1, batch_size=100, device="cpu")
    assert space_of(editable).items.shape == (160, DIM)


def test_a_copy_of_a_model_has_a_space_of_its_own(wide):
    model = wide[0]
    space = space_of(model)
    for other in (copy.copy(model), copy.deepcopy(model)):
        assert space_of(other).model is other
    assert space_of(model) is space


def test_retraining_discards_axes_and_names(editable, shop_split):
    use(editable, find(editable, "independence"))
    meaning_of(editable).names = naming.find(editable)
    editable.fit(shop_split.train, epochs=1, batch_size=100, device="cpu")
    assert meaning_of(editable) == Meaning()
    np.testing.assert_array_equal(space_of(editable).axes(0), np.eye(DIM))


def test_nothing_is_cached_during_training(shop_split):
    model, vectors = macrid.MacridVAE(concepts=3, dim=4), []
    train, settings = shop_split.train, {"epochs": 2, "batch_size": 100, "device": "cpu"}
    model.fit(train, **settings, on_epoch=lambda _: vectors.append(space_of(model).items))
    assert not np.array_equal(*vectors)
    np.testing.assert_allclose(space_of(model).items, unit(model.network.item_vectors.detach().numpy()), atol=1e-6)


# Runs


@pytest.fixture(scope="module")
def turned_run(wide, tmp_path_factory):
    """(model, folder) with two kinds of axes, names, one edit, and effects: do not change them."""
    model = copy.deepcopy(wide[0])
    use(model, find(model, "independence"))
    use(model, find(model, "attributes"), ["attributes"] * 4 + ["independence"] * 2 + ["original"])
    meaning_of(model).names = naming.find(model).renamed(2, "mine")
    measure_effects(model, wide[1].validation)
    folder = tmp_path_factory.mktemp("turned") / "run"
    runs.save(model, folder, heldout={"test": wide[1].test})
    return model, folder


@pytest.fixture
def run(turned_run, tmp_path):
    return shutil.copytree(turned_run[1], tmp_path / "run")


def assert_same_meaning(model, other):
    one, two = meaning_of(model), meaning_of(other)
    assert (one.in_use, one.names, one.effects) == (two.in_use, two.names, two.effects)
    assert set(one.axes) == set(two.axes)
    for kind, axes in one.axes.items():
        assert axes.fits == two.axes[kind].fits
        for part in ("rotation", "low", "high"):
            np.testing.assert_array_equal(getattr(axes, part), getattr(two.axes[kind], part))


def test_a_run_keeps_axes_and_names(turned_run, run, wide):
    model = turned_run[0]
    again = macrid.load(run, "cpu")
    assert set(meaning_of(again).axes) == {"original", "independence", "attributes"}
    assert all(isinstance(fit, Fit) for fit in meaning_of(again).axes["attributes"].fits)
    assert_same_meaning(again, model)
    np.testing.assert_array_equal(space_of(again).axes(5), space_of(model).axes(5))
    np.testing.assert_array_equal(again.sample.toarray(), wide[1].test.history.toarray())


def test_keep_replaces_axes_names_and_effects_and_nothing_else(run):
    model = macrid.load(run, "cpu")
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    use(model, find(model, "independence", seed=1))
    meaning_of(model).names = meaning_of(model).names.renamed(1, "other")
    runs.keep(model, run)
    after = {path.name: path.read_bytes() for path in run.iterdir()}
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {"axes.safetensors", "names.json", "effects.json", "manifest.json"}
    assert_same_meaning(macrid.load(run, "cpu"), model)
    with pytest.raises(RunError, match="nowhere"):
        runs.keep(model, run.parent / "nowhere")


def test_effects_are_kept_until_the_axes_turn(run):
    model = macrid.load(run, "cpu")
    assert meaning_of(model).effects
    use(model, find(model, "independence", seed=1))
    runs.keep(model, run)
    assert meaning_of(macrid.load(run, "cpu")).effects == ()


@pytest.mark.parametrize("wrong", [{"concept": 7}, {"concept": -1}, {"dimension": DIM}])
def test_effects_that_do_not_fit_the_model_are_refused(run, wrong):
    effects = json.loads((run / "effects.json").read_text("utf-8"))
    (run / "effects.json").write_text(json.dumps([effects[-1] | wrong]))
    manifest.seal(run, runs.FILES)
    with pytest.raises(RunError, match=rf"effects\.json: .*{next(iter(wrong))} {next(iter(wrong.values()))}"):
        macrid.load(run)


def test_a_run_without_axes_and_names_still_loads(run):
    (run / "axes.safetensors").unlink()
    (run / "names.json").unlink()
    (run / "effects.json").unlink()
    manifest.seal(run, runs.FILES)
    model = macrid.load(run, "cpu")
    assert meaning_of(model) == Meaning()
    assert space_of(model).range_of(0) is not None  # from the held-out users it keeps


def test_a_run_without_users_keeps_their_range(editable, tmp_path):
    runs.save(editable, tmp_path / "run")
    again = macrid.load(tmp_path / "run", "cpu")
    assert again.sample is None
    np.testing.assert_array_equal(space_of(again).range_of(2), space_of(editable).range_of(2))


@pytest.mark.parametrize("name", ["axes.safetensors", "names.json", "effects.json"])
@pytest.mark.parametrize("damage", ["empty", "truncated", "garbage"])
def test_a_damaged_file_is_named(run, name, damage):
    content = (run / name).read_bytes()
    content = {"empty": b"", "truncated": content[: len(content) // 2], "garbage": b"\xff\x00" * 50}[damage]
    (run / name).write_bytes(content)
    with pytest.raises(RunError, match=name):
        macrid.load(run)


def rewritten(run, tensors=None, **about):
    """Change some tensors or metadata of axes.safetensors; None removes them."""
    path = run / "axes.safetensors"
    with safe_open(path, "numpy") as file:
        metadata = {**file.metadata(), **about}
    changed = {**load_file(path), **(tensors or {})}
    changed, metadata = ({k: v for k, v in part.items() if v is not None} for part in (changed, metadata))
    save_file(changed, path, metadata)
    manifest.seal(run, runs.FILES)


SPARSE = {"sparsity.rotation": random_rotation(np.random.default_rng(0)).astype(np.float32)[None].repeat(7, axis=0)}


def test_axes_of_a_kind_that_was_removed_stay_readable_where_they_are_in_use(run):
    """Earlier versions could also turn axes by sparsity."""
    rewritten(run, SPARSE)
    assert set(meaning_of(macrid.load(run, "cpu")).axes) == {"original", "independence", "attributes"}
    in_use = ("sparsity",) * 6 + ("attributes",)
    rewritten(run, SPARSE, in_use=json.dumps(in_use))
    model = macrid.load(run, "cpu")
    assert meaning_of(model).in_use == in_use
    np.testing.assert_array_equal(space_of(model).axes(5), SPARSE["sparsity.rotation"][5])
    runs.keep(model, run)
    assert_same_meaning(macrid.load(run, "cpu"), model)


EYE = np.stack([np.eye(DIM, dtype=np.float32)] * 7)


@pytest.mark.parametrize(
    "change",
    [
        {"tensors": {"independence.rotation": EYE[:6]}},
        {"tensors": {"independence.rotation": EYE[:, :8, :8]}},
        {"tensors": {"independence.rotation": EYE * np.float32(np.nan)}},
        {"tensors": {"independence.rotation": EYE + np.float32(0.01)}},
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
    with pytest.raises(RunError, match=re.escape(str(run))):
        macrid.load(run)


def test_names_that_do_not_fit_the_model_are_refused(run):
    names = json.loads((run / "names.json").read_text("utf-8"))
    few = {**names, "concepts": names["concepts"][:6], "dimensions": names["dimensions"][: 6 * DIM]}
    (run / "names.json").write_text(json.dumps(few))
    with pytest.raises(RunError, match=r"names\.json.* 6 .* 96 "):
        macrid.load(run)
    names["concepts"][3]["name"] = 5
    (run / "names.json").write_text(json.dumps(names))
    with pytest.raises(RunError, match=r"names\.json.*concepts\.3\.name"):
        macrid.load(run)


def test_a_model_without_concepts_has_no_names(turned_run, shop_split, tmp_path):
    macrid.Popularity().fit(shop_split.train).save(tmp_path / "run")
    shutil.copy(turned_run[1] / "names.json", tmp_path / "run")
    with pytest.raises(RunError, match="Popularity"):
        macrid.load(tmp_path / "run")
