import math
from itertools import product

import pytest
import torch

from torch_geometric_cgt import CGTGenerator
from torch_geometric_cgt.data import TreeShape

TINY = {'hidden_channels': 16, 'num_layers': 2, 'num_heads': 2}
FAN_OUTS = [[4], [3, 2], [2, 3, 2], [2, 2, 1, 2]]


def make(fan_outs, num_tokens=5, num_classes=3, seed=0, **kwargs) -> CGTGenerator:
    torch.manual_seed(seed)
    model = CGTGenerator(num_tokens, num_classes, fan_outs, **{**TINY, **kwargs}).double().eval()
    for parameter in model.parameters():  # far from the symmetric start
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def random_tokens(model, batch, nulls, seed=0):
    """Tokens with nulls at random places and nothing real below them."""
    rng = torch.Generator().manual_seed(seed)
    high = model.num_tokens + (2 if nulls else 0)
    tokens = torch.randint(high, (batch, model.shape.num_slots), generator=rng)
    tokens = tokens.clamp(max=model.num_tokens)
    tokens[:, 0] = tokens[:, 0].clamp(max=model.num_tokens - 1)
    for slot in range(1, model.shape.num_slots):
        parent = tokens[:, model.shape.parent[slot]]
        tokens[parent == model.num_tokens, slot] = model.num_tokens
    return tokens, torch.randint(model.num_classes, (batch,), generator=rng)


# The naive evaluation: every root-to-slot path is a sequence of its own, and every sequence is
# run through a two-stream Transformer that is written out with loops over positions.


def naive_attention(block, query, contexts):
    width = block.query.out_features // block.num_heads
    q = block.query(query)
    key_value = [block.key_value(context) for context in contexts]
    heads = []
    for h in range(block.num_heads):
        part = slice(h * width, (h + 1) * width)
        keys = [kv[: q.numel()][part] for kv in key_value]
        values = [kv[q.numel() :][part] for kv in key_value]
        scores = torch.stack([torch.dot(q[part], k) / math.sqrt(width) for k in keys])
        weights = torch.exp(scores - scores.max())
        weights = weights / weights.sum()
        heads.append(sum(w * v for w, v in zip(weights, values, strict=True)))
    return block.out(torch.cat(heads))


def naive_update(block, state, contexts):
    norm = block.norm_attention
    state = state + naive_attention(block, norm(state), [norm(c) for c in contexts])
    hidden = torch.nn.functional.gelu(block.expand(block.norm_mlp(state)))
    return state + block.contract(hidden)


def naive_next_token(model, path, label):
    """The log-probabilities of a child of the last token of a path (of the root: empty path)."""
    contexts = [model.where.weight[0]]
    for layer, token in enumerate(path):
        contexts.append(model.token.weight[token] + model.where.weight[1 + layer])
    query = model.start_query.weight[0] + model.where.weight[1 + len(path)]
    if model.label is not None:
        query = query + model.label.weight[label]
    for block in model.blocks:
        new = [naive_update(block, c, contexts[: i + 1]) for i, c in enumerate(contexts)]
        query = naive_update(block, query, contexts)
        contexts = new
    logits = model.head(model.norm(query))
    if not path:
        logits = logits[: model.num_tokens]
    return torch.log_softmax(logits, dim=0)


def naive_log_prob(model, tokens, label):
    total = 0.0
    for slot in range(model.shape.num_slots):
        path, at = [], slot
        while (at := int(model.shape.parent[at])) >= 0:
            path.insert(0, int(tokens[at]))
        if path and path[-1] == model.num_tokens:
            continue
        total = total + naive_next_token(model, path, label)[int(tokens[slot])]
    return total


