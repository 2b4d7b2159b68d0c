r"""The parameters of a fit, and its result."""

from __future__ import annotations

import math
import multiprocessing
from dataclasses import asdict, dataclass, field
from typing import Any

from torch_geometric_cgt.utils.checks import check_integer, use_python_numbers

PRECISIONS = ('float32', 'bfloat16')
# Fields that do not change the model.
RUNTIME = ('compile', 'checkpoint_minutes', 'resume', 'num_workers')

# The default number of epochs, see `FitConfig.epochs`.
USUAL_GRAPHS = 200_000  # computation graphs that all epochs together show the model
MAX_EPOCHS = 25
MIN_EPOCHS = 5
MIN_EPOCHS_GRAPHS = 500_000  # computation graphs after which MIN_EPOCHS no longer holds


@dataclass(frozen=True)
class FitConfig:
    r"""The parameters of :meth:`~torch_geometric_cgt.training.fit`.

    Args:
        epochs (int, optional): The largest number of epochs. By default, as
            many as show the model about 200,000 computation graphs, but at
            most 25 epochs. Large graphs get at least 5 epochs, or as many as
            show the model 500,000 computation graphs if these are fewer.
            (default: :obj:`None`)
        batch_size (int, optional): Computation graphs per step, over all
            processes together. (default: :obj:`128`)
        lr (float, optional): The peak learning rate. (default: :obj:`3e-3`)
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
        precision (str, optional): :obj:`"float32"`, or :obj:`"bfloat16"` for
            autocast; weights and held-out likelihood stay in float32.
            (default: :obj:`"float32"`)
        accumulate (int, optional): The number of micro-batches into which
            each process splits its share of a batch, to save memory.
            (default: :obj:`1`)
        compile (bool, optional): Whether to compile the model. It changes
            the speed, and results by rounding only.
            (default: :obj:`False`)
        checkpoint_minutes (float, optional): Minutes between checkpoints,
            where checkpoints are written; :obj:`0` writes one after every
            step. (default: :obj:`5.0`)
        resume (bool, optional): Whether to go on where a killed construction
            with the same source and parameters stopped.
            (default: :obj:`True`)
        num_workers (int, optional): The number of worker processes that sample
            and plan the next batches while the model trains on this one. A
            GPU would otherwise wait for the host. The result does not depend
            on it. (default: :obj:`0`)
    """

    epochs: int | None = None
    batch_size: int = 128
    lr: float = 3e-3
    weight_decay: float = 0.05
    warmup: float = 0.1
    clip: float = 1.0
    holdout: float = 0.1
    patience: int = 10
    precision: str = 'float32'
    accumulate: int = 1
    compile: bool = False
    checkpoint_minutes: float = 5.0
    resume: bool = True
    num_workers: int = 0

    def __post_init__(self) -> None:
        use_python_numbers(self)
        for name in ('epochs', 'batch_size', 'patience'):
            value = getattr(self, name)
            if value is not None:
                check_integer(name, value)
        if not 0 <= self.holdout < 1:
            raise ValueError(f"'holdout' must lie in [0, 1) (got {self.holdout})")
        if self.lr <= 0 or self.clip <= 0:
            raise ValueError(f"'lr' and 'clip' must be positive (got {self.lr} and {self.clip})")
        if self.precision not in PRECISIONS:
            raise ValueError(f"'precision' must be one of {PRECISIONS} (got '{self.precision}')")
        if not 1 <= self.accumulate <= self.batch_size:
            raise ValueError(
                f"'accumulate' must lie between 1 and the batch size of {self.batch_size} "
                f'(got {self.accumulate})'
            )
        if self.num_workers < 0:
            raise ValueError(f"'num_workers' must not be negative (got {self.num_workers})")
        if self.num_workers > 0 and 'fork' not in multiprocessing.get_all_start_methods():
            raise ValueError(
                f"'num_workers' must be 0 on this system, which cannot fork processes "
                f'(got {self.num_workers})'
            )
        if not self.checkpoint_minutes >= 0:
            raise ValueError(
                f"'checkpoint_minutes' must not be negative (got {self.checkpoint_minutes})"
            )

    def num_epochs(self, num_roots: int) -> int:
        r"""The largest number of epochs for a source of some size; see
        :obj:`epochs`.

        Args:
            num_roots (int): The number of roots, that is of computation
                graphs per epoch.
        """
        num_roots = max(1, num_roots)
        at_least = min(MIN_EPOCHS, math.ceil(MIN_EPOCHS_GRAPHS / num_roots))
        usual = round(USUAL_GRAPHS / num_roots)
        return self.epochs or min(MAX_EPOCHS, max(at_least, usual))

    def to_dict(self) -> dict[str, Any]:
        r"""The parameters that the fitted weights depend on by more than
        rounding: all but :obj:`compile`, :obj:`checkpoint_minutes`,
        :obj:`resume` and :obj:`num_workers`.
        """
        return {name: value for name, value in asdict(self).items() if name not in RUNTIME}


@dataclass
class FitResult:
    r"""The loss of each epoch, and the epoch whose weights were kept."""

    train_nll: list[float] = field(default_factory=list)
    holdout_nll: list[float] = field(default_factory=list)
    best_epoch: int = 0
