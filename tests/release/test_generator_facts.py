"""The card of a release states its generator, and loading checks it."""

import copy
import json

import pytest

from tests.helpers.graphs import random_graph
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.audit import run_audit
from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.pipeline import KAnonymity
from torch_geometric_cgt.release import read_release
from torch_geometric_cgt.release.generator_facts import check_generator_facts
from torch_geometric_cgt.release.release import CARD, README, TENSORS
from torch_geometric_cgt.utils.files import write_sealed_json


@pytest.fixture(scope='module')
def datasets(tmp_path_factory):
    root = tmp_path_factory.mktemp('root')
    promise = KAnonymity(10, task_weight=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr('warnings.warn', lambda *_, **__: None)
        return {
            name: SyntheticCGTDataset(
                random_graph(num_nodes=200, num_edges=500),
                privacy=promise,
                num_neighbors=[3, 2],
                root=root,
                log=False,
                generator={'model': name},
            )
            for name in ('NGram', 'Resampled', 'DegreeCorrectedSBM')
        }


def test_a_release_is_loaded_with_its_sentences(datasets, tmp_path):
    datasets['NGram'].save(tmp_path / 'release')
    loaded = SyntheticCGTDataset.load(tmp_path / 'release', log=False)
    assert loaded.privacy == datasets['NGram'].privacy and loaded.privacy.generator == 'NGram'
    assert loaded.privacy.copies_trees is None
    assert loaded.privacy.guaranteed[0].startswith('Every feature vector')
    assert 'come from the generator NGram' in loaded.privacy.not_guaranteed[0]
    assert 'not copied from it' in (tmp_path / 'release' / README).read_text()


def test_copies_are_stated_loudly(datasets, tmp_path):
    datasets['Resampled'].save(tmp_path / 'release')
    loaded = SyntheticCGTDataset.load(tmp_path / 'release', log=False)
    assert loaded.privacy.not_guaranteed[0].startswith('NEIGHBOURHOODS ARE COPIES')
    assert loaded.privacy.summary.startswith('neighbourhoods are copies of the source')
    text = (tmp_path / 'release' / README).read_text()
    assert 'each of them is a copy of one in it' in text and 'not copied' not in text


def test_exact_degrees_are_stated(datasets):
    limits = datasets['DegreeCorrectedSBM'].privacy.not_guaranteed
    assert 'the exact degree and the exact label of every source node' in limits[0]


@pytest.mark.parametrize(
    'change, message',
    [
        (lambda c: c['privacy'].pop('copies_trees'), 'contradicts itself'),
        (lambda c: c['privacy'].pop('generator'), 'contradicts itself'),
        (lambda c: c['privacy'].update(generator='NGram'), 'contradicts itself'),
        (lambda c: c['parameters'].update(generator={}), 'unknown generator'),
        (lambda c: c['parameters']['generator'].update(model='Other'), 'unknown generator'),
        (lambda c: c['parameters']['generator'].update(model=['x']), 'unknown generator'),
        (lambda c: c.update(format=2), 'has no other generators'),
    ],
)
def test_altered_facts_are_refused(datasets, change, message):
    card = copy.deepcopy(datasets['Resampled'].card)
    check_generator_facts(card)
    change(card)
    with pytest.raises(ValueError, match=message):
        check_generator_facts(card)


def test_a_release_that_hides_its_copies_is_refused(datasets, tmp_path):
    folder = tmp_path / 'release'
    datasets['Resampled'].save(folder)
    card = json.loads((folder / CARD).read_text())
    del card['checksum'], card['files']
    del card['privacy']['copies_trees'], card['privacy']['generator']
    card['parameters']['generator'] = {}
    card['privacy']['not_guaranteed'] = card['privacy']['not_guaranteed'][1:]
    write_sealed_json(folder / CARD, card, [TENSORS, README])
    assert read_release(folder).privacy.generator is None  # consistent, but made up
    card['parameters']['generator'] = {'model': 'Resampled'}
    write_sealed_json(folder / CARD, card, [TENSORS, README])
    with pytest.raises(CorruptFileError, match='contradicts itself'):
        read_release(folder)


def test_a_release_is_audited(datasets):
    source = random_graph(num_nodes=200, num_edges=500)
    checks = ('groups', 'copies', 'closest')
    found = {n: run_audit(d, source, checks, log=False) for n, d in datasets.items()}
    groups = [check for check in found['NGram'].checks if 'group' in check.name.lower()]
    assert groups and all(check.verdict == 'nothing found' for check in groups)
    # Copies of rare neighbourhoods are what resampling releases.
    rare = {n: audit.details['copies'] for n, audit in found.items()}
    assert str(rare['Resampled']) != str(rare['NGram'])
    copies = {n: next(c for c in a.checks if 'cop' in c.name.lower()) for n, a in found.items()}
    assert copies['Resampled'].value > 2 * copies['NGram'].value
