import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = [
    'data',
    'sampler',
    'quantizer',
    'transforms',
    'nn',
    'training',
    'privacy',
    'audit',
    'datasets',
]


@pytest.mark.parametrize('module', ['', *MODULES, 'benchmark'])
def test_every_public_name_is_documented(module):
    package = importlib.import_module('.'.join(filter(None, ['torch_geometric_cgt', module])))
    listed = set(re.findall(r'\w+', (ROOT / 'docs' / 'api.md').read_text()))
    for name in package.__all__:
        if name.startswith('_'):
            continue
        assert name in listed, f'{name} is missing in docs/api.md'
        value = getattr(package, name)
        assert not callable(value) or value.__doc__, f'{name} has no docstring'


def test_links_between_pages_lead_somewhere():
    for page in [ROOT / 'README.md', *(ROOT / 'docs').glob('**/*.md')]:
        for link in re.findall(r'\]\(([^)#]+)\)', page.read_text()):
            if not link.startswith('http'):
                assert (page.parent / link).exists(), f'{page.name} links to {link}'
