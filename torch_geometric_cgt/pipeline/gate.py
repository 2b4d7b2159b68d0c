r"""The gate of a private build: data go to stages that pay for them, and to nobody else."""

from __future__ import annotations

from collections.abc import Sequence

from torch_geometric_cgt.errors import LedgerError
from torch_geometric_cgt.pipeline.source import Source
from torch_geometric_cgt.privacy import Entry, Ledger


class Gate:
    r"""Holds the source of a private build. A stage gets it together with the
    entries that pay for looking at it; a stage without an entry gets nothing.

    Args:
        source (Source): The checked source graph.
        ledger (Ledger): What is paid for.
        stages (list[str]): The stages that will ask. All of them must have an
            entry before the first one may look.
    """

    def __init__(self, source: Source, ledger: Ledger, stages: Sequence[str]) -> None:
        self._source = source
        self._ledger = ledger
        for stage in stages:
            self.entries(stage)

    def entries(self, *stages: str) -> list[Entry]:
        r"""The entries of some stages; each must have one.

        Args:
            *stages (str): The names of the stages.
        """
        paid = {entry.stage for entry in self._ledger.entries}
        if missing := [stage for stage in stages if stage not in paid]:
            raise LedgerError(
                f'These stages ask for the data, but have no entry in the ledger: '
                f'{", ".join(missing)}. There is no guarantee without them'
            )
        return [entry for entry in self._ledger.entries if entry.stage in stages]

    def open(self, *stages: str) -> tuple[Source, list[Entry]]:
        r"""The source, and the entries that pay for some stages.

        Args:
            *stages (str): The names of the stages.
        """
        entries = self.entries(*stages)
        return self._source, entries
