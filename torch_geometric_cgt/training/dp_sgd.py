r"""DP-SGD: a generator learns from noisy sums of clipped gradients, one per tree."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from torch_geometric_cgt.errors import NotFiniteError, UnsupportedError
from torch_geometric_cgt.nn import CGTGenerator
from torch_geometric_cgt.nn.tree_rows import TreeRows
from torch_geometric_cgt.privacy.noise import SampledGaussian
from torch_geometric_cgt.privacy.noise_sampling import SystemRandom

WARMUP = 0.05  # of all steps
AVERAGED = 0.5  # of all steps, the last ones, whose weights are averaged


@dataclass(frozen=True)
class DPSGDConfig:
    r"""How a generator is trained privately.

    Args:
        batch_size (int, optional): The expected number of trees of a step. By
            default, the larger of 256 and a twentieth of all trees.
            (default: :obj:`None`)
        epochs (float, optional): How often a tree is expected to be drawn.
            (default: :obj:`40.0`)
        clip (float, optional): The largest norm of the gradient of a tree.
            (default: :obj:`1.0`)
        lr (float, optional): The peak learning rate of Adam.
            (default: :obj:`5e-3`)
        hidden_channels (int, optional): The width of the model.
            (default: :obj:`32`)
        num_layers (int, optional): The number of Transformer layers.
            (default: :obj:`1`)
        num_heads (int, optional): The number of attention heads.
            (default: :obj:`2`)
        physical_batch_size (int, optional): The trees whose gradients are
            computed at once. It changes memory, not the result.
            (default: :obj:`512`)
    """

    batch_size: int | None = None
    epochs: float = 40.0
    clip: float = 1.0
    lr: float = 5e-3
    hidden_channels: int = 32
    num_layers: int = 1
    num_heads: int = 2
    physical_batch_size: int = 512

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"'{name}' must be positive and finite (got {value!r})")

    def noise(self, num_trees: int, noise_multiplier: float = 1.0) -> SampledGaussian:
        r"""What a ledger has to know of the training, for some number of trees."""
        batch_size = min(num_trees, self.batch_size or max(256, num_trees // 20))
        probability = batch_size / num_trees
        return SampledGaussian(
            noise_multiplier, probability, max(1, round(self.epochs / probability))
        )

    def make_generator(
        self, num_tokens: int, num_classes: int, num_neighbors: list[int], num_scenes: int
    ) -> CGTGenerator:
        r"""A model whose gradients can be clipped tree by tree."""
        return CGTGenerator(
            num_tokens,
            num_classes,
            num_neighbors,
            hidden_channels=self.hidden_channels,
            num_layers=self.num_layers,
            num_heads=self.num_heads,
            dropout=0.0,
            num_scenes=num_scenes,
            siblings='independent',
            vocabulary='flat',
        )


def fit_privately(
    generator: CGTGenerator,
    tokens: Tensor,
    y: Tensor,
    scene: Tensor | None,
    noise: SampledGaussian,
    config: DPSGDConfig | None = None,
    rng: np.random.Generator | SystemRandom | None = None,
    log: bool = True,
) -> CGTGenerator:
    r"""Trains a generator with DP-SGD (Abadi et al., 2016), on :obj:`opacus`.

    In each step every tree is drawn with the same probability, independently
    of all others. The gradient of the likelihood of a whole tree is clipped,
    however many slots the tree has, and Gaussian noise is added to the sum.
    The weights are averaged over the second half of all steps, which costs
    nothing. Norms are found by ghost clipping: no gradient of a single tree is
    ever stored.

    Batches and noise are made of random bits of the operating system (seeds of
    PyTorch have 32 bits on a CPU, which can be tried out). The noise is made of
    floating-point numbers.

    Args:
        generator (CGTGenerator): The model, see :class:`TreeRows` for which.
        tokens (torch.Tensor): Token trees, ``[n, T]``.
        y (torch.Tensor): The label of each root, ``[n]``.
        scene (torch.Tensor, optional): The scene of each root, ``[n]``.
        noise (SampledGaussian): The noise and the sampling, as in the ledger.
        config (DPSGDConfig, optional): How to train. (default: :obj:`None`)
        rng (numpy.random.Generator, optional): The source of batches and
            noise. Whoever knows its seed can take the noise away again. By
            default, the operating system. (default: :obj:`None`)
        log (bool, optional): Whether to show progress. (default: :obj:`True`)
    """
    config = config or DPSGDConfig()
    rng = rng or SystemRandom()
    device = next(generator.parameters()).device
    data = [value.to(device) for value in (tokens, y, scene) if value is not None]
    steps = int(noise.steps)
    generator.train()
    model = clipped(TreeRows(generator), config.clip)
    adam = torch.optim.Adam(generator.parameters(), lr=config.lr)
    optimizer = make_optimizer(adam, noise.noise_multiplier, config.clip, rng)
    average = WeightAverage(generator)
    with tqdm(total=steps, desc='dp-sgd', unit='step', disable=not log) as bar:
        for step in range(steps):
            for group in optimizer.param_groups:
                group['lr'] = config.lr * _schedule(step, steps)
            drawn = draw_batch(y.numel(), noise.sampling_probability, rng).to(device)
            noisy_step(model, optimizer, data, drawn, config.physical_batch_size)
            if step >= (1 - AVERAGED) * steps:
                average.add(generator)
            bar.update()
    model.to_standard_module()
    average.copy_to(generator)
    if not all(bool(value.isfinite().all()) for value in generator.parameters()):
        raise NotFiniteError(f'The weights are not finite after {steps} steps of DP-SGD')
    return generator.eval()


def clipped(rows: TreeRows, clip: float) -> Any:
    r"""A model that clips the gradient of each tree.

    Args:
        rows (TreeRows): The likelihood of trees.
        clip (float): The clipping norm.
    """
    import_opacus()
    from opacus.grad_sample import GradSampleModuleFastGradientClipping

    return GradSampleModuleFastGradientClipping(rows, loss_reduction='sum', max_grad_norm=clip)


def noisy_step(
    model: Any, optimizer: Any, data: Sequence[Tensor], drawn: Tensor, size: int
) -> None:
    r"""Adds up clipped gradients, adds noise, and makes one step. An empty batch
    is one like any other.

    Args:
        model (torch.nn.Module): What :meth:`clipped` returned.
        optimizer (torch.optim.Optimizer): What :meth:`make_optimizer` returned.
        data (list[torch.Tensor]): Trees, labels and scenes of all records.
        drawn (torch.Tensor): The records of this step.
        size (int): The records whose gradients are computed at once.
    """
    from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping

    parts = drawn.split(size)
    for i, rows in enumerate(parts):
        optimizer.signal_skip_step(do_skip=i + 1 < len(parts))
        optimizer.zero_grad()
        if rows.numel() == 0:  # the sum of nothing, which opacus does not take
            for weight in optimizer.params:
                weight.grad = torch.zeros_like(weight)
        else:
            loss = -model(*(value[rows] for value in data))
            with warnings.catch_warnings():  # embeddings have no gradient of their input
                warnings.filterwarnings('ignore', 'Full backward hook is firing')
                DPTensorFastGradientClipping(model, optimizer, loss, 'sum').backward()
        optimizer.step()


def make_optimizer(
    adam: torch.optim.Optimizer,
    noise_multiplier: float,
    clip: float,
    rng: np.random.Generator | SystemRandom,
) -> Any:
    r"""An optimiser that adds noise to sums of clipped gradients.

    Args:
        adam (torch.optim.Optimizer): What makes steps of the noisy sums.
        noise_multiplier (float): The standard deviation of the noise, in units
            of the clipping norm.
        clip (float): The clipping norm.
        rng (numpy.random.Generator or SystemRandom): The source of the noise.
    """
    import_opacus()
    from opacus.optimizers import DPOptimizerFastGradientClipping

    class Optimizer(DPOptimizerFastGradientClipping):
        r"""Noise comes from another generator than one of PyTorch."""

        def add_noise(self) -> None:
            for weight in self.params:
                noise = torch.from_numpy(rng.standard_normal(weight.shape))
                noise = noise_multiplier * clip * noise.to(weight)
                weight.grad = weight.summed_grad + noise

    return Optimizer(
        adam,
        noise_multiplier=noise_multiplier,
        max_grad_norm=clip,
        expected_batch_size=None,
        loss_reduction='sum',
    )


def draw_batch(
    num_trees: int, probability: float, rng: np.random.Generator | SystemRandom
) -> Tensor:
    r"""The trees of a step: each is drawn independently of all others."""
    return torch.from_numpy(np.flatnonzero(rng.random(num_trees) < probability))


class WeightAverage:
    r"""The mean of the weights of several steps."""

    def __init__(self, model: nn.Module) -> None:
        self.sums = [torch.zeros_like(value, dtype=torch.double) for value in model.parameters()]
        self.count = 0

    @torch.no_grad()
    def add(self, model: nn.Module) -> None:
        for total, value in zip(self.sums, model.parameters(), strict=True):
            total += value
        self.count += 1

    @torch.no_grad()
    def copy_to(self, model: nn.Module) -> None:
        for total, value in zip(self.sums, model.parameters(), strict=True):
            value.copy_(total / max(1, self.count))


def import_opacus() -> None:
    r"""Says how to install the package where it is not."""
    try:
        import opacus  # noqa: F401
    except ImportError as error:
        raise UnsupportedError(
            "DP-SGD needs 'opacus', which is not installed: run "
            "pip install 'torch-geometric-cgt[dp]'"
        ) from error


def _schedule(step: int, steps: int) -> float:
    r"""The learning rate at a step, relative to its peak."""
    return min(1.0, (step + 1) / max(1, WARMUP * steps))
