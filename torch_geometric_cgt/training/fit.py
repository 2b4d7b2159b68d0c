r"""Fitting a generator to computation graphs that are sampled anew each epoch."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor
from tqdm import tqdm

from torch_geometric_cgt.errors import CGTError
from torch_geometric_cgt.nn import CGTGenerator


@dataclass(frozen=True)
class FitConfig:
    r"""How a generator is trained.

    Args:
        epochs (int, optional): The largest number of epochs.
            (default: :obj:`40`)
        batch_size (int, optional): Computation graphs per step.
            (default: :obj:`128`)
        lr (float, optional): The peak learning rate. (default: :obj:`1e-3`)
        weight_decay (float, optional): The weight decay of AdamW.
            (default: :obj:`0.05`)
        warmup (float, optional): The share of all steps during which the
            learning rate rises; it falls as a cosine afterwards.
            (default: :obj:`0.1`)
        clip (float, optional): The largest norm of a gradient.
            (default: :obj:`1.0`)
        holdout (float, optional): The share of roots whose likelihood decides
            when to stop. (default: :obj:`0.1`)
        patience (int, optional): Epochs without a better held-out likelihood
            before training stops. (default: :obj:`10`)
    """

    epochs: int = 40
    batch_size: int = 128
    lr: float = 1e-3
    weight_decay: float = 0.05
    warmup: float = 0.1
    clip: float = 1.0
    holdout: float = 0.1
    patience: int = 10

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1 or self.patience < 1:
            raise ValueError(f"'epochs', 'batch_size' and 'patience' must be >= 1 (got {self})")
        if not 0 <= self.holdout < 1:
            raise ValueError(f"'holdout' must lie in [0, 1) (got {self.holdout})")
        if self.lr <= 0 or self.clip <= 0:
            raise ValueError(f"'lr' and 'clip' must be positive (got {self.lr} and {self.clip})")


@dataclass
class FitResult:
    r"""What happened: one entry per epoch, and which epoch's weights were kept."""

    train_nll: list[float] = field(default_factory=list)
    holdout_nll: list[float] = field(default_factory=list)
    best_epoch: int = 0


def fit(
    generator: CGTGenerator,
    draw_tokens: Callable[[Tensor, torch.Generator], Tensor],
    y: Tensor,
    config: FitConfig,
    seed: int = 0,
    device: torch.device | str = 'cpu',
    log: bool = True,
    split: Tensor | None = None,
) -> FitResult:
    r"""Fits a generator in place and leaves it with its best weights.

    Args:
        generator (CGTGenerator): The model.
        draw_tokens (callable): Given indices of roots and a source of
            randomness, returns freshly sampled token trees, ``[n, T]``.
        y (torch.Tensor): The label of every root.
        config (FitConfig): How to train.
        seed (int, optional): The seed of everything that is drawn here.
            (default: :obj:`0`)
        device (torch.device or str, optional): Where to train.
            (default: :obj:`"cpu"`)
        log (bool, optional): Whether to show a progress bar.
            (default: :obj:`True`)
        split (torch.Tensor, optional): The split code of every root; needed
            by models that are conditioned on it. (default: :obj:`None`)
    """
    if split is None:
        split = torch.zeros_like(y)
    rng = torch.Generator().manual_seed(seed)
    perm = torch.randperm(y.numel(), generator=rng)
    num_holdout = int(config.holdout * y.numel())
    held_out, train = perm[:num_holdout], perm[num_holdout:]
    held_out_tokens = draw_tokens(held_out, rng)

    generator.to(device)
    optimizer = torch.optim.AdamW(
        generator.parameters(), lr=config.lr, weight_decay=config.weight_decay
    )
    steps = config.epochs * math.ceil(train.numel() / config.batch_size)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: warmup_cosine(step, steps, config.warmup)
    )

    result = FitResult()
    best_nll, best_weights = math.inf, None
    with (
        torch.random.fork_rng(devices=[]),
        tqdm(total=steps, desc='fit', unit='step', disable=not log) as bar,
    ):
        torch.manual_seed(seed)  # dropout
        for epoch in range(config.epochs):
            generator.train()
            order = train[torch.randperm(train.numel(), generator=rng)]
            tokens = draw_tokens(order, rng)
            total = torch.zeros((), device=device)
            for rows in torch.arange(order.numel()).split(config.batch_size):
                root = order[rows]
                loss = generator(
                    tokens[rows].to(device), y[root].to(device), split[root].to(device)
                )
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(generator.parameters(), config.clip)
                optimizer.step()
                schedule.step()
                total += loss.detach() * rows.numel()
                bar.update()
            result.train_nll.append(float(total) / order.numel())
            if not math.isfinite(result.train_nll[-1]):
                raise CGTError(
                    f'The loss is not finite after epoch {epoch + 1} '
                    f'(learning rate {schedule.get_last_lr()[0]:.2g}): lower the learning rate'
                )
            if num_holdout == 0:
                result.best_epoch = epoch
                continue
            nll = evaluate(
                generator, held_out_tokens, y[held_out], split[held_out], config.batch_size
            )
            result.holdout_nll.append(nll)
            bar.set_postfix(nll=f'{result.train_nll[-1]:.3f}', holdout=f'{nll:.3f}')
            if nll < best_nll:
                best_nll, result.best_epoch = nll, epoch
                best_weights = copy.deepcopy(generator.state_dict())
            elif epoch - result.best_epoch >= config.patience:
                break
    if best_weights is not None:
        generator.load_state_dict(best_weights)
    generator.eval()
    return result


@torch.no_grad()
def evaluate(
    generator: CGTGenerator,
    tokens: Tensor,
    y: Tensor,
    split: Tensor | None = None,
    batch_size: int = 512,
) -> float:
    r"""The mean negative log-likelihood per counted token of some trees."""
    generator.eval()
    device = next(generator.parameters()).device
    total, count = 0.0, 0
    if split is None:
        split = torch.zeros_like(y)
    for rows in torch.arange(y.numel()).split(batch_size):
        part = tokens[rows].to(device)
        log_prob = generator.log_prob(part, y[rows].to(device), split[rows].to(device))
        total -= float(log_prob.sum())
        count += int(generator.counted_slots(part).sum())
    return total / count


def warmup_cosine(step: int, steps: int, warmup: float) -> float:
    r"""The learning rate at a step, relative to its peak."""
    rise = max(1, round(warmup * steps))
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - rise) / max(1, steps - rise))))
