"""Every import of the package is declared in pyproject.toml."""

import ast
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / 'torch_geometric_cgt'
tomllib = pytest.importorskip('tomllib', reason='Python 3.10 has no reader of TOML files')


def canonical(name: str) -> str:
    return re.sub(r'[-_.]+', '-', name).lower()


def declared() -> dict[str, set[str]]:
    """The distributions of the package itself ('') and of each extra."""
    project = tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']
    groups = {'': project['dependencies'], **project['optional-dependencies']}
    return {
        group: {canonical(re.match(r'[\w.-]+', requirement)[0]) for requirement in requirements}
        for group, requirements in groups.items()
    }


def imported(text: str) -> set[str]:
    """The top-level modules that a file imports, at any depth."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split('.')[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(node.module.split('.')[0])
    return found - set(sys.stdlib_module_names) - {PACKAGE.name}


def undeclared(files: dict[str, str], allowed: set[str]) -> set[tuple[str, str]]:
    """The file and the module of each import that no allowed distribution provides."""
    providers = packages_distributions()
    return {
        (file, module)
        for file, text in files.items()
        for module in imported(text)
        if not {canonical(name) for name in providers.get(module, [module])} & allowed
    }


def test_every_import_is_declared():
    files = {str(p.relative_to(ROOT)): p.read_text() for p in PACKAGE.rglob('*.py')}
    assert len(files) > 100
    assert undeclared(files, set().union(*declared().values())) == set()


def test_imports_at_the_top_of_a_module_need_no_extra():
    """But for type checking, and for modules of an extra."""
    optional = {'report/figures.py', 'report/html_pages.py', 'report/report_files.py'}
    files = {}
    for path in PACKAGE.rglob('*.py'):
        tree = ast.parse(path.read_text())
        tree.body = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
        files[str(path.relative_to(PACKAGE))] = ast.unparse(tree)
    found = {file for file, _ in undeclared(files, declared()[''])}
    assert found <= optional


def test_an_import_that_nobody_declared_is_found():
    files = {'a.py': 'import scipy.stats\nfrom ortools.graph import x\nimport os\n'}
    assert undeclared(files, {'scipy'}) == {('a.py', 'ortools')}
    assert undeclared(files, {'scipy', 'ortools'}) == set()
