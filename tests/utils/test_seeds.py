"""Hashes of pairs: they depend on the pair and the key only, and look random."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_geometric_cgt.utils.seeds import keyed_hash, keyed_uniform


def test_hashes_are_those_of_splitmix():
    # The published first outputs of SplitMix64 from the state 1234567.
    state = torch.tensor([[1234567]])
    first = keyed_hash(torch.empty(0, 1, dtype=torch.long), 1234567)
    assert first.tolist() == [6457827717110365317]
    assert keyed_hash(state, 0).tolist() != keyed_hash(state, 1).tolist()


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(*2 * [st.integers(0, 2**40)]), min_size=1, unique=True),
    st.integers(-(2**70), 2**70),
    st.randoms(),
)
def test_a_hash_depends_on_its_pair_alone(pairs, key, rng):
    together = keyed_hash(torch.tensor(pairs).t(), key).tolist()
    i = rng.randrange(len(pairs))
    assert keyed_hash(torch.tensor([pairs[i]]).t(), key).tolist() == [together[i]]
    assert keyed_hash(torch.tensor(pairs).t(), key + 2**64).tolist() == together


@pytest.mark.parametrize('key', [0, 1, 2**63])
def test_numbers_are_uniform_and_not_correlated(key):
    pairs = torch.cartesian_prod(torch.arange(200), torch.arange(200)).t()
    value = keyed_uniform(pairs, key)
    assert value.dtype == torch.float64 and 0 <= value.min() and value.max() < 1
    share = torch.histc(value, 20, 0, 1) / value.numel()
    assert torch.allclose(share, torch.full_like(share, 0.05), atol=0.006)
    grid = value.view(200, 200)
    others = [grid.t(), grid.roll(1, 0), grid.roll(1, 1), keyed_uniform(pairs, key + 1)]
    for other in others:
        assert abs(np.corrcoef(value.numpy(), other.reshape(-1).numpy())[0, 1]) < 0.02
    assert np.unique(keyed_hash(pairs, key)).size == value.numel()
