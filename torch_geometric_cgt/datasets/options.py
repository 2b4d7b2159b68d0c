r"""The keyword arguments of a synthetic dataset, including deprecated ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, TypedDict

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.errors import BudgetError
from torch_geometric_cgt.pipeline import BuildConfig, DifferentialPrivacy, KAnonymity, Promise
from torch_geometric_cgt.training import FitConfig
from torch_geometric_cgt.utils.run_limits import Limits
from torch_geometric_cgt.utils.warn import warn_user

K_ANONYMITY = ('l', 'min_support', 'num_clusters', 'task_weight', 'cluster_epsilon')
# Fields of KAnonymity that the command line sets by name. A dataset takes a KAnonymity object.
PROTECTION = (
    'min_value_support',
    'rounding',
    'graph_profile',
    'accept_no_anonymity',
    'accept_one_group',
)
DEPRECATED = {  # deprecated argument, replacement
    **{name: f'privacy=KAnonymity({name}=...)' for name in K_ANONYMITY},
    'private_args': 'privacy=DifferentialPrivacy(...)',
    'num_scenes': "generator={'num_scenes': ...}",
    'generator_args': 'generator=...',
    'fit_config': 'fit=...',
    'resume': 'fit=FitConfig(resume=...)',
}


class Options(TypedDict, total=False):
    r"""The further keyword arguments of a synthetic dataset."""

    privacy: Promise | None
    generator: dict[str, Any] | None
    fit: FitConfig | None
    pre_transform: Callable | None
    pre_filter: Callable | None
    limits: Limits | None


def make_config(
    k: int | None,
    epsilon: float | None,
    delta: float | None,
    num_neighbors: Sequence[int],
    num_samples: int | None,
    seed: int,
    options: dict[str, Any],
) -> BuildConfig:
    r"""Creates the configuration of a build from the arguments of a dataset.

    Args:
        k (int, optional): The minimum size of a cluster.
        epsilon (float, optional): The budget of differential privacy.
        delta (float, optional): The failure probability.
        num_neighbors (list[int]): The fan-out of each layer.
        num_samples (int, optional): The number of generated trees.
        seed (int): The seed.
        options (dict): The arguments :obj:`privacy`, :obj:`generator` and
            :obj:`fit`, and deprecated arguments. :obj:`pre_transform` and
            :obj:`limits` do not change the build, and :obj:`pre_filter` must be
            :obj:`None`.
    """
    known = {*Options.__annotations__, *DEPRECATED}
    for name in options:
        if name not in known:
            raise TypeError(
                f"SyntheticCGTDataset.__init__() got an unexpected keyword argument '{name}'"
            )
        if name in DEPRECATED:
            warn_user(
                f"'{name}' is deprecated: use '{DEPRECATED[name]}'",
                DeprecationWarning,
            )
    if options.get('pre_filter') is not None:
        raise ValueError(
            "'pre_filter' chooses among graphs, and this dataset has one: select nodes of the "
            "source before the build, or trees with 'dataset.trees.select(index)'"
        )
    generator = _one_of(options, 'generator', 'generator_args') or {}
    if not isinstance(generator, dict):
        raise ValueError(
            f"'generator' must be a dictionary (got {generator!r}): {{'model': {generator!r}}}, or "
            f'arguments of the generator'
        )
    generator = dict(generator)
    num_scenes = generator.pop('num_scenes', None)
    if options.get('num_scenes') is not None:
        num_scenes = options['num_scenes']
    fit = _one_of(options, 'fit', 'fit_config') or FitConfig()
    _check_type('fit', fit, FitConfig, 'FitConfig(epochs=2)')
    _check_type('limits', options.get('limits'), Limits, 'Limits(seconds=600)')
    if 'resume' in options:
        fit = replace(fit, resume=options['resume'])
    privacy = make_promise(k, epsilon, delta, options)
    return BuildConfig(
        privacy=privacy,
        num_neighbors=TreeShape.of(num_neighbors).num_neighbors,
        num_samples=num_samples,
        num_scenes=num_scenes,
        seed=seed,
        generator=generator,
        fit=fit,
    )


def make_promise(
    k: int | None, epsilon: float | None, delta: float | None, options: dict[str, Any]
) -> Promise:
    r"""Creates the promise of a build from the arguments of a dataset.

    Args:
        k (int, optional): The minimum size of a cluster.
        epsilon (float, optional): The budget of differential privacy.
        delta (float, optional): The failure probability.
        options (dict): The argument :obj:`privacy`, or the deprecated arguments
            for its fields.
    """
    names = (*K_ANONYMITY, *PROTECTION)
    clusters: dict[str, Any] = {name: options[name] for name in names if name in options}
    private = options.get('private_args')
    privacy = options.get('privacy')
    if privacy is not None:
        short = {'k': k, 'epsilon': epsilon, 'delta': delta, 'private_args': private, **clusters}
        if given := [name for name, value in short.items() if value is not None]:
            raise ValueError(
                f"Give 'privacy' or {given}, not both: a {type(privacy).__name__} object contains "
                f'all parameters of the promise'
            )
        if not isinstance(privacy, (KAnonymity, DifferentialPrivacy)):
            raise ValueError(
                f"'privacy' must be a KAnonymity or DifferentialPrivacy object "
                f"(got '{type(privacy).__name__}')"
            )
        return privacy
    if epsilon is None:
        if delta is not None or private:
            raise BudgetError(
                f"'delta' and 'private_args' are for differential privacy: give an 'epsilon' "
                f'(got delta={delta}, private_args={private})'
            )
        return KAnonymity(**clusters) if k is None else KAnonymity(k, **clusters)
    if k is not None:
        raise ValueError(
            f"'k' is for k-anonymity (got k={k} and epsilon={epsilon:g}): a private codebook has "
            f'no minimum cluster size. Give one of the two'
        )
    if clusters.get('cluster_epsilon') is not None:
        raise ValueError(
            f"'cluster_epsilon' is for builds without 'epsilon' (got "
            f"{clusters['cluster_epsilon']}): the budget 'epsilon' includes the clusters"
        )
    for name in ('num_clusters', 'l', 'min_support', *PROTECTION):
        if clusters.get(name) is not None:
            raise ValueError(
                f"'{name}' is for k-anonymity (got {clusters[name]!r}): with 'epsilon', set "
                f"clusters and the tree model by 'privacy=DifferentialPrivacy(...)'"
            )
    known = [f.name for f in fields(DifferentialPrivacy) if f.name not in ('epsilon', 'delta')]
    if unknown := sorted(set(private or {}) - set(known)):
        raise ValueError(f"Unknown arguments {unknown} in 'private_args'; choose from {known}")
    return DifferentialPrivacy(epsilon, delta, **(private or {}))


def _check_type(name: str, value: Any, kind: type, example: str) -> None:
    r"""Raises an error for an argument that must be an object of a class, or :obj:`None`."""
    if value is not None and not isinstance(value, kind):
        raise ValueError(
            f"'{name}' must be a {kind.__name__} object, e.g. {example} (got {value!r} of type "
            f"'{type(value).__name__}')"
        )


def _one_of(options: dict[str, Any], new: str, old: str) -> Any:
    r"""The value of an argument under its new or its old name."""
    if options.get(new) is not None and options.get(old) is not None:
        raise ValueError(f"Give '{new}' or '{old}', not both: they are the same argument")
    return options.get(new) if options.get(new) is not None else options.get(old)
