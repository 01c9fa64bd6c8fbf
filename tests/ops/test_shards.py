"""Rows divided over processes, as far as one process can see it; tests/training/test_distributed.py starts several."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from macrid.ops import shards as module
from macrid.ops.shards import WHOLE, Shards
from macrid.ops.topk import Decoder, Mixture, top, top_scores


@given(items=st.integers(1, 1000), size=st.integers(1, 50))
def test_every_row_belongs_to_one_process_and_none_has_two_more_than_another(items, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.dist, "get_world_size", lambda group: size)
        parts = []
        for rank in range(size):
            patch.setattr(module.dist, "get_rank", lambda group, rank=rank: rank)
            parts.append(Shards(items, group="all"))
    rows = [row for part in parts for row in range(part.rows.start, part.rows.stop)]
    assert rows == list(range(items))
    assert max(part.count for part in parts) - min(part.count for part in parts) <= 1


def test_a_single_process_sends_nothing_and_gets_its_own_tensors_back():
    tensor = torch.randn(3, requires_grad=True)
    assert WHOLE.entering(tensor) is tensor
    assert WHOLE.summed(tensor, tensor) == (tensor, tensor)
    assert WHOLE.log_sum_exp(tensor) is tensor
    assert WHOLE.total(tensor) is tensor
    assert WHOLE.of_table(tensor) is tensor


def test_scores_less_their_partition_are_log_probabilities():
    generator = torch.Generator().manual_seed(0)
    items, log_c = torch.randn(40, 5, generator=generator), torch.randn(40, 3, generator=generator).log_softmax(dim=1)
    decoder, mixture = Decoder(items, log_c, 0.5), Mixture(torch.randn(6, 3, 5, generator=generator))
    positions, scores, log_z = top_scores(decoder, mixture, 40)
    torch.testing.assert_close(log_z, scores.logsumexp(dim=1))
    torch.testing.assert_close(scores - log_z[:, None], top(decoder, mixture, 40)[1])
    assert positions.sort(dim=1).values.tolist() == [list(range(40))] * 6
