"""Differentially private datasets: what they promise, and that nothing else gets out."""

import json

import pytest
import torch

from tests.helpers.graphs import random_graph
from tests.helpers.private import FROZEN, private_dataset
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.audit import run_audit
from torch_geometric_cgt.audit.rebuild import config_of
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.datasets import synthetic
from torch_geometric_cgt.errors import LedgerError, SourceError
from torch_geometric_cgt.pipeline import DifferentialPrivacy, KAnonymity, PrivatePipeline, Stage
from torch_geometric_cgt.pipeline import plan as plan_module
from torch_geometric_cgt.pipeline import private as private_module
from torch_geometric_cgt.pipeline.config import BuildConfig
from torch_geometric_cgt.pipeline.plan import STAGES, PrivatePlan
from torch_geometric_cgt.pipeline.source import check_source
from torch_geometric_cgt.privacy import UNITS, Ledger
from torch_geometric_cgt.quantizer import protected_means
from torch_geometric_cgt.release import read_cache
from torch_geometric_cgt.training.dp_sgd import DPSGDConfig
from torch_geometric_cgt.utils.files import read_sealed_json, read_tensors, write_sealed_json

DP_SGD = DPSGDConfig(epochs=5.0, batch_size=60, hidden_channels=16)


def make(graph, tmp_path, epsilon=20.0, **private_args):
    promise = {'noise_seed': 0, 'dp_sgd': DP_SGD, **private_args}
    return private_dataset(graph, tmp_path, epsilon, **promise)


SLOW = {('dp_sgd', unit) for unit in ('node', 'attributes', 'edge')}  # to calibrate


def forms_and_units():
    for form in ('mixing', 'histograms', 'dp_sgd', 'rows'):
        for unit in UNITS:
            if (form, unit) != ('rows', 'edge'):  # no edge is read
                marks = [pytest.mark.slow] if (form, unit) in SLOW else []
                yield pytest.param(form, unit, marks=marks)


@pytest.mark.parametrize('form, unit', forms_and_units())
def test_a_private_dataset(graph, tmp_path, form, unit):
    if form in ('histograms', 'dp_sgd') and unit != 'frozen_record':
        epsilon, degree = 60.0 if form == 'dp_sgd' else 2000.0, 1 if unit == 'node' else None
        promise = {'form': form, 'unit': unit, 'epsilon': epsilon, 'max_degree': degree}
        promise['max_parents'] = 1
    else:
        promise, epsilon = {'form': form, 'unit': unit}, 20.0
    dataset = make(graph, tmp_path, **promise)
    dataset[0].validate()
    assert len(dataset.trees) == 120 and dataset.num_classes == 3
    assert TreeShape.of([3, 2]).check_nulls(dataset.trees.real)
    card = dataset.privacy
    assert card.k == (30 if unit == 'edge' else None)
    assert card.protects == unit and card.form == form
    assert card.max_degree == promise.get('max_degree')
    assert 0.95 * epsilon < card.epsilon <= epsilon and card.delta < 1 / 120
    ledger = Ledger.from_dict(card.ledger)
    assert not ledger.missing
    assert set(ledger.stages) == {
        'labels',
        'projection',
        'clustering',
        'centres',
        'computation graphs',
        'sequence model',
    }
    assert dataset.card['source']['num_edges'] is None
    assert 'epsilon' in repr(dataset)
    again = make(graph, tmp_path, **promise)  # from the cache
    assert torch.equal(dataset.tokens, again.tokens)
    y = torch.tensor([0, 1, 2])
    trees = [d.generator.sample(y, torch.Generator().manual_seed(0)) for d in (dataset, again)]
    assert torch.equal(*trees)


def test_features_and_labels_are_learned(tmp_path):
    """Where there is much signal, trees of a label have the features of that label."""
    graph = random_graph(num_nodes=2000, num_edges=6000)
    dataset = make(graph, tmp_path, epsilon=20.0)
    root = dataset.codebook[dataset.tokens[:, 0].long()]
    means = torch.stack([graph.x[graph.y == c].mean(dim=0) for c in range(3)])
    near = torch.cdist(
        torch.nn.functional.normalize(root), torch.nn.functional.normalize(means)
    ).argmin(dim=1)
    assert float((near == dataset.trees.y).double().mean()) > 0.8
    counts = [torch.bincount(y, minlength=3) for y in (graph.y, dataset.trees.y)]
    # Only the noise of the counts is left: independent draws would add 21 nodes (one sigma).
    assert (counts[0] - counts[1]).abs().max() < 10


