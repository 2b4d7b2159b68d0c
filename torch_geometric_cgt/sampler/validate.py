r"""Checks of the arguments of samplers."""

from __future__ import annotations

from numbers import Integral


def check_positive(**values: int) -> None:
    r"""Raises an error unless each argument is an integer of at least one."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
            raise ValueError(f"'{name}' must be an integer >= 1 (got {value!r})")
