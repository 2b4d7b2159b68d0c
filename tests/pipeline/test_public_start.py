"""Public pre-training: declared, and never from the source itself."""

import pytest
import torch

from tests.helpers.builds import builds
from tests.helpers.graphs import random_graph
from tests.helpers.private import FROZEN, QUICK_DP_SGD, private_dataset
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.audit.rebuild import config_of
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.pipeline import DifferentialPrivacy, PrivatePipeline, cache_name
from torch_geometric_cgt.pipeline.config import BuildConfig
from torch_geometric_cgt.pipeline.plan import PrivatePlan, PublicNumbers
from torch_geometric_cgt.pipeline.public_start import pretrain, shared_weights
from torch_geometric_cgt.pipeline.source import check_source
from torch_geometric_cgt.training.dp_sgd import DPSGDConfig


@pytest.fixture
def public():
    return random_graph(num_nodes=200, num_features=5, num_classes=4, seed=1)


def make(graph, tmp_path, **private_args):
    promise = {'form': 'dp_sgd', 'dp_sgd': QUICK_DP_SGD, **FROZEN, **private_args}
    return private_dataset(graph, tmp_path, **promise)


def test_a_public_start_is_declared(graph, public, tmp_path):
    dataset = make(graph, tmp_path, public=public)
    named = {'name': 'Data', 'fingerprint': check_source(public).fingerprint()}
    card = dataset.privacy
    assert card.public == named and dataset.card['parameters']['private']['public'] == named
    (sentence,) = [s for s in card.not_guaranteed if 'taken to be public' in s]
    assert named['fingerprint'] in sentence
    (entry,) = [e for e in card.ledger['entries'] if e['name'] == 'public pre-training']
    assert entry['noise'] is None and named['fingerprint'] in entry['note']
    assert entry['cost'] == {'frozen_record': 0.0} and 19 < card.epsilon <= 20
    dataset.save(tmp_path / 'release')
    assert SyntheticCGTDataset.load(tmp_path / 'release').privacy == card
    without = make(graph, tmp_path)  # another build, which declares nothing
    assert without.privacy.public is None and len(builds(tmp_path / 'root')) == 2
    assert not any('public pre' in e['name'] for e in without.privacy.ledger['entries'])
    assert 'public' not in without.card['parameters']['private']


def test_the_name_of_a_build_tells_public_graphs_apart(graph, public):
    def name(**private_args):
        config = BuildConfig(
            privacy=DifferentialPrivacy(20.0, form='dp_sgd', **FROZEN, **private_args)
        )
        return cache_name(check_source(graph), config)

    other = random_graph(num_nodes=200, seed=2)
    assert len({name(), name(public=public), name(public=other)}) == 3
    assert name(public=public) == name(public=public.clone())


def test_the_model_starts_from_it(graph, public, tmp_path, monkeypatch):
    starts = []

    def start(**private_args):
        promise = {'form': 'dp_sgd', 'dp_sgd': QUICK_DP_SGD, **FROZEN, **private_args}
        config = DifferentialPrivacy(20.0, **promise)
        run = PrivatePipeline(
            check_source(graph),
            BuildConfig(num_neighbors=(3, 2), privacy=config),
            tmp_path / f'{len(starts)}',
            log=False,
        )
        monkeypatch.setattr('torch_geometric_cgt.models.transformer.fit_privately', caught)
        with pytest.raises(KeyboardInterrupt):
            run.run()
        return starts[-1]

    def caught(generator, *_, **__):
        starts.append({name: value.clone() for name, value in generator.state_dict().items()})
        raise KeyboardInterrupt

    plain, learned, again = start(), start(public=public), start(public=public)
    changed = {name for name in plain if not torch.equal(plain[name], learned[name])}
    assert changed == shared_weights_of(6)
    assert all(torch.equal(learned[name], again[name]) for name in plain)


def shared_weights_of(num_tokens):
    generator = QUICK_DP_SGD.make_generator(num_tokens, 3, [3, 2], 3)
    names = set(shared_weights(generator))
    assert names and not any('token' in n or 'label' in n or 'head' in n for n in names)
    return names


def test_pretraining_learns_and_follows_from_its_seed(public):
    def weights(seed):
        shape, device = TreeShape.of([3, 2]), torch.device('cpu')
        config = DPSGDConfig(hidden_channels=16)
        return pretrain(check_source(public), 6, shape, config, seed, device)

    first, second, other = weights(0), weights(0), weights(1)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first['streams.where.weight'], other['streams.where.weight'])
    assert float((first['streams.norm.weight'] - 1).abs().max()) > 0.01  # it starts with ones


def test_it_is_refused_for_models_without_weights(graph, public, tmp_path):
    for form in ('histograms', 'mixing', 'rows'):
        with pytest.raises(ValueError, match="'public' is for form='dp_sgd'"):
            make(graph, tmp_path, public=public, form=form)


@pytest.mark.parametrize('promise', [FROZEN, {'unit': 'edge'}, {'max_degree': 5}])
def test_it_chooses_the_model_with_weights(public, promise):
    plan = PrivatePlan(
        PublicNumbers(20_000, 20_000, 7, TreeShape.of([5, 5])),
        DifferentialPrivacy(40.0, public=public, **promise),
    )
    assert plan.form == 'dp_sgd'
    assert 'public pre-training' in [entry.name for entry in plan.entries()]
    with pytest.raises(
        ValueError, match=r"form='dp_sgd' learns from computation graphs.*Set 'max_d"
    ):
        DifferentialPrivacy(40.0, public=public)  # for nodes of any degree


def test_the_source_itself_is_not_public(graph, tmp_path):
    with pytest.raises(SourceError, match='is the source itself'):
        make(graph, tmp_path, public=graph)
    other = graph.clone()
    other.train_mask = torch.arange(120) < 60
    with pytest.raises(SourceError, match='is the source itself'):
        make(graph, tmp_path, public=other)


def test_what_is_not_available_cannot_be_learned_from(graph, public, tmp_path):
    """A card names the public graph; it does not hold it."""
    dataset = make(graph, tmp_path, public=public)
    config = config_of(dataset.card)
    assert config.private.public.name == 'Data'
    with pytest.raises(SourceError, match=r"public graph 'Data', which is not available"):
        config.private.public.content()
