"""The pages of the documentation: public names, links and anchors."""

import importlib
import re
import shlex
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from torch_geometric_cgt.cli import make_parser

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob('*.md'), *(ROOT / 'docs').glob('**/*.md')])
MODULES = [
    'data',
    'sampler',
    'quantizer',
    'transforms',
    'nn',
    'training',
    'privacy',
    'models',
    'baselines',
    'pipeline',
    'release',
    'datasets',
    'audit',
    'benchmark',
]


@pytest.mark.parametrize('module', ['', *MODULES])
def test_every_public_name_is_documented(module):
    package = importlib.import_module('.'.join(filter(None, ['torch_geometric_cgt', module])))
    listed = set(re.findall(r'\w+', (ROOT / 'docs' / 'api.md').read_text()))
    for name in package.__all__:
        if name.startswith('_'):
            continue
        assert name in listed, f'{name} is missing in docs/api.md'
        value = getattr(package, name)
        assert not callable(value) or value.__doc__, f'{name} has no docstring'


def prose(page):
    """The text of a page without its blocks of code."""
    return re.sub(r'^```.*?^```$', '', page.read_text(encoding='utf-8'), flags=re.M | re.S)


def anchors(page):
    """The anchors of the headings of a page, as GitHub makes them."""
    found, seen = set(), Counter()
    for heading in re.findall(r'^#+ +(.+?) *$', prose(page), flags=re.M):
        shown = re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', heading)
        anchor = re.sub(r'[^\w\- ]', '', shown.lower()).replace(' ', '-')
        found.add(f'{anchor}-{seen[anchor]}' if seen[anchor] else anchor)
        seen[anchor] += 1
    return found


@pytest.mark.parametrize('page', PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_anchors_that_exist(page):
    for link in re.findall(r'\]\(([^)\s]+)\)', prose(page)):
        if re.match(r'\w+:', link):  # another site
            continue
        path, _, anchor = link.partition('#')
        target = page.parent / path if path else page
        assert target.exists(), f'{page.name} links to {link}: there is no such file'
        if anchor:
            assert anchor in anchors(target), f'{page.name} links to {link}: no such heading'


def test_every_term_of_the_glossary_is_used():
    glossary = ROOT / 'docs' / 'glossary.md'
    others = ''.join(prose(page) for page in PAGES if page != glossary)
    terms = re.findall(r'^## (.+)$', prose(glossary), flags=re.M)
    assert len(terms) == 12
    for term in terms:
        assert f'glossary.md#{term.lower().replace(" ", "-")})' in others, f'no page links {term}'


@pytest.mark.parametrize('module', [*MODULES, 'errors'])
def test_every_module_has_a_page_of_reference(module):
    page = ROOT / 'docs' / 'reference' / f'{module}.md'
    assert f'.. automodule:: torch_geometric_cgt.{module}\n   :members:\n' in page.read_text()
    assert f']({module}.md)' in (ROOT / 'docs' / 'reference' / 'index.md').read_text()


def test_the_first_page_leads_to_every_page():
    links = {ROOT / 'docs' / 'index.md'}
    waiting = list(links)
    while waiting:
        page = waiting.pop()
        for link in re.findall(r'\]\(([^)\s#:]+\.md)', prose(page)):
            target = (page.parent / link).resolve()
            if target not in links:
                links.add(target)
                waiting.append(target)
    missing = [str(page.relative_to(ROOT)) for page in (ROOT / 'docs').glob('**/*.md')]
    missing = [page for page in missing if ROOT / page not in links]
    assert missing == []


def test_commands_of_the_guide_are_understood():
    """Every `cgt` command in a block of shell is one that the parser knows, with its options."""
    found = 0
    for page in PAGES:
        for block in re.findall(r'^```sh\n(.*?)^```$', page.read_text('utf-8'), flags=re.M | re.S):
            lines = [line.split('#')[0] for line in block.replace('\\\n', ' ').splitlines()]
            for line in lines:
                if line.startswith('cgt '):
                    make_parser().parse_args(shlex.split(line)[1:])
                    found += 1
    assert found > 15


@pytest.mark.parametrize('text', ['x: 1 --- "y"', 'plain'])
def test_notebooks_become_pages(text):
    import json
    import runpy

    pytest.importorskip('myst_parser')
    page = runpy.run_path(str(ROOT / 'docs' / '_extensions' / 'notebook_pages.py'))['to_markdown']
    cells = [
        {'cell_type': 'markdown', 'source': ['# Title\n', text]},
        {
            'cell_type': 'code',
            'source': ['print(1)'],
            'outputs': [
                {'output_type': 'stream', 'name': 'stdout', 'text': ['1\n']},
                {'output_type': 'stream', 'name': 'stderr', 'text': ['hidden\n']},
                {'output_type': 'execute_result', 'data': {'text/plain': ['2']}},
            ],
        },
    ]
    expected = f'# Title\n{text}\n\n````python\nprint(1)\n````\n\n````text\n1\n2\n````\n'
    assert page(json.dumps({'cells': cells})) == expected


@pytest.mark.parametrize('page', PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_headings_skip_no_level(page):
    """Sphinx warns about a page whose headings do, and a warning ends `make docs`."""
    text = re.sub(
        r'^```.*?^```', '', page.read_text(encoding='utf-8'), flags=re.DOTALL | re.MULTILINE
    )
    levels = [len(marks) for marks in re.findall(r'^(#+) ', text, flags=re.MULTILINE)]
    assert all(after <= before + 1 for before, after in pairwise(levels)), levels
