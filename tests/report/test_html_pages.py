import html
import re

import pytest

from tests.helpers.cells import FACTS, by_key, pair_cell, some_cells
from tests.helpers.pages import CHROMIUM, Page, look
from torch_geometric_cgt.benchmark.cells import Cell
from torch_geometric_cgt.benchmark.experiments import EXPERIMENTS, CellKey
from torch_geometric_cgt.report.benchmark_results import Results
from torch_geometric_cgt.report.html_pages import render_benchmark


@pytest.fixture(scope='module')
def page():
    return render_benchmark(Results.from_cells(some_cells()))


@pytest.mark.skipif(CHROMIUM is None, reason='there is no chromium to open the page with')
def test_page_in_a_browser(page, tmp_path):
    wide = page.replace(
        '</body>', '<div style="width: 500px">x</div><script>oops()</script></body>'
    )
    phone, desktop = look(page, tmp_path, [360, 1200])
    assert (phone['width'], desktop['width']) == (360, 1200)
    for found in (phone, desktop):
        assert found['errors'] == [] and found['loaded'] == 0
        assert found['needed'] == found['width']  # nothing sticks out
        assert len(found['tables']) == page.count('<table') and min(found['tables']) > 20
        assert max(found['boxes']) <= found['width']
        assert len(found['figures']) == page.count('<figure>')
        assert all(w > 150 and h > 80 for w, h in found['figures'])
        assert 0 < found['first'] < 400  # the first thing to see
        assert any('missed' in text for text, _ in found['verdicts'])
        assert max(right for _, right in found['verdicts']) <= found['width']
        assert all(right <= found['width'] for _, right in found['ends'])
    assert all(0 <= left < 40 for left, _ in phone['ends'])
    assert 'sideways' in phone['hint'] and desktop['hint'] == 'none'
    (broken,) = look(wide, tmp_path, [360])  # this test can fail
    assert broken['needed'] > 360 and 'oops' in broken['errors'][0]


def test_page_stands_by_itself(page):
    found = Page(page)
    assert found.links == [] and 'script' not in found.tags  # nothing is fetched, nothing runs
    assert 'url(http' not in page and '@import' not in page
    # Two scatters of all scenarios, two scatters and two figures of dots of aggregation, dots
    # of the ablation, two histograms.
    assert found.tags.count('figure') == 2 + 4 + 1 + 2
    # The headline, the runs, all experiments, the agreement of those with pairs, and per
    # dataset where there are several and variants as well.
    assert found.tags.count('table') == 2 + len(EXPERIMENTS) + len(EXPERIMENTS) - 2 + 2


def test_all_scenarios_come_first(page):
    start = page[: page.index('id="headline"')]
    assert start.count('<figure>') == 2 and start.count('accuracy on the generated graph') == 2
    assert (
        '>This run</figcaption>' in start and '>The paper, on the same rows</figcaption>' in start
    )
    headline = page[page.index('id="headline"') : page.index('class="contents"')]
    assert 'no label' not in headline and 'k=100' not in headline
    assert headline.count('rowspan') == 5  # the scenarios and link prediction
    assert not re.search('</svg>\\s*<figcaption', page)  # captions are above their figures


def test_links_are_no_accuracies():
    cell = pair_cell(0.8, 0.7, level='Dot', experiment='link')
    auc = {column: {'auc': score['accuracy']} for column, score in cell.scores.items()}
    text = render_benchmark(Results.from_cells(by_key(Cell(cell.key, auc))))
    section = text[text.index('id="experiment-link"') :]
    section = section[: section.index('<h2')]
    assert 'AUC on the original' in section and 'Mean AUC by predictor' in section
    assert 'accuracy' not in section and 'does not name its measure' in section


def test_page_shows_the_paper_and_what_was_not_run(page):
    for experiment in EXPERIMENTS.values():
        assert f'{experiment.title}</a>' in page
    assert '16 of 84 rows were run' in page and '0 of 40 rows were run' in page
    assert '>not run</td>' in page and '>not run</text>' in page
    assert '>0.0109</td>' in page and '>0.0225</td>' in page
    assert 'Not run: Cora, Photo (noisy edges 4);' in page
    assert FACTS['commit'][:12] in page and FACTS['command'] in page
    assert 'k = 30, num_neighbors = 5 5' in page
    assert '[1] the row repeats the one of PubMed' in page


@pytest.mark.parametrize(
    'name', ['<script>alert(1)</script>', '"><img src=x>', '$\\frac{', '--><b>', '&lt;', '']
)
def test_hostile_names_are_text(name):
    keys = {'dataset': name, 'level': name, 'model': name, 'variant': name}
    cells = by_key(
        pair_cell(0.8, 0.7, **keys),
        pair_cell(0.8, 0.7, experiment=name + 'x', **keys),
        Cell(
            CellKey('statistics', name, name, name, name),
            histograms={'duplicates': {name: [1, 2], 'original': [2, 1]}},
            facts=dict.fromkeys(FACTS, name),
        ),
    )
    text = render_benchmark(Results.from_cells(cells))
    found = Page(text)
    assert found.links == [] and not {'script', 'img'} & set(found.tags)
    assert found.tags.count('b') == 1  # our own
    assert name in html.unescape(text)
