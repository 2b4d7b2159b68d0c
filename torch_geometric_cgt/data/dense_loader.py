r"""Batches of computation graphs with static shapes, without edge lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_geometric_cgt.data.edge_values import ATTR, WEIGHT
from torch_geometric_cgt.data.token_trees import TokenTrees
from torch_geometric_cgt.data.tree import TreeShape
from torch_geometric_cgt.utils.devices import to_device

IGNORED = -100  # the label of padded trees, which torch's cross entropy leaves out


@dataclass(frozen=True)
class DenseBatch:
    r"""Computation graphs as tensors whose shapes do not depend on the trees.

    Args:
        tokens (torch.Tensor): The token of each breadth-first slot,
            ``[B, T]``; :math:`m` where the slot is null.
        y (torch.Tensor): The label of each root, ``[B]``; :obj:`-100` for
            padded trees.
        codebook (torch.Tensor): The feature vector of each token, ``[m, F]``.
            All batches share it.
        shape (TreeShape): The geometry of the trees: :obj:`shape.parent` is
            the parent of each slot.
        edge_tokens (torch.Tensor, optional): The edge token of each slot, for the
            edge to its parent, ``[B, T]``; :math:`m_e` where there is no such
            edge. (default: :obj:`None`)
        edge_codebook (dict, optional): The :obj:`"edge_weight"`, ``[m_e]``, and the
            :obj:`"edge_attr"`, ``[m_e]`` or ``[m_e, D]``, of each edge token, as far as
            the release has them. All batches share it. (default: :obj:`None`)
    """

    tokens: Tensor
    y: Tensor
    codebook: Tensor
    shape: TreeShape
    edge_tokens: Tensor | None = None
    edge_codebook: dict[str, Tensor] | None = None

    @property
    def mask(self) -> Tensor:
        r"""Whether each slot is not null, ``[B, T]``."""
        return self.tokens != self.codebook.size(0)

    @property
    def tree_mask(self) -> Tensor:
        r"""Whether each tree is not padded, ``[B]``."""
        return self.y != IGNORED

    @property
    def x(self) -> Tensor:
        r"""The features of each slot, ``[B, T, F]``, zero where it is null. They
        are looked up on every access, on the device of the batch.
        """
        return F.embedding(self.tokens, F.pad(self.codebook, (0, 0, 0, 1)))

    @property
    def edge_weight(self) -> Tensor | None:
        r"""The weight of the edge from each slot to its parent, ``[B, T]``, zero where
        there is no such edge; :obj:`None` if the release has no edge weights.
        """
        return self._edge_values(WEIGHT)

    @property
    def edge_attr(self) -> Tensor | None:
        r"""The attributes of the edge from each slot to its parent, ``[B, T]`` or
        ``[B, T, D]``, zero where there is no such edge; :obj:`None` if the release has
        no edge attributes.
        """
        return self._edge_values(ATTR)

    def _edge_values(self, name: str) -> Tensor | None:
        if self.edge_tokens is None or self.edge_codebook is None:
            return None
        if (rows := self.edge_codebook.get(name)) is None:
            return None
        return torch.cat([rows, torch.zeros_like(rows[:1])])[self.edge_tokens]

    def to(self, device: str | torch.device, non_blocking: bool = False) -> DenseBatch:
        r"""The batch on another device."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> DenseBatch:
        r"""The batch in pinned memory, from which a copy to a GPU with
        :obj:`non_blocking=True` does not make the host wait.
        """
        return self._map(lambda tensor: tensor.pin_memory())

    def _map(self, move: Callable[[Tensor], Tensor]) -> DenseBatch:
        edges = self.edge_codebook
        return replace(
            self,
            tokens=move(self.tokens),
            y=move(self.y),
            codebook=move(self.codebook),
            edge_tokens=None if self.edge_tokens is None else move(self.edge_tokens),
            edge_codebook=None if edges is None else {k: move(v) for k, v in edges.items()},
        )

    def __len__(self) -> int:
        return self.tokens.size(0)


class DenseLoader:
    r"""Yields :class:`DenseBatch` objects of exactly :obj:`batch_size` trees. The
    last batch is padded with null trees, or dropped, so that a function that is
    compiled by :obj:`torch.compile(dynamic=False)` is compiled once.

    .. code-block:: python

        loader = dataset.dense_loader('train', batch_size=512)
        model = torch.compile(model, dynamic=False)
        for batch in loader:
            out = model(batch.codebook, batch.tokens)  # a TreeGNN
            loss = F.cross_entropy(out, batch.y)  # leaves out padded trees

    Args:
        trees (TokenTrees): The trees.
        codebook (torch.Tensor): The feature vector of each token, ``[m, F]``.
        rows (torch.Tensor): Which trees to load.
        batch_size (int, optional): Trees per batch. (default: :obj:`512`)
        shuffle (bool, optional): Whether to load trees in another order in
            every epoch. (default: :obj:`False`)
        drop_last (bool, optional): Whether to drop the last trees if they are
            fewer than :obj:`batch_size`, instead of padding them.
            (default: :obj:`False`)
        device (str or torch.device, optional): The device of the batches. The
            codebook moves there once. Tokens of a batch are copied to a GPU
            from pinned memory, and the host does not wait for them. By
            default, the device of the codebook. (default: :obj:`None`)
        generator (torch.Generator, optional): The source of the random order.
            (default: :obj:`None`)
    """

    def __init__(
        self,
        trees: TokenTrees,
        codebook: Tensor,
        rows: Tensor,
        batch_size: int = 512,
        shuffle: bool = False,
        drop_last: bool = False,
        device: str | torch.device | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"'batch_size' must be at least 1 (got {batch_size})")
        self.trees = trees
        self.rows = rows
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.drop_last = drop_last
        self.generator = generator
        self.codebook = codebook if device is None else codebook.to(device)
        self.edge_codebook = None
        if (values := trees.edge_values) is not None:
            taken = values.take(torch.arange(len(values)))
            self.edge_codebook = {k: v.to(self.codebook.device) for k, v in taken.items()}

    def __len__(self) -> int:
        whole, rest = divmod(self.rows.numel(), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[DenseBatch]:
        rows, size = self.rows, self.batch_size
        if self.shuffle:
            rows = rows[torch.randperm(rows.numel(), generator=self.generator)]
        for start in range(0, len(self) * size, size):
            yield self.batch(rows[start : start + size])

    def batch(self, rows: Tensor) -> DenseBatch:
        r"""Some trees as a batch, padded to :obj:`batch_size`.

        Args:
            rows (torch.Tensor): The indices of the trees.
        """
        device, missing = self.codebook.device, self.batch_size - rows.numel()
        tokens = to_device(self.trees.tokens[rows], device).long()  # a narrow type until here
        y = to_device(self.trees.y[rows], device).long()
        if missing:
            tokens = F.pad(tokens, (0, 0, 0, missing), value=self.trees.num_tokens)
            y = F.pad(y, (0, missing), value=IGNORED)
        edges = self._edge_tokens(rows, missing)
        return DenseBatch(
            tokens,
            y,
            self.codebook,
            self.trees.shape,
            edges,
            self.edge_codebook,
        )

    def _edge_tokens(self, rows: Tensor, missing: int) -> Tensor | None:
        if self.trees.edge_tokens is None or self.trees.edge_values is None:
            return None
        tokens = to_device(self.trees.edge_tokens[rows], self.codebook.device).long()
        return F.pad(tokens, (0, 0, 0, missing), value=len(self.trees.edge_values))

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}({self.rows.numel()} trees, batch_size={self.batch_size}, '
            f'drop_last={self.drop_last})'
        )
