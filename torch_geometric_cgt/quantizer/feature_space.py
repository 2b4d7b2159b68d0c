r"""Feature spaces to cluster in: tf-idf, random projections, and out-of-fold class probabilities of
a linear model, which are also a probe.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from torch_geometric_cgt.utils.distributed import World
from torch_geometric_cgt.utils.linear import fit_linear
from torch_geometric_cgt.utils.rows import (
    csr_matrix,
    row_blocks,
    row_norms,
    rows_per_block,
    scale_rows,
    to_csr,
    work_dtype,
)
from torch_geometric_cgt.utils.scratch import Scratch

MIN_ZEROS = 0.9  # The least share of zeros in a bag of words.
MAX_TRAIN_ROWS = 20_000  # Enough to fit a linear model; all rows are predicted.
MAX_TRAIN_LOGITS = 300_000  # Rows times classes: with many classes, fewer rows are used.
PREDICT_ROWS = 100_000  # Rows predicted at a time.


def is_bag_of_words(x: Tensor, world: World | None = None) -> bool:
    r"""Whether features look like word counts: none is negative, and more than
    nine in ten are zero.

    Args:
        x (torch.Tensor): The features, dense or sparse, ``[N, F]``.
        world (World, optional): The processes, if each of them holds some of
            the rows. (default: :obj:`None`)
    """
    world = world or World()
    nonzero, lowest = 0, 0.0
    for _, _, block in row_blocks(x, rows_per_block(x.size(1))):
        values = block if block.layout == torch.strided else block._values()
        if values.numel():
            nonzero += int(values.count_nonzero())
            lowest = min(lowest, float(values.min()))
    counts = world.gather((nonzero, lowest, x.size(0)))
    nonzero, num_rows = sum(count for count, _, _ in counts), sum(n for _, _, n in counts)
    is_positive = min(value for _, value, _ in counts) >= 0
    return is_positive and nonzero < (1 - MIN_ZEROS) * num_rows * x.size(1)


def tf_idf(x: Tensor, world: World | None = None) -> Tensor:
    r"""Weighs each column by the logarithm of its inverse document frequency
    and scales rows to unit length.

    Args:
        x (torch.Tensor): The bag of words, dense or sparse, ``[N, F]``.
        world (World, optional): The processes, if each of them holds some of
            the rows. (default: :obj:`None`)

    Returns:
        A sparse matrix in CSR layout.
    """
    x = to_csr(x)
    crow, col = x.crow_indices(), x.col_indices()
    value = x.values().to(work_dtype(x.dtype))
    num_rows, num_columns = x.shape
    world = world or World()
    frequency = world.sum(torch.bincount(col[value > 0], minlength=num_columns))
    num_documents = sum(world.gather(num_rows))
    weighted = value * (torch.log((1 + num_documents) / (1 + frequency)) + 1).to(value.dtype)[col]
    row = torch.arange(num_rows, device=x.device).repeat_interleave(crow.diff())
    square = torch.zeros(num_rows, dtype=value.dtype, device=x.device)
    square.index_add_(0, row, weighted.square())
    weighted = weighted / square.sqrt().clamp(min=1e-12)[row]
    return csr_matrix(crow, col, weighted, x.shape)


def random_projection(num_features: int, n_components: int, seed: int = 0) -> Tensor:
    r"""Returns random orthogonal directions, ``[num_features, n_components]``,
    scaled such that projected rows keep their squared length on average. They
    do not depend on the data, so they have no privacy cost.

    Args:
        num_features (int): The number of features.
        n_components (int): The number of directions. If it is not below the
            number of features, the result is the identity matrix.
        seed (int, optional): The seed. (default: :obj:`0`)
    """
    if n_components >= num_features:
        return torch.eye(num_features)
    rng = torch.Generator().manual_seed(seed)
    start = torch.randn(num_features, n_components, generator=rng, dtype=torch.double)
    directions = torch.linalg.qr(start).Q
    return (directions * (num_features / n_components) ** 0.5).float()


def multiply_rows(x: Tensor, right: Tensor) -> Tensor:
    r"""Multiplies dense or sparse rows, ``[n, F]``, with a dense matrix, ``[F, d]``."""
    step = rows_per_block(x.size(1))
    return torch.cat([block @ right.to(block.dtype) for _, _, block in row_blocks(x, step)])


def unit_rows(x: Tensor) -> Tensor:
    r"""Divides each dense or sparse row by its length; rows of zeros stay."""
    return scale_rows(x, 1 / row_norms(x).clamp(min=1e-12))


class RowTable(Protocol):
    r"""Rows that are looked up or computed by their numbers, such as a :class:`torch.Tensor`."""

    def __getitem__(self, index: Any, /) -> Tensor: ...


def out_of_fold_probabilities(
    z: RowTable,
    y: Tensor,
    num_folds: int = 5,
    seed: int = 0,
    world: World | None = None,
    scratch: Scratch | None = None,
) -> np.ndarray:
    r"""Predicts the class of every row with linear models that did not see its
    label. Rows without a label get the mean of all models.

    Args:
        z (torch.Tensor): The reduced features, ``[N, D]``.
        y (torch.Tensor): The labels, ``[N]``, negative where there is none.
        num_folds (int, optional): The number of models. (default: :obj:`5`)
        seed (int, optional): The seed of the folds. (default: :obj:`0`)
        world (World, optional): The processes, if each of them holds its share
            of the rows of :obj:`z`, and all labels. They train one model each.
            (default: :obj:`None`)
        scratch (Scratch, optional): Where to keep the result, if it is large.
            (default: in memory)

    Returns:
        Probabilities, ``[N, C]``, of the labels that occur; with several
        processes, those of the rows of this process.
    """
    world = world or World()
    own = world.share(y.numel())
    labels = y.numpy()
    classes = np.unique(labels[labels >= 0])
    rng = np.random.default_rng(seed)
    fold = np.where(labels >= 0, rng.integers(num_folds, size=len(labels)), -1)
    trained: dict[int, tuple[np.ndarray, Any]] = {}  # the labels and the model of a fold
    for i in range(num_folds):
        train = np.flatnonzero((fold >= 0) & (fold != i))
        train = rng.permutation(train)[: min(MAX_TRAIN_ROWS, MAX_TRAIN_LOGITS // len(classes))]
        if world.size > 1:
            train.sort()  # each process adds a block of rows
        known = np.unique(labels[train])
        if not ((fold == i) | (fold == -1)).any() or known.size == 0:
            continue
        mine = train[(train >= own.start) & (train < own.stop)] - own.start
        rows = world.concatenate(z[mine])
        if i % world.size == world.rank:
            trained[i] = known, _class_model(rows, labels[train]) if known.size > 1 else None
    for other in world.gather(trained):
        trained |= other

    fold = fold[own]
    shape = (len(fold), len(classes))
    total = (scratch or Scratch()).empty(shape, torch.float64).zero_().numpy()
    times = np.zeros((len(fold), 1))
    for i, (known, model) in sorted(trained.items()):
        predicted = np.flatnonzero((fold == i) | (fold == -1))
        columns = np.searchsorted(classes, known)
        if model is None:
            total[predicted[:, None], columns] += 1.0
        elif predicted.size:
            for part in np.array_split(predicted, 1 + predicted.size // PREDICT_ROWS):
                total[part[:, None], columns] += model.predict_proba(z[part].double().numpy())
        times[predicted] += 1
    total /= np.maximum(times, 1)
    return total


def _class_model(rows: Tensor, labels: np.ndarray) -> Any:
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=100, C=0.1))
    fit_linear(model, rows.double().numpy(), labels)
    return model


def center_and_scale(z: Tensor, world: World | None = None) -> tuple[Tensor, Tensor]:
    r"""The mean of all rows, and the square root of their total variance.

    Args:
        z (torch.Tensor): The rows, ``[N, D]``.
        world (World, optional): The processes, if each of them holds some of
            the rows. (default: :obj:`None`)
    """
    if world is None or world.size == 1:
        return z.mean(dim=0), z.var(dim=0, unbiased=False).sum().sqrt().clamp(min=1e-12)
    num_rows = sum(world.gather(z.size(0)))
    mean = world.sum(z.sum(dim=0, dtype=torch.float64)) / num_rows
    blocks = z.split(rows_per_block(2 * z.size(1)))
    square = sum(float((block - mean).square_().sum()) for block in blocks)
    scale = torch.tensor((sum(world.gather(square)) / num_rows) ** 0.5)
    return mean.to(z.dtype), scale.to(z.dtype).clamp(min=1e-12)


def task_space(
    z: Tensor,
    probabilities: np.ndarray,
    weight: float,
    moments: tuple[Tensor, Tensor] | None = None,
    scratch: Scratch | None = None,
) -> Tensor:
    r"""Concatenates features and weighted class probabilities. Features are
    scaled to a total variance of one, so that a weight has the same effect on
    every graph.

    Args:
        z (torch.Tensor): The reduced features, ``[N, D]``.
        probabilities (numpy.ndarray): Class probabilities, ``[N, C]``.
        weight (float): The weight of the probabilities; zero leaves them out.
        moments (tuple[torch.Tensor, torch.Tensor], optional): What
            :meth:`center_and_scale` returned, if :obj:`z` holds some of the
            rows only. (default: :obj:`None`)
        scratch (Scratch, optional): Where to keep the result, if it is large.
            (default: in memory)
    """
    if weight == 0:
        return z
    mean, scale = center_and_scale(z) if moments is None else moments
    extra = torch.from_numpy(probabilities)
    space = (scratch or Scratch()).empty((z.size(0), z.size(1) + extra.size(1)), z.dtype)
    for start in range(0, z.size(0), step := rows_per_block(space.size(1))):
        rows = slice(start, start + step)
        space[rows, : z.size(1)] = (z[rows] - mean) / scale
        space[rows, z.size(1) :] = weight * extra[rows].to(z.dtype)
    return space
