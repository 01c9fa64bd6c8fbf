"""The encoder's last step without kernels, in few passes, against its formula written out."""

import pytest
import torch
import torch.nn.functional as F

from macrid.ops.encoder import sample
from macrid.ops.vectors import EPSILON

PRIOR_STD = 0.2


def random_numbers(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def written_out(hidden, normal, prior_std, cosine):
    a, b = hidden.chunk(2, dim=-1)
    mean, sigma = F.normalize(a, dim=-1, eps=EPSILON), prior_std * torch.exp(-b / 2)
    z = mean if normal is None else mean + normal * sigma
    prior = torch.distributions.Normal(torch.zeros_like(mean), torch.full_like(mean, prior_std))
    kl = torch.distributions.kl_divergence(torch.distributions.Normal(mean, sigma), prior).sum(dim=(1, 2))
    return F.normalize(z, dim=-1, eps=EPSILON) if cosine else z, kl


@pytest.mark.parametrize("cosine", [True, False])
@pytest.mark.parametrize("noise", [True, False])
def test_components_their_kl_and_the_gradients_are_those_of_the_formula(cosine, noise):
    hidden, normal = random_numbers(5, 2, 6), random_numbers(5, 2, 3, seed=1) if noise else None
    hidden[1, 0, :3] *= 1e-10  # shorter than what a length is divided by at least
    by_directions, by_kl = random_numbers(5, 2, 3, seed=2), random_numbers(5, seed=3)
    results = []
    for form in (sample, written_out):
        leaf = hidden.clone().requires_grad_()
        directions, kl = form(leaf, normal, PRIOR_STD, cosine)
        ((directions * by_directions).sum() + by_kl @ kl).backward()
        results.append((directions.detach(), kl.detach(), leaf.grad))
    for ours, true in zip(*results, strict=True):
        torch.testing.assert_close(ours, true, rtol=1e-10, atol=1e-10)


def test_the_kl_has_its_constant_part():
    hidden = torch.cat([random_numbers(5, 2, 3), torch.zeros(5, 2, 3, dtype=torch.float64)], dim=-1)
    _, kl = sample(hidden, None, PRIOR_STD, True)
    torch.testing.assert_close(kl, torch.full((5,), 2 / (2 * PRIOR_STD**2), dtype=torch.float64))


def test_the_kl_keeps_its_digits_in_single_precision():
    hidden, normal = random_numbers(50, 7, 200), random_numbers(50, 7, 100, seed=1)
    hidden[..., 100:] *= 1e-2
    _, true = sample(hidden, normal, PRIOR_STD, True)
    _, ours = sample(hidden.float(), normal.float(), PRIOR_STD, True)
    torch.testing.assert_close(ours.double(), true, rtol=1e-6, atol=0)
