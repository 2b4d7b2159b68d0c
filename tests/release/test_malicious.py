"""Malicious releases: each is refused, by the right check, in seconds and in little memory."""

import json
import os
import random
import shutil
from pathlib import Path

import pytest
import torch

from tests.helpers.edge_values import valued_dataset, valued_graph
from tests.helpers.graphs import random_graph
from tests.helpers.malicious import (
    CARD,
    MOST_MEGABYTES,
    README,
    SECONDS,
    TENSORS,
    all_of,
    card_of,
    card_text,
    grow,
    load_all,
    pickled,
    raw,
    replaced,
    seal,
    set_fact,
    set_header,
    set_tensor,
    sparse,
)
from tests.helpers.private import QUICK_DP_SGD, private_dataset
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.utils.block_checksums import sha256
from torch_geometric_cgt.utils.limits import MAX_RELEASE_BYTES

RECORDED = Path(__file__).parents[1] / 'recorded' / 'format_1'
HUNDRED_GB = 100 << 30
PRIVATE, DP_SGD, NODES = 'histograms', 'dp_sgd', 'nodes'
MIXING, NODES_OF_DEGREE, NEW_DP_SGD = 'newest mixing', 'newest nodes', 'newest dp_sgd'
EDGY, NOISY_EDGES = 'newest edges', 'newest noisy edges'  # k-anonymous and private edge values
BUILT = {  # releases of the newest format
    MIXING: {},
    NODES_OF_DEGREE: {'form': 'histograms', 'max_degree': 3},
    NEW_DP_SGD: {'form': 'dp_sgd', 'unit': 'frozen_record', 'dp_sgd': QUICK_DP_SGD},
    NOISY_EDGES: {'edge_bounds': {'edge_weight': (0, 1)}},
}
ENTRIES = 'privacy.ledger.entries'


def link(target):
    return lambda path: path.symlink_to(target)


def named(*names):
    """Names other files on the card."""

    def attack(folder):
        card = card_of(folder)
        card['files'] = {name: sha256(folder / README) for name in names}
        seal(folder, card)

    return attack


def span(name, begin, end):
    return set_header(lambda header: header[name].update(data_offsets=[begin, end]))


def nested(depth):
    value = []
    for _ in range(depth - 1):
        value = [value]
    return value


