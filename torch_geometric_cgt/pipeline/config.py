r"""The configuration of a build: all parameters that its result depends on, and what follows from
them and the source alone.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

import torch

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.models import TreeModel
from torch_geometric_cgt.pipeline.generator_choice import GeneratorChoice
from torch_geometric_cgt.pipeline.plan import PrivatePlan, PublicNumbers
from torch_geometric_cgt.pipeline.promise import DifferentialPrivacy, KAnonymity, Promise
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.training import FitConfig
from torch_geometric_cgt.utils.checks import check_integer, check_memory, use_python_numbers
from torch_geometric_cgt.utils.limits import MAX_LAYERS, MAX_SLOTS
from torch_geometric_cgt.version import __version__

ALL_CANDIDATES, MIN_CANDIDATES, MAX_CANDIDATES = 100_000, 3, 12
MIN_SCENES, SCENES_PER_LABEL = 48, 4
BYTES_PER_TREE = 24  # in memory while trees are generated, which are written to files


@dataclass(frozen=True)
class BuildConfig:
    r"""All parameters that the result of a build depends on.

    Args:
        privacy (KAnonymity or DifferentialPrivacy, optional): The promise.
            (default: :obj:`KAnonymity()`)
        num_neighbors (tuple[int, ...], optional): The fan-out of each layer.
            (default: :obj:`(5, 5)`)
        num_samples (int, optional): The number of generated trees. By default,
            the number of roots of the source. (default: :obj:`None`)
        num_scenes (int, optional): The number of scenes, zero for none. By
            default, it follows from the number of labels.
            (default: :obj:`None`)
        seed (int, optional): The seed of all random draws except noise.
            (default: :obj:`0`)
        generator (dict, optional): The generator and its options, see
            :class:`~torch_geometric_cgt.pipeline.generator_choice.GeneratorChoice`.
            By default, a :class:`~torch_geometric_cgt.nn.CGTGenerator`.
            (default: none)
        fit (FitConfig, optional): How to train. (default: :obj:`FitConfig()`)
    """

    privacy: Promise = field(default_factory=KAnonymity)
    num_neighbors: tuple[int, ...] = (5, 5)
    num_samples: int | None = None
    num_scenes: int | None = None
    seed: int = 0
    generator: dict[str, Any] = field(default_factory=dict)
    fit: FitConfig = field(default_factory=FitConfig)

    def __post_init__(self) -> None:
        use_python_numbers(self)
        check_integer('seed', self.seed, least=None)
        if self.num_samples is not None:
            check_integer('num_samples', self.num_samples)
        if self.num_scenes is not None and self.num_scenes < 0:
            raise ValueError(f"'num_scenes' must not be negative (got {self.num_scenes})")
        if self.private is not None:
            self._check_private()
        object.__setattr__(self, 'generator', self.choice.to_dict())
        self.choice.check(self.num_scenes, self.fit)
        try:  # checks the model arguments before any work, without allocating memory
            with torch.device('meta'):
                self.make_model(1, 1, 1)
        except TypeError as error:
            raise ValueError(f"Unknown argument in 'generator': {error}") from error

    def _check_private(self) -> None:
        r"""Refuses arguments that a differentially private build would ignore."""
        if 'model' in self.generator:
            raise ValueError(
                f'The generator {self.generator["model"]!r} is not differentially private: use it '
                f"with 'k', or choose a private one by 'privacy=DifferentialPrivacy(form=...)'"
            )
        for name in ('num_scenes', 'generator'):
            value = getattr(self, name)
            if value not in (None, {}):
                raise ValueError(
                    f"'{name}' is for k-anonymity (got {value!r}): with 'epsilon', set clusters "
                    f"and the tree model by 'privacy=DifferentialPrivacy(...)'"
                )

    @property
    def private(self) -> DifferentialPrivacy | None:
        r"""The promise, if it is differential privacy."""
        return self.privacy if isinstance(self.privacy, DifferentialPrivacy) else None

    @property
    def choice(self) -> GeneratorChoice:
        r"""The generator."""
        return GeneratorChoice.of(self.generator)

    @property
    def uses_tilt(self) -> bool:
        r"""Whether several candidates are drawn per tree, and one is selected."""
        return self.num_scenes != 0 if self.choice.is_cgt else self.choice.tilt

    @property
    def k_anonymity(self) -> KAnonymity:
        r"""The promise, which must be k-anonymity."""
        assert isinstance(self.privacy, KAnonymity)
        return self.privacy

    @property
    def shape(self) -> TreeShape:
        r"""The geometry of computation graphs."""
        return TreeShape.of(self.num_neighbors)

    def num_scenes_for(self, num_roots: int, num_classes: int) -> int:
        r"""The number of scenes for a graph. Each scene needs at least :math:`k` roots.

        Args:
            num_roots (int): The number of roots.
            num_classes (int): The number of labels.
        """
        k = self.k_anonymity.k
        most = max(1, num_roots // k)
        if self.num_scenes is None:
            return min(most, max(MIN_SCENES, SCENES_PER_LABEL * num_classes))
        if self.num_scenes > most:
            raise ValueError(
                f"'num_scenes' * 'k' must not exceed the number of roots (got {self.num_scenes} * "
                f'{k} > {num_roots}): use at most {most} scenes'
            )
        return self.num_scenes

    def num_candidates_for(self, num_roots: int) -> int:
        r"""The number of candidates per tree of a release: few for large graphs, whose
        build would take too long.

        Args:
            num_roots (int): The number of roots.
        """
        if not self.uses_tilt:
            return 1
        return max(MIN_CANDIDATES, min(MAX_CANDIDATES, ALL_CANDIDATES // num_roots))

    def check(self, num_nodes: int, num_roots: int, num_classes: int) -> None:
        r"""Raises an error if a graph of this size cannot be built.

        Args:
            num_nodes (int): The number of nodes.
            num_roots (int): The number of roots.
            num_classes (int): The number of labels.
        """
        self._check_trees(self.num_samples or num_roots)
        if self.private is not None:
            numbers = PublicNumbers(num_nodes, num_roots, num_classes, self.shape)
            PrivatePlan(numbers, self.private).entries()
            return
        self.k_anonymity.check_groups(num_nodes)
        self.k_anonymity.check_labels(num_classes)
        self._check_roots(num_roots)
        self.num_scenes_for(num_roots, num_classes)

    def _check_trees(self, num_trees: int) -> None:
        r"""Raises an error for trees that no release can have, or that do not fit into memory."""
        depth, size, fan_outs = self.shape.depth, self.shape.num_slots, list(self.num_neighbors)
        if depth > MAX_LAYERS or size > MAX_SLOTS:
            raise ValueError(
                f"'num_neighbors' must make trees of at most {MAX_LAYERS} layers and {MAX_SLOTS:,} "
                f'nodes (got {fan_outs}, which has {depth} layers and {size:,} nodes)'
            )
        check_memory(
            num_trees * BYTES_PER_TREE,
            f'A release of {num_trees:,} trees',
            "use a smaller 'num_samples'",
        )

    def _check_roots(self, num_roots: int) -> None:
        r"""Raises an error if there are too few roots for one scene."""
        k = self.k_anonymity.k
        if num_roots < k and self.choice.uses_scenes and self.num_scenes != 0:
            raise ValueError(
                f'Only {num_roots} nodes of the source have a label, and each scene of the '
                f'generator needs k={k} of them: label more nodes, use a smaller k, or build '
                f"without scenes with generator={{'num_scenes': 0}}, on the command line "
                f"'--num-scenes 0'"
            )

    def make_model(self, num_tokens: int, num_classes: int, num_scenes: int) -> TreeModel:
        r"""The configured generator before it is fitted.

        Args:
            num_tokens (int): The number of clusters.
            num_classes (int): The number of labels.
            num_scenes (int): The number of scenes.
        """
        sizes = (num_tokens, num_classes, self.num_neighbors)
        return self.choice.make(*sizes, num_scenes, self.fit)

    def to_dict(self) -> dict[str, Any]:
        r"""All parameters that the result depends on, for a JSON file."""
        shared = {
            'num_neighbors': list(self.num_neighbors),
            'num_samples': self.num_samples,
            'seed': self.seed,
        }
        if self.private is not None:
            return {**shared, 'private': self.private.to_dict()}
        own = {**self.k_anonymity.to_dict(), **shared, 'num_scenes': self.num_scenes}
        return {**own, 'generator': dict(self.generator), 'fit': self.fit.to_dict()}

    @classmethod
    def from_dict(cls, parameters: dict[str, Any]) -> BuildConfig:
        r"""The inverse of :meth:`to_dict`."""
        own = {**parameters, 'num_neighbors': tuple(parameters['num_neighbors'])}
        if 'private' in own:
            return cls(privacy=DifferentialPrivacy(**own.pop('private')), **own)
        names = KAnonymity.__dataclass_fields__
        promise = {name: own.pop(name) for name in list(own) if name in names}
        if 'fit' in own:
            own['fit'] = FitConfig(**own['fit'])
        return cls(privacy=KAnonymity.from_dict(promise), **own)


def public_numbers(source: Source, config: BuildConfig) -> PublicNumbers:
    r"""The numbers of a source that are assumed to be public.

    Args:
        source (Source): The checked source graph.
        config (BuildConfig): All parameters of the build.
    """
    num_nodes = int(source.data.num_nodes or 0)
    return PublicNumbers(num_nodes, source.num_roots, source.num_classes, config.shape)


def cache_name(source: Source, config: BuildConfig) -> str:
    r"""The folder name of a build. It contains a digest of the source, of all
    parameters and of the version of this package, but not of the device.

    Args:
        source (Source): The checked source graph.
        config (BuildConfig): All parameters of the build.
    """
    recipe: dict[str, Any] = {
        'source': source.fingerprint(),
        'config': config.to_dict(),
        'version': __version__,
    }
    if source.not_carried:  # the card names them
        recipe['not_carried'] = list(source.not_carried)
    digest = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:16]
    fan_outs = 'x'.join(map(str, config.num_neighbors))
    safe_name = ''.join(c if c.isalnum() else '_' for c in source.name)
    private = config.private
    if private is None:
        promise = f'k{config.k_anonymity.k}'
    else:
        promise = f'e{private.epsilon:g}-{private.unit}'
    return f'{safe_name}-{promise}-s{fan_outs}-{digest}'
