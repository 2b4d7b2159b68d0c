r"""What a build leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from torch_geometric_cgt.data import TokenTrees
from torch_geometric_cgt.models.private_model import PrivateTreeModel
from torch_geometric_cgt.nn import CGTGenerator


@dataclass(frozen=True)
class Build:
    r"""What a build leaves behind; clusters and weights stay in the house."""

    trees: TokenTrees
    codebook: Tensor
    facts: dict[str, Any]  # of the card
    cluster: Tensor
    generator: CGTGenerator | PrivateTreeModel
    history: dict[str, Any]  # what happened during the fit
    seconds: dict[str, float]  # that each phase took, in the run that finished it
    seen: dict[str, Tensor] = field(default_factory=dict)  # private results that it was made of
    projection: Tensor | None = None  # [F, d] of features, where codewords are projected
