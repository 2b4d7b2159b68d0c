r"""Checks of the attributes of a graph: its features, its edges, its labels, and its splits by
their usual names, which are masks, indices and OGB's dictionary of indices.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from torch_geometric_cgt.data.token_trees import MASKS
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.utils.rows import rows_per_block

INDICES = {  # the mask that an attribute with indices stands for
    'train_idx': 'train_mask',
    'val_idx': 'val_mask',
    'valid_idx': 'val_mask',
    'test_idx': 'test_mask',
}
SPLIT_IDX = 'split_idx'  # of OGB: {'train': ..., 'valid': ..., 'test': ...}
SPLIT_ATTRIBUTES = (*MASKS, *INDICES, SPLIT_IDX)


def check_features(data: Data) -> Tensor:
    r"""Returns the features as a float matrix on the CPU, and raises an error if they are
    missing or invalid.
    """
    x = data.x
    if x is None:
        raise SourceError("The graph has no node features 'x'")
    if x.dim() != 2 or x.size(0) == 0 or x.size(1) == 0:
        raise SourceError(f"'x' must be a non-empty [N, F] matrix (got {list(x.shape)})")
    x = x.detach().cpu()  # features may be the output of a model
    x = x if x.is_floating_point() else x.float()
    if x.layout != torch.strided:
        if x.layout == torch.sparse_coo:
            x = x.coalesce()
        if not bool(torch.isfinite(x.values()).all()):
            raise SourceError("'x' must be finite (got NaN or infinite values)")
        return x
    first, count = None, 0
    step = rows_per_block(x.size(1))
    for start in range(0, x.size(0), step):  # x may be memory-mapped
        bad = ~torch.isfinite(x[start : start + step])
        if bool(bad.any()):
            row, column = bad.nonzero()[0].tolist()
            first = first or (start + row, column)
            count += int(bad.sum())
    if first is not None:
        raise SourceError(
            f"'x' must be finite (got {count} NaN or infinite values, "
            f'the first in row {first[0]}, column {first[1]})'
        )
    return x


def check_edges(data: Data) -> Tensor:
    r"""Returns the edges, and raises an error if they are missing or invalid."""
    edge_index, num_nodes = data.edge_index, int(data.num_nodes or 0)
    if num_nodes == 0:
        raise SourceError('The graph is empty (got 0 nodes)')
    if edge_index is None:
        raise SourceError("The graph has no 'edge_index'")
    is_integer = not edge_index.is_floating_point() and edge_index.dtype != torch.bool
    if edge_index.dim() != 2 or edge_index.size(0) != 2 or not is_integer:
        raise SourceError(
            f"'edge_index' must be an integer matrix of shape [2, E] "
            f'(got {edge_index.dtype} of shape {list(edge_index.shape)}){_conversion(edge_index)}'
        )
    if edge_index.numel() and not 0 <= int(edge_index.min()) <= int(edge_index.max()) < num_nodes:
        raise SourceError(
            f"'edge_index' must hold node ids from 0 to {num_nodes - 1} "
            f'(got {int(edge_index.min())} to {int(edge_index.max())})'
        )
    return edge_index


def _conversion(edge_index: Tensor) -> str:
    r"""How to make edges of other forms, if that is known."""
    if edge_index.dim() == 2 and edge_index.size(1) == 2 and edge_index.size(0) != 2:
        return ": transpose it with 'data.edge_index = data.edge_index.t()'"
    if edge_index.is_floating_point():
        return ": convert it with 'data.edge_index = data.edge_index.long()'"
    return ''


def check_labels(data: Data) -> Tensor:
    r"""Returns the labels, ``[N]``, and raises an error if they are missing or invalid."""
    y, num_nodes = data.y, int(data.num_nodes or 0)
    if y is None:
        raise SourceError("The source graph has no labels 'y'")
    if y.dim() == 2 and 1 in y.shape and y.numel() == num_nodes:
        y = y.reshape(-1)
    if y.dim() != 1:
        raise SourceError(
            f"'y' must hold one label per node (got {list(y.shape)}); multi-label graphs are not "
            f"supported: use one of the labels, e.g. 'data.y = data.y[:, 0]', or, if each row is "
            f"the one-hot code of a label, 'data.y = data.y.argmax(1)'"
        )
    if y.is_floating_point() or y.is_complex():
        whole = y.is_floating_point() and bool((y == y.round()).all())
        how = 'data.y = data.y.long()' if whole else 'data.y = torch.bucketize(data.y, boundaries)'
        raise SourceError(f"'y' must hold integer class labels (got {y.dtype}): '{how}'")
    if y.numel() != num_nodes:
        raise SourceError(
            f"'y' must have {num_nodes} entries, one label per node (got {y.numel()})"
        )
    if int(y.max()) < 0:
        raise SourceError('No node of the source graph is labelled (all labels are negative)')
    if int(y.max()) >= num_nodes:
        raise SourceError(
            f"'y' must number the labels from 0 on (got {int(y.max())}, but a graph of {num_nodes} "
            f'nodes has at most {num_nodes} labels): {how_to_number(y)}'
        )
    return y.cpu().long()


def how_to_number(y: Tensor) -> str:
    r"""The line of code that numbers the labels of a graph from 0 on."""
    if int(y.min()) >= 0:
        return "'data.y = data.y.unique(return_inverse=True)[1]'"
    return "'data.y[data.y >= 0] = data.y[data.y >= 0].unique(return_inverse=True)[1]'"


def check_masks(data: Data) -> None:
    r"""Raises an error for masks that do not say of each node whether it is in the split."""
    num_nodes = int(data.num_nodes or 0)
    for name in MASKS:
        mask = data.get(name)
        if mask is None or mask.shape == (num_nodes,):
            continue
        if mask.dim() == 2 and mask.size(0) == num_nodes:
            how = f'select one split, e.g. data.{name} = data.{name}[:, 0]'
        else:
            indices = name.replace('mask', 'idx')
            how = f"if these are indices of nodes, name them '{indices}': data.{indices} = ..."
        raise SourceError(
            f"'{name}' must have the shape [{num_nodes}] (got {list(mask.shape)}): {how}"
        )


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
