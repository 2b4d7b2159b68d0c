"""Statistics of trees, by hand, and for trees without children."""

import torch

from tests.helpers.view_trees import trees_with_signal
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.data.views import LinearProbe, ViewProbes, tree_views, view_names
from torch_geometric_cgt.models.tree_statistics import TreeStatistics

SHAPE = TreeShape.of([2])


def sure_probes(shape, width=2):
    """Each probe predicts token 0 as label 0 and token 1 as label 1, nearly surely, from the first
    two columns of its view."""
    folds = []
    for _ in range(3):
        fold = {}
        for name, view in tree_views(torch.zeros(1, shape.num_slots), torch.eye(2), shape).items():
            weight = torch.zeros(2, view.size(1))
            weight[:, :width] = 20 * torch.eye(2)
            fold[name] = LinearProbe(torch.zeros(view.size(1)), weight, torch.zeros(2))
        folds.append(fold)
    return ViewProbes(folds)


def test_statistics_compare_predictions_with_the_label():
    statistics = TreeStatistics(torch.eye(2), SHAPE, sure_probes(SHAPE))
    tokens = torch.tensor([[0, 0, 1], [0, 1, 1], [1, 2, 2]])  # 2 is null
    y = torch.tensor([0, 1, 1])
    found = statistics(tokens, y, torch.tensor([True, False, False]), torch.tensor([0, 1, 2]))
    names = view_names(SHAPE)
    own = found.shared[:, : len(names)]
    root, children = names.index('root'), names.index('children')
    assert torch.allclose(own[:, root], torch.tensor([1.0, 0.0, 1.0]), atol=1e-4)
    assert torch.allclose(own[:, children], torch.tensor([0.5, 1.0, 0.5]), atol=1e-4)
    hit = found.shared[:, 2 * len(names) : 3 * len(names)]
    assert hit[:, root].tolist() == [1, 0, 1]
    of_training = found.shared[:, 4 * len(names) : 8 * len(names)]
    assert torch.equal(of_training[0], found.shared[0, : 4 * len(names)])
    assert not of_training[1:].any()
    assert found.by_class.shape[0] == 3 and torch.allclose(
        found.by_class[:, :2], torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), atol=1e-4
    )


def test_all_statistics_are_finite_at_any_depth():
    for fan_outs in ([3], [2, 2], [2, 2, 2]):
        shape = TreeShape.of(fan_outs)
        statistics = TreeStatistics(torch.eye(2), shape, sure_probes(shape))
        alone = torch.full((4, shape.num_slots), 2)
        alone[:, 0] = torch.tensor([0, 1, 0, 1])
        full = torch.zeros_like(alone)
        tokens = torch.cat([alone, full])
        y, fold = torch.zeros(8).long(), torch.zeros(8).long()
        found = statistics(tokens, y, torch.ones(8).bool(), fold)
        assert found.shared.isfinite().all() and found.by_class.isfinite().all()
        assert not torch.equal(found.shared[0], found.shared[4])


def test_blocks_do_not_change_statistics(monkeypatch):
    trees = trees_with_signal(0.5, 0.5, 0, n=100, num_classes=2)
    statistics = TreeStatistics(torch.eye(2), SHAPE, sure_probes(SHAPE))
    args = (trees.tokens, trees.y, trees.split == 1, torch.arange(100) % 3)
    whole = statistics(*args)
    monkeypatch.setattr('torch_geometric_cgt.models.tree_statistics.BLOCK', 7)
    parts = statistics(*args)
    assert torch.allclose(whole.shared, parts.shared, atol=1e-6)
    assert torch.allclose(whole.by_class, parts.by_class, atol=1e-6)
