"""Builds of graphs with edge values: GNNs train on them, and they carry what the source has."""

import warnings

import pytest
import torch
from torch_geometric.loader import NeighborLoader

from tests.helpers.edge_values import (
    SIZE,
    EdgeGNN,
    accuracy,
    train,
    valued_dataset,
    valued_graph,
    weighted_graph,
)
from tests.helpers.graphs import random_graph
from tests.helpers.private import private_dataset
from tests.helpers.replays import build, check_neighbours, graph_with_a_hub
from torch_geometric_cgt import DuplicateEncode, SyntheticCGTDataset, TreeNeighborSampler
from torch_geometric_cgt.audit import run_audit
from torch_geometric_cgt.audit.anonymity import EDGE_NAMES
from torch_geometric_cgt.audit.check import NOTHING
from torch_geometric_cgt.data import TreeShape, root_nodes
from torch_geometric_cgt.errors import AnonymityError, SourceError
from torch_geometric_cgt.models.edge_tables import EDGE_COUNTS
from torch_geometric_cgt.pipeline import (
    BuildConfig,
    DifferentialPrivacy,
    KAnonymousPipeline,
    check_source,
)
from torch_geometric_cgt.transforms.edge_codebook import edge_support

pytestmark = pytest.mark.usefixtures('short_networks')

K = 10
CONVS = ('GINEConv', 'NNConv', 'GATv2Conv', 'GCNConv')
BOUNDS = {'edge_weight': (0, 1), 'edge_attr': [(0, 1), (-3, 3)]}


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter('ignore', UserWarning)  # clusters with one label
        yield


@pytest.fixture(scope='module')
def valued(tmp_path_factory):
    """A dataset whose source has a weight and two attributes per edge."""
    return valued_dataset(valued_graph(), tmp_path_factory.mktemp('valued'))


@pytest.fixture(scope='module')
def weighted(tmp_path_factory):
    """A dataset whose labels show in edge weights alone."""
    return valued_dataset(weighted_graph(), tmp_path_factory.mktemp('weighted'))


def test_the_forest_has_values_in_the_form_of_the_source(valued):
    source, data = valued_graph(), valued[0]
    assert data.edge_weight.shape == (data.num_edges,)
    assert data.edge_attr.shape == (data.num_edges, SIZE)
    assert data.edge_weight.dtype == source.edge_weight.dtype
    assert data.is_edge_attr('edge_attr') and not data.is_node_attr('edge_weight')
    trees = valued.trees
    has_edge = trees.real.clone()
    has_edge[:, 0] = False
    null = len(trees.edge_values)
    assert torch.equal(trees.edge_tokens != null, has_edge)  # null slots have none
    assert len(data.edge_weight.unique()) > 3


def test_enough_nodes_are_behind_every_value(valued):
    token, edges = valued.edge_cluster, valued_graph().edge_index
    found = [edge_support(edges[:, token == t], 120) for t in range(len(valued.trees.edge_values))]
    assert min(found) == valued.privacy.edges['k_reached'] >= K == valued.privacy.edges['k']
    assert any('edge_weight and edge_attr' in sentence for sentence in valued.privacy.guaranteed)
    assert any('edge_weight and edge_attr' in line for line in valued.privacy.not_guaranteed)


@pytest.mark.parametrize('kind', CONVS)
def test_gnns_train_on_the_forest_and_on_batches(kind, valued):
    torch.manual_seed(0)
    data = valued[0]
    model = EdgeGNN(kind, data.num_features, valued.num_classes)
    losses = train(model, [(data, data.train_mask)], steps=12)
    assert losses[-1] < losses[0]
    batches = list(valued.loader('train', 32, shuffle=False))
    for batch in batches:
        assert torch.equal(batch.edge_weight, data.edge_weight[batch.e_id])
        assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
    roots = [(batch, torch.arange(batch.num_nodes) < batch.batch_size) for batch in batches]
    losses = train(EdgeGNN(kind, data.num_features, valued.num_classes), roots, steps=6)
    assert losses[-1] < losses[0]


def test_loaders_of_pyg_get_edge_values(valued):
    stores, data = valued.stores(), valued[0]
    forest = stores[0].forest
    for graph in (stores, data):
        loader = NeighborLoader(
            graph,
            num_neighbors=[3, 2],
            neighbor_sampler=TreeNeighborSampler(graph, [3, 2]),
            input_nodes=root_nodes(forest, 'all'),
            batch_size=50,
        )
        for batch in loader:
            assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
    attr = next(a for a in stores[0].get_all_tensor_attrs() if a.attr_name == 'edge_attr')
    assert stores[0].get_tensor_size(attr) == tuple(data.edge_attr.shape)
    for seeds in (torch.tensor([1, 0]), torch.tensor([0, 1, 1])):
        attr.index = seeds
        with pytest.raises(ValueError, match='seeds are roots of different trees'):
            stores[0].get_tensor(attr)


