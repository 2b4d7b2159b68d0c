r"""Synthetic, privacy-controlled substitutes of graphs for PyG.

Public names are imported on first access (PEP 562): PyTorch, PyG and scikit-learn take seconds
to load, and ``cgt --help`` needs none of them.
"""

from typing import TYPE_CHECKING

from torch_geometric_cgt.version import __version__

__all__ = [
    'CGTGenerator',
    'DifferentialPrivacy',
    'DuplicateEncode',
    'FitConfig',
    'KAnonymity',
    'Quantize',
    'SyntheticCGTDataset',
    'TreeNeighborSampler',
    '__version__',
]

# A new public name is added to `__all__` and to both lists below.
if TYPE_CHECKING:
    from torch_geometric_cgt.datasets import SyntheticCGTDataset
    from torch_geometric_cgt.nn import CGTGenerator
    from torch_geometric_cgt.pipeline import DifferentialPrivacy, KAnonymity
    from torch_geometric_cgt.sampler import TreeNeighborSampler
    from torch_geometric_cgt.training import FitConfig
    from torch_geometric_cgt.transforms import DuplicateEncode, Quantize
else:
    from importlib import import_module

    _PACKAGE_OF = {
        'CGTGenerator': 'nn',
        'DifferentialPrivacy': 'pipeline',
        'DuplicateEncode': 'transforms',
        'FitConfig': 'training',
        'KAnonymity': 'pipeline',
        'Quantize': 'transforms',
        'SyntheticCGTDataset': 'datasets',
        'TreeNeighborSampler': 'sampler',
    }

    def __getattr__(name: str) -> object:
        if name in _PACKAGE_OF:
            value = getattr(import_module(f'{__name__}.{_PACKAGE_OF[name]}'), name)
            globals()[name] = value  # the next access does not come here
            return value
        if name in _submodules():
            return import_module(f'{__name__}.{name}')
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__, *_submodules()})

    def _submodules() -> set[str]:
        from pkgutil import iter_modules

        return {module.name for module in iter_modules(__path__)} - {'__main__'}
