r"""Edges of a graph as a set of pairs."""


def edge_set(data):
    return set(map(tuple, data.edge_index.t().tolist()))
