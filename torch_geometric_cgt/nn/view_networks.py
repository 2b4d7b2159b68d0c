r"""Perceptrons on views of trees, trained as GNNs are: they score what a GNN can learn from each
view.

When features are replaced by cluster means, a linear probe on principal components does not lose
the same accuracy as a GNN. A perceptron with dropout that is trained by Adam on the features
themselves does: it overfits rare features of the original as a GNN does, and cluster means have
none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_geometric_cgt.data import TokenTrees, TreeShape, masks_of
from torch_geometric_cgt.data.views import probe_score, view_names
from torch_geometric_cgt.nn.dropout import dropout_factor
from torch_geometric_cgt.nn.graph_networks import GraphBatch, GraphNetworks
from torch_geometric_cgt.nn.view_batch import OutputLayers, ViewBatch, linear_maps

HIDDEN = 32
DROPOUT = 0.5
LR, WEIGHT_DECAY = 0.01, 5e-4
BATCH_SIZE = 512
MAX_SCORED = 2048  # trees at a time, which bounds the memory
EPOCHS = 45
MIN_STEPS = 180  # of few trees, which have few batches per epoch
LENGTH = 2.0  # mean length of a feature vector: one learning rate fits all graphs
SPARSE = 0.05  # features with a smaller share of values that are not zero are sparse
MIN_GROUPS, MAX_GROUPS = 512, 4096  # that more dense features than this are added up in


class ViewNetworks(nn.Module):
    r"""One perceptron with a hidden layer per view, see
    :meth:`~torch_geometric_cgt.data.views.tree_views`.

    Two views differ from those of linear probes: ``maximum`` is the largest hidden
    value among the children of the root beside the hidden values of the root, and
    ``layers apart`` has one linear map per layer. All networks are trained
    together, and share no parameters.

    Args:
        in_channels (int): The number of features.
        num_classes (int): The number of labels.
        shape (TreeShape): The geometry of the trees.
    """

    def __init__(self, in_channels: int, num_classes: int, shape: TreeShape) -> None:
        super().__init__()
        num_views = len(view_names(shape))
        self.num_networks = num_views
        width = (1 + len(linear_maps(shape))) * HIDDEN  # the last map is of children
        self.weight = nn.Parameter(torch.empty(in_channels, width))
        self.bias = nn.Parameter(torch.zeros(num_views, HIDDEN))
        self.out_weight = nn.Parameter(torch.empty(num_views, HIDDEN, num_classes))
        self.out_bias = nn.Parameter(torch.zeros(num_views, num_classes, 1))
        for weight in (self.weight, self.out_weight):  # as in nn.Linear
            bound = weight.size(-2) ** -0.5
            nn.init.uniform_(weight, -bound, bound)

    def forward(self, batch: ViewBatch) -> Tensor:
        r"""The logits of each view, ``[V, C, B]``.

        Args:
            batch (ViewBatch): Some trees.
        """
        hidden, of_child = batch.hidden(self.weight)
        factor = dropout_factor(hidden.shape, DROPOUT) if self.training else None
        logits: Tensor = OutputLayers.apply(
            hidden, of_child, self.bias, self.out_weight, self.out_bias, factor
        )
        return logits


def network_scores(trees: TokenTrees, x: Tensor, seed: int = 0) -> dict[str, float]:
    r"""Trains a network of each view on the training roots and tests it on test
    roots. The epoch with the best score on validation roots counts, for each view
    apart.

    The score is the accuracy, or the area under the ROC curve for two labels. If
    there are no validation or test roots, others that are not trained on stand
    in. If the training split cannot be used, every second root is trained on.

    Args:
        trees (TokenTrees): The trees.
        x (torch.Tensor): The features of each token, dense or sparse, ``[m, F]``.
        seed (int, optional): The seed of weights, batches and dropout.
            (default: :obj:`0`)
    """
    return dict(zip(view_names(trees.shape), _scores(ViewNetworks, trees, x, seed), strict=True))


def gnn_score(trees: TokenTrees, x: Tensor, seed: int = 0) -> float:
    r"""The mean score of :class:`GraphNetworks`, which are trained and tested as in
    :meth:`network_scores`. The arguments are the same.
    """
    found = _scores(GraphNetworks, trees, x, seed)
    return sum(found) / len(found)


def _scores(
    kind: type[ViewNetworks | GraphNetworks], trees: TokenTrees, x: Tensor, seed: int
) -> list[float]:
    x = _grouped(_sparse_or_dense(x.float()))
    x = x * (LENGTH / max(_mean_length(trees, x), 1e-12))
    train, val, test = _split(trees)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        parts = train[torch.randperm(train.numel())].tensor_split(-(-train.numel() // BATCH_SIZE))
        batch = ViewBatch if kind is ViewNetworks else GraphBatch
        batches = [batch(trees.select(part), x) for part in parts]
        checked = [
            [batch(trees.select(part), x) for part in roots.split(MAX_SCORED)]
            for roots in (val, test)
        ]
        networks = kind(x.size(1), trees.num_classes, trees.shape)
        return _train(networks, batches, *checked)


def _train(
    networks: ViewNetworks | GraphNetworks,
    batches: Sequence[Any],
    val: Sequence[Any],
    test: Sequence[Any],
) -> list[float]:
    r"""The test score of each network at the epoch with its best validation score."""
    parameters = networks.parameters()
    optimizer = torch.optim.Adam(parameters, lr=LR, weight_decay=WEIGHT_DECAY, fused=True)
    num_views = networks.num_networks
    best, found = [-1.0] * num_views, [0.0] * num_views
    epochs = max(EPOCHS, -(-MIN_STEPS // len(batches)))
    interval = epochs // EPOCHS  # few trees have many short epochs, which are not all validated
    for epoch in range(1, epochs + 1):
        networks.train()
        for i in torch.randperm(len(batches)).tolist():
            optimizer.zero_grad()
            logits = networks(batches[i])
            loss = F.cross_entropy(logits, batches[i].y.expand(num_views, -1))
            (num_views * loss).backward()  # the networks share nothing: the sum of their losses
            optimizer.step()
        if epoch % interval:
            continue
        networks.eval()
        with torch.no_grad():
            score = _network_scores(networks, val)
            better = [v for v in range(num_views) if score[v] > best[v]]
            if better:
                tested = _network_scores(networks, test)
                for v in better:
                    best[v], found[v] = score[v], tested[v]
    return found


def _network_scores(networks: ViewNetworks | GraphNetworks, batches: Sequence[Any]) -> list[float]:
    r"""The score of each network, see :func:`~torch_geometric_cgt.data.views.probe_score`."""
    logits = torch.cat([networks(batch).transpose(1, 2) for batch in batches], dim=1)  # [V, n, C]
    y = torch.cat([batch.y for batch in batches])
    if logits.size(2) == 2:
        return [probe_score(view.softmax(dim=1), y) for view in logits]
    return (logits.argmax(dim=2) == y).double().mean(dim=1).tolist()


def _split(trees: TokenTrees) -> tuple[Tensor, Tensor, Tensor]:
    r"""The positions of training, validation and test roots. None of them is empty: a part
    without roots is the one before it.
    """
    masks, every = masks_of(trees.split), torch.arange(len(trees))
    train, val, test = (every[masks[f'{name}_mask']] for name in ('train', 'val', 'test'))
    if train.numel() == len(trees) or trees.y[train].unique().numel() < 2:
        train, val, test = every[::2], every[1::4], every[3::4]
    elif not test.numel():
        rest = every[~masks['train_mask']]
        val, test = rest[::2], rest[1::2]
    elif not val.numel():
        val = train[::8]
        train = train[torch.arange(train.numel()) % 8 != 0] if train.numel() > 1 else train
    val = val if val.numel() else train
    return train, val, test if test.numel() else val


def _sparse_or_dense(x: Tensor) -> Tensor:
    r"""Sparse features if most of them are zero, else dense ones."""
    if x.layout != torch.strided:
        x = x.to_sparse_coo().coalesce()
    values = x if x.layout == torch.strided else x.values()
    is_sparse = int(values.count_nonzero()) < SPARSE * x.numel()
    return x.to_sparse_coo() if is_sparse else x.to_dense()


def _grouped(x: Tensor) -> Tensor:
    r"""Adds up dense features in random groups with random signs, so that time does not grow with
    their number. Means of clusters, which have fewer rows than there are groups, lose nothing that
    a network sees. Sparse features stay as they are: networks would score lower on them.
    """
    num_rows, num_features = x.shape
    num_groups = max(MIN_GROUPS, min(num_rows, MAX_GROUPS))
    if x.layout != torch.strided or num_features <= num_groups:
        return x
    rng = torch.Generator().manual_seed(num_features)
    group = torch.randint(num_groups, (num_features,), generator=rng)
    sign = 2.0 * torch.randint(2, (num_features,), generator=rng) - 1.0
    out = x.new_zeros(num_rows, num_groups)
    return out.index_add_(1, group.to(x.device), x * sign.to(x.device))


def _mean_length(trees: TokenTrees, x: Tensor) -> float:
    r"""The mean length of the feature vectors of all real slots."""
    count = torch.bincount(trees.tokens.reshape(-1).long(), minlength=trees.num_tokens + 1)[:-1]
    square = (x * x).sum(dim=1)
    length = (square.to_dense() if square.layout != torch.strided else square).sqrt()
    return float((count * length).sum() / count.sum().clamp(min=1))
