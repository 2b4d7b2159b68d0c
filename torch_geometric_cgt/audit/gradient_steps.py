r"""Steps of DP-SGD: their noise, their clipping and their batches, computed again by the owner."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from scipy.stats import binom, gamma, norm
from torch import Tensor
from torch.func import functional_call, grad, vmap
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import vector_to_parameters

from torch_geometric_cgt.audit.check import Check, verdict
from torch_geometric_cgt.audit.replay import LedgerAnswer
from torch_geometric_cgt.audit.residuals import DEPENDS, LEVEL, NoiseTest
from torch_geometric_cgt.models import PrivateGenerator
from torch_geometric_cgt.models.transformer import DP_SGD
from torch_geometric_cgt.nn import CGTGenerator
from torch_geometric_cgt.privacy.noise import SampledGaussian
from torch_geometric_cgt.training.dp_sgd import DPSGDConfig, PerTreeLogProb, clipped_sum
from torch_geometric_cgt.training.kept_steps import KeptSteps

REMOVED = 4  # trees that are removed from each kept step: those with the largest gradients
BLOCK = 64  # trees whose gradients are computed at once
ROUNDING = 1e-3  # of the clipping norm: sums of hundreds of gradients in single precision
BETAS, EPS = (0.9, 0.999), 1e-8  # of Adam


@dataclass(frozen=True)
class ExactStep:
    r"""One step without noise. It is **not** private.

    Args:
        clipped (torch.Tensor): The sum of the clipped gradients, ``[P]``.
        cut (torch.Tensor): What clipping has removed from the sum, ``[P]``.
        norms (torch.Tensor): The norm of the gradient of each tree before
            clipping, ``[B]``.
    """

    clipped: Tensor
    cut: Tensor
    norms: Tensor


class StepAudit:
    r"""Computes the kept steps of a build again and compares them.

    Gradients are computed tree by tree with :obj:`torch.func`, which shares no code
    with the ghost clipping of the build.

    Args:
        model (PrivateGenerator): The model of the build.
        kept (KeptSteps): The steps that the build has kept.
        rows (list[torch.Tensor]): The tokens, labels and scenes of all trees of the
            source.
        noise (SampledGaussian): The noise and the sampling, as in the ledger.
    """

    def __init__(
        self,
        model: PrivateGenerator,
        kept: KeptSteps,
        rows: Sequence[Tensor],
        noise: SampledGaussian,
    ) -> None:
        self.config: DPSGDConfig = model.training_config
        self.generator: CGTGenerator = copy.deepcopy(model.generator).cpu()
        self.kept, self.rows, self.noise = kept, list(rows), noise
        self.exact = [
            exact_step(self._at(i), self.rows, batch, self.config.clip)
            for i, batch in enumerate(kept.batches())
        ]

    @property
    def sigma(self) -> float:
        r"""The standard deviation of the noise of a sum, by the ledger."""
        return self.noise.noise_multiplier * self.config.clip

    def answers(self) -> list[LedgerAnswer]:
        r"""The noisy sums beside the exact ones, for the tests of noise."""
        pairs = zip(self.exact, self.kept.released, strict=True)
        clip = self.config.clip
        return [LedgerAnswer(DP_SGD, self.sigma, clip, e.clipped, r.double()) for e, r in pairs]

    def noise_tests(self) -> list[NoiseTest]:
        r"""Tests whether the noise has a part in the direction of the exact sums, or
        of what clipping should have removed from them. Gradients that are weighted
        more than stated, or not clipped, show there first.
        """
        out = []
        for what in ('clipped', 'cut'):
            found = []
            for exact, released in zip(self.exact, self.kept.released, strict=True):
                direction: Tensor = getattr(exact, what)
                if (length := float(direction.norm())) > 1e-6 * self.sigma:
                    residual = released.double() - exact.clipped
                    found.append(float(residual @ direction) / length / self.sigma)
            if found:
                z = sum(found) / math.sqrt(len(found))
                name = f'{z:.3g} standard deviations along the {_DIRECTIONS[what]}'
                scale = math.sqrt(sum(v * v for v in found) / len(found))
                p_value = 2 * float(norm.sf(abs(z)))
                out.append(NoiseTest(DP_SGD, name, p_value, DEPENDS, len(found), scale))
        return out

    def check_batches(self, level: float = LEVEL) -> Check:
        r"""Above the limit if the batches are not those that the ledger pays for:
        each tree is in each step with the same probability, independently.

        Args:
            level (float, optional): The probability that a correct build fails.
                (default: :obj:`1e-4`)
        """
        tests = batch_tests(self.kept.sizes, self.kept.uses, self.noise)
        found = {name: p for name, p in tests.items() if p * len(tests) < level}
        worst = min(1.0, min(tests.values()) * len(tests))
        sizes = self.kept.sizes
        says = (
            f'The sizes of all {sizes.numel():,} batches of DP-SGD ({int(sizes.min())} '
            f'to {int(sizes.max())} trees) and the number of steps that contain each tree were '
            f'compared with independent draws with probability '
            f'{self.noise.sampling_probability:.4g}. The value is the smallest p-value of '
            f'{len(tests)} tests, multiplied for their number. '
        )
        says += f'Not as stated: {", ".join(found)}.' if found else 'All batches are as stated.'
        return Check(
            'Batches of DP-SGD',
            verdict(bool(found), bool(found)),
            worst,
            says,
            level,
            'the probability of a false alarm over all tests: smaller values are findings',
            details={'tests': tests},
        )

    def check_clipping(self) -> Check:
        r"""Above the limit if removing one tree moves the sum of a step, as the code
        of the build computes it, by more than the clipping norm.
        """
        worst, place, number = 0.0, 0, 0
        for i, batch in enumerate(self.kept.batches()):
            generator = self._at(i)
            everything = clipped_sum(generator, self.rows, batch, self.config)
            for j in self.exact[i].norms.argsort(descending=True)[:REMOVED].tolist():
                rest = batch[torch.arange(batch.numel()) != j]
                without = clipped_sum(generator, self.rows, rest, self.config)
                change = float((everything.double() - without.double()).norm()) / self.config.clip
                number += 1
                if change > worst:
                    worst, place = change, int(self.kept.step[i])
        norms = torch.cat([exact.norms for exact in self.exact])
        share = float((norms > self.config.clip).double().mean()) if norms.numel() else 0.0
        most = float(norms.max()) if norms.numel() else 0.0
        return Check(
            'Clipping of every tree',
            verdict(False, worst > 1 + ROUNDING),
            worst,
            f'{number} trees were removed from {len(self.exact)} steps of DP-SGD, one at a time, '
            f'those with the largest gradients first, and the sums of the steps were computed '
            f'again. The value is the largest change divided by the clipping norm of '
            f'{self.config.clip:g}, in step {place}. {share:.0%} of the trees of these steps have '
            f'larger gradients before clipping, up to {most:.3g}.',
            1.0,
            'the clipping norm',
        )

    def check_updates(self) -> Check:
        r"""Above the limit if the weights after a step do not follow from the weights
        before it and the noisy sum.
        """
        kept, wrong = self.kept, []
        for i, step in enumerate(kept.step.tolist()):
            expected = adam_step(
                kept.before[i], kept.moments[i], kept.released[i], float(kept.rate[i]), step
            )
            moved = (kept.after[i].double() - kept.before[i].double()).abs()
            off = (kept.after[i].double() - expected).abs()
            if bool((off > 1e-3 * moved + 1e-6 * (1 + kept.before[i].double().abs())).any()):
                wrong.append(step)
        says = (
            f'The number of {kept.step.numel()} kept steps of DP-SGD whose weights do not follow '
            f'from the weights before the step and the noisy sum of gradients.'
        )
        says += f' Steps {", ".join(map(str, wrong))}.' if wrong else ''
        return Check(
            'Steps follow from noisy gradients',
            verdict(False, bool(wrong)),
            float(len(wrong)),
            says,
            0.0,
            'only sums with noise may move the weights',
        )

    def to_dict(self) -> dict[str, Any]:
        r"""What was computed, for a JSON file."""
        kept = self.kept
        return {
            'steps': kept.step.tolist(),
            'sizes': kept.sizes.tolist(),
            'largest_norms': [float(e.norms.max()) if e.norms.numel() else 0.0 for e in self.exact],
            'tests': [asdict(test) for test in self.noise_tests()],
        }

    def _at(self, place: int) -> CGTGenerator:
        r"""The generator with the weights before a kept step."""
        vector_to_parameters(self.kept.before[place], self.generator.parameters())
        return self.generator


_DIRECTIONS = {'clipped': 'exact sums', 'cut': 'parts that clipping removes'}


def exact_step(
    generator: CGTGenerator, rows: Sequence[Tensor], batch: Tensor, clip: float
) -> ExactStep:
    r"""Computes the gradient of each tree of a batch, clips and sums them.

    Args:
        generator (CGTGenerator): The model with the weights before the step.
        rows (list[torch.Tensor]): The tokens, labels and scenes of all trees.
        batch (torch.Tensor): The trees of the step.
        clip (float): The clipping norm.
    """
    size = sum(weight.numel() for weight in generator.parameters())
    clipped, whole = torch.zeros(2, size, dtype=torch.double)
    norms = []
    for each in gradients(generator, rows, batch):
        length = each.norm(dim=1)
        clipped += (each * (clip / length.clamp(min=1e-12)).clamp(max=1.0)[:, None]).sum(dim=0)
        whole += each.sum(dim=0)
        norms.append(length)
    return ExactStep(clipped, whole - clipped, torch.cat([whole.new_empty(0), *norms]))


def gradients(generator: CGTGenerator, rows: Sequence[Tensor], batch: Tensor) -> Iterator[Tensor]:
    r"""The gradients of some trees, ``[b, P]``, a block of trees at a time.

    Args:
        generator (CGTGenerator): The model.
        rows (list[torch.Tensor]): The tokens, labels and scenes of all trees.
        batch (torch.Tensor): The trees.
    """
    names = {id(weight): name for name, weight in PerTreeLogProb(generator).named_parameters()}
    order = [names[id(weight)] for weight in generator.parameters()]
    model = PerTreeLogProb(copy.deepcopy(generator).double())
    weights = {name: weight.detach() for name, weight in model.named_parameters()}

    def loss(weights: dict[str, Tensor], *tree: Tensor) -> Tensor:
        return -functional_call(model, weights, tuple(value[None] for value in tree))[0]

    per_tree = vmap(grad(loss), in_dims=(None, *[0] * len(rows)))
    for part in batch.split(BLOCK) if batch.numel() else ():
        with sdpa_kernel(SDPBackend.MATH):  # the only one that torch.func computes in blocks
            found = per_tree(weights, *(value[part] for value in rows))
        yield torch.cat([found[name].flatten(1) for name in order], dim=1).detach()


def adam_step(before: Tensor, moments: Tensor, gradient: Tensor, rate: float, step: int) -> Tensor:
    r"""The weights after one step of Adam (Kingma and Ba, 2015), ``[P]``.

    Args:
        before (torch.Tensor): The weights before it, ``[P]``.
        moments (torch.Tensor): The two moments before it, ``[2, P]``.
        gradient (torch.Tensor): The gradient, ``[P]``.
        rate (float): The learning rate.
        step (int): The number of steps before this one.
    """
    first, second = moments.double()
    gradient = gradient.double()
    first = BETAS[0] * first + (1 - BETAS[0]) * gradient
    second = BETAS[1] * second + (1 - BETAS[1]) * gradient.square()
    one, two = (1 - beta ** (step + 1) for beta in BETAS)
    return before.double() - rate / one * first / (second.sqrt() / math.sqrt(two) + EPS)


def batch_tests(sizes: Tensor, uses: Tensor, noise: SampledGaussian) -> dict[str, float]:
    r"""P-values of tests of batches against Poisson sampling, by what they test.

    Args:
        sizes (torch.Tensor): The number of trees of every step, ``[steps]``.
        uses (torch.Tensor): The number of steps that contain each tree, ``[n]``.
        noise (SampledGaussian): The number of steps and the probability, as in the
            ledger.
    """
    chance, steps, num_trees = noise.sampling_probability, int(noise.steps), uses.numel()
    total = int(sizes.sum())
    if sizes.numel() != steps or total != int(uses.sum()):
        return {f'{sizes.numel()} steps instead of {steps}': 0.0}
    everything = num_trees * steps
    low, high = binom.cdf(total, everything, chance), binom.sf(total - 1, everything, chance)
    return {
        'the mean size of batches': min(1.0, 2 * float(min(low, high))),
        'the spread of the sizes of batches': _spread(sizes.numpy(), num_trees, chance),
        'the number of steps per tree': _spread(uses.numpy(), steps, chance),
    }


def _spread(counts: np.ndarray, trials: int, chance: float) -> float:
    r"""The p-value of the sum of squares of standardised binomial counts. Its distribution is
    approximated by a gamma distribution with the same mean and variance.
    """
    variance = trials * chance * (1 - chance)
    if variance == 0:
        return float((counts == trials * chance).all())
    square = float(((counts - trials * chance) ** 2).sum() / variance)
    excess = (1 - 6 * chance * (1 - chance)) / variance  # kurtosis of a binomial distribution
    shape, scale = counts.size / (2 + excess), 2 + excess
    low, high = gamma.cdf(square, shape, scale=scale), gamma.sf(square, shape, scale=scale)
    return min(1.0, 2 * float(min(low, high)))
