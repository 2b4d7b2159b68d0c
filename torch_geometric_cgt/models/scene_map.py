r"""Scenes that cost nothing to find: the label that a whole tree speaks for."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_geometric_cgt.data import TreeShape

FLOOR = 1e-3  # of the probability of a label: no token alone rules one out


def label_evidence(token_given_label: Tensor, label: Tensor) -> Tensor:
    r"""What each token says for each label, ``[m + 1, C]``, in nats; the last
    row, of null, says nothing.

    Args:
        token_given_label (torch.Tensor): The distribution of the tokens of
            roots, ``[C, m]``.
        label (torch.Tensor): The distribution of labels, ``[C]``.
    """
    joint = (token_given_label * label[:, None]).t()  # [m, C]
    total = joint.sum(dim=1, keepdim=True)
    posterior = torch.where(total > 0, joint / total, label)
    evidence = posterior.clamp(min=FLOOR).log()
    evidence = evidence - evidence.mean(dim=1, keepdim=True)
    return torch.cat([evidence, evidence.new_zeros(1, label.numel())])


def scenes_of(tokens: Tensor, evidence: Tensor, shape: TreeShape) -> Tensor:
    r"""The label that the tokens of each tree speak for, ``[B]``.

    Each token counts half as much as one in the layer above. A scene is a
    function of its own tree and of :obj:`evidence` alone, whatever the label
    of the root is.

    Args:
        tokens (torch.Tensor): Token trees, ``[B, T]``.
        evidence (torch.Tensor): What each token says, see
            :meth:`label_evidence`.
        shape (TreeShape): The geometry of the trees.
    """
    total = evidence.new_zeros(tokens.size(0), evidence.size(1))
    for slot, layer in enumerate(shape.layer.tolist()):
        total += 0.5**layer * evidence[tokens[:, slot].long()]
    return total.argmax(dim=1)


def agreement_prior(joint: Tensor) -> Tensor:
    r"""What is expected of the scenes of each label, ``[C, C]``, from two
    numbers that noise hardly touches: how often scene and label agree, and how
    often each scene occurs.

    Args:
        joint (torch.Tensor): The distribution of label and scene, ``[C, C]``.
    """
    agree = joint.diagonal().sum()
    others = joint.sum(dim=0).expand_as(joint).clone()
    others.fill_diagonal_(0)
    total = others.sum(dim=1, keepdim=True)
    others = torch.where(total > 0, others / total, 1 / others.size(1))
    return agree * torch.eye(len(joint), dtype=joint.dtype) + (1 - agree) * others