def test_noise_is_new_every_time_unless_it_has_a_seed(graph, tmp_path):
    def codebook(where, **private_args):
        return make(graph, tmp_path / where, **private_args).codebook

    first, second = codebook('a'), codebook('b')
    assert torch.equal(first, second)
    fresh, other = codebook('c', noise_seed=None), codebook('d', noise_seed=None)
    assert fresh.shape != other.shape or not torch.allclose(fresh, other)


def test_the_number_of_labels_may_be_declared(graph, tmp_path):
    dataset = make(graph, tmp_path, num_classes=5)
    assert dataset.num_classes == 5 and dataset.card['source']['num_classes'] == 5
    assert dataset.card['parameters']['private']['num_classes'] == 5
    dataset.save(tmp_path / 'release', accept_seeded_noise=True)
    SyntheticCGTDataset.load(tmp_path / 'release')
    run_audit(dataset.release, graph, checks=['support'], log=False)
    with pytest.raises(SourceError, match=r"'num_classes' must be larger than .* 2 .got 2"):
        make(graph, tmp_path, num_classes=2)


def test_splits_of_the_source_come_out_as_noisy_counts(graph, tmp_path):
    assert make(graph, tmp_path).card['source']['splits'] == 'random 50/10/40'
    graph.train_mask = torch.arange(120) < 30
    graph.test_mask = torch.arange(120) >= 30
    dataset = make(graph, tmp_path)
    share = float((dataset.trees.split == 1).double().mean())
    assert 0.1 < share < 0.4
    assert set(dataset.trees.split.unique().tolist()) <= {0, 1, 2, 4}


def test_clusters_of_the_unit_edge_do_not_depend_on_edges(graph, tmp_path):
    """They have no noise, so they must not read what is protected."""
    dataset = make(graph, tmp_path, unit='edge', k=8)
    assert int(torch.bincount(dataset.cluster).min()) >= 8
    groups = KAnonymity(8)
    means = protected_means(graph.x, dataset.cluster, 15, groups.value_support, groups.step)
    assert torch.equal(dataset.codebook, means)
    other = graph.clone()
    other.edge_index = torch.tensor([[0, 1], [1, 0]])
    again = make(other, tmp_path, unit='edge', k=8)
    assert torch.equal(dataset.cluster, again.cluster)
    assert torch.equal(dataset.codebook, again.codebook)
    assert torch.equal(dataset.trees.y, again.trees.y)
    assert torch.equal(dataset.trees.split, again.trees.split)


def test_the_control_without_edges_does_not_read_them(graph, tmp_path):
    dataset = make(graph, tmp_path, form='rows')
    assert bool((dataset.tokens[:, 1:] == dataset.trees.num_tokens).all())
    other = graph.clone()
    other.edge_index = graph.edge_index[:, :0]
    assert torch.equal(make(other, tmp_path, form='rows').tokens, dataset.tokens)


def test_answers_are_kept_in_the_cache(graph, tmp_path):
    made = make(graph, tmp_path, noise_seed=None)
    (folder,) = (tmp_path / 'root').glob('Data-*')
    build = read_cache(folder)[1]
    assert set(build.answers) == {'labels', 'quantize', 'fit'}
    paid = {e['name']: e['count'] for e in made.privacy.ledger['entries'] if e['noise']}
    asked = [answer.name for stage in build.answers.values() for answer in stage]
    assert set(asked) == set(paid) and all(asked.count(n) <= paid[n] for n in paid)
    assert all(a.exact is None for stage in build.answers.values() for a in stage)
    # The answers are those that the release was computed from.
    source, config = check_source(graph), config_of(made.card)
    pipeline = PrivatePipeline(source, config, tmp_path / 'work', log=False)
    pipeline.prepare()
    pipeline.ledger = Ledger.from_dict(made.privacy.ledger)
    found = pipeline.replay(source, build.answers)
    assert torch.equal(found.results['codebook'], made.codebook)
    sigma = {e.name: e.noise.sigma for e in pipeline.ledger.entries if e.noise}
    for answer in found.answers:
        noise = (answer.released - answer.exact).double() * answer.grid / sigma[answer.name]
        assert 0 < float(noise.abs().max()) < 7


