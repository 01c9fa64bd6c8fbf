"""Searches against a full sort of the formula written out in float64."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from macrid.ops import cells, search
from macrid.ops.cells import arrange, group
from macrid.ops.search import Question
from macrid.ops.topk import Decoder, top

unit = torch.nn.functional.normalize


def catalogue(kind, items, concepts, dim, seed, hard=False, temperature=0.1, per_group=20):
    """Random directions, groups of near copies, exact copies, vectors of all lengths, or all in one place."""
    random = torch.Generator().manual_seed(seed)
    h = unit(torch.randn(items, dim, generator=random), dim=1)
    if kind != "random":
        of = torch.randint(max(1, items // per_group), (items,), generator=random)
        spread = {"groups": 0.3, "copies": 0.0, "lengths": 0.5, "one": 0.0}[kind]
        h = unit(h[of * (kind != "one")] + spread * torch.randn(items, dim, generator=random) / dim**0.5, dim=1)
    if kind == "lengths":
        h = h * torch.rand(items, 1, generator=random).mul(3).exp()
    prototypes = unit(torch.randn(concepts, dim, generator=random), dim=1)
    log_c = (unit(h, dim=1) @ prototypes.t() / 0.07).log_softmax(dim=1)
    if hard:
        log_c = torch.nn.functional.one_hot(log_c.argmax(dim=1), concepts).float().log()
    return Decoder(h, log_c, temperature, hard)


def question_of(decoder, batch, seed, touched=0.0, lengths=1.0):
    random = torch.Generator().manual_seed(seed)
    items, concepts = decoder.log_assignment.shape
    near = decoder.items[torch.randint(items, (batch, concepts), generator=random)]
    z = lengths * unit(unit(near, dim=-1) + 0.7 * unit(torch.randn(near.shape, generator=random), dim=-1), dim=-1)
    log_w = torch.randn(batch, concepts, generator=random).log_softmax(dim=1)
    linear = None
    if touched:
        linear = sp.random_array((batch, items), density=touched, rng=np.random.default_rng(seed), format="csr")
        linear = sp.csr_array(linear * 6 - (linear != 0) * 2).astype(np.float32)  # of both signs
    return Question(z, log_w, linear)


def truth_of(decoder, question):
    """Scores in float64, without log Z: (batch, items)."""
    z, log_w, linear = question
    terms = torch.einsum("ukd,id->uki", z.double(), decoder.items.double()) / decoder.temperature
    terms += decoder.log_assignment.double().t() + log_w.double()[..., None]
    scores = terms.logsumexp(dim=1)
    return scores if linear is None else scores + torch.from_numpy(linear.toarray()).double()


def check(found, truth, forbidden):
    """The n best are listed, best first, whatever the order of equal ones; log Z aside."""
    allowed = truth.masked_fill(forbidden, -torch.inf)
    expected = allowed.sort(dim=1, descending=True).values[:, : found.positions.shape[1]]
    actual = allowed.gather(1, found.positions).masked_fill(found.log_p == -torch.inf, -torch.inf)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)
    listed = [row[row_p > -torch.inf].tolist() for row, row_p in zip(found.positions, found.log_p, strict=True)]
    assert all(len(set(row)) == len(row) for row in listed)
    shift = (found.log_p.double() - expected).nan_to_num(nan=torch.inf)
    first = shift[:, :1].expand_as(shift)[expected > -torch.inf]
    torch.testing.assert_close(shift[expected > -torch.inf], first, rtol=1e-4, atol=1e-3)


def constants(patch, few=16, share=1.0, rows=1 << 17, probes=16, together=16):
    patch.setattr(search, "FEW", few)
    patch.setattr(search, "MOST_OPEN", share)
    patch.setattr(search, "MOST_SCORED", share)
    patch.setattr(search, "ROWS", {"cpu": rows})
    patch.setattr(search, "PROBES", probes)
    patch.setattr(search, "TOGETHER", together)
    patch.setattr(search, "DRAWS", 64)


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(["random", "groups", "copies", "lengths", "one"]), items=st.integers(1, 400),
    concepts=st.sampled_from([1, 3, 9]), dim=st.sampled_from([2, 5, 30]), seed=st.integers(0, 999),
    hard=st.booleans(), temperature=st.sampled_from([0.02, 0.1, 1.0]), batch=st.sampled_from([1, 3, 7]),
    n=st.integers(1, 30), count=st.integers(1, 40), touched=st.sampled_from([0.0, 0.02, 0.5]),
    hide=st.sampled_from([0.0, 0.1, 0.95]), limit=st.sampled_from([None, 0.0, 0.03, 0.5]), half=st.booleans(),
    few=st.sampled_from([1, 16]), share=st.sampled_from([0.3, 1.0]), rows=st.sampled_from([50, 1 << 17]),
    probes=st.sampled_from([1, 4]), together=st.sampled_from([2, 16]),
)  # fmt: skip
def test_a_search_lists_the_best_items_of_any_catalogue(
    kind, items, concepts, dim, seed, hard, temperature, batch, n, count, touched, hide, limit, half, few, share,
    rows, probes, together,
):  # fmt: skip
    n = min(n, items)
    decoder = catalogue(kind, items, concepts, dim, seed, hard, temperature)
    question = question_of(decoder, batch, seed, touched)
    random = torch.Generator().manual_seed(seed)
    forbidden = torch.rand(batch, items, generator=random) < hide
    allowed = None if limit is None else torch.rand(items, generator=random) < limit
    with pytest.MonkeyPatch.context() as patch:
        constants(patch, few, share, rows, probes, together)
        patch.setattr(cells, "_cpu_dtype", lambda: torch.bfloat16 if half else torch.float32)
        table = arrange(decoder, group(decoder.items, count))
        found = search.search(decoder, table, question, n, hidden=forbidden.nonzero(as_tuple=True), allowed=allowed)
    check(found, truth_of(decoder, question), forbidden if allowed is None else forbidden | ~allowed)


def test_a_best_item_that_the_sample_for_log_z_misses_is_listed(monkeypatch):
    constants(monkeypatch)
    decoder = catalogue("random", 200, 1, 5, 0, hard=False, temperature=0.02)
    question = question_of(decoder, 1, 0, touched=1.0)
    decoder.items[117] = 50 * question.components[0, 0]  # e^2500 times as likely as any other
    others = truth_of(decoder, Question(*question[:2]))[:, torch.arange(200) != 117].logsumexp(dim=1)
    monkeypatch.setattr(search, "log_z", lambda *_: others.float())
    found = search.search(decoder, arrange(decoder, group(decoder.items, 1)), question, 3)
    assert found.positions[0, 0] == 117
    torch.testing.assert_close(found.log_p[0, 0], torch.tensor(0.0))
    check(found, truth_of(decoder, question), torch.zeros(1, 200, dtype=torch.bool))


@pytest.mark.parametrize("half", [False, True])
def test_concepts_without_any_weight_count_for_nothing(monkeypatch, half):
    constants(monkeypatch)
    monkeypatch.setattr(cells, "_cpu_dtype", lambda: torch.bfloat16 if half else torch.float32)
    decoder = catalogue("groups", 400, 3, 5, 0)
    question = question_of(decoder, 4, 0)
    question.log_weights[:3, 0], question.log_weights[1, 1] = -torch.inf, -torch.inf
    found = search.search(decoder, arrange(decoder, group(decoder.items, 20)), question, 5)
    check(found, truth_of(decoder, question), torch.zeros(4, 400, dtype=torch.bool))


@settings(max_examples=30, deadline=None)
@given(
    kind=st.sampled_from(["random", "groups", "copies", "lengths", "one"]), items=st.integers(1, 300),
    concepts=st.sampled_from([1, 4]), seed=st.integers(0, 999), hard=st.booleans(), count=st.integers(1, 30),
    half=st.booleans(), lengths=st.sampled_from([0.0, 1.0, 5.0]),
)  # fmt: skip
def test_no_score_exceeds_the_bounds_of_its_part_and_its_own(kind, items, concepts, seed, hard, count, half, lengths):
    decoder = catalogue(kind, items, concepts, 8, seed, hard)
    question = question_of(decoder, 3, seed, lengths=lengths)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "_cpu_dtype", lambda: torch.bfloat16 if half else torch.float32)
        table = arrange(decoder, group(decoder.items, count))
    truth = truth_of(decoder, question)[:, table.order]
    z = question.components / decoder.temperature
    queries, off = table.queries(z, question.log_weights)
    of_parts = (queries.double() @ table.part_table.double().t()).logsumexp(dim=1)
    assert (of_parts.repeat_interleave(table.part_starts.diff(), dim=1) + off[:, None] >= truth).all()
    products = (queries.double() @ table.table.double().t()).logsumexp(dim=1)
    assert (products + off[:, None] >= truth).all()


@pytest.mark.parametrize("broken", ["part", "item"])
def test_a_bound_that_is_too_low_loses_items(monkeypatch, broken):
    """What the two tests above would report."""
    decoder = catalogue("random", 3000, 4, 12, 0)
    question, n = question_of(decoder, 5, 1), 20
    constants(monkeypatch, probes=1)
    table = arrange(decoder, group(decoder.items, 60))
    none = torch.zeros(5, 3000, dtype=torch.bool)
    check(search.search(decoder, table, question, n), truth_of(decoder, question), none)
    rows, less = {"part": (table.part_table, 8), "item": (table.table, 3)}[broken]
    rows[:, 12:16] -= less  # log c
    with pytest.raises(AssertionError):
        check(search.search(decoder, table, question, n), truth_of(decoder, question), none)


def test_bounds_hold_for_cells_made_of_unrelated_items():
    """A proof does not depend on where the cells come from."""
    decoder = catalogue("groups", 900, 3, 10, 4)
    shuffled = group(decoder.items, 20)
    shuffled.cell[:] = shuffled.cell[torch.randperm(900, generator=torch.Generator().manual_seed(0))]
    question = question_of(decoder, 4, 2)
    found = search.search(decoder, arrange(decoder, shuffled), question, 15)
    check(found, truth_of(decoder, question), torch.zeros(4, 900, dtype=torch.bool))


def test_most_cells_of_grouped_items_are_skipped_and_few_items_are_scored():
    decoder = catalogue("groups", 20_000, 5, 30, 0, per_group=100)
    question = question_of(decoder, 8, 3)
    with pytest.MonkeyPatch.context() as patch:
        constants(patch)
        found = search.search(decoder, arrange(decoder, group(decoder.items, 400)), question, 10)
    check(found, truth_of(decoder, question), torch.zeros(8, 20_000, dtype=torch.bool))
    assert found.candidates.float().mean() < 500
    assert found.compared.float().mean() < 15_000


def test_an_approximate_search_finds_nearly_all_and_more_with_more_cells():
    decoder = catalogue("groups", 20_000, 5, 30, 0, per_group=100)
    question, table = question_of(decoder, 20, 3), arrange(decoder, group(decoder.items, 200))
    best = search.search(decoder, table, question, 10).positions

    def recall(probes):
        found = search.search(decoder, table, question, 10, probes=probes).positions
        return (found[:, :, None] == best[:, None]).any(dim=1).float().mean()

    assert recall(1) <= recall(30)
    assert recall(30) > 0.95
    assert recall(200) == 1


@pytest.mark.parametrize("hard", [False, True])
def test_the_estimate_of_log_z_is_close(hard):
    decoder = catalogue("groups", 30_000, 5, 30, 0, hard)
    question = question_of(decoder, 16, 5, touched=0.001)
    found = search.search(decoder, arrange(decoder, group(decoder.items)), question, 10)
    exact = top(decoder, question.mixture(), 10)[1]
    assert (found.log_p - exact).abs().max() < 0.25
    assert (found.log_p - exact).abs().mean() < 0.06


@pytest.mark.parametrize("hard", [False, True])
def test_the_estimate_of_each_concepts_sum_is_close(hard):
    decoder = catalogue("groups", 30_000, 5, 30, 1, hard)
    components = question_of(decoder, 6, 5).components
    estimate = search.log_sums(decoder, arrange(decoder, group(decoder.items)), components)
    assert (estimate - decoder.log_sums(components)).abs().max() < 0.6
    assert (estimate - decoder.log_sums(components)).abs().mean() < 0.12


def test_items_added_later_join_the_nearest_cells():
    decoder = catalogue("groups", 2000, 4, 10, 0)
    first = group(decoder.items[:1500], 30)
    grown = first.extended(decoder.items)
    assert len(grown.cell) == 2000
    assert torch.equal(grown.cell[:1500], first.cell)
    assert torch.equal(grown.part[:1500], first.part)
    assert (grown.part[1500:] > first.part.max()).all()
    question = question_of(decoder, 4, 2)
    found = search.search(decoder, arrange(decoder, grown), question, 25)
    check(found, truth_of(decoder, question), torch.zeros(4, 2000, dtype=torch.bool))


def test_grouping_is_the_same_every_time_and_reports_its_progress():
    items, seen = catalogue("groups", 5000, 2, 10, 0).items, []
    one = group(items, 50, progress=lambda done, total: seen.append((done, total)))
    again = group(items, 50)
    assert torch.equal(one.cell, again.cell)
    assert torch.equal(one.part, again.part)
    assert seen == sorted(seen)
    assert seen[-1] == (5000, 5000)
