r"""A rehearsal of GPU code on a machine without a GPU.

Tensors on the device hold real values, but say that they are on ``cuda:0``. A mode watches every
operation. It notes what a GPU would refuse (an operation on tensors of the device and of the host)
and what would make the host wait for the GPU (a value that is read, a shape that depends on
values, a copy without ``non_blocking=True`` or from memory that is not pinned).

PyTorch itself sees the device as ``meta``, which is the only device beside the CPU that autograd
accepts in a build without CUDA.
"""

from __future__ import annotations

import sys
import types
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

PACKAGE = Path(__file__).parents[2] / 'torch_geometric_cgt'
DEVICE = torch.device('cuda', 0)
META = torch.device('meta')
aten = torch.ops.aten
COPIES = {aten._to_copy.default, aten.copy_.default}
# Operations that read a value or whose result has a shape that depends on values. Boolean masks and
# a few others depend on their arguments: see `_reason`.
READS = {
    aten._local_scalar_dense.default: 'reads a value (.item(), int(), float(), bool(), if)',
    aten.equal.default: 'reads a value (torch.equal)',
    aten._linalg_check_errors.default: 'reads whether the solver succeeded',
    aten._linalg_eigh.default: 'reads whether the solver succeeded',
    aten._linalg_svd.default: 'reads whether the solver succeeded',
    aten.nonzero.default: 'has a shape that depends on values (nonzero, boolean mask)',
    aten.masked_select.default: 'has a shape that depends on values (masked_select)',
    aten.bincount.default: 'reads the largest value (bincount)',
    aten._unique.default: 'has a shape that depends on values (unique)',
    aten._unique2.default: 'has a shape that depends on values (unique)',
    aten.unique_dim.default: 'has a shape that depends on values (unique)',
    aten.unique_consecutive.default: 'has a shape that depends on values (unique)',
}


@dataclass(frozen=True)
class Finding:
    r"""An operation that a GPU refuses, or that makes the host wait for it."""

    kind: str  # 'mixed', 'wait' or 'copy'
    what: str
    file: str  # of our code, relative to the package
    function: str
    line: int

    @property
    def site(self) -> str:
        r"""The folder and the function."""
        return f'{self.file.rsplit("/", 1)[0]}/{self.function}'

    def __str__(self) -> str:
        return f'{self.file}:{self.line} in {self.function}: {self.what}'


class RehearsalError(RuntimeError):
    r"""What was found at sites that are not on the list of allowed ones."""


class DeviceTensor(torch.Tensor):
    r"""A tensor that says it is on the device, and holds its values on the CPU."""

    value: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, value: Tensor) -> DeviceTensor:
        return torch.Tensor._make_wrapper_subclass(
            cls,
            value.size(),
            strides=value.stride(),
            storage_offset=value.storage_offset(),
            dtype=value.dtype,
            layout=value.layout,
            device=META,
        )

    def __init__(self, value: Tensor) -> None:
        self.value = value

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return DEVICE

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return True

    def __repr__(self) -> str:  # type: ignore[override]
        return f'DeviceTensor({self.value!r})'

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        raise RuntimeError(f'A tensor of a rehearsal is used outside of it (by {func})')


class DeviceGenerator(torch.Generator):
    r"""A source of randomness that says it is on the device."""

    device = DEVICE  # type: ignore[assignment]

    def __new__(cls, device: Any = 'cpu') -> torch.Generator:  # type: ignore[misc]
        if torch.device(device).type == 'cpu':
            return torch._C.Generator()
        return torch._C.Generator.__new__(cls)


