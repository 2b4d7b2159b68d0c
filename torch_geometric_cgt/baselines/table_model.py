r"""Modules and tree models that hold tables whose sizes follow from the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from torch_geometric_cgt.models import TreeModel


class Tables(nn.Module):
    r"""A module with tables. A table is a buffer that is empty at first. Loading a
    ``state_dict`` takes over the sizes of its tables.
    """

    _tables: tuple[str, ...] = ()

    def add_tables(self, names: Sequence[str]) -> None:
        r"""Adds empty tables.

        Args:
            names (list[str]): Their names.
        """
        self._tables = (*self._tables, *names)
        for name in names:
            self.register_buffer(name, torch.empty(0))

    def set_tables(self, **tables: Tensor) -> None:
        r"""Sets fitted tables.

        Args:
            **tables (torch.Tensor): The tables by name.
        """
        for name, table in tables.items():
            if name not in self._tables:
                raise ValueError(f"'{name}' is not a table of this module: {self._tables}")
            setattr(self, name, table)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        for name in self._tables:
            given, own = state_dict.get(prefix + name), getattr(self, name)
            if given is not None:
                setattr(self, name, torch.empty_like(given, device=own.device))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


class TableModel(Tables, TreeModel):
    r"""A tree model with fitted tables.

    Args:
        num_tokens (int): The number of clusters. Token :obj:`num_tokens` is
            null.
        num_classes (int): The number of labels.
        num_neighbors (list[int]): The fan-out of each layer.
        tables (list[str], optional): The names of the tables.
            (default: :obj:`()`)
    """

    def __init__(
        self,
        num_tokens: int,
        num_classes: int,
        num_neighbors: Sequence[int],
        tables: Sequence[str] = (),
    ) -> None:
        super().__init__(num_tokens, num_classes, num_neighbors)
        self.add_tables(tables)

    def require_fitted(self) -> None:
        r"""Raises an error before :meth:`fit`."""
        if not any(getattr(self, name).numel() > 0 for name in self._tables):
            raise ValueError('The model is not fitted: call fit() first')
