"""Cards: their facts, and that an edited card is refused, also with new checksums."""

import json
import shutil
from dataclasses import asdict

import pytest
import torch

from tests.helpers.cards import card, measured
from tests.helpers.graphs import random_graph
from tests.helpers.private import private_dataset
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.privacy import Ledger
from torch_geometric_cgt.release.card import FIELDS, Card
from torch_geometric_cgt.training.dp_sgd import DPSGDConfig
from torch_geometric_cgt.utils.files import read_sealed_json, write_sealed_json

DP_SGD = DPSGDConfig(epochs=3.0, batch_size=200, hidden_channels=16)


def test_card_by_hand():
    assert card() == Card(
        'k-anonymity',
        k=3,
        k_reached=3,
        num_clusters=2,
        homogeneous=1,
        l_reached=1,
        t_closeness=0.5,
        task_weight=0.0,
        unique_share=round(2 / 6, 4),
    )


def test_card_survives_json():
    content = card().to_dict()
    assert Card.from_dict(content) == card()
    assert content['mechanism'] == 'k-anonymity' and content['epsilon'] is None


def test_private_groups_promise_no_size():
    cluster, y = torch.tensor([0, 0, 2]), torch.tensor([0, 1, 1])
    tokens = torch.tensor([[0, 4], [0, 4], [2, 4]])
    facts = measured(1, cluster, y, tokens, num_clusters=4)
    cost = {'cluster_epsilon': 1.5, 'cluster_delta': 1e-3}
    found = Card('private clusters', **facts, **cost)
    assert (found.num_clusters, found.k_reached) == (4, 0)
    assert 'epsilon = 1.5, delta = 0.001, for one node' in found.guaranteed[0]
    assert 'the smallest has 0 nodes' in found.not_guaranteed[1]
    assert found.summary.startswith('4 groups of any size') and found.epsilon is None
    assert Card.from_dict(found.to_dict()) == found


def test_an_unknown_mechanism_is_refused():
    with pytest.raises(ValueError, match=r"Unknown mechanism 'wishes'; known are \['k-anonymity'"):
        Card.from_dict({**card().to_dict(), 'mechanism': 'wishes'})


PROMISES = {
    'mixing': {},
    'histograms': {'form': 'histograms', 'max_degree': 3},
    'dp_sgd': {'form': 'dp_sgd', 'unit': 'frozen_record', 'dp_sgd': DP_SGD},
}


@pytest.fixture(scope='module', params=PROMISES)
def release(request, tmp_path_factory):
    """A private release, whose noise has no seed."""
    root = tmp_path_factory.mktemp(request.param)
    graph = random_graph(num_nodes=400, num_edges=1200)
    private_dataset(graph, root, **PROMISES[request.param]).save(root / 'release')
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
    ledger = Ledger.from_dict(privacy['ledger'], verify=False)
    privacy['ledger'] = ledger.to_dict(privacy['delta'], [privacy['protects']])
    privacy['epsilon'] = privacy['ledger']['totals'][0]['epsilon']
    rewrite(card)


def rewrite(card):
    """Computes the sentences of an altered card again."""
    privacy = card['privacy']
    facts = {name: privacy[name] for name in FIELDS['differential privacy']}
    facts['max_degree'] = privacy.get('max_degree')
    card['privacy'] = Card('differential privacy', **facts).to_dict()


def drop_a_stage(card):
    ledger = card['privacy']['ledger']
    ledger['stages'].remove('labels')
    ledger['entries'] = [e for e in ledger['entries'] if e['stage'] != 'labels']
    in_accord(card)


def entry_of(card, name):
    return next(e for e in card['privacy']['ledger']['entries'] if e['name'] == name)


def drop_a_mechanism(card):
    card['privacy']['ledger']['entries'].remove(entry_of(card, 'root tokens per label'))
    in_accord(card)


def make_it_free(card):
    entry_of(card, 'decoded sums').update(noise=None, note='it does not look at the data')
    in_accord(card)


