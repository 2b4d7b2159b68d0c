"""The page and the figure of a comparison of generators."""

import json

import numpy as np
import pytest

from tests.helpers.comparisons import SCORES, compared, results
from torch_geometric_cgt.benchmark.generator_verdicts import compare_results
from torch_geometric_cgt.report.generator_page import (
    closest_of,
    render_comparison,
    scatter_figure,
    scatter_png,
    scatters_of,
    score_limits,
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


pytest.importorskip('matplotlib')


def test_each_generator_has_a_plot_with_the_scores_of_each_graph():
    figure = scatter_figure(compared())
    plots = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in plots] == ['ceiling', 'quantized', 'CGT', 'NGram']
    first, second = plots[2].collections
    expected = np.array([SCORES['original'], SCORES['CGT']]).T
    assert first.get_offsets().data == pytest.approx(expected)
    assert second.get_offsets().data == pytest.approx(expected - 0.4)
    assert len({axes.get_xlim() for axes in plots} | {axes.get_ylim() for axes in plots}) == 1
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ['<b>', 'lower']


def test_axes_hold_all_scores():
    low, high = score_limits(compared())
    assert low < 0.1 and 0.9 < high < 1.0


def test_a_generator_that_lacks_a_graph_has_the_points_of_the_others():
    graphs = results('one') + results('two', {n: SCORES[n] for n in ('original', 'CGT')})
    plots = {axes.get_title(): axes for axes in scatter_figure(compare_results(graphs)).axes}
    assert len(plots['CGT'].collections) == 2 and len(plots['NGram'].collections) == 1
    first = {**compared()['graphs'][0], 'means': {'original': {'GCN': 0.5}, 'NGram': {'GCN': 0.6}}}
    found = {'graphs': [first, compared()['graphs'][1]], 'overall': compared()['overall']}
    legend = scatter_figure(found).legends[0]
    assert {text.get_text() for text in legend.get_texts()} == {'<b>', 'lower'}


def test_without_scores_there_is_no_figure():
    assert scatter_png({'graphs': [], 'overall': {}}) is None