@pytest.mark.parametrize('nulls', [False, True])
@pytest.mark.parametrize('label_conditioning', [True, False])
@pytest.mark.parametrize('fan_outs', FAN_OUTS)
@torch.no_grad()
def test_factorised_likelihood_is_the_path_by_path_one(fan_outs, label_conditioning, nulls):
    model = make(fan_outs, label_conditioning=label_conditioning)
    tokens, y = random_tokens(model, 3, nulls)
    if nulls:
        assert (tokens == model.num_tokens).any()
    expected = torch.stack(
        [naive_log_prob(model, t, int(label)) for t, label in zip(tokens, y, strict=True)]
    )
    assert torch.allclose(model.log_prob(tokens, y), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize('fan_outs', FAN_OUTS)
@torch.no_grad()
def test_factorised_and_whole_sequence_are_the_same_number(fan_outs):
    model = make(fan_outs)
    tokens, y = random_tokens(model, 6, nulls=True)
    expected = model.log_prob(tokens, y)
    from torch_geometric_cgt.nn.layout import sequence_layout

    model._layouts = {
        (model.shape.depth, tokens.device): sequence_layout(model.shape, 'layer', 'ancestors')
    }
    log_prob = model.slot_log_prob(tokens, y).sum(dim=1)
    assert torch.allclose(log_prob, expected, rtol=0, atol=1e-9)


def test_one_context_and_one_query_per_internal_slot():
    for fan_outs, positions in [([5, 5], 7), ([20, 20], 22), ([2, 3, 4], 1 + 1 + 2 + 6)]:
        model = CGTGenerator(5, 2, fan_outs, **TINY)
        layout = model._layout(len(fan_outs), torch.device('cpu'))
        assert layout.num_contexts == layout.query_position.numel() == positions


@torch.no_grad()
def test_contexts_depend_on_the_path_alone():
    model = make([2, 2, 2])
    tokens, y = random_tokens(model, 1, nulls=False)
    before = model.contexts(tokens, y)[0, 1:]
    for changed in range(model.shape.num_slots):
        other = tokens.clone()
        other[0, changed] = (other[0, changed] + 1) % model.num_tokens
        after = model.contexts(other, y)[0, 1:]
        for slot in range(model.shape.num_internal):
            moved = not torch.equal(before[slot], after[slot])
            assert moved == bool(model.shape.is_ancestor[slot, changed])


def all_trees(model):
    """Every valid token tree of a tiny model."""
    trees = torch.tensor(list(product(range(model.num_tokens + 1), repeat=model.shape.num_slots)))
    real = trees != model.num_tokens
    return trees[[model.shape.check_nulls(row[None]) for row in real]]


SWITCHES = [
    {},
    {'label_conditioning': False},
    {'position': 'slot'},
    {'attention': 'all'},
    {'position': 'slot', 'attention': 'all', 'label_conditioning': False},
]


@pytest.mark.parametrize('switches', SWITCHES)
@torch.no_grad()
def test_probabilities_of_all_trees_add_up_to_one(switches):
    model = make([2, 1], num_tokens=2, **switches)
    trees = all_trees(model)
    for label in range(model.num_classes):
        log_prob = model.log_prob(trees, torch.full((len(trees),), label))
        assert float(log_prob.exp().sum()) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize('switches', SWITCHES)
@torch.no_grad()
def test_samples_come_from_the_model(switches):
    model = make([2, 1], num_tokens=2, **switches)
    trees, draws = all_trees(model), 10_000
    y = torch.ones(draws, dtype=torch.long)
    tokens = model.sample(y, torch.Generator().manual_seed(0))
    expected = draws * model.log_prob(trees, y[: len(trees)]).exp()
    base = (model.num_tokens + 1) ** torch.arange(model.shape.num_slots)
    counts = torch.bincount((tokens * base).sum(dim=1), minlength=3**model.shape.num_slots)
    observed = counts[(trees * base).sum(dim=1)]
    assert int(observed.sum()) == draws  # nothing but valid trees
    often = expected > 5
    chi_square = float(((observed - expected)[often] ** 2 / expected[often]).sum())
    assert chi_square < int(often.sum()) + 5 * math.sqrt(2 * int(often.sum()))


@pytest.mark.parametrize('fan_outs', FAN_OUTS)
def test_nothing_real_is_sampled_below_null(fan_outs):
    model = make(fan_outs)
    with torch.no_grad():
        model.head.bias[model.num_tokens] += 2.0  # many nulls
    tokens = model.sample(torch.zeros(500, dtype=torch.long), torch.Generator().manual_seed(1))
    assert (tokens == model.num_tokens).any()
    assert TreeShape.of(fan_outs).check_nulls(tokens != model.num_tokens)


@torch.no_grad()
def test_forward_is_the_mean_over_counted_tokens():
    model = make([3, 2])
    tokens, y = random_tokens(model, 4, nulls=True)
    counted = 0
    for row in tokens.tolist():
        counted += 1 + sum(row[int(p)] != model.num_tokens for p in model.shape.parent[1:])
    expected = -float(model.log_prob(tokens, y).sum()) / counted
    assert float(model(tokens, y)) == pytest.approx(expected)


def test_sampling_is_reproducible_and_restores_training_mode():
    model = make([3, 2]).train()
    y = torch.arange(3).repeat(10)
    runs = [model.sample(y, torch.Generator().manual_seed(s)) for s in [0, 0, 1]]
    assert torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2])
    assert model.training


def test_int32_tokens_are_fine():
    model = make([3, 2])
    tokens, y = random_tokens(model, 4, nulls=True)
    assert torch.equal(model.log_prob(tokens.int(), y.int()), model.log_prob(tokens, y))


def test_meta_device_needs_no_memory():
    with torch.device('meta'):
        model = CGTGenerator(80_000, 47, [5, 5], hidden_channels=768, num_heads=12)
        out = model(torch.zeros(4, 31, dtype=torch.long), torch.zeros(4, dtype=torch.long))
    assert out.device.type == 'meta' and out.shape == ()


def test_config_makes_the_same_model_again():
    model = make([3, 2], position='slot')
    again = CGTGenerator(**model.config())
    again.double().load_state_dict(model.state_dict())
    tokens, y = random_tokens(model, 2, nulls=True)
    assert torch.equal(again.eval().log_prob(tokens, y), model.log_prob(tokens, y))


@pytest.mark.parametrize(
    'arguments, message',
    [
        ({'num_tokens': 0}, "'num_tokens' must be at least 1"),
        ({'num_neighbors': []}, 'num_neighbors'),
        ({'hidden_channels': 10, 'num_heads': 4}, 'divisible'),
        ({'dropout': 1.0}, "'dropout'"),
        ({'position': 'nowhere'}, "got 'nowhere'"),
        ({'attention': 'some'}, "got 'some'"),
    ],
)
def test_wrong_arguments(arguments, message):
    good = {'num_tokens': 5, 'num_classes': 2, 'num_neighbors': [2]}
    with pytest.raises(ValueError, match=message):
        CGTGenerator(**{**good, **arguments})


def test_wrong_shapes():
    model = make([2])
    with pytest.raises(ValueError, match=r'\[B, 3\]'):
        model(torch.zeros(2, 4).long(), torch.zeros(2).long())
    with pytest.raises(ValueError, match='one label per tree'):
        model(torch.zeros(2, 3).long(), torch.zeros(3).long())
