r"""Graphs of the size and skew of ogbn-arxiv and ogbn-products, for measurements of cost.

.. code-block:: bash

    python benchmarks/big_graphs.py arxiv --shared data
    python benchmarks/big_graphs.py products --scale 0.1

Features are always made up, from the label and noise; so are edges and labels, except where the
structure of ogbn-arxiv is found as :obj:`ogbn_arxiv/structure.npz` in the given folder or in
:obj:`$CGT_DATA_ROOT`. What a graph is made of is in its :obj:`note`.

A linear model scores on features, and on features averaged over two hops: 0.44 and 0.72 on the real
structure, 0.40 and 0.79 on the made-up one, 0.38 and 0.87 on products at a scale of 0.03.
"""

import argparse
import os
import resource
import time
from pathlib import Path

import numpy as np
import torch
from communities import Communities, make_communities
from torch import Tensor
from torch_geometric.data import Data

from torch_geometric_cgt.data import masks_of
from torch_geometric_cgt.datasets.ogb import undirected

ARXIV = Communities(169_343, 1_215_000, 40, homophily=0.65, tail=1.8, stray=0.15)
PRODUCTS = Communities(2_449_029, 62_230_000, 47, homophily=0.8, tail=3.0, stray=0.1)
ARXIV_SPLIT, PRODUCTS_SPLIT = (0.537, 0.176), (0.08, 0.016)  # train, validation; the rest is test
ARXIV_SIGNAL, PRODUCTS_SIGNAL = 0.15, 0.18  # distance of class centres, in units of the noise
BLOCK = 1 << 16  # rows of features


def arxiv_like(seed: int, shared: str | Path | None = None, scale: float = 1.0) -> Data:
    r"""A graph like ogbn-arxiv: 169,343 nodes, 2.3 million edges in both directions.

    Args:
        seed (int): The seed of all that is made up.
        shared (str or Path, optional): The folder that may have the real
            structure. (default: :obj:`$CGT_DATA_ROOT`)
        scale (float, optional): The size of a graph that is made up; the real
            structure comes as a whole only. (default: :obj:`1.0`)
    """
    folder = shared or os.environ.get('CGT_DATA_ROOT')
    path = Path(folder or '.') / 'ogbn_arxiv' / 'structure.npz'
    if scale != 1.0 or not folder or not path.is_file():
        return _made_up('ogbn-arxiv', ARXIV.scaled(scale), 128, ARXIV_SIGNAL, ARXIV_SPLIT, seed)
    with np.load(path) as raw:
        edges, y = np.stack([raw['row'], raw['col']], axis=1), torch.from_numpy(raw['y']).long()
        split = torch.from_numpy(raw['split']).long()
    edge_index = undirected([edges], len(edges), y.numel())
    note = 'real structure, labels and split of ogbn-arxiv, features made up from labels'
    x = make_features(y, 40, 128, ARXIV_SIGNAL, seed)
    return Data(x=x, edge_index=edge_index, y=y, note=note, **masks_of(1 << split))


def products_like(seed: int, scale: float = 1.0) -> Data:
    r"""A graph like ogbn-products: 2,449,029 nodes, 124 million edges in both directions.

    Args:
        seed (int): The seed.
        scale (float, optional): The share of nodes and edges to make.
            (default: :obj:`1.0`)
    """
    aim = PRODUCTS.scaled(scale)
    return _made_up('ogbn-products', aim, 100, PRODUCTS_SIGNAL, PRODUCTS_SPLIT, seed)


def make_features(
    label: Tensor, num_classes: int, num_features: int, signal: float, seed: int
) -> Tensor:
    r"""The centre of the label and noise, ``[N, F]``, a block of rows at a time."""
    rng = torch.Generator().manual_seed(seed)
    centre = signal * torch.randn(num_classes, num_features, generator=rng)
    x = torch.empty(label.numel(), num_features)
    for rows, labels in zip(x.split(BLOCK), label.split(BLOCK), strict=True):
        torch.randn(rows.shape, generator=rng, out=rows)
        rows += centre[labels]
    return x


def _made_up(
    name: str,
    aim: Communities,
    num_features: int,
    signal: float,
    split: tuple[float, float],
    seed: int,
) -> Data:
    edge_index, y, home = make_communities(aim, seed)
    x = make_features(home, aim.num_classes, num_features, signal, seed)
    num_train, num_val = (round(share * aim.num_nodes) for share in split)
    code = torch.full((aim.num_nodes,), 4)
    order = torch.randperm(aim.num_nodes, generator=torch.Generator().manual_seed(seed))
    code[order[:num_train]] = 1
    code[order[num_train : num_train + num_val]] = 2
    note = f'all made up, with size, degrees and homophily like those of {name}'
    return Data(x=x, edge_index=edge_index, y=y, note=note, **masks_of(code))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('graph', choices=['arxiv', 'products'])
    parser.add_argument('--scale', type=float, default=1.0)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--shared', type=Path, help='folder that has ogbn_arxiv/structure.npz')
    args = parser.parse_args()
    start = time.process_time()
    if args.graph == 'arxiv':
        data = arxiv_like(args.seed, args.shared, args.scale)
    else:
        data = products_like(args.seed, args.scale)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    degree = torch.bincount(data.edge_index[1], minlength=data.num_nodes)
    alike = sum(  # in blocks: the labels of all edges at once are 2 GB
        int((data.y[block[0]] == data.y[block[1]]).sum())
        for block in data.edge_index.split(1 << 24, dim=1)
    )
    print(f'{data.note}; {seconds:.0f} processor seconds, {peak:.1f} GB at the peak')
    print(
        f'nodes {data.num_nodes:,}  edges {data.num_edges:,}  homophily '
        f'{alike / data.num_edges:.3f}  degree mean {data.num_edges / data.num_nodes:.1f} '
        f'median {int(degree.median())} max {int(degree.max()):,}  largest class '
        f'{float(data.y.bincount().max() / data.num_nodes):.2f}'
    )


if __name__ == '__main__':
    main()
