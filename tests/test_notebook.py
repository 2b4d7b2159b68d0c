"""The notebook of the documentation runs, and shows what it promises."""

import ast
from pathlib import Path

import pytest

nbclient = pytest.importorskip('nbclient')
nbformat = pytest.importorskip('nbformat')
pytest.importorskip('ipykernel')

NOTEBOOK = Path(__file__).parents[1] / 'docs' / 'notebook.ipynb'


def printed(notebook) -> str:
    outputs = [o for cell in notebook.cells if cell.cell_type == 'code' for o in cell.outputs]
    return ''.join(o.get('text', '') for o in outputs if o.get('name') == 'stdout')


def test_the_notebook_runs(tmp_path, monkeypatch):
    monkeypatch.setenv('PYTHONPATH', str(NOTEBOOK.parents[1]))
    monkeypatch.setenv('IPYTHONDIR', str(tmp_path / 'ipython'))
    monkeypatch.setenv('TMPDIR', str(tmp_path))
    monkeypatch.setenv('OMP_NUM_THREADS', '1')  # small tensors
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    stored = printed(notebook)
    nbformat.validate(notebook)
    client = nbclient.NotebookClient(notebook, resources={'metadata': {'path': str(tmp_path)}})
    client.execute()  # an error in a cell is an error here
    shown = printed(notebook)
    assert 'same forest: True' in shown and 'Not guaranteed:' in shown
    scores = [
        float(line.split()[1]) for line in shown.splitlines() if line[:5] in ('origi', 'synth')
    ]
    assert len(scores) == 2 and min(scores) > 0.7
    assert 'same forest: True' in stored  # it is committed with its outputs
    assert not list(tmp_path.glob('tmp*/root'))  # it leaves nothing behind


def test_code_of_the_notebook_is_whole():
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    code = [cell.source for cell in cells if cell.cell_type == 'code']
    assert len(code) > 5 and all(ast.parse(source) for source in code)
    assert not any(cell.get('outputs') and cell.outputs[0].output_type == 'error' for cell in cells)
