r"""Warnings that name the line of the user."""

from __future__ import annotations

import sys
import warnings

PASSED_OVER = ('torch_geometric_cgt', 'torch_geometric', 'contextlib')


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    r"""Issues a warning at the first line on the stack that belongs neither to this package nor
    to PyG, which is the line that the user wrote.

    Args:
        text (str): What is wrong and what to do.
        category (type, optional): The category. (default: :obj:`UserWarning`)
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _package(frame.f_globals) in PASSED_OVER:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


def _package(names: dict[str, object]) -> str:
    return str(names.get('__name__', '')).partition('.')[0]