def test_one_graph_has_values_of_the_trees(valued):
    graph, data = valued.to_graph(), valued[0]
    assert graph.validate() and graph.is_undirected()
    assert graph.edge_attr.dtype == data.edge_attr.dtype and graph.edge_attr.size(1) == SIZE
    # Every edge has the value of an edge from a child to one of its two nodes.
    root = data.root_mask.nonzero().view(-1)
    own = [set() for _ in root]
    tree = torch.zeros(data.num_nodes, dtype=torch.long)
    tree[root] = torch.arange(root.numel())
    for (_, parent), weight in zip(data.edge_index.t(), data.edge_weight, strict=True):
        if data.root_mask[parent]:
            own[int(tree[parent])].add(float(weight))
    for (a, b), weight in zip(graph.edge_index.t(), graph.edge_weight, strict=True):
        assert float(weight) in own[int(a)] | own[int(b)]
    assert len(graph.edge_weight.unique()) > 3


def test_dense_batches_have_the_values_of_the_trees(valued):
    batch = next(iter(valued.dense_loader('all', batch_size=120)))
    assert torch.equal(
        batch.edge_weight[batch.edge_weight != 0].sort()[0], valued[0].edge_weight.sort()[0]
    )


def test_files_give_the_same_values(valued, tmp_path):
    valued.save(tmp_path / 'release')
    loaded = SyntheticCGTDataset.load(tmp_path / 'release')
    for name in ('edge_weight', 'edge_attr'):
        assert torch.equal(loaded[0][name], valued[0][name])
    assert loaded.privacy == valued.privacy
    readme = (tmp_path / 'release' / 'README.md').read_text()
    assert '`edge_codebook` (`edge_weight` and `edge_attr`)' in readme


def test_the_audit_counts_the_nodes_behind_values(valued):
    audit = run_audit(valued, valued_graph(), checks=['groups'], log=False)
    verdicts = {check.name: check.verdict for check in audit.checks}
    assert [verdicts[name] for name in EDGE_NAMES] == [NOTHING, NOTHING]


def score(train_on, test_on) -> float:
    torch.manual_seed(0)
    model = EdgeGNN('GCNConv', 4, 2)
    train(model, [(train_on, train_on.root_mask.nonzero().view(-1)[::2])])
    return accuracy(model, test_on, test_on.root_mask.nonzero().view(-1)[1::2])


def test_labels_that_show_in_weights_alone_are_learned(weighted):
    """The scores differ by at most 0.12; shuffled weights say nothing."""
    source, release = DuplicateEncode([3, 2], seed=0)(weighted_graph()), weighted[0]
    best = score(source, source)
    assert best > 0.95
    assert score(release, release) > best - 0.12
    assert score(release, source) > best - 0.12
    shuffled = weighted[0]
    order = torch.randperm(shuffled.num_edges, generator=torch.Generator().manual_seed(0))
    shuffled.edge_weight = shuffled.edge_weight[order]
    assert score(shuffled, source) < 0.7


def test_the_same_seed_gives_the_same_values(weighted, tmp_path):
    again = valued_dataset(weighted_graph(), tmp_path)
    assert torch.equal(again.trees.edge_tokens, weighted.trees.edge_tokens)
    assert torch.equal(again[0].edge_weight, weighted[0].edge_weight)


def test_the_fingerprint_depends_on_edge_values():
    data, plain = valued_graph(), random_graph()
    first = check_source(data).fingerprint()
    assert check_source(plain).fingerprint() != first
    data.edge_weight = data.edge_weight.flip(0)
    assert check_source(data).fingerprint() != first
    data.edge_weight = data.edge_attr = None
    assert check_source(data).fingerprint() == check_source(plain).fingerprint()
    data.edge_attr = torch.rand(3)
    with pytest.raises(SourceError, match="'edge_attr' must have one row"):
        check_source(data)


def test_a_graph_without_edges_has_no_values_to_draw(tmp_path):
    data = valued_graph()
    data.edge_index = data.edge_index[:, :0]
    data.edge_weight, data.edge_attr = data.edge_weight[:0], data.edge_attr[:0]
    source = check_source(data)
    assert source.edge_values().table.shape == (0, 1 + SIZE)
    stages = KAnonymousPipeline(source, BuildConfig(), tmp_path).stages()
    assert 'edges' not in [stage.name for stage in stages]


