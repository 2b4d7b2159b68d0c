import re
from pathlib import Path

import pytest

from tests.helpers.cells import by_key, pair_cell, some_cells
from torch_geometric_cgt.benchmark.experiments import EXPERIMENTS
from torch_geometric_cgt.report.benchmark_results import Results, read_results
from torch_geometric_cgt.report.markdown_page import render_markdown

CELLS = Path(__file__).parents[2] / 'docs' / 'results' / 'benchmark.jsonl'


@pytest.fixture(scope='module')
def page():
    return render_markdown(Results.from_cells(some_cells()))


def squeezed(page):
    """The page without the padding of its tables."""
    return re.sub(' +', ' ', page)


def section(page, title):
    start = page.index(f'## {title}')
    return page[start:].split('\n## ')[0]


def test_header_says_where_numbers_come_from(page):
    header = page.split('```')[0]
    assert '36 cells, seeds 0, 1, 2026-01-02, commits 0123456789abcdef, version 0.1' in header
    assert 'k = 30, num_neighbors = 5 5' in header
    # Half an hour each; builds of two graphs and two seeds, of two variants more, and of one graph
    # for both levels, since they took as long.
    assert 'GNNs took 18.0 hours' in header
    assert '```text\ncgt benchmark --scenario 1\n```' in page


def test_top_1_is_defined_as_it_is_measured(page):
    said = ' '.join(page.split())
    assert 'best on the generated graph is best on the original' in said
    assert 'best on the original is the best on the generated' not in said


def test_every_experiment_has_a_section_with_what_was_not_run(page):
    for experiment in EXPERIMENTS.values():
        assert f'## {experiment.title}' in page
    found = section(page, 'Noisy edges and aggregation')
    assert '16 of 84 rows were run. Not run: Cora, Photo (noisy edges 4);' in found
    assert '0 of 84 rows were run.' in section(page, 'Noisy edges and sampling')


def test_tables_beside_the_paper(page):
    page = squeezed(page)
    found = section(page, 'Graph by graph').splitlines()
    assert (
        '| Experiment | Graph | Pairs | MSE | Paper | Pearson | Paper | Spearman | Paper |' in found
    )
    # Gaps of 0.02 without noise and of 0.08 with it: (4 + 64) / 2 / 10⁴.
    (cora,) = (line for line in found if '| Cora |' in line)
    assert cora.startswith('| aggregation | Cora | 8 | 0.0034 | 0.0')
    ablation = section(page, 'Parts of the generator left out')
    assert '| | no label | 1 | 0.0900 | 0.1' in ablation
    assert '- holds: Cora: the full model has a smaller MSE than no label' in ablation
    assert '| | generated / original | GCN | 0.810 | 1 | 0.770 | 0.800 |' in page
    assert '| Cora | 5 | 0.250 | 0.250 | 0.500 | 0.500 | 1 |' in page
    assert 'does not name its measure' in section(page, 'Link prediction')


def test_better_is_bold_where_it_is_sure():
    # The paper's MSE on these rows is 0.01 and more.
    cells = [pair_cell(0.8, 0.79, model=m) for m in ('GCN', 'SGC', 'GIN', 'GAT')]
    few = render_markdown(Results.from_cells(by_key(*cells)))
    assert '| Cora | ours | 0.0001 |' in squeezed(few)
    cells += [pair_cell(0.8, 0.79, level='2', model=m) for m in ('GCN', 'SGC', 'GIN', 'GAT')]
    many = render_markdown(Results.from_cells(by_key(*cells)))
    assert '| Cora | ours | **0.0001** |' in squeezed(many)


def test_hostile_names_are_text():
    cell = pair_cell(0.8, 0.7, experiment='<b>', dataset='a|b', variant='`*`')
    page = squeezed(render_markdown(Results.from_cells(by_key(cell))))
    assert '## \\<b\\>' in page and '| a\\|b | \\`\\*\\` | 1 |' in page
    assert '<b>' not in page.replace('\\<b\\>', '')


@pytest.mark.skipif(not CELLS.exists(), reason='the measured cells are not beside the tests')
def test_tables_of_measured_cells_are_whole():
    page = render_markdown(read_results([CELLS]))
    for block in page.split('\n\n'):
        if block.startswith('|'):
            assert len({line.replace('\\|', '').count('|') for line in block.splitlines()}) == 1


@pytest.mark.skipif(not CELLS.exists(), reason='the measured cells are not beside the tests')
def test_the_page_of_the_docs_is_what_the_cells_say():
    results = read_results([CELLS]).with_notes(CELLS.with_name('notes.md'))
    assert render_markdown(results) == CELLS.with_name('benchmark.md').read_text(encoding='utf-8')
