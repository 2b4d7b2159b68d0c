import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.ogb_files import FILES, check, write
from torch_geometric_cgt.datasets import OgbnArxiv, OgbnProducts
from torch_geometric_cgt.errors import SourceError


@pytest.fixture
def arxiv(tmp_path) -> Path:
    return write(tmp_path / 'data' / 'ogbn_arxiv', FILES)


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
