"""Tiny generators with random weights, and random trees for them."""

import torch

from tests.helpers.trees import apply_null_rule
from torch_geometric_cgt import CGTGenerator

TINY = {'hidden_channels': 16, 'num_layers': 2, 'num_heads': 2}
FORMS = [
    {},
    {'label_conditioning': False},
    {'vocabulary': 'cells'},
    {'siblings': 'typed', 'num_types': 3},
    {'siblings': 'typed', 'num_types': 1, 'repeats': False},
    {'siblings': 'typed', 'num_types': 3, 'vocabulary': 'cells', 'label_conditioning': False},
]


def make(fan_outs, num_tokens=5, num_classes=3, seed=0, **kwargs) -> CGTGenerator:
    torch.manual_seed(seed)
    arguments = {'siblings': 'independent', **TINY, **kwargs}
    model = CGTGenerator(num_tokens, num_classes, fan_outs, **arguments).double().eval()
    for parameter in model.parameters():  # far from the symmetric start
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def random_tokens(model, batch, nulls, seed=0):
    """Tokens with nulls at random places and nothing real below them."""
    rng = torch.Generator().manual_seed(seed)
    high = model.num_tokens + (2 if nulls else 0)
    tokens = torch.randint(high, (batch, model.shape.num_slots), generator=rng)
    tokens = tokens.clamp(max=model.num_tokens)
    tokens = apply_null_rule(tokens, model.num_tokens, model.shape)
    return tokens, torch.randint(model.num_classes, (batch,), generator=rng)
