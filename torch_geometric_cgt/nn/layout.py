r"""Which contexts and queries a token tree needs, and who attends to whom."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from torch_geometric_cgt.data import TreeShape


@dataclass(frozen=True)
class Layout:
    r"""The positions of the two streams for one tree shape.

    Context 0 is the start, which every position sees; the others are token
    slots. All mask rows list the contexts first, then the queries.
    """

    context_slot: Tensor  # [C - 1] the slot whose token each context carries
    context_position: Tensor  # [C] index of the position embedding
    query_position: Tensor  # [Q] index of the position embedding
    query_layer: Tensor  # [Q] the layer of the slots that each query predicts
    query_of_slot: Tensor  # [T] the query that predicts each slot
    mask: Tensor  # [C + Q, C] True where attention is allowed

    @property
    def num_contexts(self) -> int:
        return self.context_position.numel()

    def to(self, device: torch.device) -> Layout:
        return Layout(**{name: value.to(device) for name, value in vars(self).items()})


def num_positions(shape: TreeShape, position: str) -> int:
    r"""The number of position embeddings: the start, then layers or slots."""
    return 1 + (shape.depth + 1 if position == 'layer' else shape.num_slots)


def factorised_layout(shape: TreeShape) -> Layout:
    r"""The exact factorisation of the ancestor mask: all children of a slot
    share one query, so one context and one query per internal slot suffice,
    beside the start and the query of the root.
    """
    internal = shape.num_internal
    layer, parent = shape.layer, shape.parent
    path = shape.is_ancestor[:internal, :internal]
    start = torch.ones(1 + internal, 1, dtype=torch.bool)
    below = torch.cat([torch.zeros(1, internal, dtype=torch.bool), path])
    seen = torch.cat([start, below], dim=1)  # [1 + internal, 1 + internal]
    return Layout(
        context_slot=torch.arange(internal),
        context_position=torch.cat([torch.tensor([0]), 1 + layer[:internal]]),
        query_position=torch.cat([torch.tensor([1]), 2 + layer[:internal]]),
        query_layer=torch.cat([torch.tensor([0]), 1 + layer[:internal]]),
        query_of_slot=1 + parent,
        mask=torch.cat([seen, seen]),
    )


def sequence_layout(shape: TreeShape, position: str, attention: str) -> Layout:
    r"""The whole sequence: one context and one query per slot.

    Args:
        shape (TreeShape): The tree.
        position (str): :obj:`"layer"` or :obj:`"slot"`.
        attention (str): :obj:`"ancestors"` or :obj:`"all"` earlier slots.
    """
    slot = torch.arange(shape.num_slots)
    if attention == 'ancestors':
        context_sees = shape.is_ancestor
    else:
        context_sees = torch.ones(shape.num_slots, shape.num_slots, dtype=torch.bool).tril()
    query_sees = context_sees & ~torch.eye(shape.num_slots, dtype=torch.bool)
    start_sees = torch.zeros(1, shape.num_slots, dtype=torch.bool)
    sees = torch.cat([start_sees, context_sees, query_sees])
    index = 1 + (shape.layer if position == 'layer' else slot)
    return Layout(
        context_slot=slot,
        context_position=torch.cat([torch.tensor([0]), index]),
        query_position=index,
        query_layer=shape.layer,
        query_of_slot=slot,
        mask=torch.cat([torch.ones(sees.size(0), 1, dtype=torch.bool), sees], dim=1),
    )
