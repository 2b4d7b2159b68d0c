"""The private model of labels of neighbours."""

import pytest
import torch

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.models import FitContext, PrivateMixing, TokenGraph, TreeSource
from torch_geometric_cgt.models.edge_counts import EdgeCaps
from torch_geometric_cgt.models.mixing import (
    MOST_SPREAD,
    USUAL_EXCESS,
    concentration_of,
    homophily_prior,
    mean_degree,
    shares_of_nodes,
)
from torch_geometric_cgt.privacy import Budget, Ledger, Queries

TOKENS, LABELS, FAN_OUTS = 6, 3, [4, 3]


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def make_graph(num_nodes=900, degree=4, homophily=0.8, seed=0):
    """An undirected graph of random edges; tokens 2 y and 2 y + 1 belong to label y."""
    draws = rng(seed)
    y = torch.randint(LABELS, (num_nodes,), generator=draws)
    a = torch.randint(num_nodes, (num_nodes * degree * 3,), generator=draws)
    b = torch.randint(num_nodes, a.shape, generator=draws)
    chance = torch.rand(a.shape, generator=draws)
    keep = torch.where(y[a] == y[b], chance < homophily, chance < (1 - homophily) / 2) & (a != b)
    a, b = a[keep][: num_nodes * degree // 2], b[keep][: num_nodes * degree // 2]
    edge_index = torch.cat([torch.stack([a, b]), torch.stack([b, a])], dim=1)
    token = 2 * y + torch.randint(2, y.shape, generator=draws)
    return TokenGraph(token, y, edge_index)


def fitted(graph, epsilon=1e3, seed=0, **options):
    model = PrivateMixing(TOKENS, LABELS, FAN_OUTS, **options)
    ledger = Ledger(['sequence model'], model.entries()).calibrate(Budget(epsilon, 1e-4))
    queries = Queries(ledger.entries, rng(seed))
    sizes = (TOKENS, LABELS, TreeShape.of(FAN_OUTS))
    none = graph.y.new_empty(graph.num_nodes, 0)
    source = TreeSource(lambda i, _: none[i], graph.y, graph.y * 0, *sizes, graph=graph)
    model.fit(source, FitContext(queries=queries))
    return model, queries


def test_tables_of_a_known_graph():
    graph = make_graph()
    model, _ = fitted(graph)
    child, parent = graph.edge_index
    equal = float((graph.y[child] == graph.y[parent]).double().mean())
    assert abs(float(model.neighbor.diagonal().mean()) - equal) < 0.05
    assert torch.allclose(model.neighbor.sum(dim=1), torch.ones(LABELS, dtype=torch.double))
    for label in range(LABELS):
        assert float(model.token[label, 2 * label : 2 * label + 2].sum()) > 0.98
    degree = torch.bincount(parent, minlength=graph.num_nodes).double()
    assert abs(float(model.degree) / float(degree.mean()) - 1) < 0.2
    for number in range(1, 5):
        assert abs(float(model.at_least[number]) - float((degree >= number).double().mean())) < 0.1
    assert float(model.mutual) > 0.9


def test_trees_have_the_statistics_of_the_graph():
    model, _ = fitted(make_graph())
    y = torch.arange(LABELS).repeat(1500)
    tokens = model.sample(y, rng(1))
    assert TreeShape.of(FAN_OUTS).check_nulls(tokens < TOKENS)
    assert bool((tokens[:, 0] // 2 == y).double().mean() > 0.98)
    children = tokens[:, 1:5]
    real = children < TOKENS
    equal = (children // 2 == y[:, None])[real].double().mean()
    assert abs(float(equal) - float(model.neighbor.diagonal().mean())) < 0.03
    share = [float((real.sum(dim=1) >= n).double().mean()) for n in range(1, 5)]
    assert torch.allclose(torch.tensor(share).double(), model.at_least[1:5], atol=0.03)


def test_an_edge_leads_back_to_the_root():
    model, _ = fitted(make_graph(homophily=0.98, degree=2))
    y = torch.zeros(2000, dtype=torch.long)
    tokens = model.sample(y, rng(2))
    below = tokens[:, 5:].view(2000, 4, 3)
    has_child = below[:, :, 0] < TOKENS
    back = (below == tokens[:, :1, None]).any(dim=2)[has_child].double().mean()
    model.mutual.fill_(0.0)
    tokens = model.sample(y, rng(2))
    below = tokens[:, 5:].view(2000, 4, 3)
    chance = (below == tokens[:, :1, None]).any(dim=2)[below[:, :, 0] < TOKENS].double().mean()
    assert float(back) > 0.95 > float(chance)


def test_the_same_model_from_its_configuration():
    model, _ = fitted(make_graph())
    other = PrivateMixing(**model.config())
    other.load_state_dict(model.state_dict())
    y = torch.arange(LABELS).repeat(20)
    assert torch.equal(model.sample(y, rng(3)), other.sample(y, rng(3)))
    with pytest.raises(ValueError, match='not fitted'):
        PrivateMixing(TOKENS, LABELS, FAN_OUTS).sample(y)


def test_without_edges_trees_are_roots():
    model, queries = fitted(make_graph(), use_edges=False)
    tokens = model.sample(torch.zeros(50, dtype=torch.long), rng())
    assert bool((tokens[:, 1:] == TOKENS).all()) and bool((tokens[:, 0] < TOKENS).all())
    assert [answer.name for answer in queries.answers] == ['root tokens per label']


def test_every_entry_is_asked_once_and_every_query_is_paid():
    model, queries = fitted(make_graph(), epsilon=2.0)
    assert sorted(answer.name for answer in queries.answers) == sorted(
        entry.name for entry in model.entries()
    )


def test_nodes_without_a_label_count_as_what_their_token_indicates():
    graph = make_graph()
    hidden = graph.y.clone()
    hidden[::2] = -1
    model, _ = fitted(graph)
    other, _ = fitted(TokenGraph(graph.token, hidden, graph.edge_index))
    assert torch.allclose(model.neighbor, other.neighbor, atol=0.03)


def test_a_model_of_edges_needs_a_graph():
    model = PrivateMixing(TOKENS, LABELS, FAN_OUTS)
    y = torch.zeros(3, dtype=torch.long)
    source = TreeSource(lambda i, _: y[i, None], y, y, TOKENS, LABELS, TreeShape.of(FAN_OUTS))
    with pytest.raises(ValueError, match="no entry 'root tokens per label'"):
        model.fit(source)
    ledger = Ledger(['sequence model'], model.entries()).calibrate(Budget(1.0, 1e-4))
    with pytest.raises(ValueError, match=r"'source\.graph' is missing"):
        model.fit(source, FitContext(queries=Queries(ledger.entries, rng())))


def test_much_noise_gives_distributions():
    model, _ = fitted(make_graph(60), epsilon=0.05)
    for table in (model.neighbor, model.token):
        assert bool((table >= 0).all()) and torch.allclose(
            table.sum(dim=1), torch.ones(len(table), dtype=torch.double)
        )
    tokens = model.sample(torch.arange(LABELS).repeat(40), rng())
    assert TreeShape.of(FAN_OUTS).check_nulls(tokens < TOKENS)


@pytest.mark.parametrize(
    'rates, expected', [([1.9, 1.8, 1.4, 0.35, 0.2], 2.8), ([0.1, 0.05, 0.02, 0.01, 0.0], 0.1)]
)
def test_mean_degree_by_hand(rates, expected):
    assert mean_degree(torch.tensor(rates) * 100, 100, 2) == pytest.approx(expected)
    assert mean_degree(torch.tensor([-5.0, 3.0]), 100, 2) == 0.02


def test_shares_of_nodes_by_hand():
    assert shares_of_nodes(torch.tensor([90.0, 150.0, 180.0]), 100).tolist() == pytest.approx(
        [1.0, 0.9, 0.6, 0.3]
    )
    noisy = shares_of_nodes(torch.tensor([110.0, 100.0, 160.0]), 100)  # made to fall
    assert noisy.tolist() == pytest.approx([1.0, 1.0, 0.25, 0.25])


def test_concentration_by_hand():
    neighbor = torch.full((2, 2), 0.5, dtype=torch.double)
    weight = torch.ones(2, dtype=torch.double)
    # Two children agree with probability 0.75: (1 + a / 2) / (1 + a) = 0.75 for a = 1.
    found = concentration_of(torch.tensor([750.0, 250.0, 1000.0]), 0.01, neighbor, weight)
    assert found == pytest.approx(1.0, rel=1e-3)
    independent = concentration_of(torch.tensor([500.0, 500.0, 1000.0]), 1e-3, neighbor, weight)
    assert independent == MOST_SPREAD
    noise = concentration_of(torch.tensor([9.0, 0.0, 20.0]), 10.0, neighbor, weight)
    assert noise == pytest.approx(1 / USUAL_EXCESS - 1)  # nothing was learned
    between = concentration_of(torch.tensor([750.0, 250.0, 1000.0]), 100.0, neighbor, weight)
    assert found < between < noise


def test_labels_of_children_are_spread_as_the_concentration_says():
    model, _ = fitted(make_graph())
    y = torch.zeros(4000, dtype=torch.long)

    def agreement(concentration):
        model.concentration.fill_(concentration)
        labels = model._draw_labels(y[:, None], 2, rng())[:, 0]
        return float((labels[:, 0] == labels[:, 1]).double().mean())

    independent = float(model.neighbor[0].square().sum())
    assert abs(agreement(1e4) - independent) < 0.03
    assert abs(agreement(1.0) - (1 + independent) / 2) < 0.03


def test_prior_of_one_label():
    assert homophily_prior(torch.ones(1, 1).double(), torch.ones(1).double()).tolist() == [[1.0]]


def test_caps_are_a_part_of_the_configuration():
    model = PrivateMixing(TOKENS, LABELS, FAN_OUTS, EdgeCaps(child=7))
    assert PrivateMixing(**model.config()).caps == EdgeCaps(child=7)
