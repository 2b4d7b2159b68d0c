r"""Joint tables from noisy tables of lower order."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

STEPS = 50  # of fitting to margins, after which they hold to a few digits
UNFOLD_STEPS = 100
LEAST = 1e-6  # of the probability of a scene


def couple(label_scene: Tensor, label_token: Tensor, scene_token: Tensor) -> tuple[Tensor, Tensor]:
    r"""The joint distribution of label, scene and token that has given margins
    and says nothing beyond them.

    It is a product, :math:`p(t | y, s) \propto a_{yt} b_{st}`, and is found by
    fitting to one margin after the other.

    Args:
        label_scene (torch.Tensor): The margin of label and scene, ``[C, S]``.
        label_token (torch.Tensor): The margin of label and token, ``[C, m]``.
        scene_token (torch.Tensor): The margin of scene and token, ``[S, m]``.

    Returns:
        The factors :math:`a`, ``[C, m]``, and :math:`b`, ``[S, m]``.
    """
    a, b, c = (torch.ones_like(x) for x in (label_token, scene_token, label_scene))
    for _ in range(STEPS):
        a = _ratio(label_token, c @ b)
        b = _ratio(scene_token, c.t() @ a)
        c = _ratio(label_scene, a @ b.t())
    return a, b


def couple_again(label_scene: Tensor, label_token: Tensor, b: Tensor) -> Tensor:
    r"""The factor :math:`a` for another margin of label and scene, with
    :math:`b` as it is.

    Args:
        label_scene (torch.Tensor): The margin of label and scene, ``[C, S]``.
        label_token (torch.Tensor): The margin of label and token, ``[C, m]``.
        b (torch.Tensor): The factor of scenes, ``[S, m]``.
    """
    a, c = torch.ones_like(label_token), torch.ones_like(label_scene)
    for _ in range(STEPS):
        a = _ratio(label_token, c @ b)
        c = _ratio(label_scene, a @ b.t())
    return a


def token_rows(a: Tensor, b: Tensor, rest: Tensor) -> Tensor:
    r"""The distribution of tokens for one label and each scene, ``[S, m]``.

    Args:
        a (torch.Tensor): The factor of the label, ``[m]``.
        b (torch.Tensor): The factor of scenes, ``[S, m]``.
        rest (torch.Tensor): What is drawn from where the factors leave
            nothing, ``[m]``.
    """
    rows = a * b
    total = rows.sum(dim=1, keepdim=True)
    return torch.where(total > 0, rows / total, rest)


def unfold(seen: Tensor, draw_scenes: Callable[[Tensor, Tensor], Tensor], repeats: int) -> Tensor:
    r"""The scenes to draw trees in so that the trees have, on average, the
    scenes that were seen.

    A tree that is drawn in one scene may look like one of another. How often
    it does is counted on drawn trees, and undone (Richardson, 1972; Lucy,
    1974).

    Args:
        seen (torch.Tensor): The distribution of scenes per label, ``[C, S]``.
        draw_scenes (callable): Draws trees with given labels and scenes, and
            returns the scenes that they look like.
        repeats (int): The number of trees of each label and scene.
    """
    num_labels, num_scenes = seen.shape
    pair = torch.arange(seen.numel()).repeat_interleave(repeats)
    label, scene = pair // num_scenes, pair % num_scenes
    found = torch.bincount(
        pair * num_scenes + draw_scenes(label, scene), minlength=seen.numel() * num_scenes
    )
    look = found.view(num_labels, num_scenes, num_scenes).double() / repeats  # [C, S, S]
    scenes = seen + LEAST
    for _ in range(UNFOLD_STEPS):
        predicted = torch.einsum('ys,yst->yt', scenes, look)
        scenes = scenes * torch.einsum('yst,yt->ys', look, _ratio(seen, predicted))
        scenes = (scenes + LEAST) / (scenes + LEAST).sum(dim=1, keepdim=True)
    return scenes


def _ratio(x: Tensor, y: Tensor) -> Tensor:
    r"""The quotient, zero where the divisor is."""
    return torch.where(y > 0, x / y, 0.0)
