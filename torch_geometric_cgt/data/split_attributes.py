r"""The splits of a graph by their usual names: masks, indices, and OGB's dictionary of indices."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_geometric_cgt.data.token_trees import MASKS
from torch_geometric_cgt.errors import SourceError

INDICES = {  # the mask that an attribute with indices stands for
    'train_idx': 'train_mask',
    'val_idx': 'val_mask',
    'valid_idx': 'val_mask',
    'test_idx': 'test_mask',
}
SPLIT_IDX = 'split_idx'  # of OGB: {'train': ..., 'valid': ..., 'test': ...}
SPLIT_ATTRIBUTES = (*MASKS, *INDICES, SPLIT_IDX)


def add_masks(data: Data) -> Data:
    r"""Returns a copy of a graph in which splits by indices are masks. Other
    attributes are the same objects. Raises :class:`SourceError` if the indices
    are invalid, or contradict masks of the graph.

    Args:
        data (Data): The graph.
    """
    found: dict[str, tuple[str, Any]] = {}
    for name, mask in INDICES.items():
        if data.get(name) is not None:
            found.setdefault(mask, (name, data[name]))
    if isinstance(split := data.get(SPLIT_IDX), dict):
        for part, value in split.items():
            if f'{part}_idx' in INDICES and value is not None:
                found.setdefault(INDICES[f'{part}_idx'], (f"{SPLIT_IDX}['{part}']", value))
    if not found:
        return data
    out, num_nodes = Data.from_dict(data.to_dict()), int(data.num_nodes or 0)
    for mask, (name, value) in found.items():
        made = _mask_of(name, value, num_nodes)
        if isinstance(known := data.get(mask), Tensor) and not torch.equal(
            known.cpu().bool(), made
        ):
            raise SourceError(f"'{name}' and '{mask}' are two different splits: remove one of them")
        out[mask] = made
    return out


def _mask_of(name: str, value: Any, num_nodes: int) -> Tensor:
    r"""A mask of nodes from their indices, or from a mask under the name of indices."""
    try:
        index = torch.as_tensor(value).cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        raise SourceError(
            f"'{name}' must be a tensor of node ids (got '{type(value).__name__}')"
        ) from error
    if index.dtype == torch.bool and index.shape == (num_nodes,):
        return index
    if index.is_floating_point() or index.is_complex() or index.dtype == torch.bool:
        raise SourceError(
            f"'{name}' must hold node ids (got {index.dtype} of shape {list(index.shape)})"
        )
    index = index.view(-1).long()
    if index.numel() and not 0 <= int(index.min()) <= int(index.max()) < num_nodes:
        raise SourceError(
            f"'{name}' must hold node ids from 0 to {num_nodes - 1} "
            f'(got {int(index.min())} to {int(index.max())})'
        )
    mask = torch.zeros(num_nodes, dtype=torch.bool)
    mask[index] = True
    return mask
