r"""The generator of a k-anonymous build: the Computation Graph Transformer or another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch_geometric_cgt.baselines import BASELINES
from torch_geometric_cgt.models import TransformerModel, TreeModel
from torch_geometric_cgt.training import FitConfig

CGT = 'CGT'
GENERATORS: dict[str, type[TreeModel]] = {CGT: TransformerModel, **BASELINES}


@dataclass(frozen=True)
class GeneratorChoice:
    r"""A generator by name, with its options.

    Args:
        name (str, optional): One of :obj:`GENERATORS`. (default: :obj:`"CGT"`)
        tilt (bool, optional): Whether another generator than CGT draws several
            candidates per tree, of which the view tilt selects one. CGT does so
            unless it has no scenes. (default: :obj:`False`)
        options (dict, optional): Further arguments of the generator.
            (default: none)
    """

    name: str = CGT
    tilt: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, generator: dict[str, Any]) -> GeneratorChoice:
        r"""Reads the argument :obj:`generator` of a dataset: the keys :obj:`model` and
        :obj:`tilt`, and arguments of the generator.

        Args:
            generator (dict): The argument.
        """
        options = dict(generator)
        given = options.pop('model', CGT)
        names = {name.lower(): name for name in GENERATORS}
        name = names.get(given.lower()) if isinstance(given, str) else None
        if name is None:
            raise ValueError(
                f"Unknown model {given!r} in 'generator'; choose from {', '.join(GENERATORS)}"
            )
        if name == CGT and 'tilt' in options:
            raise ValueError(
                "'tilt' in 'generator' is for other generators: CGT selects candidates unless "
                "'num_scenes' is 0"
            )
        tilt = options.pop('tilt', False)
        if not isinstance(tilt, bool):
            raise ValueError(f"'tilt' in 'generator' must be True or False (got {tilt!r})")
        return cls(name, tilt, options)

    @property
    def is_cgt(self) -> bool:
        r"""Whether this is the Computation Graph Transformer."""
        return self.name == CGT

    @property
    def uses_scenes(self) -> bool:
        r"""Whether the generator conditions trees on scenes."""
        return GENERATORS[self.name].uses_scenes

    def to_dict(self) -> dict[str, Any]:
        r"""The inverse of :meth:`of`. CGT is the default and has no name."""
        if self.is_cgt:
            return dict(self.options)
        return {'model': self.name, **({'tilt': True} if self.tilt else {}), **self.options}

    def facts(self) -> dict[str, Any]:
        r"""The facts of a card: the name of another generator than CGT, and whether it
        releases whole trees of the source.
        """
        if self.is_cgt:
            return {}
        copies = {'copies_trees': True} if GENERATORS[self.name].copies_trees else {}
        return {'generator': self.name, **copies}

    def check(self, num_scenes: int | None, fit: FitConfig) -> None:
        r"""Refuses arguments that another generator than CGT would ignore.

        Args:
            num_scenes (int, optional): The number of scenes.
            fit (FitConfig): How to train CGT.
        """
        if self.is_cgt:
            return
        if num_scenes and not self.uses_scenes:
            names = [name for name, model in GENERATORS.items() if model.uses_scenes]
            raise ValueError(
                f"'num_scenes' is for {' and '.join(names)} (got {num_scenes} for '{self.name}'): "
                f'other generators are not conditioned on scenes'
            )
        if fit.to_dict() != FitConfig().to_dict():
            raise ValueError(
                f"'fit' is for CGT: give the options of '{self.name}' in 'generator', such as "
                f"{{'model': '{self.name}', ...}} (got {fit})"
            )

    def make(
        self,
        num_tokens: int,
        num_classes: int,
        num_neighbors: Sequence[int],
        num_scenes: int,
        fit: FitConfig,
    ) -> TreeModel:
        r"""A model that is not fitted yet.

        Args:
            num_tokens (int): The number of clusters.
            num_classes (int): The number of labels.
            num_neighbors (list[int]): The fan-out of each layer.
            num_scenes (int): The number of scenes, for CGT.
            fit (FitConfig): How to train, for CGT.
        """
        sizes = (num_tokens, num_classes, num_neighbors)
        if self.is_cgt:
            return TransformerModel(*sizes, fit, num_scenes=num_scenes, **self.options)
        return GENERATORS[self.name](*sizes, **self.options)
