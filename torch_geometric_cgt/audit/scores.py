r"""Scores: how much a release, or its generator, looks as if it had seen a record."""

from __future__ import annotations

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from torch_geometric_cgt.audit.density import BackoffDensity
from torch_geometric_cgt.audit.halves import take_rows
from torch_geometric_cgt.audit.records import Records
from torch_geometric_cgt.data import TokenTrees
from torch_geometric_cgt.models import TransformerModel, TreeModel
from torch_geometric_cgt.models.path_support import PathSupport
from torch_geometric_cgt.quantizer.feature_space import unit_rows

BLOCK = 512  # records, or trees, at a time
MORE_TREES, MAX_TREES = 10, 50_000  # that an attacker draws, per released tree and at most


def release_scores(trees: TokenTrees, records: Records, expected: Tensor) -> dict[str, Tensor]:
    r"""What an attacker computes who sees the release alone, ``[n]`` each.

    - ``density``: the log-density of a record in the released trees.
    - ``calibrated``: how far that exceeds what the population would expect.
    - ``closest``: the largest share of a record, weighted by how rare its
      paths are, that one released tree has in common with it.
    - ``codebook``: how close the features of the root are to a codeword.

    Args:
        trees (TokenTrees): The released trees.
        records (Records): The records in question.
        expected (torch.Tensor): The log-density of each record in the
            population, ``[n]``, see :meth:`expected_log_prob`.
    """
    density = _density(trees.tokens.long(), trees.y.long(), records)
    return {
        'density': density,
        'calibrated': density - expected,
        'closest': closest_tree(trees, records),
        'codebook': -records.distance.double(),
    }


@torch.no_grad()
def generator_scores(
    generator: TreeModel,
    trees: TokenTrees,
    records: Records,
    expected: Tensor,
    rng: torch.Generator,
) -> dict[str, Tensor]:
    r"""What an attacker computes who has the model too, ``[n]`` each.

    - ``loss``: the log-likelihood of a record, over all scenes; of models
      without likelihoods, ``draws``: its log-density in many new trees.
    - ``calibrated loss``, ``calibrated draws``: how far that exceeds what the
      population would expect.

    Args:
        generator (TreeModel): The fitted model.
        trees (TokenTrees): The released trees; their labels are drawn again.
        records (Records): The records in question.
        expected (torch.Tensor): As in :meth:`release_scores`.
        rng (torch.Generator): The source of randomness.
    """
    generator.eval()
    if isinstance(generator, TransformerModel):
        found, name = _log_likelihood(generator, records), 'loss'
    else:
        size = min(MAX_TREES, MORE_TREES * len(trees))
        y = trees.y.long()[torch.randint(len(trees), (size,), generator=rng)]
        drawn = torch.cat([generator.sample(part, rng) for part in y.split(BLOCK)])
        found, name = _density(drawn.long(), y, records), 'draws'
    return {name: found, f'calibrated {name}': found - expected}


def _log_likelihood(generator: TransformerModel, records: Records) -> Tensor:
    r"""Of one tree of each record, ``[n]``."""
    device = next(generator.parameters()).device
    tokens, total = records.tokens[0], []
    for rows in torch.arange(len(records)).split(BLOCK):
        part, y = tokens[rows].to(device), records.y[rows].to(device)
        scenes = range(generator.num_scenes)
        by_scene = [generator.log_prob(part, y, torch.full_like(y, scene)) for scene in scenes]
        total.append(torch.stack(by_scene).double().logsumexp(dim=0).cpu())
    return torch.cat(total)


def _density(tokens: Tensor, y: Tensor, records: Records) -> Tensor:
    r"""The mean log-density of the draws of each record in some trees, ``[n]``."""
    model = BackoffDensity(tokens, y, records.num_tokens, records.shape)
    return torch.stack([model.log_prob(t, records.y) for t in records.tokens]).mean(dim=0)


