r"""Argument checks that several subpackages share."""

from numbers import Integral
from typing import Any


def check_positive(name: str, value: Any) -> None:
    r"""Raises a :class:`ValueError` unless :obj:`value` is an integer of at least one.

    Args:
        name (str): The name of the argument, for the message.
        value (int): Its value. Booleans are rejected.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"'{name}' must be a positive integer (got {value!r})")