class Rehearsal(TorchDispatchMode):
    r"""Watches all operations on tensors of the device.

    Args:
        allowed (dict): The sites, ``'folder/function'``, where the host may wait or where a copy
            may come from memory that is not pinned.
        stop (bool, optional): Whether to stop at the first finding that is not allowed. By
            default, all of them are collected. (default: :obj:`False`)
    """

    def __init__(self, allowed: dict[str, Any] | None = None, stop: bool = False) -> None:
        super().__init__()
        self.allowed = allowed or {}
        self.stop = stop
        self.findings: list[Finding] = []
        self.num_ops = 0  # on the device
        self.num_uploads = 0
        self.pinned: set[int] = set()  # addresses of pinned storages, which stay alive
        self._alive: list[Tensor] = []

    # What the rehearsed code did

    def waits(self, kind: str = '') -> Counter[str]:
        r"""How often each allowed site was visited, by findings of one kind or all."""
        return Counter(f.site for f in self.findings if kind in ('', f.kind))

    def forbidden(self) -> list[Finding]:
        r"""Findings that are not on the list. Mixed devices are never allowed."""
        return [f for f in self.findings if f.kind == 'mixed' or f.site not in self.allowed]

    def check(self) -> None:
        r"""Raises an error with all findings that are not allowed."""
        if found := self.forbidden():
            lines = sorted({str(finding) for finding in found})
            raise RehearsalError('\n'.join([f'{len(lines)} sites are not allowed:', *lines]))

    # The stand-in device

    def to_device(self, value: Tensor) -> DeviceTensor:
        r"""A tensor on the device, without a finding: the start of a rehearsal."""
        return value if isinstance(value, DeviceTensor) else DeviceTensor(value.detach().clone())

    @contextmanager
    def run(self) -> Iterator[Rehearsal]:
        r"""Rehearses a block, and checks it at the end."""
        with ExitStack() as stack:
            for patch in _stand_ins():
                stack.enter_context(patch)
            stack.enter_context(self)
            stack.enter_context(_Functions(self))
            yield self
        self.check()

    def note(self, kind: str, what: str) -> None:
        r"""Adds a finding at the innermost line of our code."""
        frame = sys._getframe(1)
        while frame is not None and not _is_ours(frame):
            frame = frame.f_back  # type: ignore[assignment]
        if frame is None:  # the rehearsing test itself, not our code
            return
        file = Path(frame.f_code.co_filename).relative_to(PACKAGE).as_posix()
        name = frame.f_code.co_qualname.replace('.<locals>', '')
        for comprehension in ('<listcomp>', '<genexpr>', '<dictcomp>', '<setcomp>', '<lambda>'):
            name = name.replace(f'.{comprehension}', '')
        self.findings.append(Finding(kind, what, file, name, frame.f_lineno))
        if self.stop:
            self.check()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        leaves = tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        on_device = [t for t in tensors if isinstance(t, DeviceTensor)]
        target = kwargs.get('device')
        if func in COPIES and (on_device or _is_device(target)):
            return self._copy(func, args, kwargs)
        if not on_device and not _is_device(target):
            return func(*args, **kwargs)

        self.num_ops += 1
        name = func.name().removeprefix('aten::')
        host = [t for t in tensors if not isinstance(t, DeviceTensor) and t.dim() > 0]
        if host:
            shapes = [list(t.shape) for t in host]
            self.note('mixed', f'{name} gets tensors of the host {shapes} beside the device')
        if (reason := _reason(func, args, kwargs)) is not None:
            self.note('wait', f'{name} {reason}')
        if target is not None:
            kwargs['device'] = torch.device('cpu')
        return self._compute(func, args, kwargs)

    def _compute(self, func: Any, args: tuple, kwargs: dict) -> Any:
        r"""Computes on the values, and returns tensors of the device."""
        known: dict[int, DeviceTensor] = {}

        def unwrap(leaf: Any) -> Any:
            if isinstance(leaf, DeviceTensor):
                known[id(leaf.value)] = leaf
                return leaf.value
            return leaf

        def wrap(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor):
                return leaf
            own = known.get(id(leaf))  # an operation in place returns its input
            return DeviceTensor(leaf) if own is None else own

        return tree_map(wrap, func(*tree_map(unwrap, args), **tree_map(unwrap, kwargs)))

    def _copy(self, func: Any, args: tuple, kwargs: dict) -> Any:
        r"""A copy between host and device, or within one of them."""
        if func is aten.copy_.default:
            target, source = args[:2]
            to_device, from_device = (isinstance(t, DeviceTensor) for t in (target, source))
            non_blocking = bool(args[2]) if len(args) > 2 else kwargs.get('non_blocking', False)
        else:
            source, device = args[0], kwargs.get('device')
            from_device = isinstance(source, DeviceTensor)
            to_device = from_device if device is None else _is_device(device)
            non_blocking = kwargs.get('non_blocking', False)
        if from_device and not to_device:
            self.note('wait', f'copies {list(source.shape)} to the host')
        if to_device and not from_device:
            self.upload(source, non_blocking)
        if func is aten.copy_.default:
            values = [t.value if isinstance(t, DeviceTensor) else t for t in args[:2]]
            func(*values)
            return args[0]
        kwargs = {**kwargs, 'device': torch.device('cpu'), 'non_blocking': False}
        value = source.value if from_device else source
        copied = func(value, **kwargs)
        return DeviceTensor(copied) if to_device else copied

    def upload(self, source: Tensor, non_blocking: bool) -> None:
        r"""Notes a copy from the host to the device."""
        self.num_uploads += 1
        if not non_blocking:
            self.note('copy', f'waits for a copy of {list(source.shape)} to the device')
        elif source.untyped_storage().data_ptr() not in self.pinned and source.numel() > 0:
            self.note('copy', f'copies {list(source.shape)} from memory that is not pinned')

    def pin(self, source: Tensor) -> Tensor:
        r"""A copy of a tensor of the host in what stands for pinned memory."""
        copied = source.clone()
        self._alive.append(copied)
        self.pinned.add(copied.untyped_storage().data_ptr())
        return copied