def test_values_of_too_few_nodes_are_refused_before_the_fit(tmp_path):
    data = random_graph()
    hub = torch.stack([torch.zeros(20).long(), torch.arange(1, 21)])
    data.edge_index, data.edge_weight = hub, torch.rand(20)
    with pytest.raises(AnonymityError, match=r'fewer than k = 10'):
        valued_dataset(data, tmp_path)


def private(graph, folder, **promise):
    return private_dataset(graph, folder, noise_seed=0, accept_large_delta=True, **promise)


def test_a_private_release_learns_from_weights_as_well(tmp_path):
    source = DuplicateEncode([3, 2], seed=0)(weighted_graph())
    dataset = private(weighted_graph(), tmp_path, edge_bounds={'edge_weight': (0, 4)})
    assert score(dataset[0], source) > 0.85
    entry = next(e for e in dataset.privacy.ledger['entries'] if e['name'] == EDGE_COUNTS)
    assert entry['noise']['sigma'] > 0 and entry['cost']['node'] > 0
    assert dataset.privacy.ledger['stages'][-1] == 'edge values'
    dataset.save(tmp_path / 'release', accept_seeded_noise=True)
    loaded = SyntheticCGTDataset.load(tmp_path / 'release')
    assert torch.equal(loaded[0].edge_weight, dataset[0].edge_weight)
    batch = next(iter(loaded.loader('train', 16)))
    assert torch.equal(batch.edge_weight, loaded[0].edge_weight[batch.e_id])


def test_without_bounds_a_private_release_names_what_it_lacks(tmp_path):
    with pytest.warns(UserWarning, match=r"'edge_weight', 'edge_attr'.*edge_bounds=\{'edge_weight"):
        dataset = private(valued_graph(), tmp_path)
    assert dataset.card['source']['not_carried'] == ['edge_weight', 'edge_attr']
    assert dataset.privacy.edges is None and 'edge_attr' not in dataset[0]
    assert [entry['name'] for entry in dataset.privacy.ledger['entries']].count(EDGE_COUNTS) == 0


def test_bounds_are_those_of_the_source(tmp_path):
    with pytest.raises(SourceError, match="'edge_attr': 2"):
        private(valued_graph(), tmp_path, edge_bounds={'edge_weight': (0, 1)})
    with pytest.raises(SourceError, match='has no edge values'):
        private(random_graph(), tmp_path, edge_bounds=BOUNDS, edge_bins=2)


def test_arguments_of_the_promise():
    with pytest.raises(ValueError, match="form='rows'"):
        DifferentialPrivacy(1.0, form='rows', edge_bounds=BOUNDS)
    with pytest.raises(ValueError, match='more than 256 cells'):
        DifferentialPrivacy(1.0, edge_bounds=BOUNDS)
    plain = DifferentialPrivacy(1.0).to_dict()
    assert 'edge_bounds' not in plain and 'edge_bins' not in plain
    given = DifferentialPrivacy(1.0, edge_bounds=BOUNDS, edge_bins=2).to_dict()
    assert DifferentialPrivacy(**given).to_dict() == given


@pytest.mark.parametrize('unit', ['node', 'attributes', 'edge'])
def test_no_unit_moves_the_counts_by_more_than_the_ledger_says(unit, tmp_path):
    graph = graph_with_a_hub(0)
    rng = torch.Generator().manual_seed(0)
    graph.edge_weight = torch.rand(graph.num_edges, generator=rng)
    promise = {'unit': unit, 'edge_bounds': {'edge_weight': (0, 1)}, 'edge_bins': 2}
    promise |= {'k': 4} if unit == 'edge' else {}
    pipeline, answers = build(graph, tmp_path, **promise)
    pairs = {tuple(sorted(pair)) for pair in graph.edge_index.t().tolist()}
    only = sorted(pairs)[::12] if unit == 'edge' else range(0, 24, 4)
    reached = check_neighbours(pipeline, answers, unit, only)
    assert reached[EDGE_COUNTS] > 0.3  # it could fail


def test_duplicate_encoding_carries_values_over():
    data = valued_graph()
    forest = DuplicateEncode([3, 2], seed=0)(data)
    shape = TreeShape.of([3, 2])
    parent = forest.tree[:, shape.parent[1:]]
    real = forest.tree[:, 1:] >= 0
    known = {
        (u, v): (w, a)
        for u, v, w, a in zip(
            *data.edge_index.tolist(),
            data.edge_weight.tolist(),
            data.edge_attr.tolist(),
            strict=True,
        )
    }
    pairs = zip(forest.tree[:, 1:][real].tolist(), parent[real].tolist(), strict=True)
    found = zip(forest.edge_weight.tolist(), forest.edge_attr.tolist(), strict=True)
    for pair, value in zip(pairs, found, strict=True):
        assert known[pair] == value
