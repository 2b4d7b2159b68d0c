r"""Distributions from noisy histograms: back-off, coupling of margins, and unfolding."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

COMMON = 0.1  # weight of the distribution of all rows in a prior, so that nothing is impossible
STEPS = 50  # of iterative proportional fitting; margins then hold to a few digits
UNFOLD_STEPS = 100
LEAST = 1e-6  # smallest probability of a scene


def project_to_simplex(x: Tensor, total: Tensor) -> Tensor:
    r"""Projects rows to the nearest non-negative rows with given sums. These are
    the most likely counts, given counts with Gaussian noise.

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

    A prior of lower order gives the expected counts of a row. The difference
    between noisy and expected counts is the sum of signal and noise. The
    variance of the noise is known. The variance of the signal is assumed to be
    proportional to the expected count, and the factor is estimated from the
    whole histogram. Each difference is shrunk by the share of the signal in its
    variance (empirical Bayes), and the result is projected to non-negative
    counts. Without noise, the rows are the counts; with much noise, they are
    the prior.

    Args:
        noisy (torch.Tensor): The noisy histogram, ``[K, V]``.
        sigma (float): The standard deviation of the noise.
        prior (torch.Tensor, optional): The distribution that each row backs
            off to, ``[K, V]``. By default, that of all rows together.
            (default: :obj:`None`)
    """
    total = noisy.sum(dim=1).clamp(min=sigma)  # a smaller sum cannot be distinguished from noise
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
    r"""The joint distribution of label, scene and token with given margins and
    maximum entropy.

    It is a product, :math:`p(t | y, s) \propto a_{yt} b_{st}`, and is found by
    iterative proportional fitting.

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
    r"""Refits the factor :math:`a` to another margin of label and scene.
    :math:`b` stays fixed.

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
        rest (torch.Tensor): The distribution of scenes for which the product of
            the factors is zero, ``[m]``.
    """
    rows = a * b
    total = rows.sum(dim=1, keepdim=True)
    return torch.where(total > 0, rows / total, rest)


def unfold(seen: Tensor, draw_scenes: Callable[[Tensor, Tensor], Tensor], repeats: int) -> Tensor:
    r"""The distribution of requested scenes for which sampled trees have, on
    average, the scenes of the source, ``[C, S]``.

    The tokens of a tree that is sampled with one scene may indicate another.
    The frequency of this is counted on sampled trees and inverted by
    deconvolution (Richardson, 1972; Lucy, 1974).

    Args:
        seen (torch.Tensor): The scenes of each label in the source, ``[C, S]``.
        draw_scenes (callable): Samples trees with given labels and scenes, and
            returns the scenes that their tokens indicate.
        repeats (int): The number of trees per label and scene.
    """
    num_labels, num_scenes = seen.shape
    pair = torch.arange(seen.numel()).repeat_interleave(repeats)
    label, scene = pair // num_scenes, pair % num_scenes
    found = torch.bincount(
        pair * num_scenes + draw_scenes(label, scene), minlength=seen.numel() * num_scenes
    )
    confusion = found.view(num_labels, num_scenes, num_scenes).double() / repeats  # [C, S, S]
    scenes = seen + LEAST
    for _ in range(UNFOLD_STEPS):
        predicted = torch.einsum('ys,yst->yt', scenes, confusion)
        scenes = scenes * torch.einsum('yst,yt->ys', confusion, _ratio(seen, predicted))
        scenes = (scenes + LEAST) / (scenes + LEAST).sum(dim=1, keepdim=True)
    return scenes


def _ratio(x: Tensor, y: Tensor) -> Tensor:
    r"""The quotient; zero if the divisor is not positive."""
    return torch.where(y > 0, x / y, 0.0)
