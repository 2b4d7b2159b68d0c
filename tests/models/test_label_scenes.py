import torch

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.models.label_scenes import agreement_prior, label_evidence, scenes_of


def test_scenes_by_hand():
    shape = TreeShape.of([2])
    table = torch.tensor([[0.9, 0.1], [0.1, 0.9]], dtype=torch.double)
    evidence = label_evidence(table, torch.tensor([0.5, 0.5], dtype=torch.double))
    assert torch.equal(evidence[2], torch.zeros(2, dtype=torch.double))
    tokens = torch.tensor([[0, 1, 2], [1, 2, 2], [0, 1, 1]])  # one child counts half, two tie
    assert scenes_of(tokens, evidence, shape)[:2].tolist() == [0, 1]
    prior = agreement_prior(torch.tensor([[0.4, 0.1], [0.1, 0.4]], dtype=torch.double))
    assert torch.allclose(prior, torch.tensor([[0.8, 0.2], [0.2, 0.8]], dtype=torch.double))
