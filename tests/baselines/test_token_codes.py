"""Binary codes of tokens: every vector belongs to a token, and every token has codes."""

from itertools import product

import pytest
import torch

from torch_geometric_cgt.baselines.token_codes import TokenCodes


@pytest.mark.parametrize('num_tokens', [1, 2, 3, 5, 8, 90])
def test_tokens_come_back(num_tokens):
    codes = TokenCodes(num_tokens)
    tokens = torch.arange(num_tokens).repeat(20)
    signs = codes.encode(tokens, torch.Generator().manual_seed(0))
    assert signs.shape == (20 * num_tokens, codes.num_bits)
    assert set(signs.unique().tolist()) <= {-1.0, 1.0}
    assert torch.equal(codes.decode(signs), tokens)
    assert torch.equal(codes.decode(signs * 0.01), tokens)  # only signs matter


@pytest.mark.parametrize('num_tokens', [1, 2, 3, 5, 8])
def test_the_numbers_of_codes_are_counted(num_tokens):
    codes = TokenCodes(num_tokens)
    vectors = torch.tensor(list(product([-1.0, 1.0], repeat=codes.num_bits)))
    count = torch.bincount(codes.decode(vectors), minlength=num_tokens)
    assert torch.equal(count, codes.num_codes(torch.arange(num_tokens)))
    drawn = codes.encode(torch.zeros(4000, dtype=torch.long), torch.Generator().manual_seed(0))
    found, times = drawn.unique(dim=0, return_counts=True)
    assert len(found) == count[0] and (times / 4000 - 1 / count[0]).abs().max() < 0.05