FILES = {
    'card is a link': (replaced(CARD, link('/etc/passwd')), 'symbolic link'),
    'tensors are a link': (replaced(TENSORS, link('/etc/passwd')), 'symbolic link'),
    'tensors are endless': (replaced(TENSORS, link('/dev/zero')), 'symbolic link'),
    'readme leads nowhere': (replaced(README, link('nowhere')), 'symbolic link'),
    'card is a pipe': (replaced(CARD, os.mkfifo), 'named pipe'),
    'tensors are a pipe': (replaced(TENSORS, os.mkfifo), 'named pipe'),
    'readme is a pipe': (replaced(README, os.mkfifo), 'named pipe'),
    'card is a folder': (replaced(CARD, os.mkdir), 'a folder'),
    'tensors are a folder': (replaced(TENSORS, os.mkdir), 'a folder'),
    'card is missing': (lambda folder: (folder / CARD).unlink(), r'card\.json.* is missing'),
    'tensors are missing': (lambda folder: (folder / TENSORS).unlink(), 'is missing'),
    'further file': (lambda folder: (folder / 'setup.py').touch(), r'setup\.py'),
    'further folder': (lambda folder: (folder / 'more').mkdir(), "'more'"),
    'private file': (lambda folder: (folder / 'private.json').touch(), 'own.*ask the sender'),
    'many files': (
        lambda folder: [(folder / f'{i}').touch() for i in range(1000)],
        'no file of a release',
    ),
    'huge card': (replaced(CARD, sparse(HUNDRED_GB)), 'bytes, but at most'),
    'huge tensors': (replaced(TENSORS, sparse(HUNDRED_GB)), 'bytes, but at most'),
    'huge readme': (replaced(README, sparse(HUNDRED_GB)), 'bytes, but at most'),
    'names a file above': (named('../../../etc/passwd'), 'and no others'),
    'names an absolute path': (named('/etc/passwd'), 'and no others'),
    'names a null byte': (named(TENSORS, 'a\0b'), 'and no others'),
    'names no tensors': (named(README), 'and no others'),
}
JSON = {
    'nested half a million deep': (card_text(lambda _: '[' * 500_000), 'nested too deeply'),
    'nested twenty million deep': (card_text(lambda _: '{"a":' * 4_000_000), 'at most'),
    'nested in the parameters': (set_fact('parameters.fit', nested(40)), 'levels deep'),
    'too many values': (set_fact('parameters.fit', [0] * 150_000), 'more than 100,000 values'),
    'repeated key': (
        card_text(lambda text: text.replace('"k": 10,', '"k": 10, "k": 10,')),
        "'k' occurs twice",
    ),
    'not a number': (set_fact('privacy.unique_share', float('nan')), 'NaN is not a finite'),
    'infinite': (set_fact('privacy.t_closeness', float('inf')), 'Infinity is not a finite'),
    'infinite exponent': (
        card_text(lambda text: text.replace('"seed": 0', '"seed": 1e999')),
        '1e999 is not a finite number',
    ),
    'million digits': (
        card_text(lambda text: text.replace('"seed": 0', '"seed": 1' + '0' * 1_000_000)),
        'more than 40 digits',
    ),
    'no text': (card_text(lambda text: b'\xff\xfe' + text.encode()), 'decode'),
    'empty': (card_text(lambda _: ''), 'cannot be read'),
    'followed by more': (card_text(lambda text: text + '{}'), 'Extra data'),
    'list': (card_text(lambda _: '[]'), 'does not list'),
    'wrong checksum': (card_text(lambda text: text.replace('"k": 10', '"k": 11')), 'checksum'),
    'half a surrogate': (set_fact('source.name', '\ud800'), 'printable'),
}
HEADERS = {
    'pickle': (pickled, 'its header would have'),
    'header of 2^63 bytes': (raw(lambda c: b'\xff' * 7 + b'\x7f' + c[8:]), 'would have'),
    'header beyond the end': (raw(lambda c: (len(c)).to_bytes(8, 'little') + c[8:]), 'would have'),
    'no header': (raw(lambda _: b''), 'would have'),
    'header is a list': (set_header(lambda header: '[1, 2]'), 'not a readable tensor file'),
    'header is nested': (set_header(lambda header: '[' * 60_000), 'nested too deeply'),
    'tensor twice': (
        set_header(lambda header: json.dumps(header)[:-1] + ', "y": {}}'),
        "'y' occurs twice",
    ),
    'unknown type': (set_header(lambda h: h['y'].update(dtype='OBJECT')), "type 'OBJECT'"),
    'tokens of 64 bits': (set_header(lambda h: h['tokens'].update(dtype='I64')), "type 'I64'"),
    'billions of trees': (
        set_header(lambda h: h['tokens'].update(shape=[10**9, 10])),
        'but the card needs',
    ),
    'billions of trees, also on the card': (
        all_of(
            set_fact('num_trees', 10**9),
            set_header(lambda h: h['tokens'].update(shape=[10**9, 10])),
        ),
        r'40,000,000,000 bytes or more',
    ),
    'size of a tensor overflows': (set_fact('num_features', 1 << 40), 'bytes or more'),
    'shape of fractions': (set_header(lambda h: h['y'].update(shape=[120.0])), 'has shape'),
    'overlap': (span('y', 4000, 4960), 'does not begin where'),
    'negative place': (span('y', -960, 0), 'does not begin where'),
    'place beyond the end': (span('codebook', 5880, 10**15), 'another number of bytes'),
    'bytes at the end': (raw(lambda content: content + b'MZ\x90'), 'further bytes'),
    'cut off': (raw(lambda content: content[:-50]), 'truncated'),
    'further tensor': (
        set_header(lambda h: h.update(x={**h['y'], 'shape': [0], 'data_offsets': [0, 0]})),
        'instead of',
    ),
    'tensor is missing': (set_header(lambda h: h.pop('split') and None), 'instead of'),
}
VALUES = {
    'codebook is not a number': (set_tensor('codebook', (3, 2), float('nan')), 'not finite'),
    'codebook is infinite': (set_tensor('codebook', (0, 0), float('-inf')), 'not finite'),
    'token out of range': (set_tensor('tokens', (7, 3), 13), 'token lies outside'),
    'token of 31 bits': (set_tensor('tokens', (7, 3), 2**31 - 1), 'token lies outside'),
    'negative token': (set_tensor('tokens', (119, 9), -1), 'token lies outside'),
    'root is null': (set_tensor('tokens', (5, 0), 12), 'root is null'),
    'real node under null': (
        all_of(set_tensor('tokens', (5, 1), 12), set_tensor('tokens', (5, 4), 0)),
        'below a null slot',
    ),
    'negative label': (set_tensor('y', (0,), -1), 'label lies outside'),
    'label out of range': (set_tensor('y', (0,), 3), 'label lies outside'),
    'unknown split': (set_tensor('split', (0,), 200), 'split code lies outside'),
}
GROUPS = {
    'more groups than nodes allow': (
        all_of(set_fact('privacy.k', 99), set_fact('privacy.k_reached', 99)),
        'does not match its facts',
    ),
    'groups of a smaller source': (set_fact('source.num_nodes', 100), 'need more than 100 nodes'),
    'group below k': (set_fact('privacy.k_reached', 9), 'does not match its facts'),
    'k is zero': (set_fact('privacy.k', 0), "'k' of the card must be an integer"),
    'k is true': (set_fact('privacy.k', True), "'k' of the card must be an integer"),
    'k is text': (set_fact('privacy.k', '10'), "'k' of the card must be an integer"),
    'k was not asked for': (set_fact('parameters.k', 5), 'was asked for'),
    'more vectors than groups': (set_fact('num_tokens', 13), 'has shape'),
    'share above one': (set_fact('privacy.unique_share', 1.5), 'from 0 to 1'),
    'share below zero': (set_fact('privacy.t_closeness', -0.1), 'from 0 to 1'),
    'epsilon of a k-card': (set_fact('privacy.epsilon', 0.1), 'must be null'),
    'sentence was added': (
        set_fact('privacy.guaranteed', lambda old: [*old, 'Nothing can be learned.']),
        "'guaranteed' of the card does not match",
    ),
    'limit was removed': (
        set_fact('privacy.not_guaranteed', lambda old: old[:-1]),
        "'not_guaranteed' of the card does not match",
    ),
    'unit is everybody': (set_fact('privacy.unit', 'everybody'), "'unit' of the card"),
    'further fact': (
        set_fact('privacy', lambda old: {**old, 'certified': 'yes'}),
        "no fact 'certified'",
    ),
    'unknown mechanism': (set_fact('privacy.mechanism', 'wishes'), 'Unknown mechanism'),
    'mechanism is a list': (set_fact('privacy.mechanism', ['k']), 'unhashable'),
    'unknown format': (set_fact('format', 99), 'has format 99'),
    'format is true': (set_fact('format', True), 'has format True'),
    'no trees': (set_fact('num_trees', 0), "'num_trees' of the card"),
    'huge fan-out': (set_fact('num_neighbors', [10**9]), 'fan-outs|from 1 to'),
    'many layers': (set_fact('num_neighbors', [1] * 10_000), '1 to 16 fan-outs'),
    'exponential tree': (set_fact('num_neighbors', [1000] * 16), 'number of slots'),
    'escape codes in a name': (set_fact('source.name', '\x1b[2J'), 'printable'),
    'no source': (set_fact('source', None), "'source' of the card must be an object"),
    'no sizes': (set_fact('source', {}), 'num_nodes|name'),
    'support that was not asked for': (set_fact('privacy.min_support', 5), 'does not match'),
    'private parameters': (set_fact('parameters.private', {}), 'another mechanism'),
    'labels of other nodes': (set_fact('source.num_labelled', 121), 'cannot have labels'),
}


