r"""Columns of a table as features: numbers, booleans, lists of numbers, and one-hot values."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from torch_geometric_cgt.datasets.reading import Decision, shown
from torch_geometric_cgt.datasets.table_files import is_boolean
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.utils.checks import check_positive

if TYPE_CHECKING:
    import pandas as pd

MISSING_RULES = ('error', 'mean')
MAX_VALUES = 100  # distinct values of a one-hot column
FEW_VALUES = 20  # a column with more values, most of them of one row only, is an identifier
TEXT_WORDS = 4  # mean number of words of free text
NUMBER_WITH_COMMAS = r'[+-]?\d+(,\d+)+'
DATE = r'\d{4}-\d{1,2}-\d{1,2}([T ].*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}'
MANY_SCALES = 20.0  # ratio of standard deviations at which the largest column hides the others


@dataclass(frozen=True)
class EncodingOptions:
    r"""How columns become features.

    Args:
        categorical (tuple[str, ...], optional): Columns of numbers that are
            one-hot encoded. (default: :obj:`()`)
        missing (str, optional): What to do with missing numbers:
            :obj:`"error"`, or :obj:`"mean"` to fill in the mean of the column.
            (default: :obj:`"error"`)
        standardize (bool, optional): Whether columns of numbers get mean 0 and
            standard deviation 1. (default: :obj:`False`)
        max_values (int, optional): The largest number of distinct values of a
            one-hot column. (default: :obj:`100`)
    """

    categorical: tuple[str, ...] = ()
    missing: str = 'error'
    standardize: bool = False
    max_values: int = MAX_VALUES

    def __post_init__(self) -> None:
        if self.missing not in MISSING_RULES:
            raise ValueError(f"'missing' must be one of {MISSING_RULES} (got {self.missing!r})")
        check_positive('max_values', self.max_values)


@dataclass(frozen=True)
class Encoded:
    r"""The features of some columns.

    Args:
        values (numpy.ndarray): The features, ``[N, F]``.
        names (tuple[str, ...]): The name of each feature.
        decisions (tuple[Decision, ...]): How each column was encoded.
        notes (tuple[str, ...]): What the owner should look at.
    """

    values: np.ndarray
    names: tuple[str, ...]
    decisions: tuple[Decision, ...]
    notes: tuple[str, ...] = ()


def encode_columns(
    table: pd.DataFrame, columns: Collection[str], where: str, options: EncodingOptions
) -> Encoded:
    r"""Encodes columns, in their order. Raises :class:`SourceError` for a column
    that is neither numbers, booleans nor categories.

    Args:
        table (pandas.DataFrame): The table.
        columns (list[str]): The columns to encode.
        where (str): The name of the file, for messages.
        options (EncodingOptions): How to encode.
    """
    if unknown := [name for name in options.categorical if name not in table.columns]:
        raise SourceError(f"'{where}' has no column {unknown}; its columns are {_names(table)}")
    parts: list[np.ndarray] = []
    names: list[str] = []
    numeric: dict[str, np.ndarray] = {}
    boolean: list[str] = []
    filled: list[str] = []
    other: list[Decision] = []
    lost: dict[str, int] = {}
    for name in columns:
        column = table[name]
        if name not in options.categorical and (kind := _numbers(column, name, where)) is not None:
            values, kind_name = kind
            if missing := int(np.isnan(values).any(axis=1).sum()):
                lost[name] = missing
                if options.missing == 'mean' and missing < len(values):
                    mean = np.nanmean(values, axis=0)
                    values = np.where(np.isnan(values), mean, values)
                    filled.append(f'{name} ({missing:,})')
            if not np.isfinite(values[~np.isnan(values)]).all():
                raise SourceError(f"Column '{name}' of '{where}' has infinite values")
            if kind_name == 'boolean':
                boolean.append(name)
            else:
                numeric[name] = values
            parts.append(values)
            width = values.shape[1]
            names += [name] if width == 1 else [f'{name}[{i}]' for i in range(width)]
            continue
        chosen = name in options.categorical
        values, found, empty = _one_hot(column, name, where, options.max_values, chosen)
        parts.append(values)
        names += [f'{name}={value}' for value in found]
        nothing = f'; {empty:,} empty cells have no value' if empty else ''
        detail = f'{len(found)} values ({shown(found)}){nothing}'
        other.append(Decision('one-hot', (name,), detail))
    if lost and options.missing == 'error':
        some = ', '.join(f"'{name}' in {count:,} rows" for name, count in lost.items())
        raise SourceError(
            f"Numbers are missing in '{where}': {some}. Fill them in, leave the columns out "
            f"('--drop COLUMN'), or use the mean of the column ('--missing mean')"
        )
    if entirely := [name for name, count in lost.items() if count == len(table)]:
        raise SourceError(f"Columns {entirely} of '{where}' are empty: leave them out ('--drop')")
    return _joined(parts, names, numeric, boolean, filled, other, len(table), options)


def _joined(
    parts: list[np.ndarray],
    names: list[str],
    numeric: dict[str, np.ndarray],
    boolean: list[str],
    filled: list[str],
    other: list[Decision],
    num_rows: int,
    options: EncodingOptions,
) -> Encoded:
    r"""Puts encoded columns side by side and describes them."""
    notes: list[str] = []
    how = 'as they are'
    if options.standardize:
        how = 'standardized to mean 0 and standard deviation 1'
        scaled = {
            id(values): (values - values.mean(0)) / np.where(values.std(0) > 0, values.std(0), 1)
            for values in numeric.values()
        }
        parts = [scaled.get(id(values), values) for values in parts]
    elif note := _scales(numeric):
        notes.append(note)
    notes += [
        f"all values of '{name}' are different whole numbers: if they identify somebody, leave the "
        f"column out ('--drop {name}')"
        for name, values in numeric.items()
        if _is_numbering(values)
    ]
    if filled:
        notes.append(f'missing numbers are the mean of their column: {", ".join(filled)}')
    decisions = [Decision('numeric', tuple(numeric), how)] if numeric else []
    if boolean:
        decisions.append(Decision('boolean', tuple(boolean), '0 and 1'))
    values = np.concatenate(parts, axis=1) if parts else np.empty((num_rows, 0))
    return Encoded(
        values.astype(np.float32), tuple(names), (*decisions, *other), notes=tuple(notes)
    )


def _numbers(column: pd.Series, name: str, where: str) -> tuple[np.ndarray, str] | None:
    r"""A column as numbers, ``[N, d]``, with NaN where they are missing, and its kind.
    :obj:`None` if it holds text or categories.
    """
    if column.dtype.kind == 'M' or column.dtype.kind == 'm':
        raise SourceError(
            f"Column '{name}' of '{where}' holds dates ({column.dtype}): turn it into a number, "
            f"or leave it out ('--drop {name}')"
        )
    if is_boolean(column):
        text = column.astype(object).where(column.notna(), None)
        truth = {'true': 1.0, 'false': 0.0}
        values = [np.nan if v is None else truth[str(v).strip().lower()] for v in text]
        return np.array(values)[:, None], 'boolean'
    if column.dtype.kind in 'iuf':
        return column.to_numpy(dtype=np.float64, na_value=np.nan)[:, None], 'numeric'
    if column.dtype.kind == 'O' and len(first := column.dropna()):
        value = first.iloc[0]
        if isinstance(value, (list, tuple, np.ndarray)):
            return _lists(column, name, where), 'numeric'
        if isinstance(value, Decimal):
            return column.astype(np.float64).to_numpy()[:, None], 'numeric'
        if isinstance(value, (bytes, dict)):
            raise SourceError(
                f"Column '{name}' of '{where}' holds values of the type '{type(value).__name__}', "
                f"which are neither numbers nor text: leave it out ('--drop {name}')"
            )
    return None


def _lists(column: pd.Series, name: str, where: str) -> np.ndarray:
    r"""A column of lists of numbers, ``[N, d]``."""
    lengths = {len(value) if value is not None else 0 for value in column}
    try:
        if len(lengths) == 1 and 0 not in lengths:
            return np.stack([np.asarray(value, dtype=np.float64) for value in column])
    except (TypeError, ValueError):
        pass
    raise SourceError(
        f"Column '{name}' of '{where}' holds lists that are not numbers of one length (got "
        f"lengths {sorted(lengths)[:5]}): leave it out ('--drop {name}')"
    )


def _one_hot(
    column: pd.Series, name: str, where: str, max_values: int, chosen: bool
) -> tuple[np.ndarray, list[str], int]:
    r"""A column of categories as zeros and ones, ``[N, d]``, the values in their order, and the
    number of empty cells, which are rows of zeros. Numbers and dates that are text are an error,
    unless the user chose to take them as categories.
    """
    text = as_text(column)
    present = np.array([value is not None for value in text])
    values = np.array([value if value is not None else '' for value in text], dtype=object)
    found = sorted({*values[present]}, key=natural)
    words = float(np.mean([len(value.split()) for value in values[present]] or [0]))
    is_unique = len(found) > FEW_VALUES and len(found) > present.sum() / 2
    leave = f"leave it out ('--drop {name}')"
    if not found:
        raise SourceError(f"Column '{name}' of '{where}' is empty: {leave}")
    if not chosen:
        _refuse_disguised(found, name, where)
    if words >= TEXT_WORDS and (is_unique or len(found) > max_values):
        raise SourceError(
            f"Column '{name}' of '{where}' is free text ({words:.0f} words per cell), which can "
            f'name people and is not encoded: {leave}, or replace it by numbers, e.g. embeddings'
        )
    if len(found) > max_values or is_unique:
        _refuse_mixed(found, name, where)
        limit = f'the limit is {max_values}' if len(found) > max_values else 'most in one row only'
        raise SourceError(
            f"Column '{name}' of '{where}' has {len(found):,} distinct values ({limit}; e.g. "
            f'{shown([repr(value) for value in found], 3)}): {leave}, merge values, or raise the '
            f"limit ('--max-values')"
        )
    place = {value: i for i, value in enumerate(found)}
    hot = np.zeros((len(values), len(found)))
    rows = present.nonzero()[0]
    hot[rows, [place[value] for value in values[rows]]] = 1.0
    return hot, found, int((~present).sum())


def _refuse_disguised(found: list[str], name: str, where: str) -> None:
    r"""Raises an error if all values are dates, or numbers that a comma makes text."""
    if all(re.fullmatch(DATE, value) for value in found):
        raise SourceError(
            f"Column '{name}' of '{where}' holds dates, e.g. '{found[0]}': turn it into a number, "
            f"leave it out ('--drop {name}'), or take each date as a value ('--categorical {name}')"
        )
    commas = [value for value in found if re.fullmatch(NUMBER_WITH_COMMAS, value)]
    if commas and all(value in commas or _is_number(value) for value in found):
        _refuse_commas(commas, name, where)


def _refuse_commas(commas: list[str], name: str, where: str) -> None:
    raise SourceError(
        f"Column '{name}' of '{where}' has numbers with a comma, e.g. '{commas[0]}': write "
        f'decimals with a point, and thousands without a separator. For codes, use '
        f"'--categorical {name}'"
    )


def _refuse_mixed(found: list[str], name: str, where: str) -> None:
    r"""Raises an error if most values are numbers, which some others turn into text."""
    commas = [value for value in found if re.fullmatch(NUMBER_WITH_COMMAS, value)]
    if len(commas) > len(found) / 2:
        _refuse_commas(commas, name, where)
    text = [value for value in found if not _is_number(value)]
    if text and len(text) < len(found) / 2:
        raise SourceError(
            f"Column '{name}' of '{where}' has numbers and text, e.g. "
            f'{shown(list(map(repr, text)), 3)}: correct these cells, or leave the column out '
            f"('--drop {name}')"
        )


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def as_text(column: pd.Series) -> list[str | None]:
    r"""The values of a column as text without spaces around it, :obj:`None` where
    they are missing. Whole numbers are written without a decimal point.

    Args:
        column (pandas.Series): The column.
    """
    missing = column.isna().to_numpy()
    found: list[str | None] = []
    for value, is_missing in zip(column.tolist(), missing, strict=True):
        text = '' if is_missing else _text(value)
        found.append(text or None)
    return found


def natural(text: str) -> tuple[int, float, str]:
    r"""A key that sorts integers by value, before all other text.

    Args:
        text (str): The text.
    """
    try:
        return 0, int(text), text
    except ValueError:
        return 1, 0.0, text


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def _is_numbering(values: np.ndarray) -> bool:
    r"""Whether a column may be an identifier: whole numbers, each in one of many rows."""
    if values.shape[1] > 1 or len(values) <= FEW_VALUES or (values % 1 != 0).any():
        return False
    return len(np.unique(values)) == len(values)


def _scales(numeric: dict[str, np.ndarray]) -> str | None:
    r"""A note if one column hides the others in distances."""
    spread = {name: float(values.std(axis=0).max()) for name, values in numeric.items()}
    spread = {name: value for name, value in spread.items() if value > 0}
    if len(spread) < 2:
        return None
    large, small = max(spread, key=spread.__getitem__), min(spread, key=spread.__getitem__)
    ratio = spread[large] / spread[small]
    if ratio < MANY_SCALES:
        return None
    return (
        f"the standard deviation of '{large}' is {ratio:,.0f} times that of '{small}': clusters "
        f"follow '{large}' and hardly see the other. '--standardize' gives all columns one scale"
    )


def _names(table: pd.DataFrame) -> str:
    return shown([repr(str(name)) for name in table.columns], 12)
