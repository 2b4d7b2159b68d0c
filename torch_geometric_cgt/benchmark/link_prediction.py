r"""Link prediction on pairs of computation graphs: are their roots neighbours?"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_geometric_cgt.benchmark.gnn_training import (
    GNNConfig,
    batches,
    fit,
    logits_of,
    make_gnn,
)
from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.data.views import roc_auc

PREDICTORS = ('Dot', 'MLP')


@dataclass(frozen=True)
class EdgeTrees:
    r"""Edges of a graph, with one computation graph per end.

    A computation graph of depth :math:`L + 1` contains one of depth :math:`L`
    of its root and one of each child. The edge between root and child must not
    be visible in them. The child is therefore removed from the tree of the
    root, and neighbours of the child that have the token of the root are
    removed from the tree of the child.

    Args:
        ends (TokenTrees): The trees of all roots and then those of all
            children, ``[2m]`` of them.
        root (torch.Tensor): The index of the root of each edge, ``[m]``.
    """

    ends: TokenTrees
    root: Tensor

    def rows(self, split: str) -> Tensor:
        r"""The edges of one split."""
        rows = self.ends.rows(split)
        return rows[rows < self.root.numel()]

    @classmethod
    def of(cls, trees: TokenTrees, seed: int) -> EdgeTrees:
        r"""All edges between roots and their children.

        An edge is in the test split if one of its ends is, in the training
        split if both are, and in the validation split otherwise. An edge that
        occurs from both of its ends is thus in one split only. Children of
        generated trees are not roots, and get random splits.

        Args:
            trees (TokenTrees): Trees that are one layer deeper than the GNN.
            seed (int): The seed of random splits.
        """
        shape, null = trees.shape, trees.num_tokens
        if shape.depth < 2 or len(set(shape.num_neighbors)) > 1:
            raise ValueError(
                f'Link prediction needs trees of two or more layers with one fan-out '
                f'(got {list(shape.num_neighbors)})'
            )
        children = trees.tokens[:, shape.layer_slice(1)]
        split = trees.child_split
        if split is None:
            rng = torch.Generator().manual_seed(seed)
            split = trees.split[torch.randint(len(trees.split), children.shape, generator=rng)]
        root, child = (children < null).nonzero(as_tuple=True)
        split = torch.maximum(trees.split[root], split[root, child])  # test is the highest code
        tokens = trees.tokens[root]
        ends = TreeShape(shape.num_neighbors[1:])
        above = tokens[:, : ends.num_slots].scatter(1, child_slots(ends, child), null)
        below = tokens.gather(1, child_slots(shape, child))
        for place in range(ends.num_neighbors[0]):
            slots = child_slots(ends, torch.full_like(child, place))
            is_root = below.gather(1, slots[:, :1]) == tokens[:, :1]
            below = torch.where(is_root, below.scatter(1, slots, null), below)
        trees = replace(
            trees,
            tokens=torch.cat([above, below]),
            y=trees.y[root].repeat(2),
            split=split.repeat(2),
            shape=ends,
            child_split=None,
        )
        return cls(trees, root)


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
    r"""A GNN that embeds both ends, and a score of the two embeddings.

    Args:
        name (str): The name of the GNN.
        predictor (str): :obj:`"Dot"`, the inner product, or :obj:`"MLP"`, a
            perceptron on both, with the dropout of the GNN.
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

    def embed(self, edges: EdgeTrees, rows: Tensor) -> tuple[Tensor, Tensor]:
        r"""The embeddings of both ends of some edges, ``[B, H]`` each."""
        both = torch.cat([rows, rows + edges.root.numel()])
        root, child = logits_of(self.gnn, edges.ends, both).chunk(2)
        return root, child

    def forward(self, root: Tensor, child: Tensor) -> Tensor:
        r"""The score of each pair, ``[B]``."""
        if self.mlp is not None:
            return self.mlp(torch.cat([root, child], dim=1)).squeeze(1)
        return (root * child).sum(dim=1) + self.bias


def link_config(num_edges: int) -> GNNConfig:
    r"""How link predictors are trained. Steps and batches are smaller than for
    node classification: otherwise some perceptrons end with one score for all
    pairs.

    Args:
        num_edges (int): The number of training edges.
    """
    epochs = min(80, max(20, 200_000 // max(1, num_edges)))
    return GNNConfig(lr=0.005, batch_size=128, epochs=epochs, patience=max(8, epochs // 4))


def score_links(
    name: str, predictor: str, trees: TokenTrees, seed: int, config: GNNConfig | None = None
) -> dict[str, float]:
    r"""Trains a link predictor on the training edges and tests it on the test
    edges. Negative pairs combine a root with a child of another root.

    Args:
        name (str): The name of the GNN.
        predictor (str): One of :obj:`PREDICTORS`.
        trees (TokenTrees): Trees that are one layer deeper than the GNN.
        seed (int): The seed of weights, pairs and batches.
        config (GNNConfig, optional): How to train. (default: :obj:`None`)

    Returns:
        The area under the ROC curve and the accuracy.
    """
    edges = EdgeTrees.of(trees, seed)
    rng = torch.Generator().manual_seed(seed)
    train, val, test = (_shuffled(edges.rows(s), rng) for s in ('train', 'val', 'test'))
    config = config or link_config(train.numel())
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        num_features = trees.features.size(1)
        model = LinkPredictor(name, predictor, num_features, edges.ends.shape, config)
        optimizer = torch.optim.Adam(
            model.parameters(), lr=config.lr, weight_decay=config.weight_decay
        )
        fit(
            model,
            optimizer,
            lambda: batches(_shuffled(train), config.batch_size),
            lambda rows: F.binary_cross_entropy_with_logits(*_score_pairs(model, edges, rows)),
            lambda: evaluate_links(model, edges, val if val.numel() > 1 else train)['auc'],
            config.epochs,
            config.patience,
        )
    return evaluate_links(model, edges, test)


@torch.no_grad()
def evaluate_links(model: LinkPredictor, edges: EdgeTrees, rows: Tensor) -> dict[str, float]:
    r"""The area under the ROC curve and the accuracy on some edges and as many
    negative pairs.

    Args:
        model (LinkPredictor): The model.
        edges (EdgeTrees): The edges.
        rows (torch.Tensor): Which of them, in a random order.
    """
    model.eval()
    found = [_score_pairs(model, edges, part) for part in batches(rows, 4096)]
    score = torch.cat([s for s, _ in found])
    label = torch.cat([y for _, y in found])
    return {
        'auc': roc_auc(score, label),
        'accuracy': float(((score > 0) == (label > 0)).double().mean()),
    }


def _score_pairs(model: LinkPredictor, edges: EdgeTrees, rows: Tensor) -> tuple[Tensor, Tensor]:
    r"""The scores of some edges and of negative pairs, and which are edges. A
    negative pair is a root with the child of the edge before its own, unless
    both edges have the same root.
    """
    root, child = model.embed(edges, rows)
    other = edges.root[rows] != edges.root[rows].roll(1)
    score = torch.cat([model(root, child), model(root, child.roll(1, dims=0))[other]])
    return score, (torch.arange(score.numel()) < rows.numel()).to(score.dtype)


def _shuffled(rows: Tensor, generator: torch.Generator | None = None) -> Tensor:
    return rows[torch.randperm(rows.numel(), generator=generator)]
