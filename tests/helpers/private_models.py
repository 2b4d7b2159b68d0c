"""Small private models of trees, and random trees for them."""

import torch

from tests.helpers.trees import apply_null_rule
from torch_geometric_cgt.models import FitContext, PrivateMixing, TokenGraph, TreeSource
from torch_geometric_cgt.models.histograms import PrivateHistograms
from torch_geometric_cgt.models.transformer import PrivateGenerator
from torch_geometric_cgt.privacy import Budget, Ledger, Queries

NUM_TOKENS, NUM_CLASSES = 5, 2


def learn(model, tokens, y, entries, noise):
    """Fits a model to given trees, and to a graph of their roots."""
    sizes = (model.num_tokens, model.num_classes, model.shape)
    graph = graph_of(tokens[:, 0], y)
    split = torch.zeros_like(y)
    source = TreeSource(lambda index, _: tokens[index], y, split, *sizes, graph=graph)
    model.fit(source, FitContext(queries=Queries(entries, noise)))
    return model


def graph_of(token, y):
    """Some of the nodes have up to three neighbours on either side, with the same label."""
    order = y.argsort(stable=True)
    index = torch.arange(y.numel())
    near = [(index[:-d], index[d:]) for d in (1, 2, 3)]
    pairs = torch.stack([order[torch.cat(side)] for side in zip(*near, strict=True)])
    pairs = pairs[:, (pairs % 4 > 0).all(dim=0)]
    return TokenGraph(token, y, torch.cat([pairs, pairs.flip(0)], dim=1))


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
    elif form == 'mixing':
        model = PrivateMixing(*sizes)
    else:
        config = {'hidden_channels': 16, 'epochs': epochs, 'batch_size': 100, 'lr': 0.02}
        torch.manual_seed(0)
        model = PrivateGenerator(*sizes, num_trees, config)
    entries = model.entries()
    budget = Budget(epsilon, 1e-4, 'node' if form == 'mixing' else 'frozen_record')
    ledger = Ledger(['sequence model'], entries).calibrate(budget)
    return model, ledger.entries
