r"""The training loop: fits a generator to computation graphs, resampled in every epoch."""

from __future__ import annotations

import copy
import math
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from torch_geometric_cgt.errors import NotFiniteError
from torch_geometric_cgt.nn import CGTGenerator
from torch_geometric_cgt.training.batches import (
    Batch,
    Batches,
    DrawTokens,
    batch_loss,
    evaluate,
    planned_steps,
)
from torch_geometric_cgt.training.checkpoint import Checkpoints, TrainingState, fingerprint
from torch_geometric_cgt.training.config import FitConfig, FitResult
from torch_geometric_cgt.utils.distributed import World, fork_rng, seed_global
from torch_geometric_cgt.utils.progress import Log, progress_bar
from torch_geometric_cgt.utils.seeds import derive_seed

READ_EVERY = 25  # steps between two reads of the losses


def fit(
    generator: CGTGenerator,
    draw_tokens: DrawTokens,
    y: Tensor,
    config: FitConfig,
    seed: int = 0,
    device: torch.device | str = 'cpu',
    log: Log = True,
    scene: Tensor | None = None,
    checkpoint: str | Path | None = None,
    resume: bool = True,
    belongs_to: str = '',
    world: World | None = None,
) -> FitResult:
    r"""Fits a generator in place. It ends with the weights of the epoch with
    the best held-out likelihood.

    All randomness is a function of the seed, the epoch and the step. On one
    CPU thread, a run that was killed and resumed ends with the same bits as
    an uninterrupted one. Several processes follow the trajectory of one
    process, up to rounding and dropout.

    Args:
        generator (CGTGenerator): The model.
        draw_tokens (callable): Given indices of roots ``[n]`` and a
            :class:`torch.Generator`, samples their token trees, ``[n, T]``.
        y (torch.Tensor): The label of every root.
        config (FitConfig): How to train.
        seed (int, optional): The seed of all randomness in the fit.
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
        resume (bool, optional): Whether to resume from the last checkpoint in
            that folder. (default: :obj:`True`)
        belongs_to (str, optional): A name or digest of the graph that
            :obj:`draw_tokens` samples from. Checkpoints with another one are
            refused. (default: :obj:`""`)
        world (World, optional): The processes that share the work, see
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

    monitor = StepMonitor(config, world, device)
    position = state.epoch * batches.num_steps + state.step
    shown = log if world.is_first else False
    with (
        fork_rng(device),
        progress_bar(shown, steps, 'fit', 'steps', position) as bar,
    ):
        while not is_finished(state, num_epochs, config.patience):
            generator.train()
            order = batches.order(state.epoch)
            planned = planned_steps(batches, order, state.epoch, state.step)
            while state.step < batches.num_steps:
                position = state.epoch * batches.num_steps + state.step
                lr = config.lr * warmup_cosine(position, steps, config.warmup)
                for group in optimizer.param_groups:
                    group['lr'] = lr
                parts = next(planned)
                dropout_seed = derive_seed(seed, 'dropout', state.epoch, state.step, world.rank)
                monitor.pending.append(
                    train_step(model, optimizer, parts, config, dropout_seed, world, device)
                )
                state.count += sum(part.count for part in parts)
                state.step += 1
                bar.update()

                if state.step % monitor.every == 0 or state.step == batches.num_steps:
                    nll, bad_age = monitor.read()
                    if bad_age is not None:
                        bad = position + 1 - bad_age
                        raise NotFiniteError(_not_finite(bad, steps, config, checkpoints))
                    state.nll += nll
                    bar.note(_progress(state, optimizer))
                    if checkpoints is not None and monitor.checkpoint_is_due():
                        checkpoints.save(state, generator, optimizer)
                        monitor.restart_clock()

            nll, count = _epoch_total(state, world)
            state.result.train_nll.append(nll / count)
            if held_out.count:
                _evaluate_held_out(state, generator, held_out, config, world)
            else:
                state.result.best_epoch = state.epoch
            bar.note(_progress(state, optimizer))
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
    r"""Wraps the generator for compilation and for several processes. The
    wrappers share its weights and do not change the names of its weights.
    """
    model: nn.Module = generator
    if config.compile:
        # One call fills the caches of the model, which must not be compiled.
        with torch.no_grad(), fork_rng(device):
            batch_loss(model, batches.first_tree().to(device))
        model = torch.compile(model, dynamic=True)  # type: ignore[assignment]
    if world.size == 1:
        return model
    saves_a_copy = config.accumulate == 1  # measured there only
    return DistributedDataParallel(model, gradient_as_bucket_view=saves_a_copy)


def train_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    parts: list[Batch],
    config: FitConfig,
    dropout_seed: int,
    world: World,
    device: torch.device,
) -> Tensor:
    r"""Makes one step of the optimiser on a batch. The loss is the mean over
    all counted tokens of the batch, over all processes and micro-batches.

    Args:
        model (torch.nn.Module): What :meth:`wrap` returned.
        optimizer (torch.optim.Optimizer): The optimiser of its weights.
        parts (list[Batch]): The micro-batches of this process.
        config (FitConfig): How to train.
        dropout_seed (int): The seed of dropout in this step and process.
        world (World): The processes.
        device (torch.device): Where to train.

    Returns:
        The summed loss of this process, and the norm of the gradient.
    """
    count = sum(part.count for part in parts)
    share: Tensor | float = count
    if world.size > 1:  # DistributedDataParallel averages gradients over processes
        share = world.sum(torch.full((), count, device=device)) / world.size
    nll = torch.zeros((), device=device)
    optimizer.zero_grad()
    for i, part in enumerate(parts):
        seed_global(derive_seed(dropout_seed, i), device)
        with ExitStack() as stack:
            if isinstance(model, DistributedDataParallel) and i + 1 < len(parts):
                stack.enter_context(model.no_sync())  # one exchange of gradients per step
            with torch.autocast(
                device.type, torch.bfloat16, enabled=config.precision == 'bfloat16'
            ):
                loss = batch_loss(model, part.to(device))
            (loss * (part.count / share)).backward()
        nll += loss.detach() * part.count
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config.clip)
    optimizer.step()
    return torch.stack([nll, norm])


class StepMonitor:
    r"""Reads the losses of several steps at once, and measures the time since
    the last checkpoint.

    Reading a loss waits for the device, and comparing it waits for the other
    processes. Both happen every :obj:`READ_EVERY` steps and at the end of an
    epoch, so that no checkpoint is written before its losses are known.

    Args:
        config (FitConfig): How to train.
        world (World): The processes.
        device (torch.device): Where the losses are.
    """

    def __init__(self, config: FitConfig, world: World, device: torch.device) -> None:
        reads_are_free = device.type == 'cpu' and world.size == 1
        self.every = 1 if reads_are_free or config.checkpoint_minutes == 0 else READ_EVERY
        self.seconds = 60 * config.checkpoint_minutes
        self.world = world
        self.pending: list[Tensor] = []  # [loss, norm of the gradient] of each unread step
        self.clock_start = time.monotonic()

    def read(self) -> tuple[float, int | None]:
        r"""Returns the summed loss of this process since the last read, and how
        many steps ago any process had a loss or a gradient that is not finite.
        """
        values = torch.stack(self.pending).tolist() if self.pending else []
        self.pending.clear()
        age = max(
            (len(values) - i for i, pair in enumerate(values) if not all(map(math.isfinite, pair))),
            default=0,
        )
        age = max(self.world.gather(age))
        return sum(loss for loss, _ in values), age or None

    def checkpoint_is_due(self) -> bool:
        r"""Whether it is time for a checkpoint, by the clock of the first process."""
        return self.world.first(time.monotonic() - self.clock_start >= self.seconds)

    def restart_clock(self) -> None:
        r"""Restarts the time until the next checkpoint."""
        self.clock_start = time.monotonic()


def is_finished(state: TrainingState, num_epochs: int, patience: int) -> bool:
    r"""Whether all epochs are done, or the last :obj:`patience` epochs did not
    improve the held-out likelihood.
    """
    waited = state.epoch - 1 - state.result.best_epoch
    return state.epoch >= num_epochs or waited >= patience


def warmup_cosine(step: int, steps: int, warmup: float) -> float:
    r"""The learning rate at a step, relative to its peak."""
    rise = max(1, round(warmup * steps))
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - rise) / max(1, steps - rise))))


def _evaluate_held_out(
    state: TrainingState,
    generator: CGTGenerator,
    held_out: Batch,
    config: FitConfig,
    world: World,
) -> None:
    r"""Adds the held-out loss of an epoch, and keeps the weights if it is the
    lowest so far.
    """
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
    r"""The summed loss and the number of tokens of an epoch, over all processes."""
    totals = world.gather((state.nll, state.count))
    return sum(nll for nll, _ in totals), sum(count for _, count in totals)


def _progress(state: TrainingState, optimizer: torch.optim.Optimizer) -> str:
    r"""The values beside the progress bar: the loss of this epoch so far, the last
    held-out loss and the learning rate.
    """
    values = [f'nll={state.nll / max(1, state.count):.3f}']
    if state.result.holdout_nll:
        values.append(f'holdout={state.result.holdout_nll[-1]:.3f}')
    return ', '.join([*values, f'lr={optimizer.param_groups[0]["lr"]:.1e}'])


def _identity(
    generator: CGTGenerator, batches: Batches, held_out: Batch, belongs_to: str
) -> dict[str, Any]:
    r"""The values that a checkpoint must share with this run to be resumed."""
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
