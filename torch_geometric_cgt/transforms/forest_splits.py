r"""Splits that know the roots of a forest: of roots, of links, and in the place of PyG's splits."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import Compose, RandomLinkSplit, RandomNodeSplit

FOREST = ('root_mask', 'depth', 'cluster')  # attributes of a forest of token trees


class RootNodeSplit(RandomNodeSplit):
    r"""Splits the roots of a forest at random into training, validation and
    test nodes. The arguments are those of
    :class:`~torch_geometric.transforms.RandomNodeSplit`, which would also
    choose nodes without a label. Shares refer to the number of roots. A graph
    without :obj:`root_mask` is split by
    :class:`~torch_geometric.transforms.RandomNodeSplit`.

    Args:
        split (str, optional): :obj:`"train_rest"`, :obj:`"test_rest"` or
            :obj:`"random"`. (default: :obj:`"train_rest"`)
        num_splits (int, optional): The number of splits. (default: :obj:`1`)
        num_train_per_class (int, optional): Training roots per class, for
            :obj:`"test_rest"` and :obj:`"random"`. (default: :obj:`20`)
        num_val (int or float, optional): The number or share of validation
            roots. (default: :obj:`500`)
        num_test (int or float, optional): The number or share of test roots,
            for :obj:`"train_rest"` and :obj:`"random"`. (default: :obj:`1000`)
        key (str, optional): The name of the labels. (default: :obj:`"y"`)
    """

    @classmethod
    def like(cls, other: RandomNodeSplit) -> RootNodeSplit:
        r"""A split with the arguments of another one."""
        names = ('split', 'num_splits', 'num_train_per_class', 'num_val', 'num_test', 'key')
        return cls(**{name: getattr(other, name) for name in names})

    def forward(self, data: Data) -> Data:
        if 'root_mask' not in data:
            return super().forward(data)
        root = data.root_mask.nonzero().view(-1)
        roots = Data(num_nodes=root.numel())
        if self.key is not None and self.key in data:
            roots[self.key] = data[self.key][root]
        roots = super().forward(roots)
        for name in ('train_mask', 'val_mask', 'test_mask'):
            if name in roots:
                mask = roots[name].to(root.device)
                data[name] = mask.new_zeros(data.num_nodes, *mask.shape[1:]).index_copy_(
                    0, root, mask
                )
        return data


class TreeLinkSplit(RandomLinkSplit):
    r"""Splits the edges between roots and their children into training,
    validation and test links. The arguments are those of
    :class:`~torch_geometric.transforms.RandomLinkSplit`, and so is the result:
    three :class:`~torch_geometric.data.Data` objects with
    :obj:`edge_label_index` and :obj:`edge_label`. A graph that is not a forest
    is split by :class:`~torch_geometric.transforms.RandomLinkSplit`.

    .. code-block:: python

        split = TreeLinkSplit(num_val=0.05, num_test=0.1)
        train_data, val_data, test_data = split(dataset[0])

    Three rules differ from :class:`~torch_geometric.transforms.RandomLinkSplit`:

    * Links are edges into roots. A node below has no other neighbours in its
      tree than its own children, and a leaf has none.
    * The nodes of a tree are copies, so one edge of the source can occur in a
      tree several times: a walk root - child - root passes it twice. All edges
      of a tree between the same two tokens are therefore one link. They leave
      message passing together, in both directions.
    * A negative link joins the root of one link to the child of another, in
      another tree. Roots and children of negative links are thus distributed
      as those of positive links, and neither the depth nor the degree of a
      node tells the two apart.

    Edges stay as they are directed, also with :obj:`is_undirected=True`.

    Args:
        num_val (int or float, optional): The number or share of validation
            links. (default: :obj:`0.1`)
        num_test (int or float, optional): The number or share of test links.
            (default: :obj:`0.2`)
        is_undirected (bool, optional): Used for graphs that are not a forest.
            (default: :obj:`False`)
        key (str, optional): The name of the labels.
            (default: :obj:`"edge_label"`)
        split_labels (bool, optional): Whether to store positive and negative
            links apart. (default: :obj:`False`)
        add_negative_train_samples (bool, optional): Whether to add negative
            training links. (default: :obj:`True`)
        neg_sampling_ratio (float, optional): Negative links per positive link.
            (default: :obj:`1.0`)
        disjoint_train_ratio (int or float, optional): The number or share of
            training links that are not used for message passing. If set, only
            they are labelled. (default: :obj:`0.0`)
        seed (int, optional): The seed of the split of a forest. By default,
            the random state of torch decides. (default: :obj:`None`)
    """

    def __init__(
        self,
        num_val: int | float = 0.1,
        num_test: int | float = 0.2,
        is_undirected: bool = False,
        key: str = 'edge_label',
        split_labels: bool = False,
        add_negative_train_samples: bool = True,
        neg_sampling_ratio: float = 1.0,
        disjoint_train_ratio: int | float = 0.0,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            num_val,
            num_test,
            is_undirected,
            key,
            split_labels,
            add_negative_train_samples,
            neg_sampling_ratio,
            disjoint_train_ratio,
        )
        self.seed = seed

    @classmethod
    def like(cls, other: RandomLinkSplit) -> TreeLinkSplit:
        r"""A split with the arguments of another one."""
        names = (
            'num_val',
            'num_test',
            'is_undirected',
            'key',
            'split_labels',
            'add_negative_train_samples',
            'neg_sampling_ratio',
            'disjoint_train_ratio',
        )
        return cls(**{name: getattr(other, name) for name in names})

    def forward(self, data: Data) -> tuple[Data, Data, Data]:
        if not all(name in data for name in FOREST):
            return super().forward(data)
        rng = torch.Generator()
        rng.manual_seed(int(torch.randint(2**62, ())) if self.seed is None else self.seed)
        tree, link, example = links_of(data)
        order = torch.randperm(example.numel(), generator=rng)
        counts = [_count(size, order.numel()) for size in (self.num_val, self.num_test)]
        num_train = order.numel() - sum(counts)
        num_hidden = _count(self.disjoint_train_ratio, max(num_train, 0))
        if num_train - num_hidden <= 0:
            raise ValueError(
                f'The trees have {order.numel()} links between roots and children, which is not '
                f'enough for {counts[0]} validation, {counts[1]} test and {num_hidden} disjoint '
                f'training links: choose smaller numbers'
            )
        train, val, test = order.split([num_train, *counts])
        parts = [  # the links that are labelled, and those that message passing must not see
            (train[:num_hidden] if num_hidden else train, [train[:num_hidden], val, test]),
            (val, [val, test]),
            (test, [test]),
        ]
        out = []
        for number, (labelled, unseen) in enumerate(parts):
            hidden = torch.zeros(order.numel() + 1, dtype=torch.bool)  # the last: not a link
            hidden[torch.cat(unseen)] = True
            part = data.edge_subgraph(~hidden[link].to(data.edge_index.device))
            edges = data.edge_index[:, example[labelled].to(data.edge_index.device)]
            negative = edges[:, :0]
            if number > 0 or self.add_negative_train_samples:
                negative = _negatives(edges, tree, self.neg_sampling_ratio, rng)
            out.append(self._label(part, edges, negative))
        return out[0], out[1], out[2]

    def _label(self, data: Data, positive: Tensor, negative: Tensor) -> Data:
        ones, zeros = (torch.full((e.size(1),), v) for e, v in ((positive, 1.0), (negative, 0.0)))
        if self.split_labels:
            labelled = {'pos_': (positive, ones), 'neg_': (negative, zeros)}
        else:
            both = torch.cat([positive, negative], dim=1), torch.cat([ones, zeros])
            labelled = {'': both}
        for name, (edges, label) in labelled.items():
            if edges.size(1) or name != 'neg_':
                data[f'{name}{self.key}'] = label.to(edges.device)
                data[f'{name}{self.key}_index'] = edges
        return data

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}(num_val={self.num_val}, num_test={self.num_test}, '
            f'seed={self.seed})'
        )


def links_of(data: Data) -> tuple[Tensor, Tensor, Tensor]:
    r"""The links of a forest: pairs of tokens that an edge into the root joins.

    Args:
        data (Data): The forest, with edges in one or both directions.

    Returns:
        The tree of each node, ``[N]``; the link of each edge, ``[E]``, which is
        the number of links for edges that belong to none; and one edge into the
        root for each link.
    """
    source, target = data.edge_index.cpu()
    depth, token, is_root = (data[name].cpu() for name in ('depth', 'cluster', 'root_mask'))
    up = depth[source] == depth[target] + 1
    parent = torch.arange(depth.numel())
    parent[source[up]] = target[up]
    tree = parent
    for _ in range(int(depth.max())):
        tree = parent[tree]
    pair = torch.stack([token[source], token[target]]).sort(dim=0).values
    key = torch.cat([tree[target][None], pair])
    key[:, source == target] = -1  # self-loops are no links
    _, group = key.unique(dim=1, return_inverse=True)
    candidate = (up & is_root[target]).nonzero().view(-1)
    group_of, index = group[candidate].unique(return_inverse=True)
    number = torch.full((int(group.max()) + 1,), group_of.numel())
    number[group_of] = torch.arange(group_of.numel())
    example = torch.empty_like(group_of).scatter_(0, index.flip(0), candidate.flip(0))
    return tree, number[group], example


def _negatives(edges: Tensor, tree: Tensor, ratio: float, rng: torch.Generator) -> Tensor:
    r"""Joins roots of some links to children of others, in other trees."""
    count = int(edges.size(1) * ratio)
    child, root = edges.cpu()
    if count == 0:
        return edges[:, :0]
    if int(tree[root].min()) == int(tree[root].max()):
        raise ValueError(
            f'All {root.numel()} links of one part are in one tree, so that there are no negative '
            f"links: choose larger 'num_val' and 'num_test'"
        )
    other = torch.arange(count) % root.numel()
    chosen = other
    while (same := tree[root[chosen]] == tree[root[other]]).any():
        drawn = torch.randint(root.numel(), (int(same.sum()),), generator=rng)
        chosen = chosen.masked_scatter(same, drawn)
    return torch.stack([child[chosen], root[other]]).to(edges.device)


def _count(size: int | float, total: int) -> int:
    return int(size * total) if isinstance(size, float) else size


def forest_aware(transform: Callable) -> Callable:
    r"""The transform that does on a forest what a transform does on a graph.

    :class:`~torch_geometric.transforms.RandomNodeSplit` would choose nodes
    without a label. :class:`~torch_geometric.transforms.RandomLinkSplit` would
    keep copies of held-out edges, and with :obj:`is_undirected=True` it would
    find no edges. They become :class:`RootNodeSplit` and
    :class:`TreeLinkSplit` with the same arguments, also inside of
    :class:`~torch_geometric.transforms.Compose`. Other transforms, and
    subclasses, stay as they are.

    Args:
        transform (callable): The transform.
    """
    if type(transform) is RandomLinkSplit:
        return TreeLinkSplit.like(transform)
    if type(transform) is RandomNodeSplit:
        return RootNodeSplit.like(transform)
    if isinstance(transform, Compose) and type(transform) is Compose:
        return Compose([forest_aware(part) for part in transform.transforms])
    return transform
