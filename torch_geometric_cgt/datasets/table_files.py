r"""Tables from CSV and Parquet files, with text and missing values told apart."""

from __future__ import annotations

import gzip
import warnings
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch_geometric_cgt.errors import SourceError, UnsupportedError

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = ('.csv', '.tsv', '.csv.gz', '.tsv.gz', '.parquet')
SEPARATORS = (',', ';', '\t')
# Text that stands for a missing number. In a column of text, only an empty cell is missing.
MISSING = ['', 'NA', 'N/A', 'n/a', '#N/A', 'NaN', 'nan', 'NULL', 'null', 'None', '<NA>']


def table_suffix(path: Path) -> str | None:
    r"""The suffix of a table, or :obj:`None` if a file is no table.

    Args:
        path (Path): The file.
    """
    name = path.name.lower()
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), None)


def find_table(folder: Path, name: str) -> Path:
    r"""Finds the table of a name in a folder, *e.g.*, :obj:`nodes.csv`.

    Args:
        folder (Path): The folder.
        name (str): The name of the file without its suffix.
    """
    found = [folder / f'{name}{suffix}' for suffix in SUFFIXES]
    found = [path for path in found if path.is_file()]
    if len(found) != 1:
        kinds = ' or '.join(f"'{name}{suffix}'" for suffix in ('.csv', '.parquet'))
        have = f'{len(found)} of them' if found else 'none of them'
        raise SourceError(
            f"The folder '{folder}' must hold one table {kinds} (got {have}). Other files can be "
            f"named with '--nodes' and '--edges'"
        )
    return found[0]


def columns_of(path: Path) -> list[str]:
    r"""The names of the columns of a table.

    Args:
        path (Path): The file.
    """
    return [str(name) for name in _read(path, columns_only=True).columns]


def read_table(path: Path, as_text: Collection[str] = ()) -> pd.DataFrame:
    r"""Reads a table. Columns of a CSV file are numbers or booleans if all their
    values are, and text otherwise. The text of a cell is not changed:
    :obj:`"007"` and :obj:`"NA"` stay what they are.

    Args:
        path (Path): The file.
        as_text (list[str], optional): Columns of a CSV file that are text even
            if all their values are numbers. (default: :obj:`()`)
    """
    if table_suffix(path) == '.parquet':
        return _read(path)
    names = columns_of(path)
    text = {name for name in names if name in as_text}
    table = _read(path, text, names)
    kinds = {name: table[name].dtype.kind for name in names}
    guessed = [name for name in names if name not in text and kinds[name] not in 'iufb']
    guessed = [name for name in guessed if not is_boolean(table[name])]
    if guessed:  # 'NA' is missing in a column of numbers, but may be a country
        again = _read(path, set(guessed), names, guessed)
        for name in guessed:
            table[name] = again[name]
    return table


def is_boolean(column: pd.Series) -> bool:
    r"""Whether all values of a column that are not missing are true or false.

    Args:
        column (pandas.Series): The column.
    """
    if column.dtype.kind == 'b':
        return True
    try:
        values = column.dropna().unique()
    except TypeError:  # lists
        return False
    return len(values) > 0 and all(
        isinstance(value, bool) or str(value).strip().lower() in ('true', 'false')
        for value in values
    )


def _read(
    path: Path,
    text: Collection[str] = (),
    names: Collection[str] = (),
    only: Collection[str] | None = None,
    columns_only: bool = False,
) -> pd.DataFrame:
    if not path.is_file():
        raise SourceError(f"There is no file '{path}'")
    pandas = _pandas()
    try:
        if table_suffix(path) == '.parquet':
            table = pandas.read_parquet(path, engine='pyarrow')
            if table.index.name is not None:  # the column that was the index
                table = table.reset_index()
        elif columns_only:
            table = pandas.DataFrame(columns=_header(pandas, path))
        else:
            with warnings.catch_warnings():
                warnings.simplefilter('error', pandas.errors.ParserWarning)  # rows are cut off
                table = pandas.read_csv(
                    path,
                    sep=_separator(path),
                    names=list(names),
                    header=0,
                    index_col=False,
                    encoding='utf-8-sig',
                    usecols=None if only is None else list(only),
                    dtype=dict.fromkeys(text, str),
                    keep_default_na=False,
                    na_values={name: [''] if name in text else MISSING for name in names},
                    low_memory=False,
                )
    except ImportError as error:
        raise UnsupportedError(_install(path)) from error
    except UnicodeDecodeError as error:
        raise SourceError(
            f"'{path}' is not text in UTF-8 ({error.reason} at byte {error.start:,}): save it in "
            f'this encoding'
        ) from error
    except pandas.errors.EmptyDataError as error:
        raise SourceError(f"'{path}' is empty") from error
    except (OSError, ValueError, Warning) as error:  # of pandas and pyarrow, too
        raise SourceError(f"'{path}' is not a readable table: {error}") from error
    table.columns = [str(name).strip() for name in table.columns]
    if len(set(table.columns)) < len(table.columns):
        raise SourceError(f"'{path}' has two columns of one name: {list(table.columns)}")
    return table


def _header(pandas: Any, path: Path) -> list[str]:
    r"""The names in the first row of a CSV file. A column without a name has the name that pandas
    would give it.
    """
    first = pandas.read_csv(
        path,
        sep=_separator(path),
        header=None,
        nrows=1,
        dtype=str,
        keep_default_na=False,
        encoding='utf-8-sig',
    )
    return [name.strip() or f'Unnamed: {i}' for i, name in enumerate(first.iloc[0])]


def _separator(path: Path) -> str:
    r"""The separator of the columns: the most frequent one in the first line."""
    opened: Any = gzip.open if path.name.lower().endswith('.gz') else open
    with opened(path, 'rt', encoding='utf-8-sig') as file:
        line = file.readline()
    return max(SEPARATORS, key=line.count)


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise UnsupportedError(_install('CSV and Parquet files')) from error
    return pandas


def _install(what: object) -> str:
    return (
        f"Reading '{what}' needs the packages of the extra 'files': "
        f"pip install 'torch-geometric-cgt[files]'"
    )
