import pytest
from torch_geometric.transforms import NormalizeFeatures

from torch_geometric_cgt.transforms import (
    AddAttributeNoise,
    AddRandomEdges,
    DropRandomEdges,
    Quantize,
    reidentification,
)


def test_the_table_of_the_paper():
    """(node, edge) probabilities, row by row."""
    noise = AddAttributeNoise(5)
    rows = [
        ([AddRandomEdges(2)], (1.0, 0.5)),
        ([AddRandomEdges(10)], (1.0, 0.1)),
        ([DropRandomEdges(0.5)], (1.0, 0.5)),
        ([DropRandomEdges(1.0)], (1.0, 0.0)),
        ([noise], (0.2, 1.0)),
        ([noise, AddRandomEdges(2)], (0.2, 0.5)),
        ([noise, AddRandomEdges(10)], (0.2, 0.1)),
        ([noise, DropRandomEdges(0.5)], (0.2, 0.5)),
        ([noise, DropRandomEdges(1.0)], (0.2, 0.0)),
        ([Quantize(k=5)], (0.2, 0.2)),
        ([Quantize(k=1000)], (0.001, 0.001)),
        ([], (1.0, 1.0)),
    ]
    for transforms, expected in rows:
        assert reidentification(transforms) == pytest.approx(expected)
    with pytest.raises(ValueError, match=r'no re-identification probability for NormalizeFeatures'):
        reidentification([NormalizeFeatures()])
