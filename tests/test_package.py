"""The top-level package imports its public names on first access."""

import ast
import inspect
import pkgutil
import subprocess
import sys

import pytest

import torch_geometric_cgt
from torch_geometric_cgt.transforms import Quantize
from torch_geometric_cgt.version import __version__


def in_a_new_process(script: str) -> list[str]:
    out = subprocess.run([sys.executable, '-c', script], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    return out.stdout.split()


def test_the_import_alone_loads_no_torch():
    script = 'import sys, torch_geometric_cgt as p; p.__version__; dir(p); print(*sys.modules)'
    assert 'torch_geometric_cgt' in in_a_new_process(script)
    assert 'torch' not in in_a_new_process(script)


def test_names_and_submodules_are_there_after_the_import():
    script = """
import os
import sklearn.linear_model, torch_geometric  # take most of the time, and are imported once
if os.fork() == 0:
    import torch_geometric_cgt as p
    print(p.datasets.__name__, p.Quantize.__name__, flush=True)
    os._exit(0)
assert os.wait()[1] == 0
from torch_geometric_cgt import *
print(SyntheticCGTDataset.__name__, __version__)
"""
    names = ['torch_geometric_cgt.datasets', 'Quantize', 'SyntheticCGTDataset', __version__]
    assert in_a_new_process(script) == names


def test_public_names():
    assert torch_geometric_cgt.Quantize is Quantize
    for name in torch_geometric_cgt.__all__:
        assert getattr(torch_geometric_cgt, name) is not None
    modules = {m.name for m in pkgutil.iter_modules(torch_geometric_cgt.__path__)} - {'__main__'}
    assert {'datasets', 'errors', 'audit'} < modules
    assert {*torch_geometric_cgt.__all__, *modules} <= set(dir(torch_geometric_cgt))
    for name in modules:
        assert inspect.ismodule(getattr(torch_geometric_cgt, name))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'torch_geometric_cgt' has no attribute 'Quantise'"):
        _ = torch_geometric_cgt.Quantise


def test_type_checkers_see_the_names_that_exist():
    tree = ast.parse(inspect.getsource(torch_geometric_cgt))
    (branch,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        alias.name: node.module.removeprefix('torch_geometric_cgt.')
        for node in branch.body
        for alias in node.names
    }
    assert seen == torch_geometric_cgt._PACKAGE_OF
    assert {*seen, '__version__'} == set(torch_geometric_cgt.__all__)
