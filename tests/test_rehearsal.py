"""GPU code rehearsed without a GPU: no tensor stays on the host, and no hidden wait."""

import inspect
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tests.helpers.allowed_waits import ALLOWED, sites, table
from tests.helpers.private_models import draw_trees
from tests.helpers.rehearsal import DEVICE, DeviceTensor, Rehearsal, RehearsalError
from torch_geometric_cgt import CGTGenerator
from torch_geometric_cgt.baselines import BASELINES
from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.data.dense_loader import DenseLoader
from torch_geometric_cgt.models import FitContext, TreeSource
from torch_geometric_cgt.nn import (
    PPNP,
    AttentionConv,
    MeanConv,
    SAGEConv,
    SumConv,
    TreeGCNConv,
    TreeGNN,
    linear_map,
)
from torch_geometric_cgt.privacy import SampledGaussian
from torch_geometric_cgt.quantizer import FlowKMeans
from torch_geometric_cgt.training import FitConfig, fit, sample
from torch_geometric_cgt.training.dp_sgd import DPSGDConfig, fit_privately

SHAPE = TreeShape.of([3, 2])
NUM_TOKENS, NUM_CLASSES, NUM_TREES = 9, 3, 60
SMALL = {
    'GraphAF': {'hidden_channels': 8, 'num_steps': 4, 'batch_size': 30},
    'Diffusion': {
        'hidden_channels': 8,
        'num_layers': 1,
        'num_heads': 2,
        'epochs': 2,
        'batch_size': 30,
    },
}
PACKAGE = 'torch_geometric_cgt'
CONVS = {
    'GCN': lambda a, b: MeanConv(a, b),
    'TreeGCN': lambda a, b: TreeGCNConv(a, b),
    'SAGE': lambda a, b: SAGEConv(a, b),
    'GAT': lambda a, b: AttentionConv(a, b),
    'GIN': lambda a, b: SumConv(a, 4, b),
}


@pytest.fixture(scope='module')
def trees():
    rng = torch.Generator().manual_seed(0)
    y = torch.randint(NUM_CLASSES, (NUM_TREES,), generator=rng)
    return draw_trees(NUM_TREES, SHAPE, num_tokens=NUM_TOKENS), y


def generator(**kwargs):
    torch.manual_seed(0)
    sizes = (NUM_TOKENS, NUM_CLASSES, list(SHAPE.num_neighbors), 8, 1, 1)
    return CGTGenerator(*sizes, dropout=0.0, num_scenes=NUM_CLASSES, **kwargs)


def run_fit(trees, device, vocabulary='flat'):
    """Two epochs of two steps."""
    tokens, y = trees
    model, config = generator(vocabulary=vocabulary), FitConfig(epochs=2, batch_size=30)
    fit(model, lambda rows, _: tokens[rows], y, config, device=device, log=False, scene=y)
    return model


def run_sample(trees, device, **kwargs):
    return sample(generator(**kwargs), trees[1], device=device, log=False, scene=trees[1])


def run_quantize(trees, device, cell_size=20):
    x = torch.randn(120, 3, generator=torch.Generator().manual_seed(0))
    clusters = FlowKMeans(24, 4, max_iter=2, cell_size=cell_size, device=str(device))
    return clusters.fit(x).labels_


def run_baseline(trees, device, name):
    """Four steps."""
    tokens, y = trees
    model = BASELINES[name](NUM_TOKENS, NUM_CLASSES, SHAPE.num_neighbors, **SMALL[name])
    sizes = (NUM_TOKENS, NUM_CLASSES, SHAPE)
    source = TreeSource(lambda rows, _: tokens[rows], y, torch.zeros_like(y), *sizes, scene=y)
    model.fit(source, FitContext(device=torch.device(device), log=False))
    return model


def run_flow(trees, device):
    return run_baseline(trees, device, 'GraphAF')


def run_diffusion(trees, device):
    return run_baseline(trees, device, 'Diffusion')


def values(model):
    return [getattr(weight, 'value', weight) for weight in model.parameters()]


@contextmanager
def planted(name, old, new, owner, function):
    """Replaces a line of a function by another one, at the same place of its file."""
    module = sys.modules[f'{PACKAGE}.{name}']
    source = inspect.getsource(module)
    assert old in source, f'{name} does not have the line any more: {old}'
    changed = dict(vars(module))
    exec(compile(source.replace(old, new), module.__file__, 'exec'), changed)
    if owner is not None:
        targets, found = [vars(module)[owner]], vars(changed[owner])[function]
    else:
        own, found = vars(module)[function], changed[function]
        ours = [m for name, m in sys.modules.items() if name.startswith(PACKAGE)]
        targets = [m for m in ours if vars(m).get(function) is own]
    with ExitStack() as stack:
        for target in targets:
            stack.enter_context(mock.patch.object(target, function, found))
        yield


