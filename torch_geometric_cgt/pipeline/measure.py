r"""Measurements of k-anonymous clusters, for the card of a release."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_geometric_cgt.quantizer import label_homogeneity


def measure_groups(
    k: int,
    cluster: Tensor,
    y: Tensor,
    tokens: Tensor,
    fan_out: int,
    task_weight: float = 0.0,
    min_support: int | None = None,
    num_clusters: int | None = None,
) -> dict[str, Any]:
    r"""Measures a clustering and the source's computation graphs. Returns the facts
    of a :class:`~torch_geometric_cgt.release.Card`.

    Args:
        k (int): The requested minimum cluster size.
        cluster (torch.Tensor): The cluster of each source node, ``[N]``.
        y (torch.Tensor): The label of each source node, ``[N]``; negative for
            nodes without a label.
        tokens (torch.Tensor): The token tree of each labelled node, ``[n, T]``.
        fan_out (int): The number of child slots of a root.
        task_weight (float, optional): The weight of class probabilities in the
            clustering. (default: :obj:`0.0`)
        min_support (int, optional): The minimum number of source nodes of each
            path of the release. (default: :obj:`None`)
        num_clusters (int, optional): The number of clusters, if some may be
            empty. (default: :obj:`None`)
    """
    sizes = torch.bincount(cluster, minlength=num_clusters or 0)
    labelled = y >= 0
    labels = label_homogeneity(cluster, y.clamp(min=-1))
    children = tokens[:, 1 : 1 + fan_out].sort(dim=1).values
    view = torch.cat([y[labelled, None].to(tokens.dtype), tokens[:, :1], children], dim=1)
    count = count_equal_rows(view)
    return dict(
        k=k,
        k_reached=int(sizes.min()),
        num_clusters=sizes.numel(),
        homogeneous=labels.num_homogeneous,
        l_reached=int(labels.distinct.min()),
        t_closeness=round(float(labels.t_closeness.max()), 4),
        task_weight=round(task_weight, 4),
        unique_share=round(int((count == 1).sum()) / max(1, tokens.size(0)), 4),
        min_support=min_support,
    )


def count_equal_rows(rows: Tensor) -> Tensor:
    r"""Counts each distinct row of non-negative integers. The columns are combined to one key
    per row, because sorting numbers is faster than sorting rows.
    """
    key = torch.zeros(rows.size(0), dtype=torch.long)
    for column in rows.long().t():
        key = key * (1 + column.max()) + column
        key = key.unique(return_inverse=True)[1]
    return torch.bincount(key)
