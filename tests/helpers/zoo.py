"""Trees that GNNs can learn, and measures of judged graphs."""

import torch

from torch_geometric_cgt.data import TokenTrees, TreeShape, random_split


def easy_trees(num_trees=240, num_classes=3, fan_outs=(3, 2), seed=0, dense=True):
    """Trees whose tokens mostly belong to the label of their root. Some slots are null."""
    rng = torch.Generator().manual_seed(seed)
    shape = TreeShape.of(list(fan_outs))
    per_class = 10
    num_tokens = num_classes * per_class
    y = torch.arange(num_trees) % num_classes
    size = (num_trees, shape.num_slots)
    token = y[:, None] * per_class + torch.randint(per_class, size, generator=rng)
    other = torch.randint(num_tokens, size, generator=rng)
    tokens = torch.where(torch.rand(size, generator=rng) < 0.15, other, token)
    null = torch.rand(size, generator=rng) < 0.2
    null[:, 0] = False
    for slot in range(1, shape.num_slots):
        null[:, slot] |= null[:, shape.parent[slot]]
    x = torch.randn(num_tokens, 8, generator=rng)
    x[:, :num_classes] += 2 * torch.eye(num_classes).repeat_interleave(per_class, 0)
    split = random_split(torch.ones(num_trees, dtype=torch.bool), seed)
    tokens = tokens.masked_fill(null, num_tokens)
    return TokenTrees(tokens, y, split, num_tokens, num_classes, shape, x)


def judged(multiple=2.0, reason=None, metric='accuracy'):
    """The measures of one graph, as in a report."""

    def column(mse, value, **more):
        found = {'value': value, 'low': value - 0.1, 'high': value + 0.1}
        correlations = {} if reason else dict.fromkeys(('pearson', 'spearman', 'kendall'), found)
        return {
            'mse': mse,
            'multiple': mse / 0.001,
            'bias': 0.01,
            'correlations': correlations,
            'top1': 1.0,
            'regret': 0.02,
            **more,
        }

    return {
        'columns': {
            'ceiling': column(0.001, 0.9),
            'generated': column(0.001 * multiple, 0.7, transfer=0.65),
        },
        'original': 0.75,
        'resolution': {'spread': 0.001, 'noise': 0.002},
        'no_correlations': reason,
        'metric': metric,
        'num_models': 18,
        'num_seeds': 3,
    }
