import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.utils import to_undirected

from tests.helpers.ogb_files import FILES, check, write
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.cli import main
from torch_geometric_cgt.datasets import OgbnArxiv, OgbnProducts, load_source
from torch_geometric_cgt.datasets.ogb import undirected
from torch_geometric_cgt.errors import CorruptFileError, SourceError


@pytest.fixture
def arxiv(tmp_path) -> Path:
    return write(tmp_path / 'data' / 'ogbn_arxiv', FILES)


def test_every_field_is_read_and_kept(arxiv):
    dataset = OgbnArxiv(arxiv.parent)
    assert len(dataset) == 1 and dataset.name == 'ogbn-arxiv' and dataset.num_classes == 3
    check(dataset[0])
    for file in arxiv.glob('*/**/*.gz'):
        file.unlink()
    check(OgbnArxiv(arxiv.parent)[0])  # from what was kept


def test_blocks_fit_together(arxiv, monkeypatch):
    monkeypatch.setattr('torch_geometric_cgt.datasets.ogb.BLOCK', 2)
    check(OgbnArxiv(arxiv.parent)[0])


def test_products_have_their_own_split(tmp_path):
    files = {name.replace('time', 'sales_ranking'): text for name, text in FILES.items()}
    write(tmp_path / 'ogbn_products', files)
    check(OgbnProducts(tmp_path)[0])


def test_folder_that_must_not_be_written_to(arxiv, monkeypatch, tmp_path):
    monkeypatch.setenv('CGT_DATA_ROOT', str(arxiv.parent))
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    arxiv.chmod(0o555)
    check(load_source('OgbnArxiv')[0])
    assert sorted(path.name for path in arxiv.iterdir()) == ['raw', 'split']
    arxiv.chmod(0o755)


BAD = {
    'ragged row': ('raw/node-feat', '1,2\n3,4\n5\n6,7\n8,9\n', r'node-feat.*columns changed'),
    'ragged block': ('raw/node-feat', '1,2\n3,4\n5,6\n6,7\n8\n', r'node-feat.*columns changed'),
    'word': ('raw/node-feat', '1,2\n3,x\n5,6\n6,7\n8,9\n', r"node-feat.*'x'"),
    'missing row': ('raw/node-feat', '1,2\n3,4\n', r'node-feat.*must have 5 rows \(got 2\)'),
    'surplus row': ('raw/node-label', '0\n' * 7, r'node-label.*must have 5 rows \(got more\)'),
    'two labels': ('raw/node-label', '0,1\n' * 5, r'non-negative label per node.*got 2 per node'),
    'negative label': ('raw/node-label', '0\n1\n-1\n0\n0\n', r'non-negative.*smallest -1'),
    'two graphs': ('raw/num-node-list', '5\n5\n', r'num-node-list.*must have 1 rows'),
    'unknown node': ('raw/edge', '0,1\n1,5\n' * 3 + '0,0\n', r'from 0 to 4 \(got 0 to 5\)'),
    'negative node': ('raw/edge', '0,-1\n' * 7, r'from 0 to 4 \(got -1 to 0\)'),
    'missing edge': ('raw/edge', '0,1\n' * 6, r'edge.*must have 7 rows \(got 6\)'),
    'surplus edge': ('raw/edge', '0,1\n' * 8, r'edge.*must have 7 rows \(got 8\)'),
    'three ends': ('raw/edge', '0,1,2\n' * 7, r'edge.*must have 2 columns \(got 3\)'),
    'split too high': ('split/time/test', '4\n5\n', r'test.*from 0 to 4 \(got 4 to 5\)'),
    'split negative': ('split/time/valid', '-2\n', r'valid.*from 0 to 4 \(got -2 to -2\)'),
    'two splits': ('split/time/test', '4\n3\n', r'test.*in no other split, once each'),
    'twice in a split': ('split/time/train', '3\n3\n', r'train.*once each'),
}


@pytest.mark.parametrize('case', BAD)
def test_bad_files_are_refused(arxiv, monkeypatch, case):
    monkeypatch.setattr('torch_geometric_cgt.datasets.ogb.BLOCK', 4)
    name, text, message = BAD[case]
    write(arxiv, {name: text})
    with pytest.raises(SourceError, match=message):
        OgbnArxiv(arxiv.parent)
    assert not (arxiv / 'processed').exists()


def test_truncated_file_is_named(arxiv):
    path = arxiv / 'raw' / 'edge.csv.gz'
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(SourceError, match=r'edge\.csv\.gz.*cannot be read'):
        OgbnArxiv(arxiv.parent)


def test_damaged_copy_is_named(arxiv):
    OgbnArxiv(arxiv.parent)
    kept = arxiv / 'processed' / 'undirected.safetensors'
    os.truncate(kept, kept.stat().st_size - 8)
    with pytest.raises(CorruptFileError, match=r'undirected\.safetensors.*delete it'):
        OgbnArxiv(arxiv.parent)


