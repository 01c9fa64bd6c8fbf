"""Labels: the spread against its formulas written out, the terms of the loss, and what they make of a model."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import macrid
from macrid.data.labels import Labels
from macrid.data.shop import generate
from macrid.errors import DataError, RunError, SettingsError
from macrid.evaluation.agreement import nmi
from macrid.models.macridvae import LocalTables, MacridNetwork, Noise
from macrid.ops.sampled import Sampler, gather
from macrid.settings import MacridVAESettings
from macrid.training import supervision as sut
from macrid.training.supervision import Supervision
from tests.truth import DEVICE, histories, runs_kernels

ROWS = [[0, 3, 5], [1, 2], [4, 6, 7, 8], [0, 8], [9, 1, 5], [2]]


@pytest.fixture(scope="module")
def some(shop, shop_split):
    """Concept and size of a fifth of the items, and the category of all."""
    category = shop.category[shop.interactions.items.positions(shop_split.items)]
    size = shop.factors["size"][shop.interactions.items.positions(shop_split.items)]
    chosen = np.arange(1, len(category), 5)
    items = list(shop_split.items)
    labels = {
        "concept": {items[i]: shop.category_names[category[i]] for i in chosen},
        "size": {items[i]: float(size[i]) for i in chosen if not np.isnan(size[i])},
    }
    others = np.setdiff1d(np.arange(len(category)), chosen)
    return labels, category, others


def small(**settings):
    return macrid.MacridVAE(**{"concepts": 7, "dim": 16, **settings})


def fit(model, split, **training):
    settings = {"epochs": 3, "batch_size": 60, "device": "cpu", **training}
    return model.fit(split.train, validation=split.validation, **settings)


# The spread


def slow_spread(matrix, codes, first):
    """The same with dense matrices, user by user."""
    x = matrix.toarray().astype(float)
    users, items = x.shape
    classes = first.shape[1]
    known = codes >= 0
    label = np.zeros((items, classes))
    for i in np.flatnonzero(known):
        label[i, codes[i]] = 1
    share = (label.sum(0) + 1) / (known.sum() + classes)
    q = np.where(known[:, None], label, np.exp(first))
    for turn in range(5):
        w = q * np.where(known, 1, 0.2)[:, None]
        pi = x.sum(0) @ w
        pi = pi / pi.sum()
        evidence = np.zeros((items, classes))
        for i in range(items):
            for u in range(users):
                if x[u, i]:
                    v = np.maximum(x[u] @ w - w[i], 0)
                    evidence[i] += np.log((v / pi + 0.1) / (v.sum() + 0.1))
            if turn == 4:
                evidence[i] *= min(1, 10 / max(1, x[:, i].sum()))
        s = np.exp(first + np.log(share) + evidence)
        q = np.where(known[:, None], label, s / s.sum(1, keepdims=True))
    return q


@pytest.mark.parametrize("numbers", [1 << 22, 12])
def test_the_spread_equals_its_formula_for_any_block_size(numbers, monkeypatch):
    monkeypatch.setattr(sut, "NUMBERS", numbers)
    random = np.random.default_rng(0)
    matrix = sp.csr_array((random.random((40, 15)) < 0.35).astype(np.float64))
    matrix = sp.csr_array(matrix @ np.diag(np.arange(15) != 4))  # nobody has item 4
    matrix.eliminate_zeros()
    codes = np.full(15, -1)
    codes[[0, 3, 4, 9]] = [2, 0, 1, 1]
    first = np.log(random.dirichlet(np.ones(3), 15))
    np.testing.assert_allclose(sut.spread(matrix, codes, first), slow_spread(matrix, codes, first), atol=1e-9)


def test_the_regression_minimises_its_penalised_loss():
    random = np.random.default_rng(1)
    vectors = torch.from_numpy(random.normal(size=(30, 4)))
    codes = np.where(np.arange(30) < 20, np.arange(30) % 3, -1)
    logs = sut.regress(vectors, codes, 3)
    np.testing.assert_allclose(np.exp(logs).sum(1), 1)
    residual = np.exp(logs[:20]) - np.eye(3)[codes[:20]]
    np.testing.assert_allclose(residual.sum(0), 0, atol=1e-4)  # the bias has no penalty
    logits = logs - logs.mean(1, keepdims=True)
    padded = np.c_[vectors.numpy(), np.ones(30)]
    weights = np.linalg.lstsq(padded, logits, rcond=None)[0][:-1]
    np.testing.assert_allclose(vectors.numpy()[:20].T @ residual + 0.1 * weights, 0, atol=1e-3)


def test_ranks_go_from_minus_one_to_one_with_ties_in_the_middle():
    np.testing.assert_allclose(sut.rank_scores(np.array([30.0, -2.0, 7.0, 7.0, 100.0])), [0.5, -1, -0.25, -0.25, 1])


def test_an_attribute_that_is_a_direction_is_predicted_and_noise_is_not_trusted():
    random = np.random.default_rng(0)
    vectors = random.normal(size=(200, 6)) * [3, 2, 1.5, 1, 0.1, 0.1]
    groups = np.repeat([0, 1], 100)
    true = np.where(groups == 0, vectors[:, 1], 1000 - vectors[:, 1])
    values = np.where(np.arange(200) % 8 == 0, true, np.nan)
    scores, trust = sut.spread_attribute(vectors, values, groups, 2)
    for group in (0, 1):
        others = (groups == group) & np.isnan(values)
        assert np.corrcoef(scores[others], true[others])[0, 1] > 0.9
    assert (trust[~np.isnan(values)] == 1).all()
    assert trust.min() > 0.5
    noise = np.where(np.isnan(values), np.nan, random.normal(size=200))
    assert sut.spread_attribute(vectors, noise, groups, 2)[1][np.isnan(values)].max() < 0.4


def test_a_group_without_two_different_values_is_not_trusted():
    values = np.array([1.0, np.nan, 2.0, 2.0, np.nan, np.nan])
    scores, trust = sut.spread_attribute(np.eye(6), values, np.array([0, 0, 1, 1, 2, 2]), 3)
    assert not trust.any()
    assert not scores.any()


def test_items_of_concepts_without_a_label_stay_free():
    shop = generate(users=1200, items=300, seed=1)
    chosen = np.arange(0, 300, 10)
    labels = {shop.interactions.items[i]: int(shop.category[i]) for i in chosen if shop.category[i] in (0, 2, 4)}
    read = Labels.read({"concept": labels}, shop.interactions.items, 7, 16)
    supervision = sut.supervision_from(read, shop.interactions.matrix, 7, 1.0, 0)
    others, trust = np.setdiff1d(np.arange(300), chosen), supervision.trust.numpy()
    inside = np.isin(shop.category, (0, 2, 4))
    assert supervision.classes == 3
    assert trust[others][inside[others]].mean() > 0.8
    assert trust[others][~inside[others]].mean() < 0.2


def test_histories_are_ignored_where_the_regression_predicts_better(some, shop_split):
    labels = Labels.read({"concept": some[0]["concept"]}, shop_split.items, 7, 16)
    matrix, vectors = shop_split.train.matrix.astype(np.float64), sut.embed(shop_split.train.matrix, 0)
    first = sut.regress(vectors, labels.concept, 7)
    _, category, others = some

    def agreement(belief):
        return nmi(belief.argmax(axis=1)[others], category[others])

    assert agreement(sut.spread(matrix, labels.concept, first)) < agreement(first), (
        "the test needs users who have most items"
    )
    belief = sut.believe(matrix, vectors, labels.concept, 7)
    assert agreement(belief) == agreement(first)
    np.testing.assert_array_equal(belief[labels.known].argmax(axis=1), labels.concept[labels.known])


# The terms of the loss


def network_of(seed=0, **settings):
    network = MacridNetwork(10, MacridVAESettings.make(**{"concepts": 3, "dim": 5, "dropout": 0.0, **settings}))
    network.initialise(torch.Generator().manual_seed(seed))
    return network


def supervision(classes=2, attributes=2):
    random = np.random.default_rng(3)
    return Supervision(
        targets=torch.from_numpy(random.dirichlet(np.ones(3), 10)),
        trust=torch.from_numpy(random.random(10)),
        scores=torch.from_numpy(random.uniform(-1, 1, (10, attributes))),
        score_trust=torch.from_numpy(random.random((10, attributes)) * (random.random((10, attributes)) < 0.8)),
        groups=torch.from_numpy(np.arange(10) % 2),
        count=2,
        classes=classes,
        weight=0.7,
    )


def slow_loss(network, s, rows):
    h = network.item_vectors.detach().double().numpy()
    h = h / np.linalg.norm(h, axis=1, keepdims=True)
    m = network.prototypes.detach().double().numpy()
    m = m / np.linalg.norm(m, axis=1, keepdims=True)
    p = np.exp(h @ m.T / network.assignment_temperature)
    p /= p.sum(1, keepdims=True)
    q, trust = s.targets.double().numpy(), s.trust.double().numpy()
    total = -sum(trust[i] * q[i, c] * np.log(p[i, c]) for i in rows for c in range(s.classes)) / len(rows)
    for a in range(s.scores.shape[1]):
        mass, sums = 0, 0
        for g in range(s.count):
            group = [i for i in rows if s.groups[i] == g]
            w, x, y = s.score_trust[group, a].double().numpy(), h[group, a], s.scores[group, a].double().numpy()
            if w.sum() == 0:
                continue
            x, y = x - np.average(x, weights=w), y - np.average(y, weights=w)
            sums += w.sum() * (w * x * y).sum() / np.sqrt((w * x * x).sum() * (w * y * y).sum())
            mass += w.sum()
        total += 1 - sums / mass
    return 0.7 * total


def test_the_label_term_equals_its_formula():
    network = network_of().double()
    s = supervision()
    assert s.loss(network, network.item_vectors, None).item() == pytest.approx(slow_loss(network, s, range(10)))


def test_the_label_term_on_some_rows_equals_its_formula_and_ignores_rows_past_the_count():
    network, s = network_of().double(), supervision()
    local = gather(histories(ROWS[:3]), Sampler(torch.arange(10), "uniform"), 2, torch.Generator().manual_seed(0))
    vectors = network.item_vectors[local.rows]
    expected = slow_loss(network, s, local.rows.tolist())
    assert s.loss(network, vectors, local).item() == pytest.approx(expected)
    longer = type(local)(
        torch.cat([local.rows, torch.tensor([0, 0])]), torch.tensor(len(local.rows)), *list(vars(local).values())[2:]
    )
    assert s.loss(network, network.item_vectors[longer.rows], longer).item() == pytest.approx(expected)


@pytest.mark.parametrize("attributes", [0, 2])
def test_the_gradients_of_the_whole_loss_equal_finite_differences(attributes):
    network = network_of().double()
    network.supervision = supervision(attributes=attributes)
    parameters = list(network.parameters())
    noise = Noise()

    def total(*_):
        return network.loss(histories(ROWS), noise, 0.5).total

    assert torch.autograd.gradcheck(total, parameters, eps=1e-6, atol=1e-5, nondet_tol=0.0)


@runs_kernels
def test_the_loss_by_kernels_has_the_same_terms(by_kernels):
    network = network_of().to(DEVICE)
    double = network_of().double()
    network.supervision, double.supervision = supervision().to(torch.device(DEVICE)), supervision()
    for name in ("targets", "trust", "scores", "score_trust"):
        setattr(network.supervision, name, getattr(network.supervision, name).float())
    batch = histories(ROWS)
    truth = double.loss(batch, Noise(), 0.5).total
    moved = type(batch)(batch.items.to(DEVICE).int(), batch.starts.to(DEVICE), batch.stops.to(DEVICE), batch.longest)
    loss = network.loss(moved, Noise(), 0.5).total
    assert loss.item() == pytest.approx(truth.item(), rel=1e-5)
    loss.backward()
    truth.backward()
    for (name, ours), theirs in zip(network.named_parameters(), double.parameters(), strict=True):
        torch.testing.assert_close(ours.grad.cpu().double(), theirs.grad, rtol=1e-3, atol=1e-4, msg=name)
    local = gather(histories(ROWS), Sampler(torch.arange(10), "uniform"), 3, torch.Generator().manual_seed(0))
    tables = [table[local.rows] for table in (double.item_vectors, double.context_vectors)]
    without = network_of().double()
    extra = double.loss(local.histories, Noise(), 0.5, LocalTables(*tables, local)).total
    plain = without.loss(local.histories, Noise(), 0.5, LocalTables(*tables, local)).total
    assert extra.item() > plain.item()


# A model trained with labels


@pytest.fixture(scope="module")
def supervised(shop_split, some):
    return fit(small(), shop_split, labels=some[0], epochs=40, label_weight=1.0)


def test_concept_numbers_follow_the_labels_and_are_remembered(supervised, shop, some):
    _, category, others = some
    names = sorted(shop.category_names)
    assert supervised.labelled == {"concepts": names, "dimensions": ["size"]}
    concepts = supervised.concepts_of_items()
    right = np.array([names[k] for k in concepts]) == np.array(shop.category_names)[category]
    assert right[others].mean() > 0.8
    assert supervised.network.supervision is None


@pytest.mark.slow
def test_the_dimension_of_an_attribute_follows_it_in_every_concept(shop_split, shop):
    items = list(shop_split.items)
    place = shop.interactions.items.positions(items)
    category, size = shop.category[place], shop.factors["size"][place]
    labels = {
        "concept": {items[i]: int(category[i]) for i in range(len(items))},
        "size": {items[i]: float(size[i]) for i in range(len(items)) if not np.isnan(size[i])},
    }
    model = fit(small(start="svd"), shop_split, labels=labels, epochs=40)
    directions = torch.nn.functional.normalize(model.network.item_vectors.detach(), dim=1).numpy()
    for number in np.unique(category[~np.isnan(size)]):
        members = category == number
        assert np.corrcoef(directions[members, 0], size[members])[0, 1] > 0.8


def test_the_same_labels_and_seed_give_the_same_model_and_others_another(shop_split, some):
    labels = some[0]
    first, again, other, none = (
        fit(small(), shop_split, labels=each).state()["item_vectors"]
        for each in (labels, labels, {"concept": labels["concept"]}, None)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not torch.equal(first, none)


def test_labels_work_with_the_sampled_likelihood_and_a_random_start(shop_split, some):
    model = fit(small(start="random"), shop_split, labels=some[0], likelihood="sampled", negatives=40)
    assert all(np.isfinite(record.loss) for record in model.log)


def test_training_resumes_only_with_the_same_labels(shop_split, some, tmp_path):
    labels = some[0]
    fit(small(), shop_split, labels=labels, epochs=2, checkpoint=tmp_path)
    for other in (None, {"concept": labels["concept"]}):
        with pytest.raises(RunError, match="labels"):
            fit(small(), shop_split, labels=other, checkpoint=tmp_path, resume=True)
    went_on = fit(small(), shop_split, labels=labels, epochs=3, checkpoint=tmp_path, resume=True)
    whole = fit(small(), shop_split, labels=labels, epochs=3)
    assert torch.equal(went_on.state()["item_vectors"], whole.state()["item_vectors"])


def test_models_without_a_fixed_number_of_concepts_reject_labels(shop_split, some):
    labels = some[0]
    with pytest.raises(SettingsError, match="MultVAE"):
        fit(macrid.MultVAE(dim=8), shop_split, labels=labels)
    with pytest.raises(SettingsError, match=r"concepts is 'merge'.*\b7\b"):
        fit(small(concepts="merge"), shop_split, labels=labels)
    with pytest.raises(DataError, match=r"\b7\b.*\b7\b"):
        fit(small(concepts=4), shop_split, labels=labels)


def test_attributes_alone_work_with_a_changing_number_of_concepts(shop_split, some):
    model = fit(small(concepts="merge"), shop_split, labels={"size": some[0]["size"]}, epochs=2)
    assert model.labelled == {"concepts": [], "dimensions": ["size"]}


def test_retraining_without_labels_discards_them(shop_split, some):
    model = fit(small(), shop_split, labels=some[0], epochs=1)
    assert fit(model, shop_split, epochs=1).labelled is None