@pytest.mark.parametrize('vocabulary', ['flat', 'cells'])
def test_a_fit_waits_only_where_it_is_allowed(trees, vocabulary):
    rehearsal = Rehearsal(ALLOWED)
    with rehearsal.run():
        model = run_fit(trees, DEVICE, vocabulary)
    assert set(rehearsal.waits()) == sites('fit')
    assert rehearsal.waits()['training/StepMonitor.read'] == 2  # of four steps
    assert rehearsal.num_uploads > 80  # of which none waits
    assert all(isinstance(weight, DeviceTensor) for weight in model.parameters())
    with mock.patch.object(linear_map, '_has_product', lambda: False):  # its rounding differs
        expected = values(run_fit(trees, 'cpu', vocabulary))  # a rehearsal computes real numbers
    assert all(map(torch.equal, values(model), expected))


def test_dp_sgd_waits_only_where_it_is_allowed(trees):
    tokens, y = trees
    config = DPSGDConfig(hidden_channels=8, num_layers=1, physical_batch_size=20)
    noise = SampledGaussian(1.0, 0.4, 2)
    found = []
    for device in (DEVICE, torch.device('cpu')):
        torch.manual_seed(0)
        model = config.make_generator(NUM_TOKENS, NUM_CLASSES, [3, 2], NUM_CLASSES)
        rehearsal = Rehearsal(ALLOWED)
        with rehearsal.run():
            model.to(device)
            rng = np.random.default_rng(0)
            fit_privately(model, tokens, y, y, noise, config, rng, log=False)
        found.append(values(model))
        assert set(rehearsal.waits()) == (sites('dp_sgd') if device == DEVICE else set())
    assert all(map(torch.allclose, *found))


@pytest.mark.parametrize(
    ('name', 'phase'), [('GraphAF', 'fit of a flow'), ('Diffusion', 'fit of a diffusion')]
)
def test_the_fit_of_another_generator_waits_only_where_it_is_allowed(trees, name, phase):
    rehearsal = Rehearsal(ALLOWED)
    with rehearsal.run():
        model = run_baseline(trees, DEVICE, name)
    assert set(rehearsal.waits()) == sites(phase)
    assert rehearsal.num_uploads > 8
    if name == 'GraphAF':
        assert rehearsal.waits()['baselines/SlotModel.score'] == 8  # in four steps
    assert all(map(torch.equal, values(model), values(run_baseline(trees, 'cpu', name))))


def test_sampling_waits_only_where_it_is_allowed(trees):
    visited = set()
    for kwargs in ({}, {'vocabulary': 'cells'}, {'siblings': 'independent'}):
        rehearsal = Rehearsal(ALLOWED)
        with rehearsal.run():
            tokens = run_sample(trees, DEVICE, **kwargs)
        assert torch.equal(tokens, run_sample(trees, 'cpu', **kwargs))
        assert rehearsal.waits('wait')['training/sample_blocks'] == 1
        visited |= set(rehearsal.waits())
    assert visited == sites('sample')


def test_quantization_waits_only_where_it_is_allowed(trees):
    visited = set()
    for cell_size in (20, 1000):  # several cells, and a single one
        rehearsal = Rehearsal(ALLOWED)
        with rehearsal.run():
            labels = run_quantize(trees, DEVICE, cell_size)
        assert np.array_equal(labels, run_quantize(trees, 'cpu', cell_size))
        visited |= set(rehearsal.waits())
    assert visited == sites('quantize')


