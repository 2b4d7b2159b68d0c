r"""Working memory for large tables of rows: in memory, or in a mapped file that has no name."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from torch_geometric_cgt.utils.files import require_writable

MAP_FROM = 1 << 26  # bytes; smaller tables are in memory


@dataclass(frozen=True)
class Scratch:
    r"""Where large tables are kept while they are needed.

    A mapped table is a file. The system writes its pages to the disk if it needs the
    memory for something else. The file is deleted before it is used, so that
    its space is free again when the table is no longer needed, even if the process is
    killed.

    Args:
        folder (Path, optional): A folder on a disk with enough space. By default,
            all tables are in memory. (default: :obj:`None`)
    """

    folder: Path | None = None

    def maps(self, shape: Sequence[int], dtype: torch.dtype) -> bool:
        r"""Whether a table of this shape and type is mapped."""
        return self.folder is not None and math.prod(shape) * dtype.itemsize >= MAP_FROM

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        r"""A table with arbitrary content, on the CPU.

        Args:
            shape (tuple[int, ...]): The shape.
            dtype (torch.dtype): The type.
        """
        if self.folder is None or not self.maps(shape, dtype):
            return torch.empty(tuple(shape), dtype=dtype)
        require_writable(self.folder)
        own = Path(tempfile.mkdtemp(prefix='scratch-', dir=self.folder))
        try:
            size = math.prod(shape)
            with open(own / 'rows', 'wb') as file:
                # Otherwise a full disk would end the process by a signal, in the middle of a write.
                os.posix_fallocate(file.fileno(), 0, size * dtype.itemsize)
            path = str(own / 'rows')
            return torch.from_file(path, shared=True, size=size, dtype=dtype).view(tuple(shape))
        finally:
            shutil.rmtree(own)
