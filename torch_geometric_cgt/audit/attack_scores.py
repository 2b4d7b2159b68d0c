r"""Scores: what an attacker computes to find out whether a build has seen a record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from torch_geometric_cgt.audit.records import Records, take_rows
from torch_geometric_cgt.data import TokenTrees
from torch_geometric_cgt.models import TransformerModel, TreeModel
from torch_geometric_cgt.models.path_support import PathIndex, PathSupport, lookup
from torch_geometric_cgt.quantizer.feature_space import unit_rows

BLOCK = 512  # records, or trees, at a time
MORE_TREES, MAX_TREES = 10, 50_000  # that an attacker draws, per released tree and at most
SMOOTHING = 2.0  # observations that the next shorter context counts for


class BackoffDensity:
    r"""A density over token trees, estimated from some trees by counting.

    A child is predicted from (label, path to its parent). This is mixed with
    (label, parent token), then with the label, then with the layer: each
    context counts its observations and adds :obj:`SMOOTHING` observations of
    the next shorter context. Below a real parent, null is a token like any
    other; below a null parent, it is certain. The children of one parent are
    exchangeable.

    Args:
        trees (TokenTrees): The trees to count.
    """

    def __init__(self, trees: TokenTrees) -> None:
        self.num_tokens = trees.num_tokens
        self.shape = trees.shape
        self.index = PathIndex.of(trees.tokens, trees.y, trees.num_tokens, trees.shape)
        self.tables: list[list[tuple[Counts, Counts]]] = []
        for contexts, token, counted in self._layers(trees):
            self.tables.append(
                [
                    (Counts(context[counted]), Counts(self._pair(context, token)[counted]))
                    for context in contexts
                ]
            )

    def log_prob(self, trees: TokenTrees, own: TokenTrees | None = None) -> Tensor:
        r"""The log-density of each tree given its label, ``[n]``.

        Args:
            trees (TokenTrees): The trees.
            own (TokenTrees, optional): For each tree, a tree of the same label
                that was counted and is to be left out. (default: :obj:`None`)
        """
        total = torch.zeros(len(trees), dtype=torch.double)
        others = self._layers(own) if own is not None else None
        for layer, (contexts, token, counted) in enumerate(self._layers(trees)):
            prob = torch.full(token.shape, 1 / (self.num_tokens + (layer > 0)), dtype=torch.double)
            own_contexts, own_token, own_counted = next(others) if others else ([], token, counted)
            for order, (of_context, of_pair) in enumerate(self.tables[layer]):
                context = contexts[order]
                pair = self._pair(context, token)
                seen, seen_pair = of_context.get(context), of_pair.get(pair)
                if own is not None:
                    mine = own_contexts[order]
                    seen = seen - _count_in_row(context, mine, own_counted)
                    my_pair = self._pair(mine, own_token)
                    seen_pair = seen_pair - _count_in_row(pair, my_pair, own_counted)
                prob = (seen_pair + SMOOTHING * prob) / (seen + SMOOTHING)
            total += prob.log().masked_fill(~counted, 0.0).sum(dim=1)
        return total

    def mean_log_prob(self, draws: Sequence[TokenTrees], own: TokenTrees | None = None) -> Tensor:
        r"""The mean of :meth:`log_prob` over several samples of the same records, ``[n]``."""
        return torch.stack([self.log_prob(draw, own) for draw in draws]).mean(dim=0)

    def label_log_prob(self, num_classes: int) -> Tensor:
        r"""The log-share of each label, with one observation added to each, ``[C]``."""
        by_label = self.tables[0][1][0]  # contexts of roots: nothing, then the label
        count = by_label.get(torch.arange(num_classes)) + 1
        return (count / count.sum()).log()

    def _layers(self, trees: TokenTrees) -> Iterator[tuple[list[Tensor], Tensor, Tensor]]:
        r"""For each layer, the contexts of its slots, shortest first, their
        tokens, and which of them are predicted, all ``[n, P]``.
        """
        tokens, label = trees.tokens.long(), trees.y.long()[:, None]
        path = self.index.find(tokens, trees.y)
        for layer in range(self.shape.depth + 1):
            slots = self.shape.layer_slice(layer)
            token = tokens[:, slots]
            by_label = label.expand_as(token)
            contexts = [torch.zeros_like(token), by_label]
            counted = torch.ones_like(token, dtype=torch.bool)
            if layer > 0:
                parent = self.shape.parent[slots]
                above = tokens[:, parent]
                counted = above != self.num_tokens
                contexts.append(by_label * (self.num_tokens + 1) + above)
                if layer > 1:  # in layer one, that is the path already
                    contexts.append(path[:, parent])
            yield contexts, token, counted

    def _pair(self, context: Tensor, token: Tensor) -> Tensor:
        r"""A context and a token as one number; negative if the context is a
        path that was never counted.
        """
        return (context * (self.num_tokens + 1) + token).masked_fill(context < 0, -1)


class Counts:
    r"""The number of times that each key occurs.

    Args:
        keys (torch.Tensor): Integers in any shape. Negative ones are not
            counted.
    """

    def __init__(self, keys: Tensor) -> None:
        self.keys, self.counts = keys[keys >= 0].unique(return_counts=True)

    def get(self, keys: Tensor) -> Tensor:
        r"""The number of times that each key occurred, in the shape of the keys."""
        if self.keys.numel() == 0:
            return torch.zeros_like(keys, dtype=torch.double)
        place = lookup(self.keys, keys)
        return self.counts[place.clamp(min=0)].double().masked_fill(place < 0, 0.0)


def _count_in_row(keys: Tensor, others: Tensor, counted: Tensor) -> Tensor:
    r"""The number of times that each key is among the counted others of its row."""
    others = others.masked_fill(~counted, -2)
    equal = (keys[:, :, None] == others[:, None, :]) & (keys >= 0)[:, :, None]
    return equal.sum(dim=2).double()


def release_scores(trees: TokenTrees, records: Records, expected: Tensor) -> dict[str, Tensor]:
    r"""The scores of an attacker who has the release only, ``[n]`` each.

    - ``density``: the log-density of a record in the released trees.
    - ``calibrated``: the log-density minus the expected one.
    - ``closest``: the largest share of the paths of a record that one released
      tree contains, where rare paths weigh more.
    - ``codebook``: how close the features of the root are to a codeword.

    Args:
        trees (TokenTrees): The released trees.
        records (Records): The records in question.
        expected (torch.Tensor): The log-density of each record in the
            population, ``[n]``, see :meth:`expected_log_prob`.
    """
    density = BackoffDensity(trees).mean_log_prob(records.draws)
    return {
        'density': density,
        'calibrated': density - expected,
        'closest': closest_tree(trees, records),
        'codebook': -records.distance.double(),
    }


@torch.no_grad()
def model_scores(
    model: TreeModel,
    trees: TokenTrees,
    records: Records,
    expected: Tensor,
    rng: torch.Generator,
) -> dict[str, Tensor]:
    r"""The scores of an attacker who also has the model, ``[n]`` each.

    - ``loss``: the log-likelihood of a record, summed over all scenes. For
      models without a likelihood, ``draws``: the log-density of a record in
      many new trees.
    - ``calibrated loss``, ``calibrated draws``: the same minus the expected
      log-density.

    Args:
        model (TreeModel): The fitted model.
        trees (TokenTrees): The released trees. New trees get the labels of
            randomly chosen ones.
        records (Records): The records in question.
        expected (torch.Tensor): As in :meth:`release_scores`.
        rng (torch.Generator): The source of randomness.
    """
    model.eval()
    if isinstance(model, TransformerModel):
        found, name = _log_likelihood(model, records.draws[0]), 'loss'
    else:
        drawn = draw_more(model, trees, rng)
        assert drawn is not None
        found, name = BackoffDensity(drawn).mean_log_prob(records.draws), 'draws'
    return {name: found, f'calibrated {name}': found - expected}


def draw_more(model: TreeModel, trees: TokenTrees, rng: torch.Generator) -> TokenTrees | None:
    r"""Many new trees of a model with the labels of released ones; :obj:`None` for
    models with a likelihood, which do not need them.

    Args:
        model (TreeModel): The fitted model.
        trees (TokenTrees): The released trees.
        rng (torch.Generator): The source of randomness.
    """
    if isinstance(model, TransformerModel):
        return None
    size = min(MAX_TREES, MORE_TREES * len(trees))
    chosen = trees.select(torch.randint(len(trees), (size,), generator=rng))
    parts = [model.sample(y, rng) for y in chosen.y.long().split(BLOCK)]
    return replace(chosen, tokens=torch.cat(parts))


def _log_likelihood(model: TransformerModel, trees: TokenTrees) -> Tensor:
    r"""The log-likelihood of each tree over all scenes, ``[n]``."""
    device = next(model.parameters()).device
    total = []
    for part in trees.blocks(BLOCK):
        tokens, y = part.tokens.to(device), part.y.to(device)
        scenes = range(model.num_scenes)
        by_scene = [model.log_prob(tokens, y, torch.full_like(y, scene)) for scene in scenes]
        total.append(torch.stack(by_scene).double().logsumexp(dim=0).cpu())
    return torch.cat(total)


def expected_log_prob(records: Records, population: Records | None = None) -> Tensor:
    r"""The log-density of each record in a population, ``[n]``: what somebody
    expects who knows the population and not the release.

    Args:
        records (Records): The records in question.
        population (Records, optional): The records of the population. By
            default, all given records except the one in question, members or
            not. (default: :obj:`None`)
    """
    if population is not None:
        return BackoffDensity(population.draws[0]).mean_log_prob(records.draws)
    own = records.draws[0]
    return BackoffDensity(own).mean_log_prob(records.draws, own)


def closest_tree(trees: TokenTrees, records: Records) -> Tensor:
    r"""The largest share of the paths of each record that one released tree
    contains, ``[n]``, between 0 and 1. Rare paths weigh more.
    """
    support = PathSupport.of(trees.tokens, trees.y, trees.num_tokens, trees.shape)
    rarity = [(1 + len(trees) / roots.double()).log() for roots in support.roots]
    weight = torch.cat(rarity).numpy()
    unseen = float(np.log(1 + len(trees)))
    released = _incidence(support, trees).T.tocsc()
    best = torch.zeros(len(records), dtype=torch.double)
    for draw in records.draws:
        own = _incidence(support, draw)
        missing = draw.real & (support.index.find(draw.tokens, draw.y) < 0)
        total = own @ weight + unseen * missing.sum(dim=1).numpy()
        for rows in torch.arange(len(records)).split(BLOCK):
            common = own[rows.numpy()].multiply(weight[None]).tocsr() @ released
            share = common.max(axis=1).toarray()[:, 0] / np.maximum(total[rows.numpy()], 1e-12)
            best[rows] = torch.maximum(best[rows], torch.from_numpy(share))
    return best


def _incidence(support: PathSupport, trees: TokenTrees) -> csr_matrix:
    r"""Which trees contain which paths of the support, as a sparse matrix of ones."""
    offset = np.cumsum([0, *(roots.numel() for roots in support.roots)])
    found = support.index.find(trees.tokens, trees.y)
    shift = torch.from_numpy(offset)[support.index.shape.layer]
    tree, slot = (found >= 0).nonzero(as_tuple=True)
    path = found[tree, slot] + shift[slot]
    shape = (len(trees), int(offset[-1]))
    matrix = csr_matrix((np.ones(tree.numel()), (tree.numpy(), path.numpy())), shape=shape)
    matrix.data[:] = 1.0  # duplicates were summed
    return matrix


def codebook_score(codebook: Tensor, x: Tensor, node: Tensor) -> Tensor:
    r"""The largest scalar product of the features of each node with a codeword,
    ``[n]``: how much of these features one cluster mean shows.

    Args:
        codebook (torch.Tensor): The codewords of a release, ``[m, F]``.
        x (torch.Tensor): The features of all nodes, dense or sparse.
        node (torch.Tensor): The nodes, ``[n]``.
    """
    return (_dense_rows(x, node).to(codebook.dtype) @ codebook.t()).max(dim=1).values


def sums_score(seen: dict[str, Tensor], x: Tensor, y: Tensor, node: Tensor) -> Tensor:
    r"""The largest scalar product of the features of each node with the rest of
    a noisy sum of its label, ``[n]``. The attacker knows all rows except those
    in question, and subtracts them from the sums.

    Codewords are computed from these sums by dropping what is small beside the
    noise. The sums are as private as the codewords and show what was dropped.

    Args:
        seen (dict): The sums, ``[l, F]``, their labels, ``[l]``, and the sum
            that contains each node, ``[N]``.
        x (torch.Tensor): The features of all nodes, dense or sparse.
        y (torch.Tensor): The labels of all nodes, ``[N]``.
        node (torch.Tensor): The nodes in question, ``[n]``.
    """
    sums, known = seen['sums'].double(), seen['sum_index'].clone()
    known[node] = -1
    rest = sums - _row_sums(unit_rows(x), known, sums.size(0))
    product = _dense_rows(unit_rows(x), node).double() @ rest.t()  # [n, l]
    if 'sum_label' in seen:
        other = y[node][:, None] != seen['sum_label']
        product = product.masked_fill(other, -float('inf'))
    return product.max(dim=1).values


def _row_sums(x: Tensor, index: Tensor, num_sums: int) -> Tensor:
    r"""The sums of dense or sparse rows by index, ``[num_sums, F]``; rows with
    index -1 are left out.
    """
    used = (index >= 0).nonzero().view(-1)
    which = torch.stack([index[used], used])
    ones = torch.ones(used.numel(), dtype=x.dtype)
    pick = torch.sparse_coo_tensor(which, ones, (num_sums, x.size(0)), check_invariants=True)
    total = torch.sparse.mm(pick, x if x.layout == torch.strided else x.to_sparse_coo())
    return (total if total.layout == torch.strided else total.to_dense()).double()


def _dense_rows(x: Tensor, node: Tensor) -> Tensor:
    rows = take_rows(x, node)
    return rows if rows.layout == torch.strided else rows.to_dense()
