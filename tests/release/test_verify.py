"""A card that was edited is refused, also if its checksums were written anew."""

import json
import shutil

import pytest

from tests.helpers.graphs import random_graph
from tests.helpers.private import private_dataset
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.privacy import Ledger
from torch_geometric_cgt.release.card import FIELDS, Card
from torch_geometric_cgt.training.dp_sgd import DPSGDConfig
from torch_geometric_cgt.utils.files import read_sealed_json, write_sealed_json

DP_SGD = DPSGDConfig(epochs=3.0, batch_size=200, hidden_channels=16)


@pytest.fixture(scope='module', params=['histograms', 'dp_sgd'])
def release(request, tmp_path_factory):
    """A private release for nodes, whose noise has no seed."""
    root = tmp_path_factory.mktemp(request.param)
    graph = random_graph(num_nodes=400, num_edges=1200)
    dataset = private_dataset(graph, root, unit='node', form=request.param, dp_sgd=DP_SGD)
    dataset.save(root / 'release')
    return root / 'release'


def load_altered(release, tmp_path, change):
    folder = tmp_path / 'altered'
    shutil.copytree(release, folder)
    card = read_sealed_json(folder / 'card.json')
    files = list(card.pop('files'))
    card.pop('checksum')
    change(card)
    write_sealed_json(folder / 'card.json', card, files)  # with checksums that fit
    return SyntheticCGTDataset.load(folder)


def in_accord(card):
    """Computes totals, costs and sentences of an altered ledger again, as an editor would."""
    privacy = card['privacy']
    content = privacy['ledger']
    ledger = Ledger.from_dict(content, verify=False)
    privacy['ledger'] = ledger.to_dict(privacy['delta'], [privacy['protects']])
    privacy['epsilon'] = privacy['ledger']['totals'][0]['epsilon']
    facts = {name: privacy[name] for name in FIELDS['differential privacy']}
    card['privacy'] = Card('differential privacy', **facts).to_dict()


def drop_a_stage(card):
    ledger = card['privacy']['ledger']
    ledger['stages'].remove('labels')
    ledger['entries'] = [e for e in ledger['entries'] if e['stage'] != 'labels']
    in_accord(card)


def drop_a_mechanism(card):
    entries = card['privacy']['ledger']['entries']
    entries.remove(next(e for e in entries if e['name'] == 'scenes per label'))
    in_accord(card)


def make_it_free(card):
    entry = next(e for e in card['privacy']['ledger']['entries'] if e['name'] == 'decoded sums')
    entry.update(noise=None, note='it does not look at the data')
    in_accord(card)


def lower_a_sensitivity(card):
    entry = next(e for e in card['privacy']['ledger']['entries'] if e['name'] == 'decoded sums')
    entry['sensitivity'] = 0.1
    in_accord(card)


def run_it_less_often(card):
    entry = next(e for e in card['privacy']['ledger']['entries'] if e['name'] == 'median length')
    entry['count'] = 1
    in_accord(card)


def count_other_rows(card):
    for entry in card['privacy']['ledger']['entries']:
        if entry['unit'] == 'record' and entry['noise']:
            entry['unit'] = 'node'
    in_accord(card)


def protect_a_smaller_group(card):
    card['privacy']['ledger']['sample']['max_parents'] = 1
    in_accord(card)


def protect_a_smaller_group_by_another_parameter(card):
    card['parameters']['private']['max_parents'] = 1


def make_trees_less_deep(card):
    card['privacy']['ledger']['sample']['depth'] = 1
    in_accord(card)


def name_another_unit(card):
    card['privacy']['protects'] = 'record'
    in_accord(card)


def raise_delta(card):
    card['privacy']['delta'] = 0.9
    in_accord(card)


def raise_delta_by_a_parameter(card):
    card['parameters']['private']['delta'] = 0.9
    raise_delta(card)


def draw_less_often(card):
    for entry in card['privacy']['ledger']['entries']:
        noise = entry['noise']
        if noise and noise['kind'] == 'dp_sgd':
            noise['steps'] = 2
            return in_accord(card)
    pytest.skip('for DP-SGD')


def claim_less(card):
    card['privacy']['epsilon'] = card['privacy']['ledger']['totals'][0]['epsilon'] = 1.0


def claim_less_in_one_place(card):
    card['privacy']['epsilon'] = 1.0


def ask_for_less(card):
    card['parameters']['private']['epsilon'] = 8.0


ALTERED = [
    drop_a_stage,
    drop_a_mechanism,
    make_it_free,
    lower_a_sensitivity,
    run_it_less_often,
    count_other_rows,
    protect_a_smaller_group,
    protect_a_smaller_group_by_another_parameter,
    make_trees_less_deep,
    name_another_unit,
    raise_delta,
    raise_delta_by_a_parameter,
    draw_less_often,
    claim_less,
    claim_less_in_one_place,
    ask_for_less,
    lambda card: card['privacy'].update(not_guaranteed=[]),
    lambda card: card['privacy'].update(unit='everybody'),
    lambda card: card['privacy']['guaranteed'].append('Nothing can be learned.'),
    lambda card: card['privacy'].update(num_clusters=1),
    lambda card: card['privacy'].update(form='neither'),
    lambda card: card['privacy'].update(large_delta=True),
    lambda card: card['source'].update(num_nodes=4000),
    lambda card: card['source'].update(num_labelled=4000),
    lambda card: card['source'].update(num_classes=2),
    lambda card: card['source'].update(num_features=80),
    lambda card: card['source'].update(num_nodes='many'),
    lambda card: card['parameters'].update(num_neighbors=[3]),
    lambda card: card['parameters'].pop('private'),
]


@pytest.mark.parametrize('change', ALTERED)
def test_an_edited_card_is_refused(release, tmp_path, change):
    with pytest.raises(CorruptFileError, match='consistent release'):
        load_altered(release, tmp_path, change)


def test_a_card_as_it_was_written_is_read(release, tmp_path):
    assert load_altered(release, tmp_path, lambda card: None).privacy.protects == 'node'
    assert load_altered(release, tmp_path / 'again', in_accord).privacy.protects == 'node'


def test_less_noise_than_was_paid_for_is_refused(release, tmp_path):
    def change(card):
        entry = next(e for e in card['privacy']['ledger']['entries'] if e['name'] == 'decoded sums')
        entry['noise']['sigma'] /= 10

    with pytest.raises(CorruptFileError, match='altered'):
        load_altered(release, tmp_path, change)


def test_a_large_delta_that_was_accepted_is_declared(tmp_path):
    promise = {'delta': 0.1, 'form': 'histograms', 'accept_large_delta': True}
    dataset = private_dataset(random_graph(), tmp_path, **promise)
    assert any(
        'larger than one in the number of nodes' in s for s in dataset.privacy.not_guaranteed
    )
    dataset.save(tmp_path / 'release')
    assert SyntheticCGTDataset.load(tmp_path / 'release').privacy.large_delta

    def hide(card):
        card['parameters']['private']['accept_large_delta'] = False

    with pytest.raises(CorruptFileError, match='must not exceed 1 / n'):
        load_altered(tmp_path / 'release', tmp_path, hide)


def test_a_card_survives_json(release):
    card = read_sealed_json(release / 'card.json')['privacy']
    again = Card.from_dict(card)
    assert again.to_dict() == json.loads(json.dumps(card)) and again.k is None
