"""The pages of the documentation: public names, links and anchors."""

import importlib
import re
from collections import Counter
from pathlib import Path

import pytest

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
