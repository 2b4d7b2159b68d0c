r"""Fitting a generator to computation graphs that are sampled anew each epoch."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm

from torch_geometric_cgt.errors import NotFiniteError
from torch_geometric_cgt.nn import CGTGenerator
from torch_geometric_cgt.training.batches import Batch, Batches, DrawTokens
from torch_geometric_cgt.training.checkpoint import Checkpoints, TrainingState, fingerprint
from torch_geometric_cgt.training.config import FitConfig, FitResult
from torch_geometric_cgt.training.device import fork_rng
from torch_geometric_cgt.training.distributed import World
from torch_geometric_cgt.training.loss import batch_loss, evaluate
from torch_geometric_cgt.training.step import train_step
from torch_geometric_cgt.training.watch import Watch
from torch_geometric_cgt.utils.seeds import derive_seed


def fit(
    generator: CGTGenerator,
    draw_tokens: DrawTokens,
    y: Tensor,
    config: FitConfig,
    seed: int = 0,
    device: torch.device | str = 'cpu',
    log: bool = True,
    scene: Tensor | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = True,
    belongs_to: str = '',
    world: World | None = None,
) -> FitResult:
    r"""Fits a generator in place and leaves it with its best weights.

    All randomness is a function of the seed and the place in the run. A run
    that was killed and resumed on one CPU thread ends with the same bits as
    one that was not; several processes follow the same trajectory as one, up
    to rounding and dropout.

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
        scene (torch.Tensor, optional): The scene of every root; needed
            by models that are conditioned on it. (default: :obj:`None`)
        checkpoint (str, optional): The folder of checkpoints, on storage that
            all processes see. By default, none are written.
            (default: :obj:`None`)
        resume (bool, optional): Whether to go on from the last checkpoint in
            that folder. (default: :obj:`True`)
        belongs_to (str, optional): A name or digest of what :obj:`draw_tokens`
            draws from; checkpoints under another one are refused.
            (default: :obj:`""`)
        world (World, optional): The processes that fit together, see
            :meth:`~torch_geometric_cgt.training.join_world`. By default, this
            process alone. (default: :obj:`None`)
    """
    world = world or World()
    device = torch.device(device)
    scene = torch.zeros_like(y) if scene is None else scene
    batches = Batches(generator, draw_tokens, y, scene, config, seed, world)
    held_out = batches.held_out_batch()
    num_epochs = config.num_epochs(y.numel())
    steps = num_epochs * batches.num_steps

    generator.set_marginals(*batches.marginal_trees())
    generator.to(device)
    optimizer = torch.optim.AdamW(
        generator.parameters(), lr=config.lr, weight_decay=config.weight_decay, fused=True
    )
    state, checkpoints = TrainingState(), None
    if checkpoint is not None:
        identity = _identity(generator, batches, held_out, belongs_to)
        checkpoints = Checkpoints(Path(checkpoint), identity, batches.num_steps, world)
        if resume:
            state = checkpoints.load(generator, optimizer) or state
        else:
            checkpoints.clear()
    model = wrap(generator, batches, config, world, device)

    watch = Watch(config, world, device)
    position = state.epoch * batches.num_steps + state.step
    hide = not (log and world.is_first)
    with (
        fork_rng(device),
        tqdm(total=steps, initial=position, desc='fit', unit='step', disable=hide) as bar,
    ):
        while not is_finished(state, num_epochs, config.patience):
            generator.train()
            order = batches.order(state.epoch)
            while state.step < batches.num_steps:
                position = state.epoch * batches.num_steps + state.step
                lr = config.lr * warmup_cosine(position, steps, config.warmup)
                for group in optimizer.param_groups:
                    group['lr'] = lr
                parts = batches.parts(order, state.epoch, state.step)
                dropout_seed = derive_seed(seed, 'dropout', state.epoch, state.step, world.rank)
                watch.pending.append(
                    train_step(model, optimizer, parts, config, dropout_seed, world, device)
                )
                state.count += sum(part.count for part in parts)
                state.step += 1
                bar.update()

                if state.step % watch.every == 0 or state.step == batches.num_steps:
                    nll, bad_age = watch.look()
                    if bad_age is not None:
                        bad = position + 1 - bad_age
                        raise NotFiniteError(_not_finite(bad, steps, config, checkpoints))
                    state.nll += nll
                    bar.set_postfix(_live(state, optimizer), refresh=False)
                    if checkpoints is not None and watch.is_due():
                        checkpoints.save(state, generator, optimizer)
                        watch.saved()

            nll, count = _epoch_total(state, world)
            state.result.train_nll.append(nll / count)
            if held_out.count:
                _hold_out(state, generator, held_out, config, world)
            else:
                state.result.best_epoch = state.epoch
            bar.set_postfix(_live(state, optimizer))
            state.epoch, state.step, state.nll, state.count = state.epoch + 1, 0, 0.0, 0
        if checkpoints is not None:
            checkpoints.save(state, generator, optimizer)
    if state.best is not None:
        generator.load_state_dict(state.best)
    generator.eval()
    return state.result


def wrap(
    generator: CGTGenerator,
    batches: Batches,
    config: FitConfig,
    world: World,
    device: torch.device,
) -> nn.Module:
    r"""The model as it is trained. Wrappers share its weights, and the names
    of the weights stay as they are.
    """
    model: nn.Module = generator
    if config.compile:
        # What a model computes once and keeps is not for the compiler.
        with torch.no_grad(), fork_rng(device):
            batch_loss(model, batches.first_tree().to(device))
        model = torch.compile(model, dynamic=True)  # type: ignore[assignment]
    return DistributedDataParallel(model) if world.size > 1 else model


def is_finished(state: TrainingState, num_epochs: int, patience: int) -> bool:
    r"""Whether all epochs are over, or too many brought nothing."""
    waited = state.epoch - 1 - state.result.best_epoch
    return state.epoch >= num_epochs or waited >= patience


def warmup_cosine(step: int, steps: int, warmup: float) -> float:
    r"""The learning rate at a step, relative to its peak."""
    rise = max(1, round(warmup * steps))
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - rise) / max(1, steps - rise))))


def _hold_out(
    state: TrainingState,
    generator: CGTGenerator,
    held_out: Batch,
    config: FitConfig,
    world: World,
) -> None:
    r"""Adds the held-out likelihood of an epoch and keeps weights that raise it."""
    size = max(1, config.batch_size // config.accumulate)
    nll = evaluate(generator, held_out.tokens, held_out.y, held_out.scene, size, world)
    if not math.isfinite(nll):
        raise NotFiniteError(f'The held-out loss is not finite after epoch {state.epoch + 1}')
    result = state.result
    if state.best is None or nll < result.holdout_nll[result.best_epoch]:
        result.best_epoch = state.epoch
        state.best = copy.deepcopy(generator.state_dict())
    result.holdout_nll.append(nll)


def _epoch_total(state: TrainingState, world: World) -> tuple[float, int]:
    totals = world.gather((state.nll, state.count))
    return sum(nll for nll, _ in totals), sum(count for _, count in totals)


def _live(state: TrainingState, optimizer: torch.optim.Optimizer) -> dict[str, str]:
    r"""What the progress bar tells: the loss of this epoch so far, the last
    held-out loss and the learning rate.
    """
    live = {'nll': f'{state.nll / max(1, state.count):.3f}'}
    if state.result.holdout_nll:
        live['holdout'] = f'{state.result.holdout_nll[-1]:.3f}'
    return {**live, 'lr': f'{optimizer.param_groups[0]["lr"]:.1e}'}


def _identity(
    generator: CGTGenerator, batches: Batches, held_out: Batch, belongs_to: str
) -> dict[str, Any]:
    r"""What makes two runs the same."""
    return {
        **{f'generator.{name}': value for name, value in generator.config().items()},
        **{f'fit.{name}': value for name, value in batches.config.to_dict().items()},
        'seed': batches.seed,
        'num_roots': batches.y.numel(),
        'roots': fingerprint([batches.y, batches.scene, held_out.tokens]),
        'initial_weights': fingerprint(generator.state_dict().values()),
        'belongs_to': belongs_to,
    }


def _not_finite(step: int, steps: int, config: FitConfig, checkpoints: Checkpoints | None) -> str:
    last = checkpoints.last if checkpoints is not None else None
    return (
        f'The loss is not finite at step {step + 1} of {steps} (learning rate '
        f'{config.lr * warmup_cosine(step, steps, config.warmup):.2g}): lower the learning rate. '
        + (f"The last good checkpoint is '{last}'" if last else 'There is no checkpoint')
    )
