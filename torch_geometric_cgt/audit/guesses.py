r"""Guesses of one attribute of a record from the released trees, by Bayes' rule."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from torch_geometric_cgt.audit.attack_scores import BackoffDensity
from torch_geometric_cgt.audit.records import Records
from torch_geometric_cgt.data import TokenTrees


def guess_label(trees: TokenTrees, records: Records) -> Tensor:
    r"""The most likely label of each record given its tree, ``[n]``."""
    model = BackoffDensity(trees)
    prior = model.label_log_prob(trees.num_classes)
    by_label = []
    for label in range(trees.num_classes):
        y = torch.full_like(records.y, label)
        draws = [replace(draw, y=y) for draw in records.draws]
        by_label.append(prior[label] + model.mean_log_prob(draws))
    return torch.stack(by_label).argmax(dim=0)


def guess_cluster(trees: TokenTrees, records: Records) -> Tensor:
    r"""The most likely token of each root given its label and the rest of its
    tree, ``[n]``, among the root tokens that the release has for the label;
    :obj:`-1` where it has none.
    """
    model = BackoffDensity(trees)
    best = torch.full((len(records),), -math.inf, dtype=torch.double)
    guess = torch.full((len(records),), -1)
    for token in trees.tokens[:, 0].long().unique().tolist():
        labels = trees.y[trees.tokens[:, 0] == token].unique()
        rows = torch.isin(records.y, labels).nonzero().view(-1)
        if rows.numel() == 0:
            continue
        draws = [_with_root(draw.select(rows), token) for draw in records.draws]
        log_prob = model.mean_log_prob(draws)
        better = log_prob > best[rows]
        best[rows[better]] = log_prob[better]
        guess[rows[better]] = token
    return guess


def _with_root(trees: TokenTrees, token: int) -> TokenTrees:
    r"""The same trees with another token at the root."""
    tokens = trees.tokens.clone()
    tokens[:, 0] = token
    return replace(trees, tokens=tokens)
