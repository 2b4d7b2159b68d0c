"""Small private models of trees, and random trees for them."""

import torch

from tests.helpers.trees import apply_null_rule
from torch_geometric_cgt.models import FitContext, TreeSource
from torch_geometric_cgt.models.histograms import (
    PrivateHistograms,
)
from torch_geometric_cgt.models.transformer import PrivateGenerator
from torch_geometric_cgt.privacy import Budget, Ledger

NUM_TOKENS, NUM_CLASSES = 5, 2


def learn(model, tokens, y, entries, noise):
    """Fits a model to given trees."""
    sizes = (model.num_tokens, model.num_classes, model.shape)
    source = TreeSource(lambda index, _: tokens[index], y, torch.zeros_like(y), *sizes)
    model.fit(source, FitContext(entries=entries, noise=noise))
    return model


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def draw_trees(size, shape, seed=0, num_tokens=NUM_TOKENS):
    """Any trees that obey the null rule."""
    tokens = torch.randint(num_tokens + 2, (size, shape.num_slots), generator=rng(seed))
    tokens = tokens.clamp(max=num_tokens)
    return apply_null_rule(tokens, num_tokens, shape)


def make(form, num_trees, shape, epsilon=1e3, epochs=15.0):
    """A private model, and the entries of a ledger with the noise of a budget."""
    sizes = (NUM_TOKENS, NUM_CLASSES, list(shape.num_neighbors))
    if form == 'histograms':
        model = PrivateHistograms(*sizes)
    else:
        config = {'hidden_channels': 16, 'epochs': epochs, 'batch_size': 100, 'lr': 0.02}
        torch.manual_seed(0)
        model = PrivateGenerator(*sizes, num_trees, config)
    entries = model.entries()
    ledger = Ledger(['sequence model'], entries).calibrate(Budget(epsilon, 1e-4))
    return model, ledger.entries
