"""The Markov model of token trees: a distribution, with the counts of the source."""

from itertools import product

import pytest
import torch

from torch_geometric_cgt.baselines import Independent, NGram
from torch_geometric_cgt.baselines.ngram import BACK, NEW, SIBLING
from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.errors import OutOfTime
from torch_geometric_cgt.models import FitContext, TreeSource
from torch_geometric_cgt.utils.run_limits import Limits

NULL = 2


def source_of(trees, labels, shape, num_tokens=NULL, num_classes=2):
    trees, labels = torch.tensor(trees), torch.tensor(labels)
    return TreeSource(
        lambda index, rng: trees[index],
        labels,
        torch.ones_like(labels),
        num_tokens,
        num_classes,
        TreeShape(tuple(shape)),
    )


def all_trees(shape, num_tokens):
    """Every tree whose null slots are the last ones among siblings."""
    depth = len(shape)

    def below(layer):
        if layer == depth:
            return [[[]] * 0]
        rows = []
        for size in range(shape[layer] + 1):
            for tokens in product(range(num_tokens), repeat=size):
                rows.append([*tokens, *[num_tokens] * (shape[layer] - size)])
        return rows

    assert depth == 2
    for root in range(num_tokens):
        for children in below(0):
            families = [
                below(1) if c != num_tokens else [[num_tokens] * shape[1]] for c in children
            ]
            for grandchildren in product(*families):
                yield [root, *children, *(t for family in grandchildren for t in family)]


TREES = [[0, 0, 1, 0, 1, NULL, 0], [0, 0, NULL, 0, NULL, NULL, NULL], [1, 1, 1, 1, 0, 1, NULL]]


@pytest.mark.parametrize('shape', [(2, 2), (2, 1)])
@pytest.mark.parametrize('options', [{}, {'order': 1}, {'order': 0, 'repeats': False}])
def test_probabilities_of_all_trees_sum_to_one(shape, options):
    size = 1 + shape[0] + shape[0] * shape[1]
    trees = [tree[:size] for tree in TREES]
    if shape == (2, 1):
        trees = [[0, 0, 1, 0, NULL], [0, 0, NULL, 0, NULL], [1, 1, 1, 1, 0]]
    model = NGram(NULL, 2, shape, **options)
    model.fit(source_of(trees, [0, 0, 1], shape))
    every = torch.tensor(list(all_trees(shape, NULL)))
    for label in (0, 1):
        prob = model.log_prob(every, torch.full((len(every),), label)).exp()
        assert float(prob.sum()) == pytest.approx(1)


def test_samples_approach_the_probabilities():
    model = NGram(NULL, 2, [2, 1])
    model.fit(
        source_of([[0, 0, 1, 0, NULL], [0, 0, NULL, 0, NULL], [1, 1, 1, 1, 0]], [0, 0, 1], (2, 1))
    )
    every = torch.tensor(list(all_trees((2, 1), NULL)))
    for label in (0, 1):
        drawn = model.sample(torch.full((30_000,), label), torch.Generator().manual_seed(0))
        both, count = torch.cat([every, drawn]).unique(dim=0, return_counts=True)
        assert len(both) == len(every)
        place = torch.cat([every, both]).unique(dim=0, return_inverse=True)[1]
        wanted = torch.zeros(len(both), dtype=torch.float64)
        wanted[place[: len(every)]] = model.log_prob(every, torch.full((len(every),), label)).exp()
        assert ((count - 1) / 30_000 - wanted).abs().max() < 0.012


def test_a_child_backs_off_to_the_label():
    # Roots of label 0 are token 0; their children are 0, 0 and 1. Label 1 is never under token 0.
    model = NGram(NULL, 2, [1], order=1, repeats=False)
    model.fit(source_of([[0, 0], [0, 0], [0, 1], [1, 1]], [0, 0, 0, 1], (1,)))
    every = torch.tensor([[0, 0], [0, 1]])
    y = torch.tensor([1, 1])
    given_root = model.log_prob(every, y) - model.root_tokens.prob([y, 0 * y], every[:, 0]).log()
    layer = [(2 + 2 / 2) / 6, (2 + 2 / 2) / 6]  # four observations of two distinct tokens
    label = [(0 + 1 * layer[0]) / 2, (1 + 1 * layer[1]) / 2]  # one observation, one distinct token
    one_child = model.family_sizes.prob(
        [torch.tensor([1 * 3 + 0 + 3]), *map(torch.tensor, ([1], [0]))], torch.tensor([1])
    )
    assert (given_root.exp() / one_child).tolist() == pytest.approx(label)


