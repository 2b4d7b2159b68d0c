"""The queries of a private build, asked again about all sources that differ in one unit."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import to_undirected

from torch_geometric_cgt.data import values_at
from torch_geometric_cgt.pipeline import DifferentialPrivacy, PrivatePipeline
from torch_geometric_cgt.pipeline.config import BuildConfig
from torch_geometric_cgt.pipeline.source import Source, check_source

ROUNDING = 1e-9  # relative, of the norms of differences


def graph_with_a_hub(seed: int, num_nodes=24, num_classes=3) -> Data:
    """A random graph in which everything occurs that a bound must hold for: a hub, nodes without
    edges, edges in one direction, repeated edges, loops, nodes without a label, and features of
    any length.
    """
    rng = torch.Generator().manual_seed(seed)
    y = torch.randint(num_classes, (num_nodes,), generator=rng)
    y[:num_classes] = torch.arange(num_classes)
    x = (torch.rand(num_nodes, 6, generator=rng) < 0.4).float()
    x += 3 * (torch.arange(6) % num_classes == y[:, None])
    x[4], x[5], x[6] = 0.0, 1e5, -x[6]
    y[7:9] = -1
    reached = max(num_nodes * 2 // 3, num_nodes - 6 * (seed % 3))
    star = torch.stack([torch.zeros(reached - 1).long(), torch.arange(1, reached)])
    pairs = torch.randint(num_nodes - 2, (2, num_nodes), generator=rng)
    one_way = torch.randint(num_nodes - 2, (2, num_nodes // 3), generator=rng)
    loop = torch.tensor([[3], [3]])
    both = to_undirected(torch.cat([star, pairs], dim=1), num_nodes=num_nodes)
    edges = torch.cat([both, one_way, one_way[:, :3], loop], dim=1)
    data = Data(x=x, edge_index=edges, y=y)
    if seed % 2:
        code = torch.randint(4, (num_nodes,), generator=rng)
        data.train_mask, data.val_mask, data.test_mask = code == 0, code == 1, code == 2
    return data


def star(num_nodes: int, num_classes=3) -> Data:
    """One node that has an edge to and from all others, which have no other edges."""
    y = torch.arange(num_nodes) % num_classes
    leaves = torch.arange(1, num_nodes)
    edges = torch.stack([torch.zeros_like(leaves), leaves])
    edges = torch.cat([edges, edges.flip(0)], dim=1)
    return Data(x=torch.nn.functional.one_hot(y, num_classes).float(), edge_index=edges, y=y)


def matching(num_nodes: int, num_classes=3) -> Data:
    """Pairs of nodes of one label, with edges in both directions."""
    y = torch.arange(num_nodes // 2).repeat_interleave(2) % num_classes
    left = torch.arange(0, num_nodes, 2)
    edges = torch.cat([torch.stack([left, left + 1]), torch.stack([left + 1, left])], dim=1)
    return Data(x=torch.nn.functional.one_hot(y, num_classes).float(), edge_index=edges, y=y)


def ring(num_nodes: int, num_classes=2) -> Data:
    """Nodes with two neighbours each, with edges in both directions."""
    y = torch.arange(num_nodes) % num_classes
    edges = torch.stack([torch.arange(num_nodes), torch.arange(num_nodes).roll(1)])
    edges = torch.cat([edges, edges.flip(0)], dim=1)
    return Data(x=torch.nn.functional.one_hot(y, num_classes).float(), edge_index=edges, y=y)


def most_edges_into_a_node(data: Data) -> int:
    child, parent = data.edge_index.unique(dim=1)
    return int(torch.bincount(parent[child != parent]).max())


def build(graph: Data, folder: Path, epsilon=200.0, num_neighbors=(3, 2), **promise):
    """A pipeline that ran, and its answers."""
    privacy = DifferentialPrivacy(epsilon, **{'noise_seed': 1, **promise})
    config = BuildConfig(num_neighbors=num_neighbors, privacy=privacy)
    pipeline = PrivatePipeline(check_source(graph), config, folder, log=False)
    return pipeline, pipeline.run().answers


def changed_source(source: Source, **changes: Tensor) -> Source:
    """A source with other tensors. Roots that vanish are counted as before."""
    data = Data(**{**source.data.to_dict(), **changes})
    other = replace(source, data=data)
    return replace(other, num_zeroed=source.num_roots - other.num_roots)


def without_node(source: Source, node: int) -> Source:
    x, y = source.data.x.clone(), source.data.y.clone()
    x[node], y[node] = 0.0, -1
    edges = source.data.edge_index
    stays = (edges != node).all(dim=0)
    values = values_at(source.data, stays)
    return changed_source(source, x=x, y=y, edge_index=edges[:, stays], **values)


def without_edge(source: Source, u: int, v: int) -> Source:
    child, parent = source.data.edge_index
    drop = ((child == u) & (parent == v)) | ((child == v) & (parent == u))
    values = values_at(source.data, ~drop)
    return changed_source(source, edge_index=source.data.edge_index[:, ~drop], **values)


def with_attributes(source: Source, node: int, x: Tensor, y: int) -> Source:
    features, labels = source.data.x.clone(), source.data.y.clone()
    features[node], labels[node] = x, y
    return changed_source(source, x=features, y=labels)


def neighbours(source: Source, unit: str, only=None) -> Iterator[tuple[object, Source]]:
    """All sources that differ in one unit, or those that differ in given nodes or edges. Attributes
    are replaced by some others.
    """
    data = source.data
    if unit == 'edge':
        edges = {tuple(sorted(pair)) for pair in data.edge_index.t().tolist()}
        for u, v in sorted(edges) if only is None else only:
            yield (u, v), without_edge(source, u, v)
        return
    for node in range(data.num_nodes) if only is None else only:
        if unit == 'node':
            yield node, without_node(source, node)
        elif unit == 'attributes':
            other = (int(data.y[node]) + 1 + node % 2) % source.num_classes
            elsewhere = data.x[(data.y == other).nonzero()[0, 0]]
            yield node, with_attributes(source, node, elsewhere, other)
            yield node, with_attributes(source, node, -data.x[node], int(data.y[node]))
            yield node, with_attributes(source, node, 2 * data.x[node], -1)


def trees_of_nodes(pipeline: PrivatePipeline, source: Source, node: int | None = None) -> Tensor:
    """The computation graph of each node that the model learns from, ``[N, T]``, with the numbers
    of nodes as tokens. A root without a label has no tree, and ``node`` has another number.
    """
    num_nodes = source.data.num_nodes
    other = PrivatePipeline(source, pipeline.config, pipeline.work, log=False)
    other.numbers, other.ledger, other.plan = pipeline.numbers, pipeline.ledger, pipeline.plan
    other.cluster = torch.arange(num_nodes)
    if node is not None:
        other.cluster[node] = num_nodes
    other.model = other.plan.make_model(num_nodes + 1)
    drawn = []
    fit = next(stage for stage in other.stages() if stage.name == 'fit')
    other.run_stage(replace(fit, run=lambda: drawn.append(other.draw_tokens()), take=None))
    trees = torch.full((num_nodes, other.shape.num_slots), -1)
    trees[source.root] = drawn[0]
    return trees


def check_trees(pipeline: PrivatePipeline, unit: str) -> int:
    """Asserts that no unit changes more trees than its entry says. Returns the largest number."""
    source, most = pipeline._source, 0
    before = trees_of_nodes(pipeline, source)
    bound = pipeline.plan.changed_trees
    for what, other in neighbours(source, unit):
        after = trees_of_nodes(pipeline, other, what if unit == 'attributes' else None)
        changed = int((before != after).any(dim=1).sum())
        assert changed <= bound, f'{unit} {what} changes {changed} trees, the ledger says {bound}'
        most = max(most, changed)
    return most


def exact_results(pipeline: PrivatePipeline, source: Source, answers) -> tuple[list[Tensor], dict]:
    """The exact results of all queries, and what is computed from their answers."""
    found = pipeline.replay(source, answers)
    return [a.exact.double() * a.grid for a in found.answers], found.results


def check_neighbours(pipeline, answers, unit, only=None) -> dict[str, float]:
    """Asserts that no unit moves an exact result by more than its entry says, and that nothing else
    depends on the unit. Returns the largest share of each bound that was reached.
    """
    source = pipeline._source
    names = [answer.name for stage in answers.values() for answer in stage]
    before, results = exact_results(pipeline, source, answers)
    bound = {e.name: e.changes[unit] for e in pipeline.ledger.entries if e.noise is not None}
    reached = dict.fromkeys(names, 0.0)
    for what, other in neighbours(source, unit, only):
        after, same = exact_results(pipeline, other, answers)
        for name, a, b in zip(names, before, after, strict=True):
            moved, most = float((a - b).norm()), bound[name]
            message = f"{unit} {what} moves '{name}' by {moved:.4f}, the ledger says {most:.4f}"
            assert moved <= most * (1 + ROUNDING), message
            if most > 0:
                reached[name] = max(reached[name], moved / most)
        for name, value in results.items():
            assert torch.equal(value, same[name]), (
                f"'{name}' depends on {unit} {what} without noise"
            )
    return reached