def noise(index, **changes):
    return set_fact(f'{ENTRIES}.{index}.noise', lambda old: {**old, **changes})


LEDGERS = {
    '10^12 steps': (DP_SGD, noise(8, steps=10**12), "'steps' of"),
    'fraction of a step': (DP_SGD, noise(8, steps=1.5), 'must be an integer'),
    'no sampling': (DP_SGD, noise(8, sampling_probability=1e-300), "'sampling_probability' of"),
    'certain sampling': (DP_SGD, noise(8, sampling_probability=2.0), "'sampling_probability' of"),
    'no noise at all': (PRIVATE, noise(4, sigma=1e-300), "'sigma' of"),
    'overflowing noise': (PRIVATE, noise(4, sigma=1e300), "'sigma' of"),
    'noise that fills the memory': (PRIVATE, noise(0, sigma=3e7), 'widths of discrete noise'),
    'noise is a list': (PRIVATE, noise(4, sigma=[1.0]), "'sigma' of"),
    'noise of an unknown kind': (PRIVATE, noise(4, kind='none'), "'kind' must be one of"),
    '10^9 runs': (PRIVATE, set_fact(f'{ENTRIES}.2.count', 10**9), "'count' of"),
    'sensitivity of zero': (PRIVATE, set_fact(f'{ENTRIES}.4.sensitivity', 0), "'sensitivity' of"),
    'thousands of entries': (
        PRIVATE,
        set_fact(ENTRIES, lambda old: [old[0]] * 1500),
        "'entries' must be a list of at most 256",
    ),
    'entries are text': (PRIVATE, set_fact(ENTRIES, 'none'), "'entries' must be a list"),
    'a thousand totals': (
        PRIVATE,
        set_fact('privacy.ledger.totals', lambda old: old * 1000),
        "'totals' must be a list of at most 8",
    ),
    'no totals': (PRIVATE, set_fact('privacy.ledger.totals', []), 'its ledger says None'),
    'groups of 10^9 rows': (
        NODES,
        set_fact('privacy.ledger.sample', {'max_parents': 1000, 'depth': 3, 'undirected': True}),
        'The number of rows per node',
    ),
    'endless walks': (
        NODES,
        set_fact('privacy.ledger.sample', {'max_parents': 2, 'depth': 10**9, 'undirected': True}),
        "'depth' of the sample",
    ),
    'less than it costs': (
        PRIVATE,
        all_of(
            set_fact('privacy.epsilon', 1.0),
            set_fact('privacy.ledger.totals.0.epsilon', 1.0),
        ),
        'does not match its facts',
    ),
    'less noise than it states': (PRIVATE, noise(4, sigma=0.04), 'its entries cost'),
    'negative epsilon': (PRIVATE, set_fact('privacy.epsilon', -1.0), "'epsilon' of the card"),
    'tiny delta': (PRIVATE, set_fact('privacy.ledger.totals.0.delta', 1e-300), 'delta'),
    'no ledger': (PRIVATE, set_fact('privacy.ledger', None), 'ledger'),
    'model of 10^9 channels': (
        DP_SGD,
        set_fact('parameters.private.dp_sgd', {'hidden_channels': 10**9}),
        "'hidden_channels' of the card",
    ),
    'model of 10^7 layers': (
        DP_SGD,
        set_fact('parameters.private.dp_sgd', {'num_layers': 10**7}),
        "'num_layers' of the card",
    ),
    'endless training': (
        DP_SGD,
        set_fact('parameters.private.dp_sgd', {'epochs': 1e300}),
        "'epochs' of the card",
    ),
    'labels without end': (PRIVATE, set_fact('source.num_classes', 1 << 39), "'num_classes' is"),
    'unit of nobody': (PRIVATE, set_fact('privacy.protects', 'nobody'), 'altered'),
    'huge number of parents': (
        NODES,
        set_fact('parameters.private.max_parents', 10**14),
        "'sample' is",
    ),
}
NEWEST = {  # the plans of these releases are computed again
    'widest model': (
        NEW_DP_SGD,
        set_fact('parameters.private.dp_sgd', {'hidden_channels': 1 << 16, 'num_layers': 64}),
        'It was altered',
    ),
    'widest model with a budget of nothing': (
        NEW_DP_SGD,
        all_of(
            set_fact('parameters.private.dp_sgd', {'hidden_channels': 1 << 16, 'num_layers': 64}),
            set_fact('num_classes', 1 << 20),
            set_fact('source.num_classes', 1 << 20),
        ),
        'is too small for any signal',
    ),
    'labels without end, everywhere': (
        MIXING,
        all_of(set_fact('num_classes', 1 << 39), set_fact('source.num_classes', 1 << 39)),
        'is too small for any signal',
    ),
    'nodes without end': (
        MIXING,
        all_of(
            set_fact('source.num_nodes', 1 << 40),
            set_fact('source.num_labelled', 1 << 40),
            set_fact('source.num_classes', 1 << 15),
            set_fact('num_classes', 1 << 15),
            set_fact('privacy.delta', (1 << 40) ** -1.1),
            set_fact('privacy.ledger.totals.0.delta', (1 << 40) ** -1.1),
            set_fact('privacy.ledger.totals.1.delta', (1 << 40) ** -1.1),
        ),
        'altered',
    ),
    'budget without end': (
        MIXING,
        set_fact('parameters.private.epsilon', 1e15),
        'consistent release',
    ),
    'huge number of parents, newest': (
        NODES_OF_DEGREE,
        set_fact('parameters.private.max_parents', 10**14),
        'consistent release',
    ),
    'huge number of edges': (
        NODES_OF_DEGREE,
        all_of(
            set_fact('parameters.private.max_degree', 10**12),
            set_fact('privacy.max_degree', 10**12),
        ),
        'consistent release',
    ),
    'change without end': (
        NODES_OF_DEGREE,
        set_fact(f'{ENTRIES}.6.changes.node', 1e300),
        'change in widths',
    ),
    'gradients of 10^300 trees': (
        NEW_DP_SGD,
        set_fact(f'{ENTRIES}.8.changes.frozen_record', 1e300),
        'number of rows per frozen_record',
    ),
    'another cost of a replaced unit': (
        MIXING,
        set_fact('privacy.ledger.totals.1.epsilon', 1e-3),
        'its entries cost|does not match its facts',
    ),
    'entry of an old format': (
        MIXING,
        set_fact(f'{ENTRIES}.4', lambda old: {**old, 'unit': 'node', 'sensitivity': 1e-6}),
        'not both',
    ),
}
EDGES = {  # of a release with edge values
    'edge token out of range': (EDGY, set_tensor('edge_tokens', (7, 1), 1000), 'edge token lies'),
    'negative edge token': (EDGY, set_tensor('edge_tokens', (7, 1), -1), 'edge token lies outside'),
    'root with an edge': (EDGY, set_tensor('edge_tokens', (7, 0), 0), 'root or a null slot'),
    'edge value is not a number': (
        EDGY,
        set_tensor('edge_codebook', (0, 0), float('nan')),
        'not finite',
    ),
    'edge value of another type': (EDGY, set_tensor('edge_codebook', (0, 1), 0.5), 'does not fit'),
    'no promise about edges': (
        EDGY,
        set_fact('privacy', lambda old: {k: v for k, v in old.items() if k != 'edges'}),
        'instead of',
    ),
    'edges are a list': (EDGY, set_fact('privacy.edges', [1]), "'edges' of the card must hold"),
    'edges of a smaller k': (EDGY, set_fact('privacy.edges.k', 2), 'was asked for'),
    'edges of fewer nodes': (EDGY, set_fact('privacy.edges.k_reached', 3), 'behind an edge value'),
    'edges of all nodes and more': (
        EDGY,
        set_fact('privacy.edges.k_reached', 10**6),
        'behind an edge value',
    ),
    'edge values of no type': (EDGY, set_fact('privacy.edges.attr', ['int64']), 'real numbers'),
    'billions of edge values': (EDGY, set_fact('privacy.edges.num_values', 1 << 30), 'bytes or'),
    'billions of columns': (EDGY, set_fact('privacy.edges.size', 1 << 40), 'from 0 to'),
    'edge values of an old release': (
        'k_anonymous',
        set_fact('privacy', lambda old: {**old, 'edges': {}}),
        'Format 1 has no edge values',
    ),
    'edge values that are read from the source': (
        NOISY_EDGES,
        set_tensor('edge_codebook', (0, 0), 0.3),
        'not the middles of the cells',
    ),
    'edge values that nothing pays for': (
        NOISY_EDGES,
        set_fact(ENTRIES, lambda old: old[:-1]),
        'altered|no entry',
    ),
    'edge values without bounds': (
        NOISY_EDGES,
        set_fact('parameters.private.edge_bounds', None),
        'if and only if',
    ),
    'grid without end': (
        NOISY_EDGES,
        set_fact('parameters.private.edge_bins', 10**15),
        'consistent release',
    ),
    'bounds without end': (
        NOISY_EDGES,
        set_fact('parameters.private.edge_bounds', {'edge_weight': [[0, 1]] * 20_000}),
        'consistent release',
    ),
}
BY_HAND = {
    **{name: ('k_anonymous', *rest) for name, rest in (FILES | JSON | HEADERS | VALUES).items()},
    **{name: ('k_anonymous', *rest) for name, rest in GROUPS.items()},
    **LEDGERS,
    **NEWEST,
    **EDGES,
}


