"""Feature vectors in the space of a public projection: declared, and compared there."""

import pytest
import torch
from torch.nn.functional import normalize

from tests.helpers.graphs import random_graph
from tests.helpers.private import private_dataset
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.audit import run_audit
from torch_geometric_cgt.benchmark import GNNConfig, evaluate_dataset
from torch_geometric_cgt.errors import CorruptFileError
from torch_geometric_cgt.pipeline import PrivateClusters
from torch_geometric_cgt.quantizer import PrivateKMeans
from torch_geometric_cgt.release.release import read_release
from torch_geometric_cgt.utils.files import read_tensors, write_tensors


@pytest.fixture
def graph():
    return random_graph(num_nodes=400, num_edges=1200, num_features=40)


@pytest.fixture
def dataset(graph, tmp_path):
    clusters = PrivateClusters(space='projected', n_components=6)
    return private_dataset(graph, tmp_path, 30.0, clusters=clusters)


def test_the_card_declares_the_projection_and_the_release_holds_it(graph, dataset, tmp_path):
    assert dataset.num_features == 6 and dataset[0].x.size(1) == 6
    assert dataset.card['num_features'] == 6 and dataset.card['source']['num_features'] == 40
    assert dataset.privacy.projected == [40, 6]
    (sentence,) = [s for s in dataset.privacy.not_guaranteed if 'projection' in s]
    assert '6 coordinates' in sentence and '40 features' in sentence
    dataset.save(tmp_path / 'release')
    assert '`projection`' in (tmp_path / 'release' / 'README.md').read_text()
    loaded = SyntheticCGTDataset.load(tmp_path / 'release')
    assert torch.equal(loaded.project(graph.x), dataset.project(graph.x))
    with pytest.raises(ValueError, match=r'projection expects 40 features .got 8'):
        loaded.project(torch.ones(2, 8))


def test_projected_features_are_those_that_clusters_were_sought_among(graph, dataset):
    solver = PrivateKMeans(30.0, space='projected', n_components=6, per_label=True)
    solver.fit(graph.x, graph.y)
    rows = dataset.project(graph.x)
    assert torch.allclose(rows, graph.x @ torch.from_numpy(solver.projection_), atol=1e-5)
    rows = normalize(rows)
    assert torch.allclose(rows, normalize(torch.from_numpy(solver.transform(graph.x))), atol=1e-4)
    root = normalize(dataset.codebook[dataset.tokens[:, 0].long()])
    means = torch.stack([rows[graph.y == c].mean(dim=0) for c in range(3)])
    near = torch.cdist(root, means).argmin(dim=1)
    assert float((near == dataset.trees.y).double().mean()) > 0.8


def test_evaluation_compares_under_the_projection(graph, dataset, tmp_path):
    quick = GNNConfig(epochs=5)
    found = evaluate_dataset(graph, [dataset], ['SGC'], quick, log=False)
    assert set(found.scores) == {'original', 'quantized', 'generated', 'transfer'}
    assert found.mean('transfer')[0] > 0.5
    dataset.save(tmp_path / 'release')
    loaded = SyntheticCGTDataset.load(tmp_path / 'release')
    assert 'transfer' in evaluate_dataset(graph, [loaded], ['SGC'], quick, log=False).scores
    with pytest.raises(ValueError, match='not made from this source'):
        evaluate_dataset(random_graph(num_features=6), [dataset], ['SGC'], quick)


def test_the_audit_looks_through_the_projection(graph, dataset):
    found = run_audit(
        dataset.release, graph, num_canaries=20, num_shadows=0, device='cpu', log=False
    )
    assert {'support', 'copies', 'closest', 'membership', 'risks', 'canary'} <= set(found.details)
    assert found.details['canary']['num_canaries'] == 20


def test_a_release_without_its_projection_is_refused(dataset, tmp_path):
    dataset.save(tmp_path / 'release')
    path = tmp_path / 'release' / 'release.safetensors'
    tensors = read_tensors(path)
    del tensors['projection']
    write_tensors(path, tensors)
    with pytest.raises(CorruptFileError):
        read_release(tmp_path / 'release')
