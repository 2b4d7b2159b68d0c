r"""HTML from templates that share one style."""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from typing import Any


def can_render() -> bool:
    r"""Whether the :obj:`report` extra is installed; warns if it is not."""
    if all(map(importlib.util.find_spec, ('matplotlib', 'jinja2'))):
        return True
    warnings.warn(
        "No HTML without matplotlib and jinja2: pip install 'torch-geometric-cgt[report]'",
        stacklevel=3,
    )
    return False


def render(name: str, **content: Any) -> str:
    r"""Fills a template of this folder; all text in it is escaped.

    Args:
        name (str): The name of the file.
        **content (Any): What the template names.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(name).render(**content)