@pytest.mark.parametrize('name', [*CONVS, 'PPNP'])
def test_layers_and_dense_batches_never_wait(trees, name):
    tokens, y = trees
    released = TokenTrees(
        tokens.int(), y, torch.zeros_like(y), NUM_TOKENS, NUM_CLASSES, SHAPE, None
    )
    codebook = torch.randn(NUM_TOKENS, 5, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    if name == 'PPNP':
        model = PPNP(5, 4, NUM_CLASSES, SHAPE)
    else:
        model = TreeGNN([CONVS[name](5, 4), CONVS[name](4, NUM_CLASSES)], SHAPE)
    rehearsal, losses = Rehearsal(), []
    with rehearsal.run():
        model.to(DEVICE)
        loader = DenseLoader(released, codebook, torch.arange(50), 20, device=DEVICE)
        rehearsal.findings.clear()  # weights and the codebook moved, once
        for batch in loader:
            loss = F.cross_entropy(model(batch.codebook, batch.tokens), batch.y)
            loss.backward()
            losses.append(loss.detach())
        other = next(iter(DenseLoader(released, codebook, torch.arange(50), 20)))
        moved = other.pin_memory().to(DEVICE, non_blocking=True)
    assert rehearsal.num_uploads > 6 and len(losses) == 3
    assert all(isinstance(x, DeviceTensor) for x in (*losses, moved.tokens, moved.y))


PLANTED = {
    'item': (
        run_fit,
        ('training.fit', 'loss.detach() * part.count', 'loss.item() * part.count'),
        (None, 'train_step'),
        'training/fit.py:.* in train_step: _local_scalar_dense reads a value',
    ),
    'item in a step of other generators': (
        run_flow,
        ('baselines.fitting', 'return loss.detach()', 'return loss.detach() + 0 * loss.item()'),
        (None, '_take_step'),
        'baselines/fitting.py:.* in _take_step: _local_scalar_dense reads a value',
    ),
    'vectors of a flow on the host': (
        run_flow,
        (
            'baselines.token_codes',
            'torch.arange(self.num_bits, device=like.device)',
            'torch.arange(self.num_bits)',
        ),
        ('TokenCodes', '_powers'),
        'baselines/token_codes.py:.* in TokenCodes.encode: .* gets tensors of the host',
    ),
    'item in a step of a diffusion': (
        run_diffusion,
        (
            'baselines.diffusion_training',
            'total - bound.detach().sum()',
            'total - bound.sum().item()',
        ),
        ('DiffusionTraining', 'step'),
        'baselines/diffusion_training.py:.* in DiffusionTraining.step: _local_scalar_dense reads',
    ),
    'batch of a diffusion that waits': (
        run_diffusion,
        (
            'baselines.diffusion_training',
            'to_device(tokens, self.device)',
            'tokens.to(self.device)',
        ),
        ('DiffusionTraining', 'on_device'),
        'baselines/diffusion_training.py:.* in DiffusionTraining.on_device: waits for a copy of',
    ),
    'comparison': (
        run_fit,
        ('training.fit', 'optimizer.zero_grad()', 'optimizer.zero_grad() if nll >= 0 else None'),
        (None, 'train_step'),
        'training/fit.py:.* in train_step: _local_scalar_dense reads a value',
    ),
    'tensor on the host': (
        run_fit,
        ('nn.cgt_generator', 'return total + ', 'return torch.zeros(y.numel()) + total + '),
        ('CGTGenerator', 'log_prob'),
        'nn/cgt_generator.py:.* in CGTGenerator.log_prob: add.Tensor gets tensors of the host',
    ),
    'copy that waits': (
        run_fit,
        ('nn.batch_plan', 'to_device(value, device)', 'value.to(device)'),
        ('TensorDataclass', 'to'),
        r'nn/batch_plan.py:.* in TensorDataclass.to.*: waits for a copy of',
    ),
    'copy from pageable memory': (
        run_fit,
        ('nn.batch_plan', 'to_device(value, device)', 'value.to(device, non_blocking=True)'),
        ('TensorDataclass', 'to'),
        r'nn/batch_plan.py:.* in TensorDataclass.to.*: copies .* from memory that is not pinned',
    ),
    'mask in the loop': (
        run_sample,
        (
            'nn.children',
            'return token.masked_fill(',
            'token[token > 2] += 0; return token.masked_fill(',
        ),
        ('TypedChildren', 'sample'),
        'nn/children.py:.* in TypedChildren.sample: .*boolean mask',
    ),
    'slots on the host': (
        run_sample,
        (
            'nn.children',
            'torch.arange(num_children, device=token.device)',
            'torch.arange(num_children)',
        ),
        ('TypedChildren', 'sample'),
        'nn/children.py:.* in TypedChildren.sample: .* gets tensors of the host',
    ),
    'generator on the host': (
        run_sample,
        ('training.sample', 'block, device=device)', 'block)'),
        (None, 'sample_blocks'),
        'gets a generator of the host',
    ),
    'distance that is read': (
        run_quantize,
        ('quantizer.kmeans_steps', 'clamp_(min=0.0)', 'clamp_(min=min(0.0, float(dist.min())))'),
        (None, 'squared_distance'),
        'quantizer/kmeans_steps.py:.* in squared_distance: _local_scalar_dense reads a value',
    ),
    'centres on the host': (
        run_quantize,
        ('quantizer.kmeans_steps', 'size = sizes.to(x.dtype)', 'size = sizes.to("cpu", x.dtype)'),
        (None, 'candidate_costs'),
        'quantizer/kmeans_steps.py:.* in candidate_costs: copies .* to the host',
    ),
}


@pytest.mark.parametrize('bug', PLANTED)
def test_a_planted_bug_is_found(trees, bug):
    run, change, place, message = PLANTED[bug]
    rehearsal = Rehearsal(ALLOWED, stop=True)
    with planted(*change, *place), pytest.raises(RehearsalError, match=message), rehearsal.run():
        run(trees, DEVICE)
    assert rehearsal.forbidden()


def test_the_documentation_has_the_table():
    text = (Path(__file__).parents[1] / 'docs/scaling.md').read_text(encoding='utf-8')
    assert table() in text
