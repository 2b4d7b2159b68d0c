r"""DP-SGD: trains a generator on noisy sums of gradients that are clipped tree by tree."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from torch_geometric_cgt.errors import NotFiniteError, UnsupportedError
from torch_geometric_cgt.nn import CGTGenerator
from torch_geometric_cgt.nn.two_stream import factorised_layout
from torch_geometric_cgt.nn.vocabulary import FlatVocabulary, log_softmax
from torch_geometric_cgt.privacy.noise import SampledGaussian, SystemRandom
from torch_geometric_cgt.training.kept_steps import KeptSteps, StepRecorder
from torch_geometric_cgt.utils.devices import to_device
from torch_geometric_cgt.utils.progress import Log, progress_bar

WARMUP = 0.05  # the share of all steps during which the learning rate rises
AVERAGED = 0.5  # the share of all steps, at the end, whose weights are averaged


@dataclass(frozen=True)
class DPSGDConfig:
    r"""The parameters of :meth:`fit_privately`.

    Args:
        batch_size (int, optional): The expected number of trees of a step. By
            default, the larger of 256 and a twentieth of all trees.
            (default: :obj:`None`)
        epochs (float, optional): The expected number of steps that contain a
            given tree. (default: :obj:`40.0`)
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
        physical_batch_size (int, optional): The number of trees whose
            gradients are computed at once. It changes memory, not the result.
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
        r"""The noise and the sampling of the training on some number of trees,
        for the ledger.
        """
        batch_size = min(num_trees, self.batch_size or max(256, num_trees // 20))
        probability = batch_size / num_trees
        return SampledGaussian(
            noise_multiplier, probability, max(1, round(self.epochs / probability))
        )

    def make_generator(
        self, num_tokens: int, num_classes: int, num_neighbors: list[int], num_scenes: int
    ) -> CGTGenerator:
        r"""Makes a model whose gradients can be clipped tree by tree."""
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
    log: Log = True,
) -> KeptSteps:
    r"""Trains a generator with DP-SGD (Abadi et al., 2016), on :obj:`opacus`.

    Each step contains each tree with the same probability, independently of
    all others. The gradient of the likelihood of a whole tree is clipped,
    regardless of its number of slots, and Gaussian noise is added to the sum.
    The weights are averaged over the second half of all steps, which costs no
    privacy. Ghost clipping computes the norms without storing the gradient of
    any single tree.

    Batches and noise come from the random number generator of the operating
    system, because a seed of PyTorch has 32 bits on a CPU and can be found by
    trying all of them. The noise consists of floating-point numbers.

    Args:
        generator (CGTGenerator): The model; :class:`PerTreeLogProb` states its
            requirements.
        tokens (torch.Tensor): Token trees, ``[n, T]``.
        y (torch.Tensor): The label of each root, ``[n]``.
        scene (torch.Tensor, optional): The scene of each root, ``[n]``.
        noise (SampledGaussian): The noise and the sampling, as in the ledger;
            see :meth:`DPSGDConfig.noise`.
        config (DPSGDConfig, optional): How to train. (default: :obj:`None`)
        rng (numpy.random.Generator, optional): The source of batches and
            noise. Whoever knows its seed can remove the noise. By default,
            the operating system. (default: :obj:`None`)
        log (bool, optional): Whether to show progress. (default: :obj:`True`)

    Returns:
        Some of the steps, for an audit by the owner of the data. They are **not**
        private.
    """
    config = config or DPSGDConfig()
    rng = rng or SystemRandom()
    device = next(generator.parameters()).device
    data = [value.to(device) for value in (tokens, y, scene) if value is not None]
    steps = int(noise.steps)
    generator.train()
    model = clip_per_tree(PerTreeLogProb(generator), config.clip)
    adam = torch.optim.Adam(generator.parameters(), lr=config.lr)
    optimizer = make_optimizer(adam, noise.noise_multiplier, config.clip, rng)
    average = WeightAverage(generator)
    recorder = StepRecorder(generator, adam, steps, y.numel())
    with progress_bar(log, steps, 'dp-sgd', 'steps') as bar:
        for step in range(steps):
            for group in optimizer.param_groups:
                group['lr'] = config.lr * _schedule(step, steps)
            batch = sample_batch(y.numel(), noise.sampling_probability, rng)
            recorder.start(step, batch)
            batch = to_device(batch, device)
            noisy_step(model, optimizer, data, batch, config.physical_batch_size)
            recorder.finish(step)
            if step >= (1 - AVERAGED) * steps:
                average.add(generator)
            bar.update()
    model.to_standard_module()
    average.copy_to(generator)
    if not all(bool(value.isfinite().all()) for value in generator.parameters()):
        raise NotFiniteError(f'The weights are not finite after {steps} steps of DP-SGD')
    generator.eval()
    return recorder.kept()


def clipped_sum(
    generator: CGTGenerator, data: Sequence[Tensor], batch: Tensor, config: DPSGDConfig
) -> Tensor:
    r"""The sum of the clipped gradients of some trees without noise, ``[P]``, as a
    step computes it. It is **not** private. The weights do not change.

    Args:
        generator (CGTGenerator): The model.
        data (list[torch.Tensor]): The tokens, labels and scenes of all trees.
        batch (torch.Tensor): The trees.
        config (DPSGDConfig): How to train.
    """
    still = torch.optim.SGD(generator.parameters(), lr=0.0)
    optimizer = make_optimizer(still, 0.0, config.clip, SystemRandom())
    model = clip_per_tree(PerTreeLogProb(generator.train()), config.clip)
    noisy_step(model, optimizer, data, batch, config.physical_batch_size)
    found = torch.cat([w.grad.flatten() for w in generator.parameters() if w.grad is not None])
    optimizer.zero_grad()
    model.to_standard_module()
    generator.eval()
    return found


class PerTreeLogProb(nn.Module):
    r"""Computes :meth:`CGTGenerator.log_prob` such that dimension 0 of every
    input of every module is the tree, and each module is called once.

    :obj:`opacus` clips the gradient of each entry of dimension 0. By default
    the generator evaluates distinct paths instead, of which a tree has many:
    each path would be clipped by itself.

    Args:
        generator (CGTGenerator): A model with independent siblings and a flat
            vocabulary, whose parameters all belong to linear layers,
            embeddings and layer norms.
    """

    def __init__(self, generator: CGTGenerator) -> None:
        super().__init__()
        vocabulary = generator.head.vocabulary
        if generator.siblings != 'independent' or not isinstance(vocabulary, FlatVocabulary):
            raise ValueError(
                "Gradients per tree need siblings='independent' and vocabulary='flat' (got "
                f"siblings='{generator.siblings}' and {type(vocabulary).__name__})"
            )
        if not generator.is_factorised:
            raise ValueError(
                "Gradients per tree need position='layer' and attention='ancestors' (got "
                f"position='{generator.position}' and attention='{generator.attention}')"
            )
        self.streams = generator.streams
        self.out = vocabulary.out
        self.num_tokens = generator.num_tokens
        self.shape = generator.shape
        self.layout = factorised_layout(generator.shape)  # not a buffer, as it is no weight

    def forward(self, tokens: Tensor, y: Tensor, scene: Tensor | None = None) -> Tensor:
        r"""The log-likelihood of each token tree, ``[B]``.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            y (torch.Tensor): The label of each root, ``[B]``.
            scene (torch.Tensor, optional): The scene of each root, ``[B]``.
                (default: :obj:`None`)
        """
        if self.layout.mask.device != tokens.device:
            self.layout = self.layout.to(tokens.device)
        layout = self.layout
        tokens = tokens.long()
        logits = self.out(self.streams.rows(tokens, y, scene, layout))  # [B, Q, m + 1]
        root = log_softmax(logits[:, 0, : self.num_tokens])  # a root is never null
        root = root.gather(1, tokens[:, :1])
        below = log_softmax(logits)[:, layout.query_of_slot[1:]]  # [B, T - 1, m + 1]
        below = below.gather(2, tokens[:, 1:, None])[:, :, 0]
        is_below_null = self.shape.parent_values(tokens == self.num_tokens)
        return root[:, 0] + below.masked_fill(is_below_null, 0.0).sum(dim=1)


def clip_per_tree(log_prob: PerTreeLogProb, clip: float) -> Any:
    r"""Wraps a likelihood such that the gradient of each tree is clipped.

    Args:
        log_prob (PerTreeLogProb): The likelihood of trees.
        clip (float): The clipping norm.
    """
    import_opacus()
    from opacus.grad_sample import GradSampleModuleFastGradientClipping

    return GradSampleModuleFastGradientClipping(log_prob, loss_reduction='sum', max_grad_norm=clip)


def noisy_step(
    model: Any, optimizer: Any, data: Sequence[Tensor], batch: Tensor, size: int
) -> None:
    r"""Sums clipped gradients, adds noise, and makes one step. An empty batch
    also makes a step, of noise alone.

    Args:
        model (torch.nn.Module): What :meth:`clip_per_tree` returned.
        optimizer (torch.optim.Optimizer): What :meth:`make_optimizer` returned.
        data (list[torch.Tensor]): The tokens, labels and scenes of all trees.
        batch (torch.Tensor): The indices of the trees of this step.
        size (int): The number of trees whose gradients are computed at once.
    """
    from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping

    parts = batch.split(size)
    for i, rows in enumerate(parts):
        optimizer.signal_skip_step(do_skip=i + 1 < len(parts))
        optimizer.zero_grad()
        if rows.numel() == 0:  # an empty sum, which opacus does not support
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
    r"""Wraps an optimiser such that it adds noise to sums of clipped gradients.

    Args:
        adam (torch.optim.Optimizer): The optimiser that receives the noisy
            sums.
        noise_multiplier (float): The standard deviation of the noise, in units
            of the clipping norm.
        clip (float): The clipping norm.
        rng (numpy.random.Generator or SystemRandom): The source of the noise.
    """
    import_opacus()
    from opacus.optimizers import DPOptimizerFastGradientClipping

    class Optimizer(DPOptimizerFastGradientClipping):
        r"""Takes the noise from :obj:`rng` instead of PyTorch."""

        def add_noise(self) -> None:
            for weight in self.params:
                noise = torch.from_numpy(rng.standard_normal(weight.shape)).to(weight.dtype)
                noise = noise_multiplier * clip * to_device(noise, weight.device)
                weight.grad = weight.summed_grad + noise

    return Optimizer(
        adam,
        noise_multiplier=noise_multiplier,
        max_grad_norm=clip,
        expected_batch_size=None,
        loss_reduction='sum',
    )


def sample_batch(
    num_trees: int, probability: float, rng: np.random.Generator | SystemRandom
) -> Tensor:
    r"""Samples the trees of a step, each independently of all others."""
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
    r"""Raises an error with the command that installs opacus, if it is missing."""
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
