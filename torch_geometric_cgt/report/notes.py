r"""Notes: what a person says about an experiment, for instance what was tried where it missed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from torch_geometric_cgt.benchmark.experiments import DATASETS, find_experiment
from torch_geometric_cgt.datasets import SOURCES

HEADING = '## '


@dataclass(frozen=True)
class Note:
    r"""Text about an experiment, or about one dataset in it."""

    experiment: str
    dataset: str  # empty for all
    text: str

    @property
    def paragraphs(self) -> list[str]:
        r"""The text in pieces that are set apart by empty lines."""
        return [' '.join(part.split()) for part in self.text.split('\n\n') if part.strip()]


def read_notes(path: Path, experiments: Collection[str] = ()) -> list[Note]:
    r"""Reads a Markdown file whose headings are ``## experiment`` or ``##
    experiment, dataset``. What stands above the first of them is left out.

    Args:
        path (Path): The file.
        experiments (list[str], optional): Names of experiments that are not
            planned and have notes as well. (default: :obj:`()`)
    """
    out: list[Note] = []
    blocks = ('\n' + path.read_text(encoding='utf-8')).split('\n' + HEADING)[1:]
    for block in blocks:
        heading, _, text = block.partition('\n')
        name, _, dataset = (part.strip() for part in heading.partition(','))
        try:
            experiment = name if name in experiments else find_experiment(name).name
        except ValueError as error:
            raise ValueError(f"Heading '{HEADING}{heading}' of '{path}': {error}") from error
        if dataset and dataset not in {*DATASETS, *SOURCES}:
            raise ValueError(
                f"Heading '{HEADING}{heading}' of '{path}': unknown dataset '{dataset}'; choose "
                f'from {sorted({*DATASETS, *SOURCES})}'
            )
        if text.strip():
            out.append(Note(experiment, dataset, text.strip()))
    return out
