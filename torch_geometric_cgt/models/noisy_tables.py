r"""From noisy histograms to distributions, and from these to joint tables."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

COMMON = 0.1  # of what a row backs off to is the distribution of all rows: nothing is impossible
STEPS = 50  # of fitting to margins, after which they hold to a few digits
UNFOLD_STEPS = 100
LEAST = 1e-6  # of the probability of a scene


def project_to_simplex(x: Tensor, total: Tensor) -> Tensor:
    r"""The nearest rows that are nowhere negative and have given sums: the most
    likely counts, given counts with Gaussian noise.

    Args:
        x (torch.Tensor): The rows, ``[K, V]``.
        total (torch.Tensor): The positive sum of each row, ``[K]``.
    """
    ordered = x.sort(dim=1, descending=True).values
    rank = torch.arange(1, x.size(1) + 1, dtype=x.dtype)
    excess = (ordered.cumsum(dim=1) - total[:, None]) / rank
    used = (ordered > excess).sum(dim=1, keepdim=True).clamp(min=1)
    return (x - excess.gather(1, used - 1)).clamp(min=0)


def marginal(noisy: Tensor, sigma: float) -> Tensor:
    r"""The distribution of all rows of a noisy histogram together, ``[1, V]``.

    Args:
        noisy (torch.Tensor): The noisy histogram, ``[K, V]``.
        sigma (float): The standard deviation of the noise.
    """
    sums = noisy.sum(dim=0, keepdim=True)
    return _normalise(project_to_simplex(sums, sums.sum(dim=1).clamp(min=sigma)))


def back_off(noisy: Tensor, sigma: float, prior: Tensor | None = None) -> Tensor:
    r"""The distribution of each row of a noisy histogram, ``[K, V]``.

    What a row differs by from its expectation, under a distribution of lower
    order, is noise and signal. The variance of noise is known. That of the
    signal is taken to grow with the expectation, and how fast it does is what
    the whole histogram shows beyond noise. Each difference is shortened to the
    part that is signal (empirical Bayes), and what is left is projected to
    counts that are nowhere negative. Without noise, rows are as counted;
    with much noise, they are those of lower order.

    Args:
        noisy (torch.Tensor): The noisy histogram, ``[K, V]``.
        sigma (float): The standard deviation of the noise.
        prior (torch.Tensor, optional): The distribution that each row backs
            off to, ``[K, V]``. By default, that of all rows together.
            (default: :obj:`None`)
    """
    total = noisy.sum(dim=1).clamp(min=sigma)  # less than the noise is nothing
    common = marginal(noisy, sigma)
    prior = common if prior is None else (1 - COMMON) * prior + COMMON * common
    expected = total[:, None] * prior
    difference = noisy - expected
    spread = (difference.square() - sigma**2).sum().clamp(min=0) / expected.sum()
    signal = spread * expected
    counts = expected + difference * signal / (signal + sigma**2)
    return _normalise(project_to_simplex(counts, total))


def _normalise(x: Tensor) -> Tensor:
    return x / x.sum(dim=1, keepdim=True)


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
