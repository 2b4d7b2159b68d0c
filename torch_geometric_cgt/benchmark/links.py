r"""Link prediction on pairs of computation graphs: is the one root a neighbour of the other?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from torch_geometric_cgt.benchmark.models import make_gnn
from torch_geometric_cgt.benchmark.training import GNNConfig, TreeSet, batches, fit, logits_of
from torch_geometric_cgt.data import TreeShape

PREDICTORS = ('Dot', 'MLP')


@dataclass(frozen=True)
class Pairs:
    r"""Edges of a graph, as one computation graph per end.

    A computation graph of depth :math:`L + 1` holds one of depth :math:`L` of
    its root and one of each child. That they are neighbours is what is asked,
    so the child is cut out of the tree of the root, and what looks like the
    root out of the neighbours of the child.

    Args:
        ends (TreeSet): The trees of all roots and then those of all children,
            ``[2m]`` of them.
        owner (torch.Tensor): The root of each edge, ``[m]``.
    """

    ends: TreeSet
    owner: Tensor

    def rows(self, split: str) -> Tensor:
        r"""The edges of one split."""
        rows = self.ends.rows(split)
        return rows[rows < self.owner.numel()]

    @classmethod
    def of(cls, trees: TreeSet, seed: int) -> Pairs:
        r"""All edges between roots and their children.

        An edge is for training if both ends are, for testing if one end is,
        and else for validation: the same from both ends, so that none is
        learned from the one and asked for from the other. Children of
        generated trees are no roots of their own, and draw a split.

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
        split = trees.child_split
        if split is None:
            rng = torch.Generator().manual_seed(seed)
            split = trees.split[torch.randint(len(trees.split), children.shape, generator=rng)]
        owner, child = (children < null).nonzero(as_tuple=True)
        split = torch.maximum(trees.split[owner], split[owner, child])  # test is the highest code
        index = trees.index[owner]
        ends = TreeShape(shape.num_neighbors[1:])
        above = index[:, : ends.num_slots].scatter(1, child_slots(ends, child), null)
        below = index.gather(1, child_slots(shape, child))
        for place in range(ends.num_neighbors[0]):
            slots = child_slots(ends, torch.full_like(child, place))
            is_root = below.gather(1, slots[:, :1]) == index[:, :1]
            below = torch.where(is_root, below.scatter(1, slots, null), below)
        trees = replace(
            trees,
            index=torch.cat([above, below]),
            y=trees.y[owner].repeat(2),
            split=split.repeat(2),
            shape=ends,
            child_split=None,
        )
        return cls(trees, owner)


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
            perceptron of both, with the dropout of the GNN.
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
        self.bias = nn.Parameter(torch.zeros(1))
        self.mlp: nn.Module | None = None
        if predictor == 'MLP':
            self.mlp = nn.Sequential(
                nn.Dropout(config.dropout),
                nn.Linear(2 * width, width),
                nn.ReLU(),
                nn.Dropout(config.dropout),
                nn.Linear(width, 1),
            )

    def embed(self, pairs: Pairs, rows: Tensor) -> tuple[Tensor, Tensor]:
        r"""What the GNN makes of both ends of some edges, ``[B, H]`` each."""
        both = torch.cat([rows, rows + pairs.owner.numel()])
        root, child = logits_of(self.gnn, pairs.ends, both).chunk(2)
        return root, child

    def forward(self, root: Tensor, child: Tensor) -> Tensor:
        r"""The score of each pair, ``[B]``."""
        if self.mlp is not None:
            return self.mlp(torch.cat([root, child], dim=1)).squeeze(1)
        return (root * child).sum(dim=1) + self.bias


def link_config(num_pairs: int) -> GNNConfig:
    r"""How link predictors are trained: smaller steps on smaller batches than
    for labels, without which perceptrons end where all pairs are alike.

    Args:
        num_pairs (int): The number of edges to train on.
    """
    epochs = min(80, max(20, 200_000 // max(1, num_pairs)))
    return GNNConfig(lr=0.005, batch_size=128, epochs=epochs, patience=max(8, epochs // 4))


def score_links(
    name: str, predictor: str, trees: TreeSet, seed: int, config: GNNConfig | None = None
) -> dict[str, float]:
    r"""Trains on the edges between training roots, with as many pairs of roots
    and children of others, and tests on those between test roots.

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
    rng = torch.Generator().manual_seed(seed)
    train, val, test = (_shuffled(pairs.rows(s), rng) for s in ('train', 'val', 'test'))
    config = config or link_config(train.numel())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LinkPredictor(name, predictor, trees.x.size(1), pairs.ends.shape, config)
        optimizer = torch.optim.Adam(
            model.parameters(), lr=config.lr, weight_decay=config.weight_decay
        )
        fit(
            model,
            optimizer,
            lambda: batches(_shuffled(train), config.batch_size),
            lambda rows: F.binary_cross_entropy_with_logits(*_scores(model, pairs, rows)),
            lambda: test_links(model, pairs, val if val.numel() > 1 else train)['auc'],
            config.epochs,
            config.patience,
        )
    return test_links(model, pairs, test)


@torch.no_grad()
def test_links(model: LinkPredictor, pairs: Pairs, rows: Tensor) -> dict[str, float]:
    r"""The scores on some edges, and on as many other pairs.

    Args:
        model (LinkPredictor): The model.
        pairs (Pairs): The edges.
        rows (torch.Tensor): Which of them, in a random order.
    """
    model.eval()
    found = [_scores(model, pairs, part) for part in batches(rows, 4096)]
    score = torch.cat([s for s, _ in found])
    label = torch.cat([y for _, y in found])
    return {
        'auc': float(roc_auc_score(label.numpy(), score.numpy())),
        'accuracy': float(((score > 0) == (label > 0)).double().mean()),
    }


def _scores(model: LinkPredictor, pairs: Pairs, rows: Tensor) -> tuple[Tensor, Tensor]:
    r"""Scores of some edges and of as many other pairs, each root with the
    child of the next edge unless that is one of its own; and which are edges.
    """
    root, child = model.embed(pairs, rows)
    other = pairs.owner[rows] != pairs.owner[rows].roll(1)
    score = torch.cat([model(root, child), model(root, child.roll(1, dims=0))[other]])
    return score, (torch.arange(score.numel()) < rows.numel()).to(score.dtype)


def _shuffled(rows: Tensor, generator: torch.Generator | None = None) -> Tensor:
    return rows[torch.randperm(rows.numel(), generator=generator)]


test_links.__test__ = False  # type: ignore[attr-defined]  # not for pytest
