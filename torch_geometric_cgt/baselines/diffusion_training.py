r"""The training loop of :class:`~torch_geometric_cgt.baselines.TreeDiffusion`."""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from torch_geometric_cgt.baselines.fitting import parent_is_real
from torch_geometric_cgt.errors import NotFiniteError
from torch_geometric_cgt.models import FitContext, TreeSource
from torch_geometric_cgt.training.fit import warmup_cosine
from torch_geometric_cgt.utils.devices import to_device
from torch_geometric_cgt.utils.distributed import seed_global
from torch_geometric_cgt.utils.progress import progress_bar
from torch_geometric_cgt.utils.seeds import derive_seed, seeded

if TYPE_CHECKING:
    from torch_geometric_cgt.baselines.tree_diffusion import TreeDiffusion

MARGINAL_ROOTS = 4096  # roots that suffice for histograms
WARMUP, CLIP = 0.05, 1.0
HOLDOUT, MAX_HOLDOUT = 0.1, 2_000  # share and largest number of held-out roots
NUM_CHECKS = 12  # how often the held-out bound is computed
CHECK_DRAWS = 4  # masks per held-out tree
# The default number of epochs shows the model about 220,000 trees.
USUAL_TREES, MIN_EPOCHS, MAX_EPOCHS = 220_000, 4, 80


class DiffusionTraining:
    r"""One fit of a :class:`TreeDiffusion`.

    Args:
        model (TreeDiffusion): The model.
        source (TreeSource): The computation graphs.
        context (FitContext): Where and how to fit.
    """

    def __init__(self, model: TreeDiffusion, source: TreeSource, context: FitContext) -> None:
        self.model, self.source, self.context = model, source, context
        self.seed, self.device = context.seed, torch.device(context.device)
        self.scene = torch.zeros_like(source.y) if source.scene is None else source.scene
        perm = torch.randperm(len(source), generator=seeded(self.seed, 'holdout'))
        num_holdout = min(int(HOLDOUT * len(source)), MAX_HOLDOUT)
        self.held_out, self.train = perm[:num_holdout], perm[num_holdout:]
        model.prepare(source, derive_seed(self.seed, 'weights'))
        model.to(self.device)
        batch, counts = model.structure(*self.trees(self.train[:MARGINAL_ROOTS], 'marginals'))
        model.tokens.set_marginals(batch.state, batch.exists)
        model.counts.set_marginals(counts.state, counts.exists)

    def trees(self, rows: Tensor, *purpose: int | str) -> tuple[Tensor, Tensor, Tensor]:
        r"""Samples the trees of some roots, with labels and scenes."""
        return self.on_device(self.draw(rows, *purpose), rows)

    def draw(self, rows: Tensor, *purpose: int | str) -> Tensor:
        r"""Samples the tokens of the trees of some roots, where the source has them."""
        return self.source.draw(rows, seeded(self.seed, 'trees', *purpose)).long()

    def on_device(self, tokens: Tensor, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r"""Moves trees to the device, with their labels and scenes."""
        y, scene = self.source.y[rows].long(), self.scene[rows].long()
        if self.model.num_scenes == 1:
            scene = torch.zeros_like(scene)
        return (
            to_device(tokens, self.device),
            to_device(y, self.device),
            to_device(scene, self.device),
        )

    def run(self) -> dict[str, Any]:
        r"""Trains and returns the history."""
        options, model = self.model.options, self.model
        usual = round(USUAL_TREES / len(self.source))
        epochs = options['epochs'] or max(MIN_EPOCHS, min(MAX_EPOCHS, usual))
        checks = {math.ceil((i + 1) * epochs / NUM_CHECKS) - 1 for i in range(NUM_CHECKS)}
        steps = epochs * math.ceil(self.train.numel() / options['batch_size'])
        optimizer = torch.optim.AdamW(
            model.parameters(), lr=options['lr'], weight_decay=options['weight_decay'], fused=True
        )
        best: dict[str, Tensor] | None = None
        train_nll: list[float] = []
        holdout_nll: list[float] = []
        nll, count, step = torch.zeros((), dtype=torch.double, device=self.device), 0, 0
        with progress_bar(self.context.log, steps, 'fit', 'steps') as bar:
            for epoch in range(epochs):
                model.train()
                rng = seeded(self.seed, 'order', epoch)
                order = self.train[torch.randperm(self.train.numel(), generator=rng)]
                for rows in order.split(options['batch_size']):
                    self.context.limits.check()
                    for group in optimizer.param_groups:
                        group['lr'] = options['lr'] * warmup_cosine(step, steps, WARMUP)
                    loss, tokens = self.step(optimizer, rows, step)
                    nll, count, step = nll + loss, count + tokens, step + 1
                    bar.update()
                if epoch not in checks:
                    continue
                train_nll.append(self.checked(float(nll) / count, epoch))
                nll, count = torch.zeros_like(nll), 0
                if self.held_out.numel():
                    holdout_nll.append(self.checked(self.held_out_nll(), epoch))
                    if holdout_nll[-1] == min(holdout_nll):
                        best = copy.deepcopy(model.state_dict())
                bar.note(f'nll={train_nll[-1]:.3f}, holdout={(holdout_nll or train_nll)[-1]:.3f}')
        if best is not None:
            model.load_state_dict(best)
        model.eval().to('cpu')
        scores = holdout_nll or train_nll
        return {
            'train_nll': train_nll,
            'holdout_nll': holdout_nll,
            'best_epoch': scores.index(min(scores)),
            'epochs': epochs,
        }

    def checked(self, nll: float, epoch: int) -> float:
        r"""Raises an error if a loss is not finite. Losses are read a few times per fit
        only, so that a step does not wait for the device.
        """
        if not math.isfinite(nll):
            raise NotFiniteError(
                f'The loss is not finite in epoch {epoch + 1} (lr={self.model.options["lr"]:g}): '
                f'lower the learning rate'
            )
        return nll

    def step(self, optimizer: torch.optim.Optimizer, rows: Tensor, step: int) -> tuple[Tensor, int]:
        r"""Makes one step of the optimiser. Returns the summed loss of the trees and
        the number of counted tokens.
        """
        drawn = self.draw(rows, step)
        count = self.counted_slots(drawn)
        tokens, y, scene = self.on_device(drawn, rows)
        rng = seeded(self.seed, 'masks', step, device=self.device)
        seed_global(derive_seed(self.seed, 'dropout', step), self.device)
        total = torch.zeros((), dtype=torch.double, device=self.device)
        optimizer.zero_grad()
        for part in torch.arange(y.numel(), device=self.device).split(self.model.block):
            bound = self.model.training_bound(tokens[part], y[part], scene[part], rng)
            (-bound.sum() / count).backward()
            total = total - bound.detach().sum()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
        optimizer.step()
        return total, count

    def counted_slots(self, tokens: Tensor) -> int:
        r"""The number of roots and of slots below real slots, which is also how
        :class:`~torch_geometric_cgt.nn.CGTGenerator` counts tokens.
        """
        return int(parent_is_real(tokens, self.model.num_tokens, self.model.shape).sum())

    @torch.no_grad()
    def held_out_nll(self) -> float:
        r"""The negative bound per counted token of the held-out roots, always with
        the same trees and masks.
        """
        self.model.eval()
        tokens, y, scene = self.trees(self.held_out, 'holdout')
        rng = seeded(self.seed, 'holdout masks', device=self.device)
        total = self.model.bound(tokens, y, scene, CHECK_DRAWS, rng).double().sum()
        return -float(total) / self.counted_slots(tokens)
