"""``cgt release`` on a tiny graph: files, exit codes, interruptions and errors."""

import contextlib
import io
import json
import shutil

import pytest
import torch

from tests.helpers.sources import Tiny
from torch_geometric_cgt import SyntheticCGTDataset, benchmark
from torch_geometric_cgt.benchmark import GNNConfig
from torch_geometric_cgt.cli import main, release
from torch_geometric_cgt.datasets import sources

BUILD = '--source Tiny --epochs 1 --num-neighbors 3 2 --models SGC,GCN --device cpu --quiet'.split()

TERMS = {'license': 'CC-BY-4.0', 'contact': 'data@example.org', 'intended_use': 'Tests of GNNs'}
MADE = ['--k', 10]  # what the release of the fixture 'made' is made with
MADE += [word for name in TERMS for word in (f'--{name.replace("_", "-")}', TERMS[name])]


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setitem(sources.SOURCES, 'Tiny', lambda: Tiny(num_nodes=200, num_edges=800))
    monkeypatch.setattr(GNNConfig, 'for_roots', lambda _: GNNConfig(epochs=3))


@pytest.fixture
def cheap(monkeypatch):
    """Audits that make no further build."""
    monkeypatch.setitem(release.AUDITS, 'quick', (('groups', 'copies', 'closest'), 0))
    monkeypatch.setitem(release.AUDITS, 'full', (('copies', 'noise'), 0))


@pytest.fixture(scope='module')
def made(tmp_path_factory):
    """The folder of a release with the default audit, its exit code and what was printed."""
    folder = tmp_path_factory.mktemp('made')
    shown = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(shown):
        patch.setitem(sources.SOURCES, 'Tiny', lambda: Tiny(num_nodes=200, num_edges=800))
        patch.setattr(GNNConfig, 'for_roots', lambda _: GNNConfig(epochs=3))
        code = command(folder, *MADE)
    return folder, code, shown.getvalue()


def command(folder, *more):
    paths = ['--root', str(folder / 'root'), '--out', str(folder / 'out')]
    return main(['release', *BUILD, *paths, *map(str, more)])


