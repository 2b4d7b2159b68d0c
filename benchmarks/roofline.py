r"""The work of a computation in operations, bytes and kernels, and the time that a device needs.

The roofline model: a device that computes, moves memory and starts kernels at the same time takes
as long as the slowest of the three.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from torch_geometric_cgt.nn import linear_map

UNCOUNTED = ('detach', 'empty', '_local_scalar_dense', 'lift_fresh')  # move nothing on a device


@dataclass(frozen=True)
class Work:
    r"""The floating-point operations of matrix products, the bytes that all operations read and
    write, and the number of these operations.
    """

    flops: float
    bytes: float
    kernels: float

    def times(self, factor: float) -> 'Work':
        return Work(factor * self.flops, factor * self.bytes, factor * self.kernels)


@dataclass(frozen=True)
class Machine:
    r"""The speed of a device."""

    tflops: float  # 10^12 operations per second
    gbps: float  # 10^9 bytes per second
    launch: float  # 10^-6 seconds per kernel

    def seconds(self, work: Work, compiled: bool = False) -> tuple[float, str]:
        r"""The time of some work and what limits it. Compiled code has fewer kernels, whose number
        is not known: they are left out, and the time is a lower bound.
        """
        parts = {
            'operations': work.flops / (1e12 * self.tflops),
            'memory': work.bytes / (1e9 * self.gbps),
        }
        if not compiled:
            parts['kernels'] = 1e-6 * self.launch * work.kernels
        limit = max(parts, key=parts.__getitem__)
        return parts[limit], limit


class _Traffic(TorchDispatchMode):
    r"""Counts bytes and operations, each operation by itself. Views move nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes, self.kernels = 0, 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func.name().removeprefix('aten::')
        if not func.is_view and not name.startswith(UNCOUNTED):
            leaves = tree_leaves((args, kwargs, out))
            distinct = {id(leaf): leaf for leaf in leaves if isinstance(leaf, Tensor)}
            self.bytes += sum(t.numel() * t.element_size() for t in distinct.values())
            self.kernels += 1
        return out


def count(run: Callable[[], Any]) -> Work:
    r"""Runs a function once and counts its work. Products are those of PyTorch on any device: the
    ones of oneDNN, which CPUs compute, are not counted as products.
    """
    traffic, any_device = _Traffic(), patch.object(linear_map, '_has_product', lambda: False)
    with any_device, FlopCounterMode(display=False) as flops, traffic:
        run()
    return Work(flops.get_total_flops(), traffic.bytes, traffic.kernels)
