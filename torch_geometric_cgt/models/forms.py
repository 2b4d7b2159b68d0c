r"""The private models of token trees, by the names of their forms."""

from __future__ import annotations

from torch_geometric_cgt.models.histograms import PrivateHistograms
from torch_geometric_cgt.models.private_generator import PrivateGenerator

FORMS: dict[str, type[PrivateHistograms] | type[PrivateGenerator]] = {
    model.form: model for model in (PrivateHistograms, PrivateGenerator)
}
