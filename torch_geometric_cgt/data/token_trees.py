r"""Token trees, the container of computation graphs of any origin, and their split codes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from torch_geometric_cgt.data.edge_values import EdgeValues
from torch_geometric_cgt.data.tree import Forest, TreeShape, build_forest
from torch_geometric_cgt.utils.rows import csr_matrix, to_csr

VALIDATE_BLOCK = 1 << 21  # slots per block
MASKS = ('train_mask', 'val_mask', 'test_mask')
NUM_SPLITS = 1 << len(MASKS)  # one code per combination of masks


@dataclass(frozen=True)
class SparseRows:
    r"""The rows of a sparse matrix. Unlike a sparse tensor, it can be indexed
    by a tensor of rows.

    Args:
        column (torch.Tensor): The column of each entry, ``[nnz]``.
        value (torch.Tensor): The value of each entry, ``[nnz]``.
        ptr (torch.Tensor): The position of the first entry of each row, followed
            by the number of entries, ``[R + 1]``.
        num_columns (int): The number of columns.
    """

    column: Tensor
    value: Tensor
    ptr: Tensor
    num_columns: int

    @classmethod
    def from_matrix(cls, x: Tensor) -> SparseRows:
        r"""Converts a dense or sparse matrix."""
        csr = to_csr(x)
        return cls(csr.col_indices(), csr.values(), csr.crow_indices(), x.size(1))

    def size(self, dim: int) -> int:
        r"""The number of rows or columns, like :meth:`torch.Tensor.size`."""
        return (self.ptr.numel() - 1, self.num_columns)[dim]

    def __getitem__(self, rows: Tensor) -> SparseRows:
        count = self.ptr[rows + 1] - self.ptr[rows]
        ptr = F.pad(count.cumsum(0), (1, 0))
        shift = (self.ptr[rows] - ptr[:-1]).repeat_interleave(count)
        position = torch.arange(int(ptr[-1])) + shift
        return SparseRows(self.column[position], self.value[position], ptr, self.num_columns)


Rows = Tensor | SparseRows


def matrix_of(rows: Rows) -> Tensor:
    r"""Rows as a dense or CSR matrix."""
    if isinstance(rows, Tensor):
        return rows
    shape = torch.Size([rows.size(0), rows.size(1)])
    return csr_matrix(rows.ptr, rows.column, rows.value, shape)


@dataclass(frozen=True)
class TokenTrees:
    r"""Computation graphs as rows of tokens.

    A token is a row of a table of features. In a release the table is the
    codebook, and a token is a cluster. For the original graph the table holds
    the nodes, and a token is a node.

    Args:
        tokens (torch.Tensor): The token of each breadth-first slot,
            ``[n, T]``; :obj:`num_tokens` marks a null slot.
        y (torch.Tensor): The label of each root, ``[n]``.
        split (torch.Tensor): The split code of each root, ``[n]``
            (see :meth:`split_of`).
        num_tokens (int): The number of tokens.
        num_classes (int): The number of labels.
        shape (TreeShape): The geometry of the trees.
        x (torch.Tensor or SparseRows, optional): The features of each token,
            ``[num_tokens, F]``. (default: :obj:`None`)
        child_split (torch.Tensor, optional): The split codes of the children
            of each root, ``[n, f]``, if the tokens are nodes of a graph.
            (default: :obj:`None`)
        edge_tokens (torch.Tensor, optional): The edge token of each slot, which is
            the row of :obj:`edge_values` for the edge to the parent of the slot,
            ``[n, T]``. The number of rows marks roots and null slots, which have
            no such edge. (default: :obj:`None`)
        edge_values (EdgeValues, optional): The weight and the attributes of each
            edge token. (default: :obj:`None`)
    """

    tokens: Tensor
    y: Tensor
    split: Tensor
    num_tokens: int
    num_classes: int
    shape: TreeShape
    x: Rows | None = None
    child_split: Tensor | None = None
    edge_tokens: Tensor | None = None
    edge_values: EdgeValues | None = None

    def __len__(self) -> int:
        return self.tokens.size(0)

    @property
    def real(self) -> Tensor:
        r"""Whether each slot is not null, ``[n, T]``."""
        return self.tokens != self.num_tokens

    @property
    def features(self) -> Rows:
        r"""The table of features. Raises :class:`ValueError` if there is none."""
        if self.x is None:
            raise ValueError("These trees have no table of features 'x'")
        return self.x

    def rows(self, split: str) -> Tensor:
        r"""The indices of the trees of one split.

        Args:
            split (str): One of :obj:`"train"`, :obj:`"val"`, :obj:`"test"`, or
                :obj:`"all"`.
        """
        if split == 'all':
            return torch.arange(len(self))
        masks = masks_of(self.split)
        if f'{split}_mask' not in masks:
            names = [*(name.removesuffix('_mask') for name in MASKS), 'all']
            raise ValueError(f"'split' must be one of {names} (got '{split}')")
        return masks[f'{split}_mask'].nonzero().view(-1)

    def map_tokens(
        self, token: Tensor | None, num_tokens: int, x: Rows | None = None
    ) -> TokenTrees:
        r"""The same trees with other tokens.

        Args:
            token (torch.Tensor, optional): The new token of each token,
                ``[num_tokens]``. By default, tokens stay as they are.
            num_tokens (int): The number of new tokens.
            x (torch.Tensor or SparseRows, optional): The features of each new
                token. (default: :obj:`None`)
        """
        tokens = self.tokens
        if token is not None:
            token = torch.cat([token, token.new_tensor([num_tokens])])  # null becomes null
            tokens = token[tokens.long()]
        return replace(self, tokens=tokens, num_tokens=num_tokens, x=x)

    def validate(self) -> None:
        r"""Raises :class:`ValueError` if shapes, values or null slots are inconsistent."""
        n = len(self)
        if self.tokens.dim() != 2 or self.tokens.size(1) != self.shape.num_slots:
            raise ValueError(
                f'Expected tokens of shape [n, {self.shape.num_slots}] '
                f'(got {list(self.tokens.shape)})'
            )
        if self.y.shape != (n,) or self.split.shape != (n,):
            raise ValueError(
                f'Expected {n} labels and splits '
                f'(got {list(self.y.shape)} and {list(self.split.shape)})'
            )
        if (self.edge_tokens is None) != (self.edge_values is None):
            raise ValueError("'edge_tokens' and 'edge_values' must be given together")
        if self.edge_tokens is not None and self.edge_values is not None:
            self.edge_values.validate()
            if self.edge_tokens.shape != self.tokens.shape:
                raise ValueError(
                    f'Expected edge tokens of shape {list(self.tokens.shape)} '
                    f'(got {list(self.edge_tokens.shape)})'
                )
        for part in self.blocks(max(1, VALIDATE_BLOCK // self.shape.num_slots)):
            part._check_values()
            part._check_edge_tokens()

    def _check_values(self) -> None:
        for name, value, high in [
            ('token', self.tokens, self.num_tokens),
            ('label', self.y, self.num_classes - 1),
            ('split code', self.split, NUM_SPLITS - 1),
        ]:
            low, top = (int(bound) for bound in value.aminmax())
            if low < 0 or top > high:
                raise ValueError(f'A {name} lies outside [0, {high}] (got {low} to {top})')
        if not self.shape.check_nulls(self.real):
            raise ValueError('A root is null, or a slot below a null slot is not null')

    def _check_edge_tokens(self) -> None:
        if self.edge_tokens is None or self.edge_values is None:
            return
        null = len(self.edge_values)
        low, top = (int(bound) for bound in self.edge_tokens.aminmax())
        if low < 0 or top > null:
            raise ValueError(f'An edge token lies outside [0, {null}] (got {low} to {top})')
        has_edge = self.real.clone()
        has_edge[:, 0] = False
        if not torch.equal(self.edge_tokens != null, has_edge):
            raise ValueError('An edge token is null, or a root or a null slot has an edge token')

    def forest(self) -> Forest:
        r"""The nodes and edges of all trees."""
        return build_forest(self.real, self.shape)

    def to_data(self, codebook: Tensor) -> Data:
        r"""The forest as one graph, with rows of the codebook as features.

        Args:
            codebook (torch.Tensor): The features of each token,
                ``[num_tokens, F]``.
        """
        forest = self.forest()
        token = self.tokens.reshape(-1)[forest.slot].long()
        data = Data(x=codebook[token], edge_index=forest.edge_index)
        data.y = forest.lift(self.y.long(), fill=-1)
        data.root_mask = forest.root_mask
        data.depth = forest.depth
        data.cluster = token
        for name, mask in masks_of(self.split).items():
            data[name] = forest.lift(mask, fill=False)
        if self.edge_tokens is not None and self.edge_values is not None:
            edge = self.edge_tokens.reshape(-1)[forest.slot[forest.edge_index[0]]].long()
            data.update(self.edge_values.take(edge))
        return data

    def blocks(self, size: int) -> Iterator[TokenTrees]:
        r"""Yields all trees in blocks of :obj:`size`."""
        for start in range(0, len(self), size):
            yield self.select(slice(start, start + size))

    def select(self, index: Tensor | slice) -> TokenTrees:
        r"""A subset of the trees.

        Args:
            index (torch.Tensor or slice): The indices of the trees.
        """
        child_split = None if self.child_split is None else self.child_split[index]
        edge_tokens = None if self.edge_tokens is None else self.edge_tokens[index]
        return replace(
            self,
            tokens=self.tokens[index],
            y=self.y[index],
            split=self.split[index],
            child_split=child_split,
            edge_tokens=edge_tokens,
        )


def tokens_of(tree: Tensor, cluster: Tensor, num_tokens: int) -> Tensor:
    r"""Replaces node ids by cluster ids.

    Args:
        tree (torch.Tensor): Node id of each slot, ``[n, T]``; :obj:`-1` marks
            a null slot.
        cluster (torch.Tensor): Cluster id of each node, ``[N]``.
        num_tokens (int): The number of clusters, which is also the null token.
    """
    token = cluster.index_select(0, tree.clamp(min=0).reshape(-1))
    return token.view_as(tree).masked_fill_(tree < 0, num_tokens)


def split_of(data: Data) -> Tensor | None:
    r"""Packs the masks of a graph into one split code per node: 1 for train, 2
    for validation, 4 for test, 0 for none of them. The codes of overlapping
    masks are added. Returns :obj:`None` for a graph without masks.
    """
    if not any(name in data for name in MASKS):
        return None
    code = torch.zeros(data.num_nodes, dtype=torch.long)
    for bit, name in enumerate(MASKS):
        if name in data:
            code |= data[name].cpu().bool().long() << bit
    return code


def masks_of(code: Tensor) -> dict[str, Tensor]:
    r"""The inverse of :meth:`split_of`."""
    return {name: (code >> bit) & 1 == 1 for bit, name in enumerate(MASKS)}


def sample_of_splits(split: Tensor, size: int, least: int, rng: torch.Generator) -> Tensor:
    r"""Draws roots without replacement, in proportion to the splits, but not fewer than some of
    each split: GNNs that are trained on few of few training roots would say nothing.

    Args:
        split (torch.Tensor): The split code of each root, ``[n]``. Roots with code 0 are in no
            split.
        size (int): The number of roots to draw, apart from those that splits need.
        least (int): The least number of roots of a split, or all of its roots.
        rng (torch.Generator): The source of randomness.
    """
    order = torch.randperm(split.numel(), generator=rng)
    if size >= split.numel():
        return order
    code, drawn = split[order].long(), torch.zeros_like(order, dtype=torch.bool)
    for value in code.unique().tolist():
        rows = (code == value).nonzero().view(-1)
        share = round(size * rows.numel() / split.numel())
        drawn[rows[: max(share, least if value else 0)]] = True
    return order[drawn]


def random_split(candidates: Tensor, seed: int) -> Tensor:
    r"""Splits the candidate nodes 50/10/40 at random, as the paper does.

    Args:
        candidates (torch.Tensor): Mask of the nodes to split, ``[N]``.
        seed (int): The seed of the permutation.
    """
    index = candidates.nonzero().view(-1)
    perm = index[torch.randperm(index.numel(), generator=torch.Generator().manual_seed(seed))]
    num_train, num_val = round(0.5 * index.numel()), round(0.1 * index.numel())
    code = torch.zeros(candidates.numel(), dtype=torch.long)
    code[perm[:num_train]] = 1
    code[perm[num_train : num_train + num_val]] = 2
    code[perm[num_train + num_val :]] = 4
    return code