def lower_a_change(card):
    entry_of(card, 'root tokens per label')['changes'][card['privacy']['protects']] = 0.1
    in_accord(card)


def price_it_as_an_old_entry(card):
    entry = entry_of(card, 'decoded sums')
    entry.update(unit='node', sensitivity=1e-3)
    entry['noise']['sigma'] = 0.1


def price_it_as_an_old_entry_without_changes(card):
    price_it_as_an_old_entry(card)
    del entry_of(card, 'decoded sums')['changes']


def state_a_sensitivity(card):
    entry_of(card, 'decoded sums')['sensitivity'] = 0.1


def run_it_less_often(card):
    entry_of(card, 'median length')['count'] = 1
    in_accord(card)


def state_a_sample(card):
    card['privacy']['ledger']['sample'] = {'max_parents': 1, 'depth': 1, 'undirected': True}
    in_accord(card)


def protect_a_smaller_group_by_a_parameter(card):
    private = card['parameters']['private']
    if private['form'] != 'histograms':
        pytest.skip('for computation graphs of nodes')
    private['max_parents'] = 1


def protect_nodes_of_a_smaller_degree(card):
    private = card['parameters']['private']
    private['max_degree'] = card['privacy']['max_degree'] = 1
    in_accord(card)


def protect_nodes_of_any_degree(card):
    if card['privacy'].pop('max_degree', None) is None:
        pytest.skip('for computation graphs of nodes')
    in_accord(card)


def name_another_unit(card):
    card['privacy']['protects'] = 'node' if card['privacy']['protects'] != 'node' else 'attributes'
    for entry in card['privacy']['ledger']['entries']:
        if entry['changes']:
            entry['changes'].setdefault(card['privacy']['protects'], 1.0)
    in_accord(card)


def name_a_unit_of_format_2(card):
    card['privacy']['protects'] = 'record'


def hide_the_cost_of_a_replaced_unit(card):
    del card['privacy']['ledger']['totals'][1]


def state_the_cost_of_another_replaced_unit(card):
    """Edges do not change the codebook, so that the total of one edge is smaller."""
    ledger = card['privacy']['ledger']
    for entry in ledger['entries']:
        if entry['changes']:
            entry['changes'].setdefault('edge', 1e-3)
    other = Ledger.from_dict(ledger, verify=False).total('edge', 0.1, 'substitute')
    ledger['totals'].append(asdict(other))


def state_the_cost_of_a_replaced_unit_at_another_delta(card):
    ledger = card['privacy']['ledger']
    unit = card['privacy']['protects']
    other = Ledger.from_dict(ledger, verify=False).total(unit, 0.9, 'substitute')
    ledger['totals'][1] = asdict(other)
    rewrite(card)


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
    lower_a_change,
    price_it_as_an_old_entry,
    price_it_as_an_old_entry_without_changes,
    state_a_sensitivity,
    run_it_less_often,
    state_a_sample,
    protect_a_smaller_group_by_a_parameter,
    protect_nodes_of_a_smaller_degree,
    protect_nodes_of_any_degree,
    name_another_unit,
    name_a_unit_of_format_2,
    hide_the_cost_of_a_replaced_unit,
    state_the_cost_of_another_replaced_unit,
    state_the_cost_of_a_replaced_unit_at_another_delta,
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
    unit = read_sealed_json(release / 'card.json')['parameters']['private']['unit']
    assert load_altered(release, tmp_path, lambda card: None).privacy.protects == unit
    assert load_altered(release, tmp_path / 'again', in_accord).privacy.protects == unit


def test_less_noise_than_was_paid_for_is_refused(release, tmp_path):
    def change(card):
        entry_of(card, 'decoded sums')['noise']['sigma'] /= 10

    with pytest.raises(CorruptFileError, match='altered'):
        load_altered(release, tmp_path, change)


def test_a_large_delta_that_was_accepted_is_declared(tmp_path):
    promise = {'delta': 0.1, 'accept_large_delta': True}
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
    assert [total['relation'] for total in again.ledger['totals']] == ['zero-out', 'substitute']