@pytest.fixture(scope='module')
def releases(tmp_path_factory):
    """Valid releases: recorded ones of format 1, and private ones of the newest format."""
    folders = {folder.name: folder for folder in sorted(RECORDED.iterdir())}
    graph = random_graph(num_nodes=400, num_edges=1200)
    for i, (name, promise) in enumerate(BUILT.items()):
        root = tmp_path_factory.mktemp(f'newest_{i}')
        if 'edge_bounds' in promise:
            graph.edge_weight = torch.linspace(0, 1, graph.num_edges)
        dataset = private_dataset(graph, root, noise_seed=i, **promise)
        dataset.save(root / 'release', accept_seeded_noise=True)
        folders[name] = root / 'release'
    edges = valued_graph()
    edges.edge_attr = edges.edge_attr[:, 0].long()  # integers
    dataset = valued_dataset(edges, tmp_path_factory.mktemp('edges'))
    folders[EDGY] = tmp_path_factory.mktemp('edgy') / 'release'
    dataset.save(folders[EDGY])
    for name, folder in folders.items():
        newest = 'newest' in name
        assert SyntheticCGTDataset.load(folder).card['format'] == (3 if newest else 1)
    return folders


@pytest.fixture
def copy_of(releases, tmp_path):
    return lambda base, name='release': Path(shutil.copytree(releases[base], tmp_path / name))


