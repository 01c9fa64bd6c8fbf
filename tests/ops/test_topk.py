"""The best items against a full sort of the formula written out in float64."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from macrid.ops import topk
from macrid.ops.topk import Decoder, Mixture
from tests.truth import use_kernels


def top(components, items, log_assignment, log_weights, temperature, n, concept_of=None, linear=None, **choice):
    decoder = Decoder(items, log_assignment, temperature, concept_of is not None)
    return topk.top(decoder, Mixture(components, log_weights, linear), n, **choice)


def naive(components, items, log_assignment, log_weights, temperature, concept_of=None, linear=None):
    """log p_ui − log Z_u in float64: (batch, items)."""
    z, h, log_c = components.double(), items.double(), log_assignment.double()
    log_w = torch.zeros(z.shape[:2]) if log_weights is None else log_weights.double()
    if concept_of is not None:
        likeliest = torch.nn.functional.one_hot(concept_of, log_c.shape[1]).bool()
        log_c = log_c.masked_fill(~likeliest, -torch.inf)
    logits = torch.stack([z[:, k] @ h.t() / temperature + log_c[:, k] + log_w[:, [k]] for k in range(z.shape[1])])
    scores = logits.logsumexp(dim=0) + (0 if linear is None else linear.double())
    return scores - scores.logsumexp(dim=1, keepdim=True)


def problem(batch, concepts, dim, items, seed=0, dtype=torch.float64, zero=0.0, faint=0.0):
    """Directions, assignments of which a share `zero` is 1e-30 or 0, log weights of which a share `faint` is −500."""
    generator = torch.Generator().manual_seed(seed)
    unit = torch.nn.functional.normalize
    z = unit(torch.randn(batch, concepts, dim, generator=generator, dtype=dtype), dim=-1)
    h = unit(torch.randn(items, dim, generator=generator, dtype=dtype), dim=-1)
    c = torch.softmax(5 * torch.randn(items, concepts, generator=generator, dtype=dtype), dim=1)
    tiny = torch.rand(c.shape, generator=generator) < zero
    tiny[torch.arange(items), c.argmax(dim=1)] = False
    c[tiny] = 1e-30 * torch.randint(0, 2, (int(tiny.sum()),), generator=generator).to(dtype)
    log_w = 2 * torch.randn(batch, concepts, generator=generator, dtype=dtype)
    log_w[:, 1:][torch.rand(batch, concepts - 1, generator=generator) < faint] = -500
    return z, h, c.log(), log_w


def check(ranking, truth, forbidden, tolerance):
    """The values are those of a full sort, and the positions have these values."""
    positions, log_p = ranking
    truth = truth.masked_fill(forbidden, -torch.inf)
    expected = truth.sort(dim=1, descending=True).values[:, : positions.shape[1]]
    torch.testing.assert_close(log_p.double(), expected, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(truth.gather(1, positions), expected, rtol=tolerance, atol=tolerance)
    assert all(len(set(row)) == len(row) for row in positions.tolist())


@settings(max_examples=150, deadline=None)
@given(
    batch=st.sampled_from([1, 2, 7]), concepts=st.sampled_from([1, 3, 20]), dim=st.integers(2, 9),
    items=st.integers(1, 60), n=st.integers(1, 60), hard=st.booleans(), seed=st.integers(0, 999),
    temperature=st.sampled_from([0.001, 0.1, 10.0]), hide=st.booleans(), limit=st.booleans(),
    tile=st.sampled_from([1, 8, 64, 1 << 19]), block=st.sampled_from([1, 30, 1 << 24]),
    users=st.sampled_from([1, 3, 512]), group=st.sampled_from([2, 16]), zero=st.sampled_from([0.0, 0.5]),
    weights=st.sampled_from(["none", "random", "faint"]), linear=st.sampled_from([None, 1.0, 100.0]),
)  # fmt: skip
def test_the_best_equal_those_of_a_full_sort_for_any_tiles(
    batch,
    concepts,
    dim,
    items,
    n,
    hard,
    seed,
    temperature,
    hide,
    limit,
    tile,
    block,
    users,
    group,
    zero,
    weights,
    linear,
):
    z, h, log_c, log_w = problem(batch, concepts, dim, items, seed, zero=zero, faint=0.5 * (weights == "faint"))
    log_w = None if weights == "none" else log_w
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.rand(batch, items, generator=generator) < (0.3 if hide else 0)
    allowed = torch.rand(items, generator=generator) >= (0.3 if limit else 0)
    concept_of = log_c.argmax(dim=1) if hard else None
    part = None if linear is None else linear * torch.randn(batch, items, generator=generator, dtype=z.dtype)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"TILE": {"cpu": tile}, "BLOCK": {"cpu": block}, "USERS": users, "GROUP": group}.items():
            patch.setattr(topk, name, value)
        ranking = top(
            z, h, log_c, log_w, temperature, min(n, items), hidden=hidden.nonzero(as_tuple=True) if hide else None,
            allowed=allowed if limit else None, concept_of=concept_of, linear=part,
        )  # fmt: skip
    assert ranking[0].shape == ranking[1].shape == (batch, min(n, items))
    check(ranking, naive(z, h, log_c, log_w, temperature, concept_of, part), hidden | ~allowed, 1e-10)


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("length", [1.0, 30.0])
def test_the_linear_part_adds_to_every_log_probability(hard, length):
    z, h, log_c, log_w = problem(5, 3, 6, 40)
    linear = length * torch.randn(5, 40, generator=torch.Generator().manual_seed(1), dtype=z.dtype)
    concept_of = log_c.argmax(dim=1) if hard else None
    found = Decoder(h, log_c, 0.1, hard).log_probabilities(Mixture(z, log_w, linear))
    expected = naive(z, h, torch.zeros_like(log_c) if hard else log_c, log_w, 0.1, concept_of, linear)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("temperature", [0.1, 0.001])
@pytest.mark.parametrize("faint", [0.0, 0.3])
def test_single_precision_finds_the_best_of_many_items_within_its_precision(hard, temperature, faint):
    z, h, log_c, log_w = problem(70, 7, 20, 5003, dtype=torch.float32, zero=0.3, faint=faint)
    concept_of = log_c.argmax(dim=1) if hard else None
    hidden = (torch.arange(70).repeat_interleave(70), torch.randint(0, 5003, (4900,)))
    forbidden = torch.zeros(70, 5003, dtype=torch.bool)
    forbidden[hidden] = True
    ranking = top(z, h, log_c, log_w, temperature, 100, hidden=hidden, concept_of=concept_of)
    check(ranking, naive(z, h, log_c, log_w, temperature, concept_of), forbidden, 1e-6 / temperature)


@pytest.mark.parametrize("temperature", [0.1, 0.001])
def test_items_with_tiny_assignments_are_ranked_too(temperature):
    z, h, log_c, log_w = problem(3, 2, 4, 50, dtype=torch.float32)
    log_c[::2] -= 70
    check(
        top(z, h, log_c, log_w, temperature, 50),
        naive(z, h, log_c, log_w, temperature),
        torch.tensor(False),
        1e-6 / temperature,
    )


@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("temperature", [0.1, 0.001])
def test_items_of_concepts_with_tiny_weights_are_ranked_too(hard, temperature):
    z, h, log_c, log_w = problem(3, 2, 4, 50, dtype=torch.float32, faint=1.0)
    concept_of = log_c.argmax(dim=1) if hard else None
    ranking = top(z, h, log_c, log_w, temperature, 50, concept_of=concept_of)
    check(ranking, naive(z, h, log_c, log_w, temperature, concept_of), torch.tensor(False), 1e-6 / temperature)


def test_vectors_of_any_length_are_ranked_without_overflow():
    z, h, log_c, log_w = problem(3, 2, 4, 50, dtype=torch.float32)
    z, h = 30 * z, 4 * h
    check(top(z, h, log_c, log_w, 0.1, 50), naive(z, h, log_c, log_w, 0.1), torch.tensor(False), 1e-4)


def test_no_users_give_no_rows():
    z, h, log_c, log_w = problem(0, 2, 4, 50)
    positions, log_p = top(z, h, log_c, log_w, 0.1, 5)
    assert positions.shape == log_p.shape == (0, 5)
    assert positions.dtype == torch.long


@pytest.mark.parametrize("hard", [False, True])
def test_no_array_of_scores_is_larger_than_a_block(hard, monkeypatch):
    batch, items, limit = 600, 30_000, 1 << 18
    monkeypatch.setattr(topk, "BLOCK", {"cpu": limit})
    monkeypatch.setattr(topk, "TILE", {"cpu": 1 << 14})
    monkeypatch.setattr(topk, "USERS", 100)
    z, h, log_c, log_w = problem(batch, 3, 4, items, dtype=torch.float32)
    concept_of = log_c.argmax(dim=1) if hard else None
    hidden = (torch.arange(batch).repeat(2), torch.arange(2 * batch))
    largest = 0

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            out = func(*args, **(kwargs or {}))
            for tensor in out if isinstance(out, tuple | list) else [out]:
                inputs = {item.untyped_storage().data_ptr() for item in (z, h, log_c, log_w)}
                if isinstance(tensor, torch.Tensor) and tensor.untyped_storage().data_ptr() not in inputs:
                    largest = max(largest, tensor.untyped_storage().nbytes() // tensor.element_size())
            return out

    with Watch():
        top(z, h, log_c, log_w, 0.1, 10, hidden=hidden, concept_of=concept_of)
    assert limit / 2 < largest <= limit < batch * items / 60


@pytest.mark.parametrize(
    ("users", "concepts", "items", "dim"),
    [(1, 1, 1, 2), (3, 20, 70, 5), (65, 2, 64, 16), (5, 3, 130, 100), (2, 1, 5, 512)],
)
def test_the_kernel_writes_the_scores_of_the_formula(users, concepts, items, dim):
    pytest.importorskip("triton")
    from macrid.ops.topk_triton import mixture_scores

    device = "cuda" if torch.cuda.is_available() else "cpu"
    for temperature in (0.1, 0.001):
        z, h, log_c, log_w = problem(users, concepts, dim, items, dtype=torch.float32, zero=0.4, faint=0.3)
        log_c[0] = -torch.inf
        logits = torch.einsum("ukd,id->uki", z.double(), h.double()) / temperature
        truth = (logits + log_c.t().double() + log_w[..., None].double()).logsumexp(dim=1)
        block = torch.full((users, items + 4), 7.0, device=device)
        inputs = (part.to(device) for part in ((z / temperature).transpose(0, 1), h, log_c, log_w.t()))
        mixture_scores(*inputs, block[:, 1:-3])
        torch.testing.assert_close(block[:, 1:-3].double().cpu(), truth, rtol=1e-6, atol=1e-6 / temperature)
        assert bool((block[:, [0, -3, -2, -1]] == 7).all())


@pytest.mark.parametrize("hide", [False, True])
def test_ranking_through_the_kernel_equals_a_full_sort(hide, monkeypatch):
    pytest.importorskip("triton")
    use_kernels(monkeypatch)
    monkeypatch.setattr(topk, "TILE", {"cpu": 400, "cuda": 400})
    device = "cuda" if torch.cuda.is_available() else "cpu"
    z, h, log_c, log_w = problem(6, 3, 10, 150, dtype=torch.float32, zero=0.3, faint=0.3)
    hidden = torch.rand(6, 150, generator=torch.Generator().manual_seed(0)) < (0.3 if hide else 0)
    pairs = tuple(part.to(device) for part in hidden.nonzero(as_tuple=True))
    inputs = (part.to(device) for part in (z, h, log_c, log_w))
    positions, log_p = top(*inputs, 0.1, 20, hidden=pairs)
    check((positions.cpu(), log_p.cpu()), naive(z, h, log_c, log_w, 0.1), hidden, 1e-5)
