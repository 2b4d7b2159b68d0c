r"""A private model of token trees: noisy histograms of low order, with back-off."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.privacy.back_off import back_off, project_to_simplex
from torch_geometric_cgt.privacy.coupling import couple, couple_again, token_rows, unfold
from torch_geometric_cgt.privacy.entry import Entry
from torch_geometric_cgt.privacy.histogram_plan import (
    ROOTS,
    SCENE_ROOTS,
    SCENES,
    numbers,
    plan_histograms,
    returns,
    tokens_of_layer,
    with_noise,
)
from torch_geometric_cgt.privacy.mechanisms import noisy_histogram
from torch_geometric_cgt.privacy.scene_map import label_evidence, scenes_of
from torch_geometric_cgt.privacy.tree_counts import Layer

UNFOLDED_TREES = 10_000  # that are drawn to see what the scenes of drawn trees are
UNFOLD_ROUNDS = 3


class PrivateTreeModel(nn.Module):
    r"""Token trees from noisy histograms, with the face of a
    :class:`~torch_geometric_cgt.CGTGenerator` with scenes.

    To draw a tree with a given label,

    1. its scene is drawn: the label that its tokens speak for, taken
       together, which need not be the label it has;
    2. the token of its root is drawn given label and scene;
    3. for each slot, the number of real children is drawn, and their tokens,
       given the scene. One of them may be a return: the token of the parent
       of their parent, as an edge walked back gives.

    Each of these distributions is a histogram over trees. One tree adds a row
    of length one at most to each of them (:class:`TreeCounts`), and Gaussian
    noise is added to the sums. The rest is arithmetic on noisy sums: what a
    token says of labels, and with it the scene of a tree, comes from the
    noisy histogram of roots; distributions back off to those of lower order by
    as much as they are noise (:meth:`back_off`); and scenes are unfolded
    (:meth:`unfold`), so that drawn trees agree with their labels as often as
    those of the source.

    What is private are the tables of this module, and what is drawn from
    them, for the unit :obj:`"record"`: one computation graph with its label.
    Tokens must be functions of the rows of their nodes and of private centres.

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels, which is also that of scenes.
        num_neighbors (list[int]): The fan-out of each layer.
    """

    label: Tensor  # [C]
    seen: Tensor  # [C, S] the scenes of a label in the source
    scene: Tensor  # [C, S] the scenes to draw trees in
    root: Tensor  # [C, m]
    root_of_label: Tensor  # [C, m] factors of root tokens given label and scene
    root_of_scene: Tensor  # [S, m]
    is_fitted: Tensor

    def __init__(self, num_tokens: int, num_classes: int, num_neighbors: Sequence[int]) -> None:
        super().__init__()
        for name, value in (('num_tokens', num_tokens), ('num_classes', num_classes)):
            if value < 1:
                raise ValueError(f"'{name}' must be at least 1 (got {value})")
        self.num_tokens = num_tokens
        self.num_classes = num_classes
        self.num_scenes = num_classes
        self.shape = TreeShape.of(num_neighbors)
        self._entries = plan_histograms(self.shape.depth)
        sizes = {
            'label': (num_classes,),
            'seen': (num_classes, self.num_scenes),
            'scene': (num_classes, self.num_scenes),
            'root': (num_classes, num_tokens),
            'root_of_label': (num_classes, num_tokens),
            'root_of_scene': (self.num_scenes, num_tokens),
        }
        for layer, fan_out in enumerate(self.shape.num_neighbors, start=1):
            sizes[f'number_{layer}'] = (self.num_scenes, fan_out + 1)
            sizes[f'token_{layer}'] = (self.num_scenes, num_tokens)
            sizes[f'return_{layer}'] = (fan_out + 1,)
        for name, size in sizes.items():
            self.register_buffer(name, torch.zeros(size, dtype=torch.double))
        self.register_buffer('is_fitted', torch.tensor(False))

    @property
    def num_neighbors(self) -> list[int]:
        r"""The fan-out of each layer."""
        return list(self.shape.num_neighbors)

    def entries(self) -> list[Entry]:
        r"""The mechanisms, for a ledger: before :meth:`fit` with their shares
        of the budget and some noise, behind it as they ran.
        """
        return list(self._entries)

    @torch.no_grad()
    def fit(
        self,
        tokens: Tensor,
        y: Tensor,
        entries: Sequence[Entry],
        generator: torch.Generator | None = None,
    ) -> PrivateTreeModel:
        r"""Counts trees with noise.

        Args:
            tokens (torch.Tensor): Token trees, ``[n, T]``.
            y (torch.Tensor): The label of each tree, ``[n]``.
            entries (list[Entry]): Those of :meth:`entries`, with the noise
                that a ledger found; others may be among them.
            generator (torch.Generator, optional): The source of the noise. By
                default, the operating system. Whoever knows the seed of a
                generator can take the noise away again.
                (default: :obj:`None`)
        """
        tokens, y = tokens.cpu().long(), y.cpu().long()
        split = torch.zeros_like(y)
        TokenTrees(tokens, y, split, self.num_tokens, self.num_classes, self.shape).validate()
        self._entries, sigma = with_noise(self._entries, entries)
        size = (self.num_classes, self.num_tokens)

        roots = self._count(y, tokens[:, 0], size, sigma[ROOTS], generator)
        self.root.copy_(back_off(roots, sigma[ROOTS]))
        label = _distribution(roots.sum(dim=1))
        evidence = label_evidence(self.root, label)
        scene = scenes_of(tokens, evidence, self.shape)  # of each tree: not private

        scenes = self._count(y, scene, self.seen.shape, sigma[SCENES], generator)
        joint = _distribution(scenes.view(-1)).view_as(scenes)
        self.label.copy_(joint.sum(dim=1))
        self.seen.copy_(back_off(scenes, sigma[SCENES]))
        joint = self.seen * self.label[:, None]

        scene_roots = self._count(scene, tokens[:, 0], size, sigma[SCENE_ROOTS], generator)
        weight = joint.sum(dim=0)
        label_root = self.root * self.label[:, None]
        prior = self.seen.t() @ label_root / weight.clamp(min=1e-9)[:, None]
        scene_root = back_off(scene_roots, sigma[SCENE_ROOTS], prior) * weight[:, None]

        prior = self.root
        for depth in range(1, self.shape.depth + 1):
            layer = Layer(tokens, self.shape, depth, self.num_tokens)
            prior = self._fit_layer(layer, scene, sigma, prior, generator)
        a, b = couple(joint, label_root, scene_root)
        self.root_of_label.copy_(a)
        self.root_of_scene.copy_(b)
        self.scene.copy_(self.seen)
        self.is_fitted.fill_(True)
        self._unfold(evidence, label_root, generator)
        return self

    def _count(
        self,
        row: Tensor,
        column: Tensor,
        size: Sequence[int],
        sigma: float,
        generator: torch.Generator | None,
    ) -> Tensor:
        r"""A histogram to which each tree adds one count."""
        index = row * size[1] + column
        return noisy_histogram(index, size[0] * size[1], sigma, generator).view(*size).double()

    def _fit_layer(
        self,
        layer: Layer,
        scene: Tensor,
        sigma: dict[str, float],
        prior: Tensor,
        generator: torch.Generator | None,
    ) -> Tensor:
        r"""Numbers and tokens of the children of one layer."""
        depth = layer.layer
        name = numbers(depth)
        noisy = layer.count_numbers(scene, self.num_scenes).noisy(sigma[name], generator)
        self.get_buffer(f'number_{depth}').copy_(back_off(noisy, sigma[name]))
        name = tokens_of_layer(depth)
        noisy = layer.count_tokens(scene, self.num_scenes).noisy(sigma[name], generator)
        tokens = self.get_buffer(f'token_{depth}').copy_(back_off(noisy, sigma[name], prior))
        if depth > 1:
            name = returns(depth)
            noisy = layer.count_returns().noisy(sigma[name], generator)
            self.get_buffer(f'return_{depth}')[1:] = back_off(noisy, sigma[name])[:, 1]
        return tokens

    def _unfold(
        self, evidence: Tensor, label_root: Tensor, generator: torch.Generator | None
    ) -> None:
        r"""Sets the scenes to draw trees in; it looks at drawn trees alone."""

        def look(label: Tensor, scene: Tensor) -> Tensor:
            return scenes_of(self.sample(label, generator, scene), evidence, self.shape)

        repeats = max(16, UNFOLDED_TREES // self.scene.numel())
        for _ in range(UNFOLD_ROUNDS):
            self.scene.copy_(unfold(self.seen, look, repeats))
            joint = self.scene * self.label[:, None]
            self.root_of_label.copy_(couple_again(joint, label_root, self.root_of_scene))

    def draw_scenes(self, y: Tensor, generator: torch.Generator | None = None) -> Tensor:
        r"""Draws a scene per label, ``[B]``.

        Args:
            y (torch.Tensor): The label of each root, ``[B]``.
            generator (torch.Generator, optional): The source of randomness,
                on the device of the model. (default: :obj:`None`)
        """
        self._check_fitted()
        return _draw(self.scene, y.long(), generator)

    @torch.no_grad()
    def sample(
        self,
        y: Tensor,
        generator: torch.Generator | None = None,
        scene: Tensor | None = None,
    ) -> Tensor:
        r"""Draws one token tree per label.

        A root is never null, and nothing real is drawn below a null slot.

        Args:
            y (torch.Tensor): The label of each root, ``[B]``.
            generator (torch.Generator, optional): The source of randomness,
                on the device of the model. (default: :obj:`None`)
            scene (torch.Tensor, optional): The scene of each tree, ``[B]``;
                by default, they are drawn. (default: :obj:`None`)

        Returns:
            Token trees, ``[B, T]``.
        """
        self._check_fitted()
        y = y.long()
        scene = self.draw_scenes(y, generator) if scene is None else scene.long()
        root = torch.empty_like(y)
        for label in y.unique():
            mine = y == label
            rows = token_rows(self.root_of_label[label], self.root_of_scene, self.root[label])
            root[mine] = _draw(rows, scene[mine], generator)
        layers = [root[:, None]]
        for depth in range(1, self.shape.depth + 1):
            layers.append(self._draw_layer(depth, layers, scene, generator))
        return torch.cat(layers, dim=1)

    def _draw_layer(
        self,
        depth: int,
        layers: list[Tensor],
        scene: Tensor,
        generator: torch.Generator | None,
    ) -> Tensor:
        r"""Draws the child slots of the last layer so far, ``[B, P * f]``."""
        parents, fan_out = layers[-1], self.shape.num_neighbors[depth - 1]
        row = scene[:, None].expand_as(parents)
        number = _draw(self.get_buffer(f'number_{depth}'), row, generator)
        number = number.masked_fill(parents == self.num_tokens, 0)
        row = row[:, :, None].expand(-1, -1, fan_out)
        token = _draw(self.get_buffer(f'token_{depth}'), row, generator)  # [B, P, f]
        slot = torch.arange(fan_out, device=token.device)
        if depth > 1:
            chance, place = torch.rand(
                (2, *number.shape), dtype=torch.double, generator=generator, device=number.device
            )
            place = (
                (place * number)
                .long()
                .masked_fill(chance >= self.get_buffer(f'return_{depth}')[number], -1)
            )
            above = layers[-2].repeat_interleave(self.shape.num_neighbors[depth - 2], dim=1)
            token = torch.where(slot == place[:, :, None], above[:, :, None], token)
        return token.masked_fill(slot >= number[:, :, None], self.num_tokens).flatten(1)

    def _check_fitted(self) -> None:
        if not bool(self.is_fitted):
            raise ValueError('The histograms are empty: call fit() first')

    def extra_repr(self) -> str:
        return (
            f'num_tokens={self.num_tokens}, num_classes={self.num_classes}, '
            f'num_neighbors={self.num_neighbors}'
        )


def _distribution(counts: Tensor) -> Tensor:
    r"""Noisy counts, ``[V]``, as a distribution."""
    total = counts.sum().clamp(min=1).view(1)
    return project_to_simplex(counts[None], total)[0] / total


def _draw(table: Tensor, row: Tensor, generator: torch.Generator | None) -> Tensor:
    r"""Draws one column per given row of a table of probabilities."""
    cumulated = table.cumsum(dim=1)
    cumulated = cumulated / cumulated[:, -1:]
    chance = torch.rand(row.shape, dtype=torch.double, generator=generator, device=row.device)
    offset = torch.arange(table.size(0), device=table.device)[:, None]
    ends = (cumulated + offset).flatten()  # each row behind the one before
    found = torch.searchsorted(ends, chance.clamp(max=1 - 1e-9) + row, right=True)
    return found - row * table.size(1)