def expected_log_prob(records: Records, population: Records | None = None) -> Tensor:
    r"""The log-density of each record in a population, ``[n]``: what somebody
    expects who knows that population.

    Args:
        records (Records): The records in question.
        population (Records, optional): By default, all records but the one in
            question, members or not. (default: :obj:`None`)
    """
    known = population or records
    own = records.tokens[0] if population is None else None
    model = BackoffDensity(known.tokens[0], known.y, known.num_tokens, known.shape)
    return torch.stack([model.log_prob(t, records.y, own) for t in records.tokens]).mean(dim=0)


def closest_tree(trees: TokenTrees, records: Records) -> Tensor:
    r"""The largest share of the paths of each record that one released tree
    shows, ``[n]``, between 0 and 1. A path weighs as much as it is rare.
    """
    support = PathSupport.of(trees.tokens.long(), trees.y.long(), trees.num_tokens, trees.shape)
    rarity = [(1 + len(trees) / roots.double()).log() for roots in support.roots]
    weight = torch.cat(rarity).numpy()
    unseen = float(np.log(1 + len(trees)))
    released = _incidence(support, trees.tokens.long(), trees.y.long()).T.tocsc()
    best = torch.zeros(len(records), dtype=torch.double)
    for tokens in records.tokens:
        own = _incidence(support, tokens, records.y)
        missing = (tokens != records.num_tokens) & (support.index.find(tokens, records.y) < 0)
        total = own @ weight + unseen * missing.sum(dim=1).numpy()
        for rows in torch.arange(len(records)).split(BLOCK):
            common = own[rows.numpy()].multiply(weight[None]).tocsr() @ released
            share = common.max(axis=1).toarray()[:, 0] / np.maximum(total[rows.numpy()], 1e-12)
            best[rows] = torch.maximum(best[rows], torch.from_numpy(share))
    return best


def _incidence(support: PathSupport, tokens: Tensor, y: Tensor) -> csr_matrix:
    r"""Which trees show which paths of the support, as a sparse matrix of ones."""
    offset = np.cumsum([0, *(roots.numel() for roots in support.roots)])
    found = support.index.find(tokens, y)
    shift = torch.from_numpy(offset)[support.index.shape.layer]
    tree, slot = (found >= 0).nonzero(as_tuple=True)
    path = found[tree, slot] + shift[slot]
    shape = (y.numel(), int(offset[-1]))
    matrix = csr_matrix((np.ones(tree.numel()), (tree.numpy(), path.numpy())), shape=shape)
    matrix.data[:] = 1.0  # duplicates were added up
    return matrix


def codebook_score(codebook: Tensor, x: Tensor, node: Tensor) -> Tensor:
    r"""How much of the features of each of some nodes the nearest mean shows,
    ``[n]``: the largest scalar product with a codeword.

    Args:
        codebook (torch.Tensor): The codewords of a release, ``[m, F]``.
        x (torch.Tensor): The features of all nodes, dense or sparse.
        node (torch.Tensor): The nodes, ``[n]``.
    """
    return (_dense_rows(x, node).to(codebook.dtype) @ codebook.t()).max(dim=1).values


def sums_score(seen: dict[str, Tensor], x: Tensor, y: Tensor, node: Tensor) -> Tensor:
    r"""How much of the features of each of some nodes is left in a noisy sum of
    rows with its label, when all that is known is taken away, ``[n]``: the
    largest scalar product with one of them.

    Codewords are made of these sums, and lose what is small beside the noise that
    they should have. The sums are as private as the codewords, and show it. An
    attacker knows all rows but those in question.

    Args:
        seen (dict): The sums, ``[l, F]``, their labels, ``[l]``, and the sum that
            each node is in, ``[N]``.
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
    r"""The sums of dense or sparse rows, but for those of index -1, ``[num_sums, F]``."""
    used = (index >= 0).nonzero().view(-1)
    which = torch.stack([index[used], used])
    ones = torch.ones(used.numel(), dtype=x.dtype)
    pick = torch.sparse_coo_tensor(which, ones, (num_sums, x.size(0)), check_invariants=True)
    total = torch.sparse.mm(pick, x if x.layout == torch.strided else x.to_sparse_coo())
    return (total if total.layout == torch.strided else total.to_dense()).double()


def _dense_rows(x: Tensor, node: Tensor) -> Tensor:
    rows = take_rows(x, node)
    return rows if rows.layout == torch.strided else rows.to_dense()
