r"""Brute force over the graphs that differ from a graph in one edge or one node."""

import torch

from torch_geometric_cgt.privacy import StableSample
from torch_geometric_cgt.sampler import unroll_trees
from torch_geometric_cgt.sampler.stable_edges import children_by_priority, distinct_pairs


def trees_by(table, edge_index, max_parents, shape):
    """The trees of all nodes, with priorities from a table [n, n] of all ordered pairs."""
    pairs = distinct_pairs(edge_index, table.shape[0])
    priority = table[tuple(pairs.numpy())]
    n, most = table.shape[0], max(shape.num_neighbors)
    lists = children_by_priority(pairs, priority, n, max_parents, most)
    return unroll_trees(lists, torch.arange(n), shape)


def changed_trees(trees, edge_index, num_nodes):
    """For each unit and change: what is changed, how many edges lead into it, trees that change.

    Args:
        trees: A function from edges [2, E] to the trees of all nodes [n, T].
    """
    before = trees(edge_index)
    child, parent = edge_index

    def number(keep):
        return int((trees(edge_index[:, keep]) != before).any(dim=1).sum())

    for u, v in sorted({*map(tuple, edge_index.t().tolist())}):
        one_way = (child == u) & (parent == v)
        yield 'direction', (u, v), 0, number(~one_way)
        if u <= v:
            yield 'edge', (u, v), 0, number(~(one_way | ((child == v) & (parent == u))))
    for node in range(num_nodes):
        yield 'attributes', node, 0, int((before == node).any(dim=1).sum())
        into = child[(parent == node) & (child != node)].unique().numel()
        yield 'node', node, into, number((child != node) & (parent != node))


def bound_of(unit, max_parents, depth, degree):
    sample = StableSample(max_parents, depth, max(degree, 1))
    return getattr(sample, f'trees_per_{unit}')


def check_bounds(trees, edge_index, num_nodes, max_parents, depth, less=0):
    """Asserts every bound, and returns the largest share of a bound that was reached."""
    most = 0.0
    for unit, what, degree, number in changed_trees(trees, edge_index, num_nodes):
        bound = bound_of(unit, max_parents, depth, degree) - less
        assert number <= bound, f'{unit} {what}: {number} trees change, the bound is {bound}'
        most = max(most, number / bound)
    return most


class Worst:
    """Graphs that reach the bounds. Earlier edges have lower priorities."""

    def __init__(self, max_parents, depth):
        self.max_parents, self.depth = max_parents, depth
        self.num_nodes, self.pairs = 0, []

    def node(self, height=0, parents=None):
        """A new node with parents, each of which has parents, and so on."""
        new, self.num_nodes = self.num_nodes, self.num_nodes + 1
        self.grow(new, height, parents)
        return new

    def grow(self, node, height, parents=None):
        for _ in range(self.max_parents if parents is None else parents):
            if height > 0:
                self.pairs.append((node, self.node(height - 1)))

    def edge(self, both=True):
        """An edge between nodes 0 and 1. Both choose each other, then somebody else."""
        u, v = self.node(), self.node()
        self.pairs += [(u, v), (v, u)] if both else [(u, v)]
        others = self.max_parents - 1
        self.grow(u, max(self.depth - 1, 1), others)
        self.grow(v, max(self.depth - 1, 1) if both else self.depth - 1, others if both else None)
        later = [self.node(self.depth - 1) for _ in range(2 if both else 1)]
        self.pairs += [*zip((u, v), later, strict=False)]
        return self

    def star(self, degree):
        """Node 0 with its parents, and others that chose it and then choose somebody else."""
        hub = self.node(self.depth)
        for _ in range(degree):
            child = self.node()
            self.pairs.append((child, hub))
            self.grow(child, 1, self.max_parents - 1)
            self.pairs.append((child, self.node(self.depth - 1)))
        return self

    def table(self):
        """Priorities of all pairs [n, n]."""
        table = torch.full((self.num_nodes, self.num_nodes), len(self.pairs))
        for i, pair in enumerate(self.pairs):
            table[pair] = i
        return table.numpy()

    def edge_index(self):
        return torch.tensor(self.pairs).t().contiguous()
