r"""Runs scripts of examples/pyg, each in a process that starts with PyG already imported."""

from __future__ import annotations

import contextlib
import importlib
import io
import multiprocessing
import re
import sys
import time
import warnings
from pathlib import Path
from typing import Any

PRELOADED = ['sklearn.linear_model', 'torch_geometric.nn', 'torch_geometric_cgt.datasets']


def run_script(path: Path, argv: list[str]) -> dict[str, Any]:
    r"""Runs one script. Returns its metric, its score and its processor seconds, or its error.

    Args:
        path (Path): The script.
        argv (list[str]): Its arguments.
    """
    context = multiprocessing.get_context('forkserver')
    context.set_forkserver_preload(PRELOADED)
    with context.Pool(1) as pool:
        return pool.apply(_run, (path, argv))


def _run(path: Path, argv: list[str]) -> dict[str, Any]:
    sys.path.insert(0, str(path.parent))
    shown, started = io.StringIO(), time.process_time()
    found: dict[str, Any] = {}
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(shown):
            warnings.simplefilter('ignore')
            importlib.import_module(path.stem).main(argv)
        metric, score = re.findall(r'^(.*): ([\d.]+)$', shown.getvalue(), flags=re.M)[-1]
        found = {'metric': metric, 'score': float(score)}
    except BaseException as error:  # a script may also end by SystemExit
        text = ' '.join(str(error).split())
        found = {'error': f'{type(error).__name__}: {text}'}
    return {'seconds': round(time.process_time() - started, 1), **found}
