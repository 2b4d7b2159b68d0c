import os
from pathlib import Path

import pytest
import torch

from tests.helpers.ogb_files import FILES, check, write
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.cli.main import main
from torch_geometric_cgt.datasets import OgbnArxiv, OgbnProducts, load_source
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
