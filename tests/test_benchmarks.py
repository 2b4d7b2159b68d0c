"""What the benchmark programs compare is the same thing."""

import importlib.util
from pathlib import Path

import pytest
import torch

from torch_geometric_cgt import CGTGenerator

BENCHMARKS = Path(__file__).parents[1] / 'benchmarks'


def load(name):
    spec = importlib.util.spec_from_file_location(f'benchmark_{name}', BENCHMARKS / f'{name}.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=[[4], [3, 2], [2, 3, 2]], ids=str)
def model(request):
    torch.manual_seed(0)
    model = CGTGenerator(5, 3, request.param, 16, 2, 2, siblings='independent').double().eval()
    for parameter in model.parameters():  # far from the symmetric start
        torch.nn.init.normal_(parameter, std=0.3)
    return model


@torch.no_grad()
def test_path_duplication_has_the_same_likelihood(model):
    y = torch.arange(3).repeat(10)
    tokens = model.sample(y, torch.Generator().manual_seed(0))
    assert (tokens[:, 1:] == model.num_tokens).any()
    naive = load('naive').NaivePaths(model)
    assert naive.slots.size(0) == model.shape.layer_sizes[-1]  # every path by itself
    expected = model.log_prob(tokens, y)
    assert torch.allclose(naive.log_prob(tokens, y), expected, rtol=0, atol=1e-9)


@torch.no_grad()
def test_path_duplication_draws_from_the_same_model(model):
    y = torch.zeros(6000, dtype=torch.long)
    torch.manual_seed(0)
    drawn = load('naive').NaivePaths(model).sample(y)
    assert model.shape.check_nulls(drawn != model.num_tokens)
    ours = model.sample(y, torch.Generator().manual_seed(0))
    for layer in range(model.shape.depth + 1):
        slots = model.shape.layer_slice(layer)
        shares = [torch.bincount(t[:, slots].flatten(), minlength=6) for t in (drawn, ours)]
        assert torch.allclose(*(s / s.sum() for s in shares), atol=0.03)


def test_trees_of_the_vocabulary_benchmark_are_valid():
    tokens, y = load('zipf').zipf_trees(200, 1000, torch.Generator().manual_seed(0))
    model = CGTGenerator(1000, 10, [5, 5], 16, 1, 2)
    assert tokens.shape == (200, model.shape.num_slots)
    assert model.shape.check_nulls(tokens != 1000)
    assert int(tokens.max()) == 1000 and int(tokens.min()) >= 0 and int(y.max()) < 10
