r"""The cache: finished builds in folders that are named after source and parameters."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.models import TREE_MODELS, TransformerModel
from torch_geometric_cgt.pipeline import Build, BuildConfig, Source
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


def cache_name(source: Source, config: BuildConfig) -> str:
    r"""The folder name of a build. It contains a digest of the source, of all
    parameters and of the version of this package, but not of the device.

    Args:
        source (Source): The checked source graph.
        config (BuildConfig): All parameters of the build.
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
    if private is None:
        promise = f'k{config.k_anonymity.k}'
    else:
        promise = f'e{private.epsilon:g}-{private.unit}'
    return f'{safe_name}-{promise}-s{fan_outs}-{digest}'


def write_cache(folder: Path, source: Source, config: BuildConfig, build: Build) -> None:
    r"""Writes a build atomically.

    Args:
        folder (Path): The folder to write.
        source (Source): The checked source graph.
        config (BuildConfig): All parameters of the build.
        build (Build): The build.
    """
    assert build.model is not None and build.cluster is not None
    history: dict[str, Any] = {
        'form': build.model.name,
        'generator': build.model.config(),
        'fit': build.history,
    }
    tensors = {f'model.{name}': value for name, value in build.model.state_dict().items()}
    with atomic_folder(folder) as draft:
        write_release(draft, make_release(source, config, build))
        write_tensors(draft / PRIVATE_TENSORS, {**tensors, 'cluster': build.cluster})
        write_sealed_json(draft / PRIVATE_CARD, history, [PRIVATE_TENSORS])


def read_cache(folder: Path) -> tuple[Release, Build]:
    r"""Reads a build and its release. Raises :class:`CorruptFileError` if files are
    missing, altered or inconsistent.

    Args:
        folder (Path): The folder to read.
    """
    release = read_release(folder, verify=False)  # written by this package, not by a third party
    history = read_sealed_json(folder / PRIVATE_CARD)
    tensors = read_tensors(folder / PRIVATE_TENSORS)
    try:
        cluster = tensors.pop('cluster')
        kind = TREE_MODELS[history.get('form', TransformerModel.name)]
        model = kind(**history['generator']).eval()
        # Version 0.1.0 wrote weights without the prefix 'model.', and no form for a Transformer.
        prefix = 'model.' if any(name.startswith('model.') for name in tensors) else ''
        if not prefix and 'form' in history:
            prefix = 'generator.'
        model.load_state_dict({name.removeprefix(prefix): v for name, v in tensors.items()})
        facts = dict(release.card['privacy'])
        build = Build(
            release.trees,
            release.codebook,
            model,
            cluster,
            facts,
            history['fit'],
            projection=release.projection,
        )
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise CorruptFileError(f"'{folder}' does not hold a consistent build: {error}") from error
    return release, build
