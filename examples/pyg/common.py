r"""What the scripts of this folder share: arguments, the dataset, and a full-batch loop."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data, Dataset

from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.datasets import load_source


def arguments(argv: Sequence[str] | None, epochs: int) -> argparse.Namespace:
    r"""Every script takes a source or a release, and the number of epochs."""
    parser = argparse.ArgumentParser()
    parser.add_argument('--source', default='Cora', help='the name of a source graph')
    parser.add_argument('--release', help='the folder of a release, instead of a source')
    parser.add_argument('--joined', action='store_true', help='its trees, joined into one graph')
    parser.add_argument('--epochs', type=int, default=epochs)
    parser.add_argument('--seed', type=int, default=0)
    args = parser.parse_args(argv)
    torch.manual_seed(args.seed)
    return args


def open_dataset(args: argparse.Namespace, transform: Callable | None = None) -> Dataset:
    r"""The source, the release or its joined graph: the scripts differ in nothing else."""
    if args.release and args.joined:
        return SyntheticCGTDataset.load(args.release).joined(transform)
    if args.release:
        return SyntheticCGTDataset.load(args.release, transform=transform)
    dataset = load_source(args.source)
    dataset.transform = transform
    return dataset


def accuracy(out: Tensor, data: Data, mask: Tensor) -> float:
    r"""The share of masked nodes whose largest output is their label."""
    return float((out[mask].argmax(dim=1) == data.y[mask]).float().mean())


def train(
    model: torch.nn.Module,
    data: Data,
    optimizer: torch.optim.Optimizer,
    epochs: int,
    extra_loss: Callable[[], Tensor] | None = None,
    every: int = 10,
) -> float:
    r"""Full-batch training. Returns the test accuracy at the best validation accuracy."""
    best_val, test = -1.0, 0.0
    for epoch in range(1, epochs + 1):
        model.train()
        optimizer.zero_grad()
        out = model(data)
        loss = F.cross_entropy(out[data.train_mask], data.y[data.train_mask])
        if extra_loss is not None:
            loss = loss + extra_loss()
        loss.backward()
        optimizer.step()
        if epoch % every == 0 or epoch == epochs:
            model.eval()
            with torch.no_grad():
                out = model(data)
            if (val := accuracy(out, data, data.val_mask)) > best_val:
                best_val, test = val, accuracy(out, data, data.test_mask)
    return test


def report(score: float, metric: str = 'test accuracy') -> float:
    r"""Prints the score of a script and returns it."""
    print(f'{metric}: {score:.4f}')
    return score
