"""The tests themselves: each asserts something, none needs another, and they mirror the package."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / 'torch_geometric_cgt'
LARGE = 100  # lines of a module that needs a test file of its own

# Test files that are not named after one module, and the behaviour that they test.
BEHAVIOURS = {
    'cli/test_own_graph.py': 'own graphs from their files to a release, for every kind of source',
    'cli/test_main.py': 'answers without PyTorch, exit codes and warnings of all commands',
    'pipeline/test_interrupted.py': 'builds that are killed, cut off or meet, in all their stages',
    'pipeline/test_neighbours.py': 'private builds of all graphs that differ in one unit',
    'pipeline/test_several.py': 'one build by several processes',
    'pipeline/test_projected.py': 'codebooks under a projection, from the build to the audit',
    'release/test_format_1.py': 'releases that were written in the first format',
    'release/test_format_2.py': 'releases that were written in the second format',
    'release/test_malicious.py': 'releases of strangers, from the files to the ledger',
    'report/test_paper.py': 'the numbers of the paper that tables are compared with',
    'report/test_privacy_tables.py': 'tables of privacy, from the cells to the pages',
    'sampler/test_samplers.py': 'what all tree samplers have in common, and their names',
}
# Large modules without a test file, and where their behaviour is tested.
TESTED_ELSEWHERE = {
    'audit/audit_run.py': 'audit/test_release_audit.py runs all checks',
    'cli/evaluate.py': 'cli/test_synthesize.py runs it on builds and releases',
    'nn/children.py': 'nn/test_cgt_generator.py runs both forms of siblings',
    'release/wording.py': 'release/test_format_1.py compares cards with its sentences',
}


def calls(node: ast.AST) -> Iterator[tuple[str, str]]:
    """The (object, name) of every call below a node; the object of a plain name is empty."""
    for child in ast.walk(node):
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Name):
            yield '', child.func.id
        elif isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute):
            yield ast.unparse(child.func.value), child.func.attr


def asserts(function: ast.AST, asserting: set[str]) -> bool:
    """Whether a function can fail a test by itself, or calls one that can."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert) and not isinstance(node.test, ast.Constant):
            return True
    return any(
        name.startswith('assert_')  # of torch.testing or NumPy
        or (owner == 'pytest' and name in ('raises', 'warns', 'fail'))
        or (not owner and name in asserting)
        for owner, name in calls(function)
    )


def asserting_functions(tree: ast.Module, imported: set[str] = frozenset()) -> set[str]:
    """The functions of a module that assert something, also by way of each other."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    found = set(imported)
    while more := {f.name for f in functions if f.name not in found and asserts(f, found)}:
        found |= more
    return found


def without_assertion(source: str) -> list[str]:
    """The test functions of a module that cannot fail, unless by an error on the way."""
    tree = ast.parse(source)
    imported = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or '').startswith('tests.helpers.'):
            helper = TESTS.parent / f'{node.module.replace(".", "/")}.py'
            known = asserting_functions(ast.parse(helper.read_text(encoding='utf-8')))
            imported |= {alias.asname or alias.name for alias in node.names if alias.name in known}
    asserting = asserting_functions(tree, imported)
    return [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith('test')
        and not asserts(node, asserting)
    ]


def imported_tests(source: str) -> list[str]:
    """The modules of the tests, other than helpers, that a module imports."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = '.' * node.level + (node.module or '')
            names += [f'{base}.{alias.name}' for alias in node.names]
    return [
        name
        for name in names
        if name.split('.')[0] in ('', 'tests', 'conftest') and not name.startswith('tests.helpers.')
    ]


def misplaced(tests: Path, package: Path, behaviours: dict[str, str]) -> list[str]:
    """The test files of rooms that are named neither after a module nor as a behaviour."""
    files = [path.relative_to(tests) for path in tests.glob('*/test_*.py')]
    return sorted(
        str(file)
        for file in files
        if not (package / file.parent / '__init__.py').exists()
        or not (
            (package / file.parent / file.name.removeprefix('test_')).exists()
            or str(file) in behaviours
        )
    )


