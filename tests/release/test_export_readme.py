"""The READMEs of exports: the code that they show runs, and their words on signatures."""

import re

import numpy as np
import pytest

from tests.helpers.exported import RECORDED, forest
from torch_geometric_cgt.release import Terms, export_release
from torch_geometric_cgt.release.export_readme import USES, Origin


@pytest.mark.parametrize('format', ['pyg', 'parquet', 'npz', 'networkx'])
def test_the_code_of_a_readme_reads_the_forest(format, tmp_path, monkeypatch):
    if format == 'parquet':
        pytest.importorskip('pyarrow')
    export_release(RECORDED / 'nodes', tmp_path / 'out', format)
    (code,) = re.findall(r'```python\n(.*?)```', (tmp_path / 'out' / 'README.md').read_text(), re.S)
    assert code.strip() == USES[format]
    monkeypatch.chdir(tmp_path / 'out')
    found = {}
    exec(code, found)
    x = found['data'].x if format == 'pyg' else found['x']
    if format == 'networkx':
        x = np.float32([x[node] for node in range(len(x))])
    assert np.array_equal(x, forest(RECORDED / 'nodes')['x'])


@pytest.mark.parametrize(
    'is_signed, key, words',
    [
        (False, None, 'is not signed'),
        (True, None, 'has a signature, which was not verified'),
        (True, 'ABCD', 'has a valid signature of key ABCD'),
    ],
)
def test_words_on_signatures(is_signed, key, words):
    found = Origin('npz', '00', is_signed, key, Terms()).signature
    assert words in found and ('not their conversion' in found) == is_signed
    inside = Origin('huggingface', '00', is_signed, key, Terms()).signature
    assert ('`release` holds the signed files' in inside) == is_signed
