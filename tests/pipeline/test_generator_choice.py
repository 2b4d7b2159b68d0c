"""The choice of a generator, and k-anonymous builds with others than CGT."""

import pytest
import torch

from tests.helpers.graphs import random_graph
from torch_geometric_cgt import FitConfig, SyntheticCGTDataset
from torch_geometric_cgt.baselines import BASELINES, NGram
from torch_geometric_cgt.errors import OutOfMemory, OutOfTime
from torch_geometric_cgt.pipeline import BuildConfig, DifferentialPrivacy, KAnonymity
from torch_geometric_cgt.pipeline.generator_choice import GENERATORS, GeneratorChoice
from torch_geometric_cgt.utils.run_limits import Limits

QUICK = KAnonymity(10, task_weight=0)


def build(root, generator, **options):
    data = random_graph(num_nodes=200, num_edges=500)
    own = {'privacy': QUICK, 'num_neighbors': [3, 2], 'root': root, 'log': False, **options}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr('warnings.warn', lambda *_, **__: None)
        return SyntheticCGTDataset(data, generator=generator, **own)


def test_cgt_is_the_default_and_has_no_name():
    assert next(iter(GENERATORS)) == 'CGT' and set(BASELINES) < set(GENERATORS)
    default = BuildConfig(generator={'hidden_channels': 16})
    named = BuildConfig(generator={'model': 'cgt', 'hidden_channels': 16})
    assert named.to_dict() == default.to_dict() and default.uses_tilt
    assert 'model' not in default.to_dict()['generator']


def test_names_and_options_are_kept():
    config = BuildConfig(generator={'model': 'ngram', 'order': 1, 'tilt': True})
    assert config.generator == {'model': 'NGram', 'tilt': True, 'order': 1} and config.uses_tilt
    assert BuildConfig.from_dict(config.to_dict()) == config
    plain = BuildConfig(generator={'model': 'NGram', 'tilt': False})
    assert plain.generator == {'model': 'NGram'} and not plain.uses_tilt
    model = config.make_model(5, 2, 1)
    assert isinstance(model, NGram) and model.order == 1


@pytest.mark.parametrize(
    'options, message',
    [
        ({'generator': {'model': 'GPT'}}, "Unknown model 'GPT' in 'generator'; choose from CGT, "),
        ({'generator': {'model': 3}}, 'Unknown model 3'),
        ({'generator': {'model': 'NGram', 'width': 3}}, "Unknown argument in 'generator'"),
        ({'generator': {'model': 'NGram', 'order': 7}}, "'order' must be 0, 1 or 2"),
        ({'generator': {'model': 'NGram', 'tilt': 1}}, "'tilt' in 'generator' must be True or"),
        ({'generator': {'tilt': True}}, "'tilt' in 'generator' is for other generators"),
        ({'generator': {'model': 'NGram'}, 'num_scenes': 3}, "'num_scenes' is for CGT"),
        ({'generator': {'model': 'NGram'}, 'fit': FitConfig(epochs=2)}, "'fit' is for CGT"),
        (
            {'generator': {'model': 'NGram'}, 'privacy': DifferentialPrivacy(4.0)},
            "The generator 'NGram' is not differentially private",
        ),
    ],
)
def test_wrong_choices_say_what_to_do(options, message):
    with pytest.raises(ValueError, match=message):
        BuildConfig(**options)


def test_facts_of_the_card():
    assert GeneratorChoice().facts() == {}
    assert GeneratorChoice('NGram').facts() == {'generator': 'NGram'}
    assert GeneratorChoice('Resampled').facts()['copies_trees'] is True


@pytest.mark.parametrize('name', BASELINES)
def test_every_generator_is_made_from_its_config(name):
    model = BASELINES[name](6, 3, [2, 2])
    assert model.name == name and type(model)(**model.config()).config() == model.config()


