"""Edge inference: pairs under a release that shows edges, and one that shows none."""

import pytest
import torch

from tests.helpers.attacked import trees
from torch_geometric_cgt.audit import Limit
from torch_geometric_cgt.audit.check import ABOVE, NOTHING
from torch_geometric_cgt.audit.edge_inference import edge_inference, pair_scores
from torch_geometric_cgt.data import TreeShape

ONE = TreeShape((2,))


def test_scores_by_hand():
    """Five pairs of parent and child: 0 above 1 three times, 1 above 0 and 2 once each."""
    released = trees([[0, 1, 1], [0, 1, 3], [1, 0, 2]], [0, 0, 1], shape=ONE)
    token, y = torch.tensor([0, 1, 2]), torch.tensor([0, 1, -1])
    found = pair_scores(released, token, y, torch.tensor([[0, 1], [1, 2]]))
    # 0 and 1: 3 + 1 times; 3 parents times 3 children, 2 times 1, of five; half a pair each
    expected = [(4 + 0.5) / (9 / 5 + 2 / 5 + 0.5), (1 + 0.5) / (2 / 5 + 0.5)]
    assert found['pairs of tokens'].exp().tolist() == pytest.approx(expected)
    # With the label of the root: (0, 0) above 1 three times, (1, 1) above 0 and 2 once each;
    # node 2 has no label and is no root.
    assert found['pairs with label'].exp().tolist() == pytest.approx(expected)


def graph(num_nodes=300, seed=0):
    """Random pairs, of which a release may show the first half; each node is its own token."""
    rng = torch.Generator().manual_seed(seed)
    pair = torch.randint(num_nodes, (600, 2), generator=rng)
    pair = pair[pair[:, 0] != pair[:, 1]].sort(dim=1).values.unique(dim=0)
    pair = pair[torch.randperm(len(pair), generator=rng)]
    return pair[:250], pair[250:500], torch.arange(num_nodes)


def released(pairs, num_nodes=300):
    tokens = torch.cat([pairs, torch.full((len(pairs), 1), num_nodes)], dim=1)
    return trees(tokens, torch.zeros(len(pairs), dtype=torch.long), num_nodes, ONE)


def test_a_release_of_edges_is_above_the_limit_and_another_one_is_not():
    inside, held_out, token = graph()
    y = torch.zeros_like(token)
    shown = edge_inference(released(inside), token, y, inside, held_out)
    for check in shown.checks(Limit(1.0, 0.0, '')):
        assert check.verdict == ABOVE and check.name.startswith('Edge inference')
    assert max(a.epsilon for a in shown.accusations()) > 1
    assert 'of edges' in shown.accusations()[0].sentence()
    rest = graph(seed=1)[0]
    other = edge_inference(released(rest), token, y, inside, held_out)
    assert {check.verdict for check in other.checks(Limit(0.0, 0.0, ''))} == {NOTHING}


def test_few_edges_are_an_error():
    inside, held_out, token = graph()
    with pytest.raises(ValueError, match='got 250 and 3'):
        edge_inference(released(inside), token, token * 0, inside, held_out[:3])
