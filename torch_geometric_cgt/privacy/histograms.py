r"""A private model of token trees: noisy histograms of low order, with back-off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.privacy.back_off import back_off
from torch_geometric_cgt.privacy.coupling import couple, couple_again, token_rows
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
from torch_geometric_cgt.privacy.label_scenes import LabelScenes, count_pairs, draw_columns
from torch_geometric_cgt.privacy.tree_counts import Layer, check_model, check_private_trees

UNFOLD_ROUNDS = 3


class PrivateHistograms(nn.Module):
    r"""Token trees from noisy histograms.

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

    form = 'histograms'

    root_of_label: Tensor  # [C, m] factors of root tokens given label and scene
    root_of_scene: Tensor  # [S, m]
    is_fitted: Tensor

    def __init__(self, num_tokens: int, num_classes: int, num_neighbors: Sequence[int]) -> None:
        super().__init__()
        check_model(num_tokens, num_classes)
        self.num_tokens = num_tokens
        self.num_classes = num_classes
        self.shape = TreeShape.of(num_neighbors)
        self._entries = plan_histograms(self.shape.depth)
        self.scenes = LabelScenes(num_tokens, num_classes, self.shape)
        sizes: dict[str, tuple[int, ...]] = {
            'root_of_label': (num_classes, num_tokens),
            'root_of_scene': (num_classes, num_tokens),
        }
        for layer, fan_out in enumerate(self.shape.num_neighbors, start=1):
            sizes[f'number_{layer}'] = (num_classes, fan_out + 1)
            sizes[f'token_{layer}'] = (num_classes, num_tokens)
            sizes[f'return_{layer}'] = (fan_out + 1,)
        for name, size in sizes.items():
            self.register_buffer(name, torch.zeros(size, dtype=torch.double))
        self.register_buffer('is_fitted', torch.tensor(False))

    @property
    def num_neighbors(self) -> list[int]:
        r"""The fan-out of each layer."""
        return list(self.shape.num_neighbors)

    def config(self) -> dict[str, Any]:
        r"""The arguments that make this model again."""
        return {
            'num_tokens': self.num_tokens,
            'num_classes': self.num_classes,
            'num_neighbors': self.num_neighbors,
        }

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
        device: torch.device | str = 'cpu',
        log: bool = False,
    ) -> PrivateHistograms:
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
            device (torch.device or str, optional): Not used: counting is done
                on the CPU. (default: :obj:`"cpu"`)
            log (bool, optional): Not used: it takes no time worth a progress
                bar. (default: :obj:`False`)
        """
        tokens, y = check_private_trees(self, tokens, y)
        self._entries, sigma = with_noise(self._entries, entries)
        size, scenes = (self.num_classes, self.num_tokens), self.scenes
        scene = scenes.fit(tokens, y, sigma[ROOTS], sigma[SCENES], generator)  # not private

        joint = scenes.seen * scenes.label[:, None]
        noisy = count_pairs(scene, tokens[:, 0], size, sigma[SCENE_ROOTS], generator)
        weight = joint.sum(dim=0)
        label_root = scenes.root * scenes.label[:, None]
        prior = scenes.seen.t() @ label_root / weight.clamp(min=1e-9)[:, None]
        scene_root = back_off(noisy, sigma[SCENE_ROOTS], prior) * weight[:, None]

        prior = scenes.root
        for depth in range(1, self.shape.depth + 1):
            layer = Layer(tokens, self.shape, depth, self.num_tokens)
            prior = self._fit_layer(layer, scene, sigma, prior, generator)
        a, b = couple(joint, label_root, scene_root)
        self.root_of_label.copy_(a)
        self.root_of_scene.copy_(b)
        self.is_fitted.fill_(True)
        rng = torch.Generator().manual_seed(0)  # of draws, which are no secret
        for _ in range(UNFOLD_ROUNDS):
            scenes.unfold(lambda label, scene: self.sample(label, rng, scene))
            joint = scenes.scene * scenes.label[:, None]
            self.root_of_label.copy_(couple_again(joint, label_root, self.root_of_scene))
        return self

    def _fit_layer(
        self,
        layer: Layer,
        scene: Tensor,
        sigma: dict[str, float],
        prior: Tensor,
        generator: torch.Generator | None,
    ) -> Tensor:
        r"""Numbers and tokens of the children of one layer."""
        depth, num_scenes = layer.layer, self.num_classes
        name = numbers(depth)
        noisy = layer.count_numbers(scene, num_scenes).noisy(sigma[name], generator)
        self.get_buffer(f'number_{depth}').copy_(back_off(noisy, sigma[name]))
        name = tokens_of_layer(depth)
        noisy = layer.count_tokens(scene, num_scenes).noisy(sigma[name], generator)
        tokens = self.get_buffer(f'token_{depth}').copy_(back_off(noisy, sigma[name], prior))
        if depth > 1:
            name = returns(depth)
            noisy = layer.count_returns().noisy(sigma[name], generator)
            self.get_buffer(f'return_{depth}')[1:] = back_off(noisy, sigma[name])[:, 1]
        return tokens

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
        if not bool(self.is_fitted):
            raise ValueError('The histograms are empty: call fit() first')
        y = y.long()
        scene = self.scenes.draw(y, generator) if scene is None else scene.long()
        root = torch.empty_like(y)
        for label in y.unique():
            mine = y == label
            rest = self.scenes.root[label]
            rows = token_rows(self.root_of_label[label], self.root_of_scene, rest)
            root[mine] = draw_columns(rows, scene[mine], generator)
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
        number = draw_columns(self.get_buffer(f'number_{depth}'), row, generator)
        number = number.masked_fill(parents == self.num_tokens, 0)
        row = row[:, :, None].expand(-1, -1, fan_out)
        token = draw_columns(self.get_buffer(f'token_{depth}'), row, generator)  # [B, P, f]
        slot = torch.arange(fan_out, device=token.device)
        if depth > 1:
            chance, place = torch.rand(
                (2, *number.shape), dtype=torch.double, generator=generator, device=number.device
            )
            back = chance < self.get_buffer(f'return_{depth}')[number]
            place = (place * number).long().masked_fill(~back, -1)
            above = layers[-2].repeat_interleave(self.shape.num_neighbors[depth - 2], dim=1)
            token = torch.where(slot == place[:, :, None], above[:, :, None], token)
        return token.masked_fill(slot >= number[:, :, None], self.num_tokens).flatten(1)

    def extra_repr(self) -> str:
        return ', '.join(f'{name}={value}' for name, value in self.config().items())
