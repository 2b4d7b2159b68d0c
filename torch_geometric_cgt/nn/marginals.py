r"""Smoothed histograms of token trees, which :class:`TypedChildren` starts training from."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.nn.vocabulary import Vocabulary

# Pseudo-counts of the common histogram that are added to each special one. With the last one, all
# histograms are equal.
SMOOTHING = (3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e12)


@dataclass(frozen=True)
class Marginals:
    r"""Log-frequencies of tokens and of numbers of children in some trees.

    Tokens are counted by the output of the vocabulary, :math:`V` in all. Below
    the children of a root, the histograms depend on the scene, but not on the
    label: if every slot by itself were drawn given the label, the generated
    graphs would be too easy to classify.

    Args:
        root (torch.Tensor): Roots by scene and label, ``[S * C, V]``.
        child (torch.Tensor): Their children, ``[S * C, V]``.
        below (torch.Tensor): All deeper layers by layer and scene,
            ``[(L - 1) * S, V]``.
        num_children (torch.Tensor): Numbers of real children by layer and
            scene, ``[L * S, f + 1]``, for the largest fan-out :math:`f`.
    """

    root: Tensor
    child: Tensor
    below: Tensor
    num_children: Tensor

    @classmethod
    def of(
        cls,
        tokens: Tensor,
        condition: Tensor,
        vocabulary: Vocabulary,
        shape: TreeShape,
        num_tokens: int,
        num_classes: int,
        num_scenes: int,
    ) -> Marginals:
        r"""Counts some trees.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            condition (torch.Tensor): The label of each tree, plus the number
                of labels times its scene, ``[B]``.
            vocabulary (FlatVocabulary or CellVocabulary): What maps tokens to
                outputs.
            shape (TreeShape): The geometry of the trees.
            num_tokens (int): The number of tokens, which is also the null one.
            num_classes (int): The number of labels.
            num_scenes (int): The number of scenes.
        """
        tokens, condition = tokens.cpu().long(), condition.cpu().long()
        rng = torch.Generator().manual_seed(0)
        half = torch.randperm(condition.numel(), generator=rng) % 2
        by_scene = (half * num_scenes + condition // num_classes)[:, None]
        by_label = (half * num_scenes * num_classes + condition)[:, None]
        scenes, labels = (num_scenes, 1), (num_scenes, num_classes)
        num_outputs = vocabulary.num_outputs

        output = vocabulary.outputs_of(tokens[:, 0])
        root = _histograms(by_label[:, 0], output, labels, num_outputs)
        tables, num_children = [], []
        for layer in range(shape.depth):
            above = tokens[:, shape.layer_slice(layer)] != num_tokens
            slots = tokens[:, shape.layer_slice(layer + 1)]
            real = slots != num_tokens
            output = vocabulary.outputs_of(slots[real])
            group, groups = (by_label, labels) if layer == 0 else (by_scene, scenes)
            group = group.expand_as(slots)[real]
            tables.append(_histograms(group, output, groups, num_outputs))
            count = real.unflatten(1, (-1, shape.num_neighbors[layer])).sum(dim=2)
            group, size = by_scene.expand_as(above)[above], max(shape.num_neighbors) + 1
            num_children.append(_histograms(group, count[above], scenes, size))
        child, *below = tables
        return cls(root, child, torch.cat([child[:0], *below]), torch.cat(num_children))


def _histograms(group: Tensor, value: Tensor, groups: tuple[int, int], num_values: int) -> Tensor:
    r"""Smoothed log-frequencies of values per scene and label, ``[S * C, V]``.

    Args:
        group (torch.Tensor): The scene and label of each value, plus the
            number of groups in the second half of the trees.
        value (torch.Tensor): The values.
        groups (tuple[int, int]): The numbers :math:`S` and :math:`C` of scenes
            and labels.
        num_values (int): The number of distinct values :math:`V`.
    """
    size = 2 * groups[0] * groups[1] * num_values
    count = torch.bincount(group * num_values + value, minlength=size).double()
    return smooth_histograms(count.view(2, *groups, num_values))


def smooth_histograms(count: Tensor) -> Tensor:
    r"""Smoothed log-frequencies of values per scene and label, ``[S * C, V]``.

    The histogram of a scene is smoothed by the overall one, and the histogram
    of a label by that of its scene. The strength of smoothing is the one under
    which the histograms of one half of the trees make the other half most
    likely. Where scenes or labels carry no information, all histograms become
    equal.

    Args:
        count (torch.Tensor): The number of values in each half of the trees,
            ``[2, S, C, V]``.
    """
    strength = [SMOOTHING[0], SMOOTHING[-1]]
    for i in range(2 if count.size(2) > 1 else 1):
        likelihood = {}
        for strength[i] in reversed(SMOOTHING):
            halves = zip(count, count.flip(0), strict=True)
            likelihood[strength[i]] = sum(
                float((held_out * _smoothed(seen, *strength)).sum()) for held_out, seen in halves
            )
        strength[i] = max(likelihood, key=likelihood.__getitem__)
    return _smoothed(count.sum(dim=0), *strength).flatten(0, 1).float()


def _smoothed(count: Tensor, by_all: float, by_scene: float) -> Tensor:
    r"""Log-frequencies, ``[S, C, V]``."""
    overall = count.sum(dim=(0, 1)) + 0.5
    scene = count.sum(dim=1, keepdim=True) + by_all * overall / overall.sum()
    label = count + by_scene * scene / scene.sum(dim=2, keepdim=True)
    return (label / label.sum(dim=2, keepdim=True)).log().clamp(min=-math.log(1e9))