def assert_cheap(outcome):
    assert outcome.seconds < SECONDS, outcome
    assert outcome.megabytes < MOST_MEGABYTES and 'allocate' not in outcome.message, outcome


@pytest.mark.parametrize('name', BY_HAND)
def test_a_malicious_release_is_refused(name, copy_of, tmp_path):
    base, attack, reason = BY_HAND[name]
    folder = copy_of(base)
    attack(folder)
    (outcome,) = load_all([folder])
    assert_cheap(outcome)
    assert outcome.error == 'CorruptFileError', outcome
    assert str(folder) in outcome.message
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(outcome.message)
    assert not (tmp_path / 'ran').exists()


def test_the_largest_release_that_is_allowed_is_cheap(copy_of):
    folder = copy_of('k_anonymous')
    grow(MAX_RELEASE_BYTES)(folder)
    (largest,) = load_all([folder])
    assert_cheap(largest)
    assert largest.error == ''  # all zeros, which is a release that says nothing
    for most in (MAX_RELEASE_BYTES - 3000, 1_000_000):
        (larger,) = load_all([folder], max_bytes=most)
        assert larger.error == 'CorruptFileError'
        assert f'at most {most:,}' in larger.message and "by 'max_bytes'" in larger.message


def test_there_are_enough_of_them():
    assert len(BY_HAND) >= 100
    assert len(BY_HAND) == sum(
        map(len, (FILES, JSON, HEADERS, VALUES, GROUPS, LEDGERS, NEWEST, EDGES))
    )