def untested(tests: Path, package: Path, large: int = LARGE) -> list[str]:
    """The large modules of rooms without a test file of their own."""
    return sorted(
        str(path.relative_to(package))
        for path in package.glob('*/*.py')
        if path.name != '__init__.py'
        and len(path.read_text(encoding='utf-8').splitlines()) > large
        and not (tests / path.parent.name / f'test_{path.name}').exists()
    )


def sources(pattern: str) -> dict[str, str]:
    files = sorted(TESTS.rglob(pattern))
    return {str(path.relative_to(TESTS)): path.read_text(encoding='utf-8') for path in files}


def test_every_test_asserts_something():
    found = {name: without_assertion(source) for name, source in sources('test_*.py').items()}
    assert {name: tests for name, tests in found.items() if tests} == {}


def test_no_test_imports_another():
    found = {name: imported_tests(source) for name, source in sources('*.py').items()}
    assert {name: tests for name, tests in found.items() if tests} == {}


def test_test_files_mirror_the_modules():
    assert misplaced(TESTS, PACKAGE, BEHAVIOURS) == []
    assert misplaced(TESTS, PACKAGE, {}) == sorted(BEHAVIOURS)  # each is needed


def test_large_modules_have_a_test_file():
    assert untested(TESTS, PACKAGE) == sorted(TESTED_ELSEWHERE)
    for reason in TESTED_ELSEWHERE.values():
        assert (TESTS / reason.split()[0]).exists()


@pytest.mark.parametrize(
    'body, is_found',
    [
        ('compute(3)', True),
        ('assert compute(3) == 9', False),
        ('assert True', True),
        ('with pytest.raises(ValueError):\n        compute(-1)', False),
        ('with pytest.warns(UserWarning):\n        compute(-1)', False),
        ('patch(lambda: pytest.fail("called"))', False),
        ('other.raises(ValueError)', True),
        ('check(3)', False),
        ('check_twice(3)', False),
        ('look(3)', True),
        ('torch.testing.assert_close(compute(3), 9)', False),
        ('data.check(3)', True),
        ('check_promises(3)', False),
    ],
)
def test_a_test_without_assertion_is_found(body, is_found):
    source = f"""
from tests.helpers.promises import check_promises, children_of

def look(x):
    return compute(x)

def check_twice(x):
    check(x), check(x)

def check(x):
    assert compute(x)

class TestThings:
    def test_inside(self):
        {body.replace(chr(10), chr(10) + '    ')}

@given(st.integers())
def test_one(x):
    {body}
"""
    assert without_assertion(source) == (['test_one', 'test_inside'] if is_found else [])


@pytest.mark.parametrize(
    'line, found',
    [
        ('from tests.conftest import random_graph', ['tests.conftest.random_graph']),
        ('from tests.data.test_tree import trees', ['tests.data.test_tree.trees']),
        ('from tests.data import test_tree', ['tests.data.test_tree']),
        ('import tests.data.test_tree', ['tests.data.test_tree']),
        ('from .test_tree import trees', ['.test_tree.trees']),
        ('from conftest import random_graph', ['conftest.random_graph']),
        ('def late():\n    from tests.conftest import quick', ['tests.conftest.quick']),
        ('from tests.helpers.graphs import random_graph', []),
        ('from tests.helpers import tiny', []),
        ('import torch.testing', []),
    ],
)
def test_an_import_of_a_test_is_found(line, found):
    assert imported_tests(line) == found


def test_a_file_out_of_place_is_found(tmp_path):
    tests, package = tmp_path / 'tests', tmp_path / 'package'
    for file in ('nn/__init__.py', 'nn/layout.py', 'nn/large.py', 'nn/tested.py'):
        (package / file).parent.mkdir(parents=True, exist_ok=True)
        (package / file).write_text('x = 1\n' * (3 if file == 'nn/layout.py' else 101))
    names = ('nn/test_tested.py', 'nn/test_old_name.py', 'nn/test_together.py', 'attic/test_x.py')
    for file in names:
        (tests / file).parent.mkdir(parents=True, exist_ok=True)
        (tests / file).touch()
    behaviours = {'nn/test_together.py': 'several modules', 'attic/test_x.py': 'no room'}
    assert misplaced(tests, package, behaviours) == ['attic/test_x.py', 'nn/test_old_name.py']
    assert untested(tests, package) == ['nn/large.py']