def test_answers_are_not_released(graph, tmp_path):
    """They are private, but who keeps them can tell the noise from the source."""
    dataset = make(graph, tmp_path, noise_seed=None)
    dataset.save(tmp_path / 'release')
    assert set(read_tensors(tmp_path / 'release' / 'release.safetensors')) == {
        'tokens',
        'y',
        'split',
        'codebook',
    }
    assert 'answers' not in (tmp_path / 'release' / 'card.json').read_text()


def test_a_resumed_build_has_all_answers(graph, tmp_path):
    cut_off('fit', graph, tmp_path, noise_seed=None)
    dataset = make(graph, tmp_path, noise_seed=None, form='mixing')
    (folder,) = (tmp_path / 'root').glob('Data-*')
    answers = read_cache(folder)[1].answers
    assert all(answers[stage] for stage in ('labels', 'quantize', 'fit'))
    sums = answers['quantize'][-1]
    assert sums.name == 'decoded sums' and sums.released.size(0) == len(dataset.codebook)


def kill(*args, **kwargs):
    raise KeyboardInterrupt


def cut_off(method, graph, tmp_path, **private_args):
    """Kills a build when it enters a stage, and returns its working folder."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(PrivatePipeline, method, kill)
        make(graph, tmp_path, form='mixing', **private_args)
    (work,) = (tmp_path / 'root').glob('*.fit')
    return work


def test_a_killed_build_goes_on_with_the_noise_it_paid_for(graph, tmp_path, monkeypatch):
    """Also if the next start would divide the budget in another way."""
    work = cut_off('fit', graph, tmp_path, noise_seed=None)
    done = {path.name for path in work.iterdir()}
    assert done == {'ledger', 'labels', 'quantize'}
    kept = read_sealed_json(work / 'ledger' / 'facts.json')['facts']['ledger']
    codebook = read_tensors(work / 'quantize' / 'tensors.safetensors')['codebook']
    monkeypatch.setattr(
        plan_module, 'SHARES', {'labels': 0.3, 'clusters': 0.2, 'model': 0.5}
    )  # as another version might
    with monkeypatch.context() as patch:
        patch.setattr(PrivatePipeline, 'quantize', kill)  # it must not run again
        dataset = make(graph, tmp_path, form='mixing', noise_seed=None)
    assert torch.equal(dataset.codebook, codebook)
    assert dataset.privacy.ledger == kept  # of what ran
    assert not work.exists()
    other = make(graph, tmp_path / 'other', form='mixing', noise_seed=None)
    assert other.privacy.ledger != kept


def test_phases_whose_ledger_is_lost_run_again(graph, tmp_path, monkeypatch):
    work = cut_off('fit', graph, tmp_path, noise_seed=None)
    (work / 'ledger' / 'facts.json').unlink()
    monkeypatch.setattr(PrivatePipeline, 'count_labels', kill)
    with pytest.raises(KeyboardInterrupt):
        make(graph, tmp_path, form='mixing', noise_seed=None)
    assert {path.name for path in work.iterdir()} == {'ledger'}


def less_noise(content):
    for entry in content['entries']:
        if entry['noise'] is not None and 'sigma' in entry['noise']:
            entry['noise']['sigma'] /= 2


def less_noise_and_its_cost(content):
    less_noise(content)
    for total in content['totals']:
        total['epsilon'] *= 10


def endless(content):
    content['entries'][0]['count'] = 10**12


@pytest.mark.parametrize(
    'change, reason',
    [
        (less_noise, 'its entries cost'),
        (less_noise_and_its_cost, r'does not keep the budget.*force_reload=True'),
        (endless, "'count' of"),
    ],
)
def test_a_kept_ledger_is_verified_when_a_build_goes_on(graph, tmp_path, change, reason):
    work = cut_off('fit', graph, tmp_path, noise_seed=None)
    facts = read_sealed_json(work / 'ledger' / 'facts.json')['facts']
    change(facts['ledger'])
    write_sealed_json(work / 'ledger' / 'facts.json', {'facts': facts}, ['tensors.safetensors'])
    with pytest.raises(LedgerError, match=reason):
        make(graph, tmp_path, form='mixing', noise_seed=None)
    assert (work / 'quantize').exists()  # nothing ran, and nothing was removed


def test_what_was_not_paid_for_does_not_run_when_a_build_goes_on(graph, tmp_path, monkeypatch):
    """A clustering of another depth asks for more counts than the ledger has."""
    graph = random_graph(num_nodes=1000, num_edges=3000)
    cut_off('quantize', graph, tmp_path)
    monkeypatch.setattr(plan_module, 'SHARES', {'labels': 0.02, 'clusters': 0.02, 'model': 0.96})
    with pytest.raises(LedgerError, match=r"does not pay for 'prefix counts'.*force_reload=True"):
        make(graph, tmp_path, form='mixing')


class Untouchable:
    """Data that nobody may look at."""

    def __getattr__(self, name):
        raise AssertionError(f"'{name}' was read")


@pytest.fixture
def untouchable(monkeypatch):
    """Whoever looks at the data of a private build fails, but for public numbers."""
    known = private_module.public_numbers

    def then_shut(source, config):
        numbers = known(source, config)
        object.__setattr__(source, 'data', Untouchable())
        return numbers

    monkeypatch.setattr(private_module, 'public_numbers', then_shut)


def without(entries, stage):
    return [entry for entry in entries if entry.stage != stage]


@pytest.mark.parametrize('stage', STAGES)
@pytest.mark.parametrize('form', ['mixing', 'histograms', 'dp_sgd'])
def test_a_build_with_a_stage_that_nobody_pays_for_reads_nothing(
    graph, tmp_path, monkeypatch, untouchable, stage, form
):
    whole = PrivatePlan.entries
    monkeypatch.setattr(PrivatePlan, 'entries', lambda self: without(whole(self), stage))
    with pytest.raises(LedgerError, match=f'no entry in the ledger: {stage}'):
        make(graph, tmp_path, form=form, **FROZEN)


@pytest.mark.parametrize('stage', STAGES)
def test_a_kept_ledger_without_a_stage_opens_no_gate(
    graph, tmp_path, monkeypatch, untouchable, stage
):
    whole = PrivatePlan.ledger

    def ledger(self):
        full = whole(self)
        return Ledger(set(STAGES) - {stage}, without(full.entries, stage))

    monkeypatch.setattr(PrivatePlan, 'ledger', ledger)
    with pytest.raises(LedgerError, match=f'no entry in the ledger: {stage}'):
        make(graph, tmp_path, form='mixing')


def test_a_stage_must_name_entries_that_pay_for_it(graph, tmp_path):
    config = BuildConfig(privacy=DifferentialPrivacy(20.0), num_neighbors=(3, 2))
    pipeline = PrivatePipeline(check_source(graph), config, tmp_path, log=False)
    pipeline.prepare()
    with pytest.raises(LedgerError, match='outside of a stage'):
        _ = pipeline.source
    read = []

    def run(*paid_by):
        stage = Stage('look', lambda: read.append(pipeline.source), paid_by=paid_by)
        pipeline.run_stage(stage)

    run('clustering', 'centres')
    assert read[0].data.num_nodes == 120
    entries = pipeline.entries('clustering', 'centres')
    assert {entry.stage for entry in entries} == {'clustering', 'centres'}
    with pytest.raises(LedgerError, match='degree histogram'):
        run('degree histogram')
    with pytest.raises(LedgerError, match="Stage 'look' reads the source, but names no entry"):
        run()
    assert len(read) == 1


def test_parameters_that_have_no_part_in_it_are_not_in_the_card(graph, tmp_path):
    dataset = make(graph, tmp_path, form='mixing')
    assert set(dataset.card['parameters']) == {'num_neighbors', 'num_samples', 'seed', 'private'}
    json.dumps(dataset.card)
    other = synthetic.cache_name(
        check_source(graph), BuildConfig(privacy=DifferentialPrivacy(40.0))
    )
    assert 'e40-node' in other