def flip(rng, folder):
    path = folder / rng.choice([CARD, TENSORS, README])
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def truncate(rng, folder):
    path = folder / rng.choice([CARD, TENSORS, README])
    path.write_bytes(
        path.read_bytes()[: rng.randrange(path.stat().st_size - 1)]
    )  # not a line break


def flip_and_seal(rng, folder):
    content = bytearray((folder / TENSORS).read_bytes())
    for _ in range(rng.choice([1, 1, 20])):
        end = rng.choice([300, len(content)])
        content[rng.randrange(end)] ^= 1 << rng.randrange(8)
    (folder / TENSORS).write_bytes(content)
    seal(folder, card_of(folder))


ODD = (None, True, False, -1, 0, 1, 2, 3, 0.5, -0.0, 1e308, 1e-308, 10**18, 2**63, '', 'x' * 5000)
ODD += ('\x00', [], {}, [[]], {'': None}, nested(31), [0] * 1000, 'record', 'k-anonymity')


def mutate(rng, folder):
    """Replaces, removes, adds or exchanges values at random places of the card."""
    card = card_of(folder)
    for _ in range(rng.choice([1, 1, 1, 3])):
        places = []
        pending = [card]
        while pending:
            value = pending.pop()
            keys = list(value) if isinstance(value, dict) else range(len(value))
            places += [(value, key) for key in keys]
            pending += [value[key] for key in keys if isinstance(value[key], (dict, list))]
        value, key = rng.choice(places)
        other, place = rng.choice(places)
        how = rng.randrange(8)
        if how == 0:
            value.pop(key)
        elif how == 1:
            value[key], other[place] = json.loads(json.dumps([other[place], value[key]]))
        elif how == 2 and isinstance(value[key], (int, float)):
            value[key] = value[key] * rng.choice([-1, 0.5, 2, 10, 1e6])
        else:
            value[key] = rng.choice(ODD)
        card = json.loads(json.dumps(card))
    seal(folder, card)


