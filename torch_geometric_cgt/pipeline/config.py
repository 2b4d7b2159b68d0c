r"""Every parameter of a build."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.models.min_support import check_min_support
from torch_geometric_cgt.nn import CGTGenerator
from torch_geometric_cgt.pipeline.private_config import PrivateConfig
from torch_geometric_cgt.pipeline.private_plan import PrivatePlan, PublicNumbers
from torch_geometric_cgt.training import FitConfig
from torch_geometric_cgt.transforms import Quantize

MIN_SCENES, SCENES_PER_LABEL = 48, 4


@dataclass(frozen=True)
class BuildConfig:
    r"""Every parameter that the result of a build depends on."""

    k: int = 30
    num_clusters: int | None = None
    l: int | None = None  # noqa: E741
    task_weight: float | str | None = 'auto'
    num_neighbors: tuple[int, ...] = (5, 5)
    num_samples: int | None = None
    num_scenes: int | None = None
    min_support: int | None = None
    seed: int = 0
    generator: dict[str, Any] = field(default_factory=dict)
    fit: FitConfig = field(default_factory=FitConfig)
    private: PrivateConfig | None = None
    cluster_epsilon: float | None = None  # of the codebook; all else is not private

    def __post_init__(self) -> None:
        self.quantize()
        if self.num_samples is not None and self.num_samples < 1:
            raise ValueError(f"'num_samples' must be at least 1 (got {self.num_samples})")
        if self.num_scenes is not None and self.num_scenes < 0:
            raise ValueError(f"'num_scenes' must not be negative (got {self.num_scenes})")
        if self.min_support is not None:
            check_min_support(self.min_support)
        if self.private is not None:
            self._check_private()
        if 'num_scenes' in self.generator:
            raise ValueError("Give 'num_scenes' to the dataset, not in 'generator_args'")
        try:  # refuse wrong model arguments before any work, without memory
            with torch.device('meta'):
                self.make_generator(1, 1, 1)
        except TypeError as error:
            raise ValueError(f"Unknown argument in 'generator_args': {error}") from error

    def _check_private(self) -> None:
        r"""Refuses arguments that a differentially private build would not look at."""
        if self.cluster_epsilon is not None:
            raise ValueError(
                f"'cluster_epsilon' is for clusters alone (got {self.cluster_epsilon}): 'epsilon' "
                f'pays for them as well'
            )
        for name in ('num_clusters', 'l', 'num_scenes', 'min_support', 'generator'):
            value = getattr(self, name)
            if value not in (None, {}):
                name = 'generator_args' if name == 'generator' else name
                raise ValueError(
                    f"'{name}' is for k-anonymity (got {value!r}): with 'epsilon', clusters and "
                    f"the model of trees are set by 'private_args'"
                )

    @property
    def shape(self) -> TreeShape:
        return TreeShape.of(self.num_neighbors)

    def quantize(self, device: torch.device | str = 'cpu') -> Quantize:
        r"""The quantization that was asked for."""
        if self.cluster_epsilon is not None:  # clusters of any size, found without a task
            return Quantize(
                1,
                self.num_clusters,
                method='dp',
                epsilon=self.cluster_epsilon,
                seed=stage_seed(self.seed, 'quantize'),
                l=self.l,
                task_weight=None if self.task_weight == 'auto' else self.task_weight,
                device=device,
            )
        return Quantize(
            self.k,
            self.num_clusters,
            seed=stage_seed(self.seed, 'quantize'),
            l=self.l,
            task_weight=self.task_weight,
            device=device,
        )

    def num_scenes_for(self, num_roots: int, num_classes: int) -> int:
        r"""The number of scenes: as asked for, as far as each has :math:`k` roots."""
        most = max(1, num_roots // self.k)
        if self.num_scenes is None:
            return min(most, max(MIN_SCENES, SCENES_PER_LABEL * num_classes))
        if self.num_scenes > most:
            raise ValueError(
                f"'num_scenes' * 'k' must not exceed the number of roots (got {self.num_scenes} * "
                f'{self.k} > {num_roots}): use at most {most} scenes'
            )
        return self.num_scenes

    def check(self, num_nodes: int, num_roots: int, num_classes: int) -> None:
        r"""Refuses what cannot be built from a graph of this size, before any work."""
        if self.private is not None:
            numbers = PublicNumbers(num_nodes, num_roots, num_classes, self.shape)
            PrivatePlan(numbers, self.private).entries()
            return
        self.quantize().num_clusters_for(num_nodes)
        self.num_scenes_for(num_roots, num_classes)

    def make_generator(self, num_tokens: int, num_classes: int, num_scenes: int) -> CGTGenerator:
        r"""The model that was asked for, with fresh weights."""
        return CGTGenerator(
            num_tokens, num_classes, self.num_neighbors, num_scenes=num_scenes, **self.generator
        )

    def to_dict(self) -> dict[str, Any]:
        r"""All parameters, for a JSON file; not how they are carried out."""
        own = {**asdict(self), 'num_neighbors': list(self.num_neighbors)}
        own['fit'] = self.fit.to_dict()
        if self.private is None:  # builds without a rule keep the names they had before it
            optional = ('min_support', 'cluster_epsilon', 'private')
            new = [name for name in optional if own[name] is None]
            return {name: value for name, value in own.items() if name not in new}
        own['private'] = self.private.to_dict()
        used = ('num_neighbors', 'num_samples', 'seed', 'private')  # the rest has no part in it
        return {name: own[name] for name in used}

    @classmethod
    def from_dict(cls, parameters: dict[str, Any]) -> BuildConfig:
        r"""The inverse of :meth:`to_dict`."""
        own = {**parameters, 'num_neighbors': tuple(parameters['num_neighbors'])}
        for name, kind in (('fit', FitConfig), ('private', PrivateConfig)):
            if name in own:
                own[name] = kind(**own[name])
        return cls(**own)


def stage_seed(seed: int, stage: str) -> int:
    r"""An independent seed for each stage of a build."""
    return int.from_bytes(hashlib.sha256(f'{seed}/{stage}'.encode()).digest()[:4], 'big')
