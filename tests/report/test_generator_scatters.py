"""The figure of a comparison of generators."""

import numpy as np
import pytest

from tests.helpers.comparisons import SCORES, compared, results
from torch_geometric_cgt.benchmark.generator_verdicts import compare_results
from torch_geometric_cgt.report.generator_scatters import scatter_figure, scatter_png, score_limits

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