FUZZED = {  # base, number of releases, whether some may be harmless
    flip: ('k_anonymous', 40, False),
    truncate: ('k_anonymous', 30, False),
    flip_and_seal: ('k_anonymous', 80, True),
    mutate: ('k_anonymous', 120, True),
}
FUZZED_PRIVATE = {PRIVATE: 60, DP_SGD: 40, NODES: 40, 'private_clusters': 40, MIXING: 40}
FUZZED_PRIVATE |= {NODES_OF_DEGREE: 20, NEW_DP_SGD: 20}


@pytest.mark.parametrize(
    'change, base, number, harmless',
    [
        *[(change, *rest) for change, rest in FUZZED.items()],
        *[(mutate, base, number, True) for base, number in FUZZED_PRIVATE.items()],
    ],
    ids=lambda value: getattr(value, '__name__', str(value)),
)
def test_random_changes_are_refused_or_harmless(change, base, number, harmless, releases, copy_of):
    rng, folders = random.Random(f'{change.__name__} {base}'), []
    for i in range(number):
        folders.append(copy_of(base, str(i)))
        change(rng, folders[-1])
    outcomes = load_all([releases[base], *folders])
    assert outcomes[0].error == ''
    for folder, outcome in zip(folders, outcomes[1:], strict=True):
        assert_cheap(outcome)
        if outcome.error == '':
            assert harmless, folder
            assert outcome.promise == outcomes[0].promise, (folder / CARD).read_text()
        else:
            assert outcome.error == 'CorruptFileError', (outcome, folder)
            assert str(folder) in outcome.message
    refused = sum(outcome.error != '' for outcome in outcomes)
    assert refused > (number // 4 if change is flip_and_seal else number // 2)
