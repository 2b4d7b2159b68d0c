r"""Parents and children of one layer of some trees: what needs no weights."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.nn.moving import Movable


@dataclass(frozen=True)
class Parents(Movable):
    r"""The real slots of one layer that has a layer below.

    Args:
        layer (int): Their layer.
        tree (torch.Tensor): The tree of each of them, ``[M]``.
        slot (torch.Tensor): Their place within the layer, ``[M]``.
        node (torch.Tensor): The row of the query that serves their children,
            ``[M]``.
        peers (torch.Tensor): The tokens of their layer of their tree, null
            ones included, ``[M, P]``.
        grandparent (torch.Tensor): The token above them, ``[M]``; null above
            the root.
    """

    layer: int
    tree: Tensor
    slot: Tensor
    node: Tensor
    peers: Tensor
    grandparent: Tensor

    @classmethod
    def of(
        cls, tokens: Tensor, index: Tensor, layer: int, shape: TreeShape, num_tokens: int
    ) -> Parents:
        r"""Lists the parents of one layer.

        Args:
            tokens (torch.Tensor): Token trees, filled down to this layer at
                least, ``[B, T]``.
            index (torch.Tensor): The row of the query of each slot of the
                layer, ``[B, P]``, negative where the slot is null.
            layer (int): The layer.
            shape (TreeShape): The geometry of the trees.
            num_tokens (int): The number of tokens, which is also the null one.
        """
        tree, slot = (index >= 0).nonzero(as_tuple=True)
        if layer == 0:
            grandparent = torch.full_like(tree, num_tokens)
        else:
            above = shape.parent[shape.layer_slice(layer)].to(tokens.device)
            grandparent = tokens[tree, above[slot]].long()
        return cls(
            layer=layer,
            tree=tree,
            slot=slot,
            node=index[tree, slot],
            peers=tokens[:, shape.layer_slice(layer)][tree].long(),
            grandparent=grandparent,
        )


@dataclass(frozen=True)
class Family(Movable):
    r"""The parents of one layer with their children.

    Args:
        layer (int): The layer of the parents.
        tree (torch.Tensor): The tree of each parent, ``[M]``.
        node (torch.Tensor): The row of the query of each parent, ``[M]``.
        number (torch.Tensor): The number of its real children, ``[M]``.
        slots (torch.Tensor): Its child slots, null ones included, ``[M, f]``.
        row (torch.Tensor): The parent of each real child, ``[R]``.
        token (torch.Tensor): Its token, ``[R]``.
        child_node (torch.Tensor): The row of its query, ``[R]``.
        above (torch.Tensor): Whether its token is the one above its parent,
            ``[R]``.
        beside (torch.Tensor): The share of its parent's layer that has its
            token, ``[R]``.
        alike (torch.Tensor): How many earlier siblings have its token, ``[R]``.
        rank (torch.Tensor): The number of earlier real siblings, ``[R]``.
    """

    layer: int
    tree: Tensor
    node: Tensor
    number: Tensor
    slots: Tensor
    row: Tensor
    token: Tensor
    child_node: Tensor
    above: Tensor
    beside: Tensor
    alike: Tensor
    rank: Tensor

    @classmethod
    def of(
        cls, tokens: Tensor, index: Tensor, layer: int, shape: TreeShape, num_tokens: int
    ) -> Family:
        r"""Lists parents and children; see :meth:`Parents.of`."""
        parents = Parents.of(tokens, index, layer, shape, num_tokens)
        below = tokens[:, shape.layer_slice(layer + 1)].long()
        slots = below.unflatten(1, (-1, shape.num_neighbors[layer]))[parents.tree, parents.slot]
        real = slots != num_tokens
        row, place = real.nonzero(as_tuple=True)
        token = slots[row, place]
        peers = parents.peers[row]
        num_peers = (parents.peers != num_tokens).sum(dim=1)[row]
        earlier = torch.ones(2 * (real.size(1),), dtype=torch.bool, device=real.device).tril(-1)
        alike = ((slots[:, :, None] == slots[:, None]) & earlier).sum(dim=2)
        return cls(
            layer=layer,
            tree=parents.tree,
            node=parents.node,
            number=real.sum(dim=1),
            slots=slots,
            row=row,
            token=token,
            child_node=parents.node[row],
            above=parents.grandparent[row] == token,
            beside=(peers == token[:, None]).sum(dim=1).double() / num_peers,
            alike=alike[row, place],
            rank=(real.cumsum(dim=1) - 1)[row, place],
        )
