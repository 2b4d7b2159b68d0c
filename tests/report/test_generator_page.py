"""The page of a comparison of generators."""

import json

import pytest

from tests.helpers.comparisons import compared, results
from torch_geometric_cgt.benchmark.generator_verdicts import compare_results
from torch_geometric_cgt.report.generator_page import (
    closest_of,
    render_comparison,
    scatters_of,
    unfinished_of,
    write_comparison,
)

pytest.importorskip('matplotlib')


def test_files_hold_the_tables(tmp_path):
    found = compared()
    paths = write_comparison(tmp_path, found)
    names = [f'generators.{ending}' for ending in ('json', 'md', 'html', 'png')]
    assert [p.name for p in paths] == names and paths[3].read_bytes().startswith(b'\x89PNG')
    assert json.loads(paths[0].read_text()) == found
    assert '| CGT' in paths[1].read_text()
    page = paths[2].read_text()
    assert page.count('<svg') == 4 and 'Not guaranteed: Not DP.' in page
    assert '<b></' not in page and '&lt;b&gt;' in page


def test_each_generator_has_a_figure_with_all_graphs():
    scatters = scatters_of(compared())
    assert [name for name, _ in scatters['figures']] == ['ceiling', 'quantized', 'CGT', 'NGram']
    assert list(scatters['colors']) == ['<b>', 'lower']


def test_what_did_not_finish_is_named():
    lines = unfinished_of(compared())
    time = '1.0 minutes of processor time'
    assert lines[0] == f'VGAE on <b>: out of memory, after {time} and 1.0 GiB.'
    assert lines[1].startswith('Broken on <b>: failed: MLP on its trees')


def test_a_page_without_scores():
    found = compare_results([r for r in results() if r['column'] == 'VGAE'])
    assert 'out of memory' in render_comparison(found)


def test_the_page_opens_with_the_closest_generator():
    found = {
        'graphs': [{}, {}],
        'overall': {
            'ceiling': {'mse': 0.0001, 'num_graphs': 2},
            'quantized': {'mse': 0.0, 'num_graphs': 2},
            'NGram': {'mse': 0.003, 'num_graphs': 2},
            'CGT': {'mse': 0.0002, 'num_graphs': 2},
            'VGAE': {'mse': 0.00001, 'num_graphs': 1},  # did not finish on both
        },
    }
    assert closest_of(found) == (
        'Scores on CGT are closest to the original: MSE 0.00020 (NGram: 0.00300). '
        'The original with another split and seed: 0.00010.'
    )
    assert closest_of(found) not in render_comparison(compared())
    assert closest_of(compared()) in render_comparison(compared())
    assert closest_of({'graphs': [], 'overall': {}}) == ''
