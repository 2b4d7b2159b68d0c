r"""What a build keeps of some steps of DP-SGD, so that its owner can compute them again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields

import torch
from torch import Tensor, nn

NUM_KEPT = 8  # steps that are kept, from the first to the last
MOMENTS = ('exp_avg', 'exp_avg_sq')  # of Adam


@dataclass(frozen=True)
class KeptSteps:
    r"""Some steps of a training with DP-SGD, and the batches of all steps.

    Weights and noisy sums are private. Batches are **not**: together with the
    noisy sums, they show more than the ledger pays for. They stay with the build
    and are never a part of a release.

    Args:
        step (torch.Tensor): The numbers of the kept steps, ``[S]``.
        rate (torch.Tensor): Their learning rates, ``[S]``.
        before (torch.Tensor): The weights before each of them, ``[S, P]``, in the
            order of the parameters of the generator.
        moments (torch.Tensor): The two moments of Adam before each of them,
            ``[S, 2, P]``.
        released (torch.Tensor): The noisy sums of clipped gradients, ``[S, P]``.
        after (torch.Tensor): The weights after each of them, ``[S, P]``.
        batch (torch.Tensor): The trees of the kept steps, one step after the
            other, ``[B]``.
        sizes (torch.Tensor): The number of trees of every step of the training,
            ``[steps]``.
        uses (torch.Tensor): The number of steps that contain each tree, ``[n]``.
    """

    step: Tensor
    rate: Tensor
    before: Tensor
    moments: Tensor
    released: Tensor
    after: Tensor
    batch: Tensor
    sizes: Tensor
    uses: Tensor

    def batches(self) -> Sequence[Tensor]:
        r"""The trees of each kept step."""
        return self.batch.split(self.sizes[self.step].tolist())

    def to_tensors(self, prefix: str) -> dict[str, Tensor]:
        r"""All fields as named tensors, for files.

        Args:
            prefix (str): The prefix of all names.
        """
        return {f'{prefix}.{f.name}': getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor], prefix: str) -> KeptSteps:
        r"""The inverse of :meth:`to_tensors`.

        Args:
            tensors (dict[str, torch.Tensor]): The tensors of a file.
            prefix (str): The prefix of all names.
        """
        return cls(**{f.name: tensors[f'{prefix}.{f.name}'] for f in fields(cls)})


@dataclass
class StepRecorder:
    r"""Keeps steps while a training runs. It draws no random numbers.

    Args:
        model (torch.nn.Module): The model that is trained.
        adam (torch.optim.Optimizer): The optimiser of its parameters.
        num_steps (int): The number of steps of the training.
        num_trees (int): The number of trees.
    """

    model: nn.Module
    adam: torch.optim.Optimizer
    num_steps: int
    num_trees: int
    parts: dict[str, list[Tensor]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        places = torch.linspace(0, self.num_steps - 1, min(NUM_KEPT, self.num_steps))
        self.steps = places.round().long().unique()
        self.sizes = torch.zeros(self.num_steps, dtype=torch.long)
        self.uses = torch.zeros(self.num_trees, dtype=torch.long)

    def start(self, step: int, batch: Tensor) -> None:
        r"""Notes a batch, and the state before the step if the step is kept.

        Args:
            step (int): The number of the step.
            batch (torch.Tensor): The trees of the step.
        """
        rows = batch.cpu()
        self.sizes[step] = rows.numel()
        self.uses += torch.bincount(rows, minlength=self.num_trees)
        if not bool((self.steps == step).any()):
            return
        rate = self.adam.param_groups[0]['lr']
        self._add('rate', torch.tensor(rate, dtype=torch.double))
        self._add('before', self._flat(self.model.parameters()))
        state = [self.adam.state.get(weight, {}) for weight in self.model.parameters()]
        pairs = list(zip(state, self.model.parameters(), strict=True))
        both = [self._flat(s.get(name, torch.zeros_like(w)) for s, w in pairs) for name in MOMENTS]
        self._add('moments', torch.stack(both))
        self._add('batch', rows)

    def finish(self, step: int) -> None:
        r"""Notes the noisy sum and the weights after a step that is kept.

        Args:
            step (int): The number of the step.
        """
        if bool((self.steps == step).any()):
            self._add('released', self._flat(w.grad for w in self.model.parameters()))
            self._add('after', self._flat(self.model.parameters()))

    def kept(self) -> KeptSteps:
        r"""The steps that were kept."""
        stacked = {n: torch.stack(parts) for n, parts in self.parts.items() if n != 'batch'}
        batch = torch.cat(self.parts['batch'])
        return KeptSteps(self.steps, batch=batch, sizes=self.sizes, uses=self.uses, **stacked)

    def _add(self, name: str, value: Tensor) -> None:
        self.parts.setdefault(name, []).append(value)

    @staticmethod
    def _flat(values: Iterable[Tensor | None]) -> Tensor:
        return torch.cat([v.detach().flatten().cpu() for v in values if v is not None])
