r"""Record-level differential privacy from end to end: GNN scores at some budgets.

    python benchmarks/private.py --sources Cora --epsilon 10 4 1 --seeds 0 1 2 --cells private.jsonl
    python benchmarks/private.py --cells private.jsonl --show

Every stage that touches the data is an entry of one ledger, which is calibrated to (epsilon,
1 / 2n) per record: the computation graph of a root, and the features and the label of that root.
Rows are divided by their length, labels and splits are drawn from a noisy histogram, tokens are
cells around noisy label means (``label_cells.py``), and trees are drawn from noisy histograms.
'generated' is the accuracy from generated training to generated test roots, 'transfer' that from
generated training roots to test roots of the source; beside them, that of the source. A cell is one
(graph, budget, seed). Raw files are looked for in ``$CGT_DATA_ROOT``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from label_cells import CELLS, MEANS, LabelCells, cell_entries
from torch import Tensor
from torch_geometric.data import Data

from torch_geometric_cgt.benchmark.rows import as_rows
from torch_geometric_cgt.benchmark.training import TreeSet
from torch_geometric_cgt.data import NUM_SPLITS, TreeShape, random_split, tokens_of
from torch_geometric_cgt.privacy import Budget, DiscreteGaussian, Entry, Ledger
from torch_geometric_cgt.privacy.back_off import project_to_simplex
from torch_geometric_cgt.privacy.histograms import PrivateTreeModel
from torch_geometric_cgt.privacy.mechanisms import noisy_histogram
from torch_geometric_cgt.sampler import InNeighbors, sample_trees

LENGTH = 4.0  # of all rows: about that of a bag of words
SHARES = {'labels': 0.02, 'means': 0.45, 'cells': 0.1, 'model': 0.43}


def make_ledger(model: PrivateTreeModel, shares: dict[str, float]) -> Ledger:
    r"""All stages, with their shares of the budget."""
    labels = Entry(
        'labels', 'labels and splits', 'node', 1.0, DiscreteGaussian(1.0), share=shares['labels']
    )
    encode = Entry.free(
        'tokens', 'cells of rows', 'functions of each row and private means, not released'
    )
    sequence = [replace(e, share=shares['model'] * e.share) for e in model.entries()]
    entries = [labels, *cell_entries(shares['means'], shares['cells']), encode, *sequence]
    return Ledger(dict.fromkeys(e.stage for e in entries), entries)


def unit_rows(x: Tensor) -> Tensor:
    r"""Rows of length one, which needs no other row."""
    x = (x if x.layout == torch.strided else x.to_dense()).double()
    return x / x.norm(dim=1, keepdim=True).clamp(min=1e-12)


@dataclass(frozen=True)
class Private:
    r"""A release, and what it was made from."""

    generated: TreeSet
    original: TreeSet
    quantized: TreeSet  # not private: to see what each stage costs
    ledger: Ledger


def release(
    data: Data,
    budget: Budget,
    seed: int,
    shares: dict[str, float] | None = None,
    pairs: bool = True,
    num_neighbors: Sequence[int] = (5, 5),
) -> Private:
    r"""Runs all stages. The noise comes from a seed, so that cells can be run again."""
    rng = torch.Generator().manual_seed(seed)
    x, y, n = unit_rows(data.x), data.y, data.num_nodes
    num_classes = int(y.max()) + 1
    shape = TreeShape.of(num_neighbors)
    split = random_split(y >= 0, seed)
    graph = InNeighbors.from_edge_index(data.edge_index, n)
    tree = sample_trees(graph, torch.arange(n), shape, rng)
    num_tokens = num_classes * (num_classes - 1) if pairs else num_classes
    model = PrivateTreeModel(num_tokens, num_classes, num_neighbors)
    ledger = make_ledger(model, shares or SHARES).calibrate(budget)
    sigma = {e.name: e.noise.sigma for e in ledger.entries if e.noise is not None}

    counts = noisy_histogram(
        split * num_classes + y, NUM_SPLITS * num_classes, sigma['labels and splits'], rng
    ).double()
    counts = project_to_simplex(counts[None], counts.sum().view(1))[0]
    label_counts = counts.view(NUM_SPLITS, num_classes).sum(dim=0)
    cells = LabelCells.fit(x, y, label_counts, sigma[MEANS], pairs, rng)
    cell = cells.assign(x)
    tokens = tokens_of(tree, cell, num_tokens)
    model.fit(tokens, y, ledger.entries, rng)
    token_counts = n * (model.label @ model.root)
    codebook = LENGTH * cells.centres(x, cell, token_counts, sigma[CELLS], rng)

    drawn = torch.multinomial(counts, n, replacement=True, generator=rng)
    new_y, new_split = drawn % num_classes, drawn // num_classes
    new = model.sample(new_y, rng)
    rows = (as_rows(codebook), shape)
    table = as_rows((LENGTH * x).float())
    index = tokens_of(tree, torch.arange(n), n)
    return Private(
        TreeSet(rows[0], new, new_y, new_split, num_classes, shape),
        TreeSet(table, index, y, split, num_classes, shape),
        TreeSet(rows[0], tokens, y, split, num_classes, shape),
        ledger,
    )
