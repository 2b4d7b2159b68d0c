r"""Anonymity: the number of source nodes behind each codeword, each path and each edge value of a
release.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_geometric_cgt.audit.check import ABOVE, Check, verdict
from torch_geometric_cgt.audit.records import Records
from torch_geometric_cgt.data import EdgeValues, GraphProfile, InNeighbors, TokenTrees
from torch_geometric_cgt.models.path_support import PathSupport
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.quantizer import label_homogeneity, protected_means
from torch_geometric_cgt.quantizer.protected_means import unsupported
from torch_geometric_cgt.release.card import Card
from torch_geometric_cgt.transforms.edge_codebook import edge_codewords, edge_support

TOLERANCE = 1e-4  # of the largest feature
NAMES = ('Size of groups', 'Codewords are means', 'Statements of the card')
NO_GROUPS = (
    'The cluster assignment (the group of each source node) is not available. Run the audit where '
    'the release was built, or give the folder of the build with --root.'
)
SUPPORT = 'Support of paths'
BINS = (0, 1, 2, 3, 5, 10, 20, 50, 100, 1000)  # the lower ends
EDGE_NAMES = ('Nodes behind edge values', 'Edge values are computed as stated')
NO_EDGE_GROUPS = (
    'The group of each source edge is not available. Run the audit where the release was built, or '
    'give the folder of the build with --root.'
)
DEGREES = 'Degrees are means of groups'
EDGE_TOLERANCE = 1e-6  # of the largest value


def check_groups(
    card: Card,
    codebook: Tensor,
    data: Data,
    cluster: Tensor | None = None,
) -> list[Check]:
    r"""Checks that every codeword is the mean of at least :math:`k` source nodes,
    protected as the card states, and that the card states the facts. Without the
    cluster assignment, nothing can be counted; only a card that contradicts
    itself is above the limit.

    Args:
        card (Card): What the release guarantees.
        codebook (torch.Tensor): The codewords, ``[m, F]``.
        data (Data): The source graph.
        cluster (torch.Tensor, optional): The cluster of each source node,
            ``[N]``, which is not a part of a release. (default: :obj:`None`)
    """
    assert card.k is not None and card.k_reached is not None
    origin = f'the promise of the card: k = {card.k}'
    if cluster is None and card.k_reached < card.k:
        says = 'The size of the smallest group, as the card itself states it.'
        reached = float(card.k_reached)
        return [Check(NAMES[0], ABOVE, reached, says, float(card.k), origin)]
    if cluster is None:
        return [Check.unchecked(name, NO_GROUPS) for name in NAMES]
    sizes = torch.bincount(cluster.long(), minlength=codebook.size(0))
    return [
        Check(
            NAMES[0],
            verdict(False, int(sizes.min()) < card.k),
            float(sizes.min()),
            f'The size of the smallest of {sizes.numel()} groups, counted on the source. '
            f'{int((sizes < card.k).sum())} have fewer than {card.k} nodes.',
            float(card.k),
            origin,
            details={'sizes': sizes.tolist()},
        ),
        _check_means(card, codebook, data, cluster, sizes),
        _check_card(card, data, cluster, sizes),
    ]


def _check_means(card: Card, codebook: Tensor, data: Data, cluster: Tensor, sizes: Tensor) -> Check:
    r"""Checks that each codeword is the mean of its cluster, protected as the card states."""
    present = sizes > 0
    names = (present.cumsum(0) - 1)[cluster.long()]
    own, num_clusters = codebook[present].double(), int(present.sum())
    support, step = card.min_value_support, card.rounding
    means = protected_means(data.x, names, num_clusters, support, step)
    value = float((means.double() - own).abs().max()) / max(1e-12, float(means.abs().max()))
    rare = 0
    if support is not None:
        rare = int((unsupported(data.x, names, num_clusters, support) & (own != 0)).sum())
    rules = (
        []
        if support is None
        else [f'with those of neighbouring groups where fewer than {support} members have a value']
    )
    rules += [] if step is None else [f'rounded to multiples of {step:.3g} scales']
    says = (
        'The largest difference between a codeword (a feature vector of the release) and the mean '
        f'of its group{"".join(f", {rule}" for rule in rules)}, relative to the largest mean.'
    )
    if support is not None:
        says += (
            f' {rare} values of codewords belong to fewer than {support} members of the group and '
            f'its neighbours.'
        )
    return Check(
        NAMES[1],
        verdict(False, value > TOLERANCE or not bool(present.all()) or rare > 0),
        value,
        says,
        TOLERANCE,
        'tolerance for rounding',
        details={'values_below_support': rare},
    )


def _check_card(card: Card, data: Data, cluster: Tensor, sizes: Tensor) -> Check:
    r"""Checks the numbers on the card that can be counted."""
    labels = label_homogeneity(cluster, data.y.clamp(min=-1))
    counted = {
        'k_reached': int(sizes.min()),
        'num_clusters': sizes.numel(),
        'homogeneous': labels.num_homogeneous,
        'l_reached': int(labels.distinct.min()),
        't_closeness': round(float(labels.t_closeness.max()), 4),
    }
    wrong = [
        f'{name} is {value}, the card states {getattr(card, name)}'
        for name, value in counted.items()
        if abs(getattr(card, name) - value) > 1e-3
    ]
    return Check(
        NAMES[2],
        verdict(False, bool(wrong)),
        float(len(wrong)),
        'The number of statements on the card that differ from what was counted on the source'
        + (f': {"; ".join(wrong)}.' if wrong else f' (counted: {", ".join(counted)}).'),
        0.0,
        'every statement on the card must be correct',
        details=counted,
    )


@dataclass(frozen=True)
class Support:
    r"""The support of the paths of generated trees: the number of source roots
    whose computation graphs contain the same (label, path from the root).

    Args:
        k (int): The support that counts as enough.
        share_of_trees (float): The share of trees in which all paths have
            enough support.
        share_of_rare (float): The share of trees with a path that some source
            roots have, but not enough.
        share_of_paths (list[float]): For each layer, the share of slots whose
            path has enough support.
        unseen (list[float]): For each layer, the share of slots whose path has
            no support.
        least (int): The smallest support.
        histogram (list[list[int]]): For each layer, the number of slots by
            the support of their path, in :obj:`bins`.
        bins (list[int]): The lower ends of the bins.
        num_roots (int): The number of source roots.
        num_draws (int): The number of trees that were sampled for each root.
    """

    k: int
    share_of_trees: float
    share_of_rare: float
    share_of_paths: list[float]
    unseen: list[float]
    least: int
    histogram: list[list[int]]
    bins: list[int]
    num_roots: int
    num_draws: int

    def check(self, min_support: int | None = None, origin: str = '') -> Check:
        r"""Above the limit if a path has less support than required. Without a
        requirement, paths that few source nodes have are found, within the limit.

        Args:
            min_support (int, optional): The support that every path must
                have. (default: :obj:`None`)
            origin (str, optional): Who requires it; without a requirement, why
                there is none. (default: :obj:`""`)
        """
        says = (
            f'{self.share_of_trees:.1%} of generated trees contain only paths that at least '
            f'{self.k} of {self.num_roots:,} source nodes have in {self.num_draws} samples of '
            f'their computation graphs. A path is the label of a root with the groups of the '
            f'nodes from the root down to one node.'
        )
        if min_support is None:
            return Check(
                SUPPORT,
                verdict(self.share_of_rare > 0, False),
                self.share_of_rare,
                f'The share of generated trees with a path that at least one and fewer than '
                f'{self.k} source nodes have. Whoever knows these nodes may recognise them. {says}',
                None,
                origin,
            )
        return Check(
            SUPPORT,
            verdict(False, self.least < min_support),
            float(self.least),
            f'The number of source nodes that have the rarest path of the release. {says}',
            float(min_support),
            origin,
        )

    def to_dict(self) -> dict[str, Any]:
        r"""All fields, for a JSON file."""
        return asdict(self)


def path_support(trees: TokenTrees, source: Records, k: int) -> Support:
    r"""Counts, for every (label, path from the root) of generated trees, the
    source roots that have it in any of their trees.

    Args:
        trees (TokenTrees): The generated trees.
        source (Records): The records of the source roots.
        k (int): The support that counts as enough.
    """
    real, shape = trees.real, trees.shape
    counts = source_support(source).count(trees.tokens, trees.y)
    enough = (counts >= k) | ~real
    edges = torch.tensor(BINS)
    shares, unseen, histogram = [], [], []
    for layer in range(shape.depth + 1):
        slots = shape.layer_slice(layer)
        of_layer = counts[:, slots][real[:, slots]]
        shares.append(_share(of_layer >= k))
        unseen.append(_share(of_layer == 0))
        place = torch.searchsorted(edges, of_layer, right=True) - 1
        histogram.append(torch.bincount(place, minlength=len(BINS)).tolist())
    return Support(
        k,
        _share(enough.all(dim=1)),
        _share(((counts > 0) & ~enough).any(dim=1)),
        shares,
        unseen,
        int(counts[real].min()),
        histogram,
        list(BINS),
        len(source),
        len(source.draws),
    )


def source_support(source: Records) -> PathSupport:
    r"""The support of the paths of a source, over all samples of its trees."""
    trees = source.all_trees()
    root = torch.arange(len(source)).repeat(len(source.draws))
    return PathSupport.of(trees.tokens, trees.y, trees.num_tokens, trees.shape, root)


def _share(mask: Tensor) -> float:
    return float(mask.double().mean()) if mask.numel() else 0.0


def check_edge_values(
    card: Card, values: EdgeValues, source: Source, edge_cluster: Tensor | None
) -> list[Check]:
    r"""Checks that at least :math:`k` source nodes are behind each edge value, and
    that each value is computed from its group of edges alone.

    Args:
        card (Card): What the release guarantees.
        values (EdgeValues): The edge values of the release.
        source (Source): The source graph.
        edge_cluster (torch.Tensor, optional): The edge token of each source edge,
            ``[E]``, which is not a part of a release.
    """
    own, data = source.edge_values(), source.data
    assert card.edges is not None
    k, num_nodes = card.edges['k'], int(data.num_nodes or 0)
    if edge_cluster is None or own is None or len(own) != edge_cluster.numel():
        return [Check.unchecked(name, NO_EDGE_GROUPS) for name in EDGE_NAMES]
    support = [
        edge_support(data.edge_index[:, edge_cluster == g], num_nodes) for g in range(len(values))
    ]
    least, few = min(support), sum(count < k for count in support)
    wrong = least < k or least != card.edges['k_reached']
    found = Check(
        EDGE_NAMES[0],
        verdict(False, wrong),
        float(least),
        f'The number of source nodes behind the rarest of {len(values)} edge values, counted on '
        f'the source; the card states {card.edges["k_reached"]}. Nodes that have the value only by '
        f'edges to one common node count as one. {few} values have fewer than {k}.',
        float(k),
        f'the promise of the card: k = {k}',
        details={'support': support},
    )
    if few and 0 in support:  # an empty group has no value
        return [found]
    words = edge_codewords(own, edge_cluster, data.edge_index, num_nodes, k)
    largest = max(1e-12, float(values.table.abs().max()))
    change = torch.tensor(float('inf'))
    if words.table.shape == values.table.shape:
        change = (words.table - values.table).abs().max() / largest
    return [
        found,
        Check(
            EDGE_NAMES[1],
            verdict(False, float(change) > EDGE_TOLERANCE),
            min(float(change), 1e9),
            'The largest difference between an edge value of the release and the one that follows '
            'from its group of source edges: the usual value or the rounded mean, relative to the '
            'largest value.',
            EDGE_TOLERANCE,
            'tolerance for rounding',
        ),
    ]


def check_profile(card: Card, profile: GraphProfile, source: Source) -> Check:
    r"""Checks that the degrees and the homophily of a release are those of groups of the
    source, clipped and rounded, and that the card states the size of the groups.

    Args:
        card (Card): What the release guarantees.
        profile (GraphProfile): The degrees and the homophily of the release.
        source (Source): The source graph.
    """
    data, stated = source.data, card.profile
    assert card.k is not None and stated is not None
    graph = InNeighbors.from_edge_index(data.edge_index, int(data.num_nodes or 0))
    own = GraphProfile.of(graph, source.root, data.y, card.k)
    change = float('inf')
    if own is not None and own.facts(source.root.numel(), card.k) == stated:
        change = float((own.mean_degree - profile.mean_degree).abs().max())
    return Check(
        DEGREES,
        verdict(False, change > EDGE_TOLERANCE),
        min(change, 1e9),
        f'The largest difference between a mean degree of the release and the rounded mean of its '
        f'group of source nodes, recomputed from the source. Each of the {stated["num_groups"]} '
        f'groups has at least {stated["k"]} nodes. It is very large if the card states other '
        f'groups or another homophily.',
        EDGE_TOLERANCE,
        'tolerance for rounding',
    )