def test_command_takes_it_as_a_source(tmp_path, monkeypatch, graph):
    index = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(0)).tolist()
    lines = {
        'raw/num-node-list': [graph.num_nodes],
        'raw/num-edge-list': [graph.num_edges],
        'raw/edge': [f'{a},{b}' for a, b in graph.edge_index.t().tolist()],
        'raw/node-feat': [','.join(map(str, row)) for row in graph.x.tolist()],
        'raw/node-label': graph.y.tolist(),
        'split/time/train': index[:60],
        'split/time/valid': index[60:80],
        'split/time/test': index[80:],
    }
    files = {name: ''.join(f'{line}\n' for line in value) for name, value in lines.items()}
    write(tmp_path / 'data' / 'ogbn_arxiv', files)
    monkeypatch.setenv('CGT_DATA_ROOT', str(tmp_path / 'data'))
    data = load_source('OgbnArxiv')[0]
    assert torch.equal(data.x, graph.x) and torch.equal(data.edge_index, graph.edge_index)
    options = '--k 10 --num-neighbors 2 2 --epochs 1 --task-weight 0 --quiet --device cpu'.split()
    out, root = tmp_path / 'release', tmp_path / 'root'
    command = ['synthesize', '--source', 'OgbnArxiv', '--out', str(out), '--root', str(root)]
    assert main([*command, *options]) == 0
    released = SyntheticCGTDataset.load(out)
    assert len(released.trees) == graph.num_nodes


def test_missing_files_are_named_without_ogb(arxiv, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, 'ogb', None)
    (arxiv / 'raw' / 'edge.csv.gz').unlink()
    with pytest.raises(SourceError, match=r'ogbn_arxiv.*lacks raw/edge\.csv\.gz.*\[ogb\]'):
        OgbnArxiv(arxiv.parent)
    with pytest.raises(SourceError, match=r'nowhere.*CGT_DATA_ROOT.*ogbn_products/raw/edge'):
        OgbnProducts(tmp_path / 'nowhere')
    assert not (tmp_path / 'nowhere').exists()


def loaded() -> list[str]:
    return [name for name in sys.modules if name.split('.')[0] == 'ogb']


@pytest.fixture
def fake_ogb(tmp_path, monkeypatch) -> Iterator[Path]:
    """A package that looks like OGB's where it is used, and copies instead of downloading."""
    package = tmp_path / 'site' / 'ogb'
    (package / 'utils').mkdir(parents=True)
    (package / 'nodeproppred').mkdir()
    (package / '__init__.py').touch()
    (package / 'utils' / '__init__.py').touch()
    (package / 'nodeproppred' / 'master.csv').write_text(
        f',ogbn-proteins,ogbn-arxiv\ndownload_name,p,arxiv\nurl,p.zip,{tmp_path}/arxiv.zip\n'
    )
    (package / 'utils' / 'url.py').write_text(
        'import shutil, zipfile\n'
        'def download_url(url, folder, log=True):\n'
        '    return shutil.copy(url, folder)\n'
        'def extract_zip(path, folder, log=True):\n'
        '    zipfile.ZipFile(path).extractall(folder)\n'
    )
    real = {
        name: sys.modules.pop(name) for name in list(sys.modules) if name.split('.')[0] == 'ogb'
    }
    monkeypatch.syspath_prepend(package.parent)
    yield tmp_path / 'arxiv.zip'
    for name in loaded():
        del sys.modules[name]
    sys.modules.update(real)


def test_missing_files_are_downloaded(arxiv, fake_ogb, tmp_path):
    with zipfile.ZipFile(fake_ogb, 'w') as archive:
        for path in arxiv.glob('*/**/*.gz'):
            archive.write(path, Path('arxiv') / path.relative_to(arxiv))
    write(arxiv, {'raw/node-label': '1\n' * 5})  # what is there stays
    (arxiv / 'raw' / 'edge.csv.gz').unlink()
    data = OgbnArxiv(arxiv.parent)[0]
    assert data.num_edges == 9 and data.y.tolist() == [1] * 5
    check(OgbnArxiv(tmp_path / 'new')[0])
    assert sorted(path.name for path in (tmp_path / 'new' / 'ogbn_arxiv').iterdir()) == [
        *('processed', 'raw', 'split')
    ]


def test_download_that_fails_is_reported(fake_ogb, tmp_path):
    with pytest.raises(SourceError, match=r'downloading them failed.*arxiv\.zip'):
        OgbnArxiv(tmp_path / 'new')
    with zipfile.ZipFile(fake_ogb, 'w') as archive:
        archive.writestr('arxiv/README', '')
    with pytest.raises(SourceError, match=r'downloading them failed.*raw/edge'):
        OgbnArxiv(tmp_path / 'new')


def test_undirected_is_that_of_pyg():
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 30, (200, 2), dtype=np.int32)
    blocks = [edges[:150], edges[150:]]
    expected = to_undirected(torch.from_numpy(edges.T.astype(np.int64)), num_nodes=30)
    assert torch.equal(undirected(blocks, 200, 30), expected)
    assert undirected([], 0, 30).shape == (2, 0)
    with pytest.raises(ValueError, match=r'Expected 201 edges \(got 200\)'):
        undirected(blocks, 201, 30)