def copy_of(made, tmp_path):
    shutil.copytree(made[0], tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_one_command_makes_everything(made):
    folder, code, shown = made
    out = folder / 'out'
    content = json.loads((out / 'release.json').read_text())
    audit = json.loads((out / 'owner' / 'audit.json').read_text())
    verdicts = {check['verdict'] for check in audit['checks']}
    expected = 1 if 'above the limit' in verdicts else 3 if 'not checked' in verdicts else 0
    assert code == content['exit_code'] == expected
    assert set(content['seconds']) == {'synthesize', 'evaluate', 'audit'}
    assert audit['settings']['checks'] == [c for c in release.CHECKS if c != 'canary']
    assert set(content['left_out']) == {'canary', 'shadows'}
    for sentence in content['sentences'].values():
        assert sentence in shown
    assert 'at least 10 nodes' in content['sentences']['guarantee']
    report = json.loads((out / 'owner' / 'report.json').read_text())
    assert {'ceiling', 'control', 'control transfer', 'transfer'} < set(report['scores'])
    page = (out / 'release.html').read_text()
    for link in ('owner/report.html', 'owner/audit.html'):
        assert f'href="{link}"' in page and (out / link).is_file()


def test_what_may_be_published_is_apart(made):
    out = made[0] / 'out'
    assert {path.name for path in out.iterdir()} == {
        'owner',
        'release',
        'release.html',
        'release.json',
    }
    files = {path.name for path in (out / 'release').iterdir()}
    assert files == {'card.json', 'README.md', 'release.safetensors'}
    assert len(SyntheticCGTDataset.load(out / 'release').trees) == 200
    assert 'finds' not in (out / 'release' / 'README.md').read_text()  # no word of attacks


def test_terms_are_on_the_card_of_the_release(made, tmp_path, capsys):
    release = made[0] / 'out' / 'release'
    assert json.loads((release / 'card.json').read_text())['terms'] == TERMS
    assert 'data@example.org' in (release / 'README.md').read_text()
    assert command(tmp_path, '--k', 10, '--license', ' ') == 2  # refused before the build
    assert "'license'" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_the_same_command_resumes(made, tmp_path, cheap, monkeypatch, capsys):
    folder = copy_of(made, tmp_path)
    owner = folder / 'out' / 'owner'
    steps = json.loads((owner / 'steps.json').read_text())
    kept = steps['seconds'].pop('audit') and dict(steps['seconds'])
    (owner / 'steps.json').write_text(json.dumps(steps))
    (owner / 'audit.json').unlink()
    (folder / 'out' / 'release.html').unlink()
    monkeypatch.setattr(benchmark, 'evaluate_dataset', lambda *_, **__: pytest.fail('again'))
    assert command(folder, *MADE) == 0
    assert (folder / 'out' / 'release.html').is_file()
    seconds = json.loads((owner / 'steps.json').read_text())['seconds']
    assert {name: seconds[name] for name in kept} == kept and 'audit' in seconds
    assert 'ready to be signed' in capsys.readouterr().out


def test_an_attack_above_the_limit_ends_with_one(made, tmp_path, capsys):
    folder = copy_of(made, tmp_path)
    path = folder / 'out' / 'owner' / 'audit.json'
    audit = json.loads(path.read_text())
    audit['checks'][0]['verdict'] = 'above the limit'
    path.write_text(json.dumps(audit))
    assert command(folder, *MADE) == 1
    shown = capsys.readouterr().out
    assert 'Verdict: do not publish' in shown
    assert f'\nDo not publish: {folder / "out" / "release"}\n' in shown and '\nPublish' not in shown
    assert 'Do not publish.' in (folder / 'out' / 'release.html').read_text()


def test_a_private_release(tmp_path, cheap):
    assert command(tmp_path, '--epsilon', 8) == 0
    content = json.loads((tmp_path / 'out' / 'release.json').read_text())
    assert 'differential privacy (epsilon = 8' in content['sentences']['guarantee']
    page = (tmp_path / 'out' / 'release.html').read_text()
    assert 'they are not for publication' in page
    assert 'closest' in content['left_out']  # of the full audit, as private builds are fast


@pytest.mark.parametrize(
    'arguments, message',
    [
        ([*MADE, '--k', 12], '--k was 10, now 12'),
        ([*MADE, '--license', 'MIT'], '--license was CC-BY-4.0, now MIT'),
        ([*MADE, '--models', 'Korra'], "Unknown models ['Korra']"),
        ([*MADE, '--zoo', '--models', 'MLP'], '--zoo was False, now True'),
    ],
)
def test_an_existing_folder_is_not_written_to(made, arguments, message, capsys):
    before = (made[0] / 'out' / 'release.json').read_bytes()
    assert command(made[0], *arguments) == 2
    assert message in capsys.readouterr().err
    assert (made[0] / 'out' / 'release.json').read_bytes() == before


def test_wrong_arguments_leave_no_folder(tmp_path, capsys):
    assert command(tmp_path, '--k', 500) == 2
    assert 'k=500 for 200 nodes' in capsys.readouterr().err
    assert command(tmp_path, '--k', 10, '--epsilon', 1) == 2
    assert not (tmp_path / 'out').exists()
    assert main(['release', '--out', str(tmp_path / 'out')]) == 2
    assert "Name the graph to release: '--source'" in capsys.readouterr().err


def test_splits_without_test_nodes_are_refused_before_the_build(tmp_path, monkeypatch, capsys):
    source = Tiny(num_nodes=60, num_edges=200)
    source._data.train_mask = torch.ones(60, dtype=torch.bool)
    monkeypatch.setitem(sources.SOURCES, 'Tiny', lambda: source)
    assert command(tmp_path, '--k', 10) == 2
    assert "is in 'test_mask', so that GNNs cannot be compared" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_two_tables_are_enough(tmp_path, cheap, capsys):
    graph = Tiny(num_nodes=60, num_edges=200)[0]
    table = enumerate(zip(graph.x.tolist(), graph.y.tolist(), strict=True))
    rows = [f'p{i},{x[0]:.3f},{x[1]:.3f},class {y}' for i, (x, y) in table]
    (tmp_path / 'nodes.csv').write_text('\n'.join(['id,a,b,y', *rows]))
    pairs = [f'p{a},p{b}' for a, b in graph.edge_index.t().tolist()]
    (tmp_path / 'edges.csv').write_text('\n'.join(['source,target', *pairs]))
    tables = [f'--{name}={tmp_path / name}.csv' for name in ('nodes', 'edges')]
    words = [*tables, '--label', 'y', '--name', 'People', '--k', '10', *BUILD[2:]]
    words.append('--publish-class-names')
    out = tmp_path / 'out'
    assert main(['release', *words, '--root', str(tmp_path / 'root'), '--out', str(out)]) == 0
    content = json.loads((out / 'release.json').read_text())
    assert content['source'] == 'People' and '--label y' in content['commands']['audit']
    assert f'--nodes {tmp_path / "nodes.csv"}' in content['commands']['audit']
    assert SyntheticCGTDataset.load(out / 'release').class_names[1] == 'class 1'
    assert 'Names of labels, by choice: class 0, class 1' in (out / 'release.html').read_text()
    assert main(['verify', str(out / 'release')]) == 0
    assert '1 = class 1' in capsys.readouterr().out


def test_names_of_labels_need_names(tmp_path, capsys):
    assert command(tmp_path, '--k', 10, '--publish-class-names') == 2
    assert "is for tables, whose labels have names (got 'Tiny')" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize('inside', ['', 'report/new'])
def test_a_report_is_not_written_into_a_release(made, inside, capsys):
    release, before = made[0] / 'out' / 'release', sorted((made[0] / 'out' / 'release').iterdir())
    out = ['--out', str(release / inside)]
    assert main(['audit', str(release), '--source', 'Tiny', *out]) == 2
    assert 'which may be published' in capsys.readouterr().err
    assert main(['evaluate', '--release', str(release), '--source', 'Tiny', *out]) == 2
    assert sorted(release.iterdir()) == before
