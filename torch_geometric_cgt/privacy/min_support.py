r"""The support rule: trees show only paths that enough source roots show."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.privacy.paths import PathSupport, lookup


def enforce_support(
    tokens: Tensor,
    y: Tensor,
    source_tokens: Tensor,
    source_y: Tensor,
    min_support: int,
    rng: torch.Generator,
    *,
    num_tokens: int,
    shape: TreeShape,
    source_root: Tensor | None = None,
) -> Tensor:
    r"""Redraws the slots of token trees whose (label, path from the root) is
    shown by too few source roots.

    Trees are walked from the root down. A slot with enough support stays as it
    is. Any other is drawn anew among the tokens with which its path has
    enough, with the weight that they have in the source below the same
    (label, parent token), at the root below the label; where there is no such
    token, the slot and all below it become null. Afterwards, every (label,
    path) of every tree is shown by at least :obj:`min_support` source roots.

    This is anonymity of paths, not differential privacy: which paths have
    enough support is read off the source as it is.

    Args:
        tokens (torch.Tensor): Generated token trees, ``[n, T]``.
        y (torch.Tensor): The label of each generated tree, ``[n]``.
        source_tokens (torch.Tensor): Token trees of the source, ``[m, T]``.
        source_y (torch.Tensor): The label of each source tree, ``[m]``.
        min_support (int): The number of source roots that must show a path.
        rng (torch.Generator): The source of randomness.
        num_tokens (int): The number of tokens, which is also the null one.
        shape (TreeShape): The geometry of the trees.
        source_root (torch.Tensor, optional): The root of each source tree,
            ``[m]``, where roots have several trees. By default, every tree has
            a root of its own. (default: :obj:`None`)

    Returns:
        New trees, ``[n, T]``, of the type of :obj:`tokens`.
    """
    if min_support < 1:
        raise ValueError(f"'min_support' must be at least 1 (got {min_support})")
    support = PathSupport.of(source_tokens, source_y, num_tokens, shape, source_root)
    _check_labels(support, y, min_support)
    weights = _sibling_weights(support, source_tokens, source_y)
    out = torch.full_like(tokens, num_tokens)
    above = y.long()[:, None]  # [n, P] the path above each slot of a layer
    for layer in range(shape.depth + 1):
        if layer > 0:
            above = above.repeat_interleave(shape.num_neighbors[layer - 1], dim=1)
        slots = tokens[:, shape.layer_slice(layer)].long()
        path = support.index.step(layer, above, slots)
        enough = support.roots[layer] >= min_support
        wanted = (slots != num_tokens) & (above >= 0)
        redraw = wanted & ~_at(enough, path)
        path = path.masked_fill(redraw, -1)
        path[redraw] = _draw(support, layer, above[redraw], enough, weights[layer], rng)
        token = support.index.tokens(layer)
        out[:, shape.layer_slice(layer)] = torch.where(
            path >= 0, _take(token, path), num_tokens
        ).to(out.dtype)
        above = path
    return out


def _draw(
    support: PathSupport,
    layer: int,
    above: Tensor,
    enough: Tensor,
    weight: Tensor,
    rng: torch.Generator,
) -> Tensor:
    r"""Draws one path with enough support below each path of the layer before,
    :obj:`-1` where there is none. Paths below one parent follow each other.
    """
    allowed = enough.nonzero().view(-1)
    step = support.index.num_tokens + 1
    keys = support.index.keys[layer][allowed]
    first, last = (
        torch.searchsorted(keys, above * step),
        torch.searchsorted(keys, (above + 1) * step),
    )
    total = torch.cat([weight.new_zeros(1), weight[allowed].cumsum(dim=0)])
    uniform = torch.rand(above.numel(), dtype=torch.double, generator=rng)
    at = total[first] + uniform * (total[last] - total[first])
    chosen = torch.searchsorted(total, at, right=True) - 1
    chosen = torch.minimum(torch.maximum(chosen, first), last - 1)  # rounding
    return torch.where(last > first, _take(allowed, chosen), -1)


def _sibling_weights(support: PathSupport, tokens: Tensor, y: Tensor) -> list[Tensor]:
    r"""For each layer, how often the last token of each path occurs in the
    source below its (label, parent token), in any layer; at the root, below
    its label.
    """
    index, step = support.index, support.index.num_tokens + 1
    parent = tokens[:, index.shape.parent[1:]].long()
    pair = (y.long()[:, None] * step + parent) * step + tokens[:, 1:].long()
    keys, counts = pair.unique(return_counts=True)
    weights = [support.roots[0].double()]
    for layer in range(1, index.shape.depth + 1):
        above = index.keys[layer].div(step, rounding_mode='floor')
        label, parent_token = index.labels(layer), index.tokens(layer - 1)[above]
        place = lookup(keys, (label * step + parent_token) * step + index.tokens(layer))
        weights.append(counts[place].double())
    return weights


def _check_labels(support: PathSupport, y: Tensor, min_support: int) -> None:
    enough = support.roots[0] >= min_support
    missing = sorted(set(y.tolist()) - set(support.index.labels(0)[enough].tolist()))
    if missing:
        raise ValueError(
            f"No root token of the labels {missing} is shown by 'min_support' = {min_support} "
            f'source roots: leave these labels out, or lower it'
        )


def _take(values: Tensor, place: Tensor) -> Tensor:
    r"""The values at some places; any value where the place is negative."""
    if values.numel() == 0:
        return torch.zeros_like(place)
    return values[place.clamp(min=0)]


def _at(mask: Tensor, place: Tensor) -> Tensor:
    r"""Whether places are there and in the mask."""
    return (place >= 0) & _take(mask, place).bool()
