r"""The cache: a finished build in a folder whose name is its recipe."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.models.forms import FORMS
from torch_geometric_cgt.models.private_model import PrivateTreeModel
from torch_geometric_cgt.nn import CGTGenerator
from torch_geometric_cgt.pipeline.built import Build
from torch_geometric_cgt.pipeline.config import BuildConfig
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.release.release import Release, make_release, read_release, write_release
from torch_geometric_cgt.utils.files import (
    atomic_folder,
    read_sealed_json,
    read_tensors,
    write_sealed_json,
    write_tensors,
)
from torch_geometric_cgt.version import __version__

PRIVATE_TENSORS, PRIVATE_CARD = 'private.safetensors', 'private.json'


@dataclass(frozen=True)
class CachedBuild:
    r"""A release and what stays beside it in the house."""

    release: Release
    generator: CGTGenerator | PrivateTreeModel
    cluster: Tensor  # [N] the group of each source node
    history: dict[str, Any]  # what happened during the fit


def cache_name(source: Source, config: BuildConfig) -> str:
    r"""The folder of a build: every parameter and the content of the source
    are in its digest. The device is not: it does not change what is modelled.
    """
    recipe = {
        'source': source.fingerprint(),
        'config': config.to_dict(),
        'version': __version__,
    }
    digest = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:16]
    fan_outs = 'x'.join(map(str, config.num_neighbors))
    safe_name = ''.join(c if c.isalnum() else '_' for c in source.name)
    private = config.private
    promise = f'k{config.k}' if private is None else f'e{private.epsilon:g}-{private.unit}'
    return f'{safe_name}-{promise}-s{fan_outs}-{digest}'


def write_cache(folder: Path, source: Source, config: BuildConfig, build: Build) -> None:
    r"""Writes a build, all of it or nothing."""
    tensors = {f'generator.{k}': v for k, v in build.generator.state_dict().items()}
    history: dict[str, Any] = {'generator': build.generator.config(), 'fit': build.history}
    if not isinstance(build.generator, CGTGenerator):
        history['form'] = build.generator.form
    with atomic_folder(folder) as draft:
        write_release(draft, make_release(source, config, build))
        write_tensors(draft / PRIVATE_TENSORS, {**tensors, 'cluster': build.cluster})
        write_sealed_json(draft / PRIVATE_CARD, history, [PRIVATE_TENSORS])


def read_cache(folder: Path) -> CachedBuild:
    r"""Reads a build and refuses one that is not whole."""
    release = read_release(folder, verify=False)  # it is ours
    history = read_sealed_json(folder / PRIVATE_CARD)
    tensors = read_tensors(folder / PRIVATE_TENSORS)
    try:
        cluster = tensors.pop('cluster')
        make = FORMS[history['form']] if 'form' in history else CGTGenerator
        generator = make(**history['generator']).eval()
        generator.load_state_dict({k.removeprefix('generator.'): v for k, v in tensors.items()})
        return CachedBuild(release, generator, cluster, history['fit'])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise CorruptFileError(f"'{folder}' does not hold a consistent build: {error}") from error
