r"""Link prediction on pairs of computation graphs: is the one root a neighbour of the other?"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from torch_geometric_cgt.benchmark.models import make_gnn
from torch_geometric_cgt.benchmark.training import GNNConfig, TreeSet, logits_of
from torch_geometric_cgt.data import TreeShape

PREDICTORS = ('Dot', 'MLP')


@dataclass(frozen=True)
class Pairs:
    r"""Edges of a graph, as one computation graph per end.

    A computation graph of depth :math:`L + 1` holds one of depth :math:`L` of
    its root and one of each child. The child is cut out of the tree of the
    root: that they are neighbours is what is asked.
    """

    root: TreeSet
    child: TreeSet

    @classmethod
    def of(cls, trees: TreeSet, seed: int) -> Pairs:
        r"""One edge per root that has a neighbour, to a random one of them.

        Args:
            trees (TreeSet): Trees that are one layer deeper than the GNN.
            seed (int): The seed of the draw.
        """
        shape, null = trees.shape, trees.x.size(0)
        if shape.depth < 2 or len(set(shape.num_neighbors)) > 1:
            raise ValueError(
                f'Link prediction needs trees of two or more layers with one fan-out '
                f'(got {list(shape.num_neighbors)})'
            )
        children = trees.index[:, shape.layer_slice(1)]
        kept = (children < null).any(dim=1)
        rng = torch.Generator().manual_seed(seed)
        share = torch.rand(children.shape, generator=rng).masked_fill(children == null, -1)
        chosen = share.argmax(dim=1)[kept]
        index = trees.index[kept]
        below = index.gather(1, child_slots(shape, chosen))
        above = index[:, : shape.offsets[shape.depth]].clone()
        upper = TreeShape(shape.num_neighbors[:-1])
        above.scatter_(1, child_slots(upper, chosen), null)
        rows = replace(trees, y=trees.y[kept], split=trees.split[kept])
        return cls(
            replace(rows, index=above, shape=upper),
            replace(rows, index=below, shape=TreeShape(shape.num_neighbors[1:])),
        )


def child_slots(shape: TreeShape, child: Tensor) -> Tensor:
    r"""The slots of the tree below one child of each root, that child first.

    Args:
        shape (TreeShape): The geometry of the whole trees.
        child (torch.Tensor): Which child, ``[n]``.
    """
    slots = []
    for layer in range(1, shape.depth + 1):
        size = shape.layer_sizes[layer] // shape.layer_sizes[1]
        slots.append(shape.offsets[layer] + child[:, None] * size + torch.arange(size))
    return torch.cat(slots, dim=1)


class LinkPredictor(nn.Module):
    r"""A GNN for both ends, and a score of the two outcomes.

    Args:
        name (str): The name of the GNN.
        predictor (str): :obj:`"Dot"`, their inner product, or :obj:`"MLP"`, a
            perceptron of both.
        in_channels (int): The number of features.
        shape (TreeShape): The geometry of the trees of both ends.
        config (GNNConfig): The width and the dropout.
    """

    def __init__(
        self,
        name: str,
        predictor: str,
        in_channels: int,
        shape: TreeShape,
        config: GNNConfig,
    ) -> None:
        super().__init__()
        if predictor not in PREDICTORS:
            raise ValueError(f"Unknown predictor '{predictor}'; choose from {list(PREDICTORS)}")
        width = config.hidden_channels
        self.gnn = make_gnn(name, in_channels, width, shape, width, config.dropout)
        self.scale = nn.Parameter(torch.ones(1))
        self.bias = nn.Parameter(torch.zeros(1))
        self.mlp: nn.Module | None = None
        if predictor == 'MLP':
            self.mlp = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, 1))

    def embed(self, trees: TreeSet, rows: Tensor) -> Tensor:
        r"""What the GNN makes of some trees, ``[B, H]``."""
        return logits_of(self.gnn, trees, rows)

    def forward(self, root: Tensor, child: Tensor) -> Tensor:
        r"""The score of each pair, ``[B]``."""
        if self.mlp is not None:
            return self.mlp(torch.cat([root, child], dim=1)).squeeze(1)
        return (root * child).mean(dim=1) * self.scale + self.bias


def score_links(
    name: str, predictor: str, trees: TreeSet, seed: int, config: GNNConfig | None = None
) -> dict[str, float]:
    r"""Trains on the edges of training roots, with as many pairs of roots and
    children of others, and tests on those of test roots.

    Args:
        name (str): The name of the GNN.
        predictor (str): One of :obj:`PREDICTORS`.
        trees (TreeSet): Trees that are one layer deeper than the GNN.
        seed (int): The seed of weights, pairs and batches.
        config (GNNConfig, optional): How to train. (default: :obj:`None`)

    Returns:
        The area under the ROC curve and the accuracy.
    """
    pairs = Pairs.of(trees, seed)
    train, val, test = (pairs.root.rows(split) for split in ('train', 'val', 'test'))
    config = config or GNNConfig.for_roots(train.numel())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LinkPredictor(name, predictor, trees.x.size(1), pairs.root.shape, config)
        # As for models that draw neighbours: with larger steps, some end where all pairs are alike.
        optimizer = torch.optim.Adam(
            model.parameters(), lr=config.sampled_lr, weight_decay=config.weight_decay
        )
        best, best_epoch, weights = -1.0, 0, copy.deepcopy(model.state_dict())
        for epoch in range(config.epochs):
            model.train()
            order = train[torch.randperm(train.numel())]
            for score, label in _scores(model, pairs, order, config.batch_size):
                loss = F.binary_cross_entropy_with_logits(score, label)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            found = test_links(model, pairs, val if val.numel() > 1 else train)['auc']
            if found > best:
                best, best_epoch, weights = found, epoch, copy.deepcopy(model.state_dict())
            elif epoch - best_epoch >= config.patience:
                break
    model.load_state_dict(weights)
    return test_links(model, pairs, test)


@torch.no_grad()
def test_links(model: LinkPredictor, pairs: Pairs, rows: Tensor) -> dict[str, float]:
    r"""The scores on the edges of some roots, and as many pairs of others."""
    model.eval()
    found = list(_scores(model, pairs, rows, 4096))
    score = torch.cat([s for s, _ in found])
    label = torch.cat([y for _, y in found])
    return {
        'auc': float(roc_auc_score(label.numpy(), score.numpy())),
        'accuracy': float(((score > 0) == (label > 0)).double().mean()),
    }


def _scores(
    model: LinkPredictor, pairs: Pairs, rows: Tensor, batch_size: int
) -> Iterator[tuple[Tensor, Tensor]]:
    r"""Scores of edges and of as many other pairs: each root with the child of the next one."""
    for part in rows.split(batch_size):
        root, child = model.embed(pairs.root, part), model.embed(pairs.child, part)
        score = torch.cat([model(root, child), model(root, child.roll(1, dims=0))])
        label = torch.zeros(2 * part.numel())
        label[: part.numel()] = 1
        yield score, label