class _Functions(TorchFunctionMode):
    r"""Handles what PyTorch decides before it dispatches: names of devices, lists and arrays."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        super().__init__()
        self.rehearsal = rehearsal
        self.special: dict[Any, Callable[..., Any]] = {
            torch.tensor: self._tensor,
            torch.as_tensor: self._tensor,
            torch.Tensor.tolist: lambda x: x.cpu().tolist(),
            torch.Tensor.numpy: self._numpy,
            torch.Tensor.__array__: self._numpy,
            torch.Tensor.pin_memory: lambda x, *_: self.rehearsal.pin(x),
            torch.Tensor.backward: self._backward,
            torch.Tensor.cuda: lambda x, *a, **k: x.to(META, **k),
        }

    def __torch_function__(
        self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        def rename(leaf: Any) -> Any:
            if isinstance(leaf, torch.device) and leaf.type == DEVICE.type:
                return META
            return META if isinstance(leaf, str) and leaf.split(':')[0] == DEVICE.type else leaf

        kwargs = kwargs or {}
        if func is torch.device:
            return func(*args, **kwargs)
        args, kwargs = tree_map(rename, args), tree_map(rename, kwargs)
        if (rng := kwargs.get('generator')) is not None and type(rng) is not DeviceGenerator:
            leaves = tree_leaves((args, kwargs))
            if any(leaf is META or isinstance(leaf, DeviceTensor) for leaf in leaves):
                name = func.__name__
                self.rehearsal.note('mixed', f'{name} on the device gets a generator of the host')
        return self.special.get(func, func)(*args, **kwargs)  # this mode is off meanwhile

    def _tensor(self, data: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is None or not _is_device(device) or isinstance(data, Tensor):
            return torch.as_tensor(data, *args, device=device, **kwargs)
        return torch.as_tensor(data, *args, **kwargs).to(META)  # PyTorch waits for this copy

    def _backward(self, x: Tensor, gradient: Any = None, **kwargs: Any) -> None:
        with self:  # hooks call functions, too
            torch.autograd.backward(x, gradient, **kwargs)

    def _numpy(self, x: Tensor, *args: Any, **kwargs: Any) -> Any:
        if isinstance(x, DeviceTensor):
            self.rehearsal.note('mixed', 'turns a tensor of the device into an array')
            x = x.value
        return x.numpy()


def _reason(func: Any, args: tuple, kwargs: dict) -> str | None:
    r"""Why an operation makes the host wait for a GPU, or :obj:`None` if it does not."""
    if func in READS:
        return READS[func]
    if func is aten.repeat_interleave.Tensor:
        known = kwargs.get('output_size') is not None or (len(args) > 1 and args[1] is not None)
        return None if known else 'has a shape that depends on values (pass output_size)'
    if func is aten.multinomial.default:  # kernels of CUDA check the input in these cases only
        num_samples, replacement = args[1], len(args) > 2 and args[2]
        if num_samples == 1 or not replacement:
            return 'reads whether the input is valid (one sample, or without replacement)'
        return None
    name = func.name().removeprefix('aten::')
    if name.startswith('index'):  # index, index_put: masks become indices
        indices = args[1] if len(args) > 1 and isinstance(args[1], (list, tuple)) else ()
        if any(isinstance(i, Tensor) and i.dtype in (torch.bool, torch.uint8) for i in indices):
            fills = 'index_put' in name and args[2].numel() == 1  # PyTorch calls masked_fill
            return None if fills else 'has a shape that depends on values (boolean mask)'
    return None


def _is_device(device: Any) -> bool:
    return device is not None and torch.device(device).type in (META.type, DEVICE.type)


def _is_ours(frame: types.FrameType) -> bool:
    return frame.f_code.co_filename.startswith(str(PACKAGE))


def _stand_ins() -> list[Any]:
    r"""What stands for the parts of :obj:`torch.cuda` that a build without CUDA lacks."""
    return [
        mock.patch.object(torch, 'Generator', DeviceGenerator),
        # Hooks of a backward pass are watched like other code.
        mock.patch.object(torch.autograd, 'has_torch_function', lambda tensors: False),
        mock.patch.object(torch.cuda, 'manual_seed', lambda seed: None),
        mock.patch.object(torch.cuda, 'get_rng_state', lambda device=0: torch.get_rng_state()),
        mock.patch.object(torch.cuda, 'mem_get_info', lambda device=0: (2**34, 2**34)),
        mock.patch.object(torch.cuda, 'set_rng_state', lambda state, device=0: None),
    ]
