r"""Subgraphs from PyG's loaders where their extensions are installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from torch_geometric_cgt.errors import UnsupportedError

T = TypeVar('T')
BACKENDS = ('auto', 'pyg', 'torch')


def check_backend(backend: str) -> None:
    r"""Raises an error unless the backend is one of :obj:`BACKENDS`."""
    if backend not in BACKENDS:
        raise ValueError(
            f"'backend' must be one of {', '.join(map(repr, BACKENDS))} (got {backend!r})"
        )


def from_pyg(make: Callable[[], T], backend: str, needs: str) -> T | None:
    r"""Returns what a loader of PyG makes, or :obj:`None` where plain torch has
    to do without: always for :obj:`'torch'`, and for :obj:`'auto'` where the
    extension is missing, which for :obj:`'pyg'` is an error.
    """
    if backend == 'torch':
        return None
    try:
        return make()
    except ImportError as error:
        if backend == 'auto':
            return None
        raise UnsupportedError(
            f'PyG makes these subgraphs with {needs}, which is not installed; install it, or '
            f"choose the backend 'torch' or 'auto' (PyG says: {error})"
        ) from error
