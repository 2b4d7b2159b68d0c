import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from tests.helpers.graphs import random_graph
from torch_geometric_cgt.errors import SourceError
from torch_geometric_cgt.transforms import AddAttributeNoise


def binary_graph():
    data = random_graph()
    data.x = (torch.rand(120, 40, generator=torch.Generator().manual_seed(0)) < 0.1).float()
    return data


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.floats(1, 12), st.floats(0, 0.5))
def test_attribute_noise_only_adds(seed, factor, density):
    rng = torch.Generator().manual_seed(seed)
    x = (torch.rand(20, 30, generator=rng) < density).float()
    out = AddAttributeNoise(factor, seed)(Data(x=x)).x
    assert bool((out >= x).all()) and bool(((out == 0) | (out == 1)).all())
    expected = (factor * x.sum(dim=1)).round().clamp(max=30)
    assert bool(((out.sum(dim=1) - expected).abs() <= 1).all())


def test_one_of_five_ones_is_an_original_one():
    data = binary_graph()
    transform = AddAttributeNoise(5, seed=3)
    noisy = transform(data)
    assert data.x is not noisy.x
    whole = data.x.sum(dim=1) * 5 <= 40
    share = float(data.x[whole].sum() / noisy.x[whole].sum())
    assert share == pytest.approx(transform.node_reidentification) == pytest.approx(0.2)
    assert torch.equal(transform(data).x, noisy.x)
    flipped = (noisy.x - data.x).sum(dim=0)  # no column is preferred
    assert flipped.max() < 3 * flipped.mean()
    sparse = data.clone()
    sparse.x = data.x.to_sparse()
    assert torch.equal(transform(sparse).x, noisy.x)


@pytest.mark.parametrize(
    'make, error, message',
    [
        (lambda: AddAttributeNoise(float('nan')), ValueError, r"'factor'"),
        (lambda: AddAttributeNoise(5)(random_graph()), SourceError, r"'x' must be binary"),
        (lambda: AddAttributeNoise(5)(Data(num_nodes=2)), SourceError, r'no feature matrix'),
    ],
)
def test_wrong_input(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_repr():
    assert repr(AddAttributeNoise(5)) == 'AddAttributeNoise(factor=5, seed=0)'
