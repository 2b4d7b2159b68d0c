r"""Raw files of the Open Graph Benchmark, downloaded with the help of its package."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from zipfile import BadZipFile

from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.utils.files import require_writable


def download(name: str, folder: Path, missing: Sequence[str]) -> None:
    r"""Downloads what is missing of a graph, without a question.

    The package :obj:`ogb` knows the addresses and loads the files; it neither
    processes them nor asks on the terminal.

    Args:
        name (str): The name of the graph in OGB, *e.g.*, :obj:`"ogbn-arxiv"`.
        folder (Path): Where the files belong.
        missing (list[str]): The paths of the missing files below the folder.
    """
    where = f"'{folder}' lacks {', '.join(missing)} of '{name}'"
    try:
        from ogb.utils.url import download_url, extract_zip
    except ImportError as error:
        raise SourceError(
            f"{where}, and 'ogb', which downloads them, is not installed: run "
            f"pip install 'torch-geometric-cgt[ogb]', or set $CGT_DATA_ROOT to a folder "
            f"that has '{folder.name}/{missing[0]}' and the others"
        ) from error
    require_writable(folder)
    with tempfile.TemporaryDirectory(prefix='.download-', dir=folder) as draft:
        try:
            url, archive = _address(name)
            extract_zip(download_url(url, draft, log=False), draft, log=False)
            for file in missing:
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                os.replace(Path(draft) / archive / file, folder / file)
        except (OSError, RuntimeError, KeyError, BadZipFile) as error:
            raise SourceError(
                f'{where}, and downloading them failed: {type(error).__name__}: {error}'
            ) from error


def _address(name: str) -> tuple[str, str]:
    r"""The address of a graph and the folder in its archive, as OGB lists them."""
    table = resources.files('ogb') / 'nodeproppred' / 'master.csv'
    lines = table.read_text(encoding='utf-8').splitlines()
    facts = {row['']: row[name] for row in csv.DictReader(lines)}
    return facts['url'], facts['download_name']