@pytest.mark.parametrize(
    'name, options',
    [
        ('NGram', {}),
        ('Independent', {}),
        ('Resampled', {}),
        ('ConfigurationModel', {}),
        ('DegreeCorrectedSBM', {}),
        ('VGAE', {'num_steps': 2}),
        ('GraphVAE', {'num_steps': 2}),
        ('GraphAF', {'num_steps': 2}),
        ('GraphDF', {'num_steps': 2, 'shift': 'sampled'}),
        ('GraphEBM', {'num_steps': 2, 'sample_steps': 2}),
    ],
)
def test_a_build_is_kept_and_found_again(tmp_path, name, options):
    first = build(tmp_path, {'model': name, **options})
    again = build(tmp_path, {'model': name, **options})
    assert torch.equal(first.tokens, again.tokens) and again.generator.name == name
    first.trees.validate()
    y = first.trees.y[:50].long()
    drawn = [d.generator.sample(y, torch.Generator().manual_seed(0)) for d in (first, again)]
    assert torch.equal(*drawn)
    assert len({path.name for path in tmp_path.glob('Data-k10-*')}) == 1


def test_other_generators_have_other_builds_with_the_same_clusters(tmp_path):
    ngram, independent = (build(tmp_path, {'model': m}) for m in ('NGram', 'Independent'))
    assert torch.equal(ngram.cluster, independent.cluster)
    assert torch.equal(ngram.codebook, independent.codebook)
    assert not torch.equal(ngram.tokens, independent.tokens)
    assert 'scenes' not in ngram.history and 'nll' in ngram.history


@pytest.mark.slow
def test_the_tilt_can_be_switched_on(tmp_path):
    tilted = build(tmp_path, {'model': 'NGram', 'tilt': True})
    plain = build(tmp_path, {'model': 'NGram'})
    views = tilted.history['views']
    assert views['candidates'] > 1 and 1 < views['effective'] < views['candidates']
    assert plain.history['views'] == {'aim': {}, 'rounds': [], 'candidates': 1, 'effective': 1.0}
    assert not torch.equal(tilted.tokens, plain.tokens)


def test_a_generator_that_uses_scenes_gets_them(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(NGram, 'uses_scenes', True)
    fit = NGram.fit
    monkeypatch.setattr(
        NGram,
        'fit',
        lambda self, source, context: seen.append(source) or fit(self, source, context),
    )
    build(tmp_path, {'model': 'NGram', 'num_scenes': 4})
    monkeypatch.setattr(NGram, 'uses_scenes', False)
    build(tmp_path, {'model': 'NGram'})
    assert seen[0].scene.unique().numel() == 4 and seen[1].scene.unique().numel() == 1
    assert seen[1].graph.num_nodes == 200 and seen[1].codebook.size(1) == 8


def test_an_interrupted_build_does_not_fit_again(tmp_path, monkeypatch):
    calls = []
    fit = NGram.fit
    monkeypatch.setattr(NGram, 'fit', lambda self, *args: calls.append(1) or fit(self, *args))
    with monkeypatch.context() as patch:
        patch.setattr(NGram, 'sample', lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            build(tmp_path / 'a', {'model': 'NGram'})
    resumed = build(tmp_path / 'a', {'model': 'NGram'})
    assert len(calls) == 1
    assert torch.equal(resumed.tokens, build(tmp_path / 'b', {'model': 'NGram'}).tokens)


def test_limits_end_a_build_and_do_not_change_it(tmp_path):
    with pytest.raises(OutOfTime):
        build(tmp_path / 'a', {'model': 'NGram'}, limits=Limits(seconds=1e-6))
    with pytest.raises(OutOfMemory):
        build(tmp_path / 'a', {}, limits=Limits(bytes=1))
    limited = build(tmp_path / 'a', {'model': 'NGram'}, limits=Limits(seconds=1000))
    assert torch.equal(limited.tokens, build(tmp_path / 'b', {'model': 'NGram'}).tokens)