def test_an_edge_is_walked_back_once():
    # A child has two children: the root again (token 5 to 9), and one of the tokens 0 to 4.
    rng = torch.Generator().manual_seed(0)
    n = 3000
    root, other = torch.randint(5, 10, (n,), generator=rng), torch.randint(5, (n, 2), generator=rng)
    first = torch.rand(n, generator=rng) < 0.5
    pair = torch.stack(
        [torch.where(first, root, other[:, 1]), torch.where(first, other[:, 1], root)], 1
    )
    trees = torch.cat([root[:, None], other[:, :1], pair], dim=1)
    model = NGram(10, 1, [1, 2])
    model.fit(source_of(trees.tolist(), [0] * n, (1, 2), 10, 1))
    drawn = model.sample(torch.zeros(5000).long(), torch.Generator().manual_seed(1))
    back = (drawn[:, 2:] == drawn[:, :1]).sum(dim=1)
    assert (back == 1).double().mean() > 0.97
    last = model.origin[1, 2, 1]
    assert last[0, BACK] > 0.9  # not yet seen: the last child is the root
    assert last[1, NEW] > 0.9 and last[1, SIBLING] < 0.05


def test_repeated_siblings_are_repeated():
    n = 2000
    token = torch.randint(10, (n,), generator=torch.Generator().manual_seed(0))
    trees = torch.stack([torch.zeros_like(token), token, token], dim=1).tolist()
    drawn = {}
    for repeats in (True, False):
        model = NGram(10, 1, [2], repeats=repeats)
        model.fit(source_of(trees, [0] * n, (2,), 10, 1))
        tokens = model.sample(torch.zeros(4000).long(), torch.Generator().manual_seed(1))
        drawn[repeats] = float((tokens[:, 1] == tokens[:, 2]).double().mean())
    assert drawn[True] > 0.95 and drawn[False] < 0.2


def test_independent_tokens_depend_on_label_and_layer_only():
    trees = [[0, 1, 1], [1, 0, 0]] * 500  # children differ from the root
    labels = [0, 0] * 500
    model = Independent(NULL, 2, [2])
    model.fit(source_of(trees, labels, (2,)))
    tokens = model.sample(torch.zeros(8000).long(), torch.Generator().manual_seed(0))
    for column in (1, 2):
        same = (tokens[:, 0] == tokens[:, column]).double().mean()
        assert abs(float(same) - 0.5) < 0.03
    assert (tokens[:, 1] == tokens[:, 2]).double().mean() < 0.55
    assert Independent(**model.config()).config() == model.config()


def test_state_is_loaded_into_an_empty_model():
    model = NGram(NULL, 2, [2, 2])
    with pytest.raises(ValueError, match='not fitted'):
        model.sample(torch.tensor([0]))
    model.fit(source_of(TREES, [0, 0, 1], (2, 2)))
    again = NGram(**model.config())
    again.load_state_dict(model.state_dict())
    y = torch.tensor([0, 1] * 20)
    assert torch.equal(*(m.sample(y, torch.Generator().manual_seed(3)) for m in (model, again)))
    assert torch.equal(
        model.log_prob(torch.tensor(TREES), y[:3]), again.log_prob(torch.tensor(TREES), y[:3])
    )


def test_errors_name_the_value():
    with pytest.raises(ValueError, match="'order' must be 0, 1 or 2"):
        NGram(NULL, 2, [2], order=3)
    empty = source_of([], [], (2,))
    with pytest.raises(ValueError, match='no computation graphs'):
        NGram(NULL, 2, [2]).fit(empty)


def test_limits_are_checked():
    with pytest.raises(OutOfTime):
        NGram(NULL, 2, [2, 2]).fit(
            source_of(TREES, [0, 0, 1], (2, 2)), FitContext(limits=Limits(seconds=1e-9))
        )
