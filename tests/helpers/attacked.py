"""Mechanisms and records that audits are tried on."""

import torch

from tests.helpers.graphs import random_graph
from torch_geometric_cgt.audit.records import Records, nearest_codeword
from torch_geometric_cgt.data import TokenTrees, TreeShape, tokens_of
from torch_geometric_cgt.pipeline import Build, KAnonymity
from torch_geometric_cgt.pipeline.config import BuildConfig
from torch_geometric_cgt.pipeline.source import Source, check_source
from torch_geometric_cgt.sampler import InNeighbors, sample_trees

SHAPE = TreeShape((2, 1))
CONFIG = BuildConfig(KAnonymity(10, task_weight=0), (3, 2))


def source(num_nodes=400, seed=0, **kwargs) -> Source:
    return check_source(random_graph(num_nodes, 2 * num_nodes, seed=seed, **kwargs))


def memorise(source: Source, config: BuildConfig) -> Build:
    """Releases the trees of the source as they are, with nodes as codewords of some others."""
    rng = torch.Generator().manual_seed(0)
    num_words = int(source.data.num_nodes) // config.k_anonymity.k
    codebook = source.data.x[torch.randperm(source.data.num_nodes, generator=rng)[:num_words]]
    cluster = nearest_codeword(source.data.x, codebook)[0]
    graph = InNeighbors.from_edge_index(source.data.edge_index, source.data.num_nodes)
    tree = sample_trees(graph, source.root, config.shape, rng)
    y = source.data.y[source.root]
    split = torch.ones_like(y)
    tokens = tokens_of(tree, cluster, num_words)
    trees = TokenTrees(tokens, y, split, num_words, source.num_classes, config.shape)
    return Build(trees, codebook)


def ignore(_: Source, config: BuildConfig) -> Build:
    """Releases another graph, whatever the source is."""
    return memorise(source(seed=99), config)


def noisy_histogram(epsilon, num_words=400):
    """A private mechanism for records: public codewords, and root tokens per label counted with
    Laplace noise, or without any. Trees have a root and nothing else."""
    words = torch.randn(num_words, 120, generator=torch.Generator().manual_seed(3)) * 2.5

    def build(source: Source, config: BuildConfig) -> Build:
        rng = torch.Generator().manual_seed(int(1000 * (epsilon or 0)))
        cluster = nearest_codeword(source.data.x, words)[0][source.root]
        cell = source.data.y[source.root] * num_words + cluster
        counts = torch.bincount(cell, minlength=source.num_classes * num_words).double()
        if epsilon is not None:
            uniform = torch.rand(counts.shape, generator=rng, dtype=torch.double) - 0.5
            counts -= uniform.sign() * (1 - 2 * uniform.abs()).log() / epsilon
        cell = torch.arange(counts.numel()).repeat_interleave(counts.round().long().clamp(min=0))
        tokens = torch.full((cell.numel(), config.shape.num_slots), num_words)
        tokens[:, 0] = cell % num_words
        y, split = cell // num_words, torch.ones_like(cell)
        trees = TokenTrees(tokens, y, split, num_words, source.num_classes, config.shape)
        return Build(trees, words)

    return build


def records(tokens, y, num_tokens=3, shape=SHAPE, degree=None) -> Records:
    """Records by hand: one draw of trees, or several."""
    tokens = torch.as_tensor(tokens)
    tokens = tokens if tokens.dim() == 3 else tokens[None]
    y = torch.as_tensor(y)
    draws = tuple(trees(draw, y, num_tokens, shape) for draw in tokens)
    degree = torch.zeros_like(y) if degree is None else degree
    return Records(draws, torch.zeros(len(y)), degree)


def trees(tokens, y, num_tokens=3, shape=SHAPE, num_classes=2) -> TokenTrees:
    tokens, y = torch.as_tensor(tokens), torch.as_tensor(y)
    return TokenTrees(tokens, y, torch.ones_like(y), num_tokens, num_classes, shape)
