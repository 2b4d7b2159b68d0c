import math
from itertools import product

import pytest
import torch

from tests.helpers.generators import FORMS, make, random_tokens
from torch_geometric_cgt import CGTGenerator
from torch_geometric_cgt.data import TreeShape

EVALUATIONS = ['paths', 'trees', 'sequence']
FAN_OUTS = [[4], [3, 2], [2, 3, 2], [2, 2, 1, 2]]


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


def naive_query(model, path, label, scene=None):
    """What the children of the last token of a path are predicted from."""
    contexts = [model.where.weight[0]]
    for layer, token in enumerate(path):
        contexts.append(model.token.weight[token] + model.where.weight[1 + layer])
    query = model.start_query.weight[0] + model.where.weight[1 + len(path)]
    if model.label is not None:
        query = query + model.label.weight[label]
    if scene is not None:
        query = query + model.scene.weight[scene]
    for block in model.blocks:
        new = [naive_update(block, c, contexts[: i + 1]) for i, c in enumerate(contexts)]
        query = naive_update(block, query, contexts)
        contexts = new
    return model.norm(query)


def naive_next_token(model, path, label):
    """The log-probabilities of a child of the last token of a path (of the root: empty path)."""
    logits = model.head.vocabulary.out(naive_query(model.streams, path, label))
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


@pytest.mark.parametrize('form', FORMS)
@pytest.mark.parametrize('fan_outs', FAN_OUTS)
@torch.no_grad()
def test_every_evaluation_gives_the_same_numbers_and_the_same_samples(fan_outs, form):
    models = [make(fan_outs, num_scenes=3, evaluation=e, **form) for e in EVALUATIONS]
    tokens, y = random_tokens(models[0], 40, nulls=True)
    scene = torch.arange(40) % 3
    expected, *others = (model.log_prob(tokens, y, scene) for model in models)
    for other in others:
        assert torch.allclose(other, expected, rtol=0, atol=1e-9)
    samples = [m.sample(y, torch.Generator().manual_seed(0), scene) for m in models]
    assert all(torch.equal(samples[0], other) for other in samples[1:])


@pytest.mark.parametrize('form', FORMS)
def test_evaluations_have_the_same_gradient(form):
    gradients = []
    for evaluation in EVALUATIONS:
        model = make([3, 2], evaluation=evaluation, **form)
        tokens, y = random_tokens(model, 20, nulls=True)
        model(tokens, y).backward()
        gradients.append({n: p.grad for n, p in model.named_parameters() if p.grad is not None})
    for other in gradients[1:]:
        assert other.keys() == gradients[0].keys()
        assert all(torch.allclose(g, other[n], atol=1e-10) for n, g in gradients[0].items())


def all_trees(model):
    """Every valid token tree of a tiny model, with null slots behind their siblings where the
    place of a null slot among them does not count."""
    shape, null = model.shape, model.num_tokens
    trees = torch.tensor(list(product(range(null + 1), repeat=shape.num_slots)))
    keep = torch.tensor([shape.check_nulls(row[None] != null) for row in trees])
    if model.siblings == 'typed':
        for layer, fan_out in enumerate(shape.num_neighbors):
            is_null = (trees[:, shape.layer_slice(layer + 1)] == null).unflatten(1, (-1, fan_out))
            keep &= ~(is_null[..., :-1] & ~is_null[..., 1:]).flatten(1).any(dim=1)
    return trees[keep]


SWITCHES = [
    {},
    {'label_conditioning': False},
    {'position': 'slot'},
    {'attention': 'all'},
    {'position': 'slot', 'attention': 'all', 'label_conditioning': False},
    {'vocabulary': 'cells'},
    {'siblings': 'typed', 'num_types': 2},
    {'siblings': 'typed', 'num_types': 3, 'repeats': False},
    {'siblings': 'typed', 'num_types': 2, 'vocabulary': 'cells'},
    {'siblings': 'typed', 'num_types': 2, 'num_scenes': 4},
    {'num_scenes': 4},
]


@pytest.mark.parametrize('switches', SWITCHES)
@pytest.mark.parametrize('fan_outs', [[3], [2, 1], [1, 2]])
@torch.no_grad()
def test_probabilities_of_all_trees_add_up_to_one(fan_outs, switches):
    model = make(fan_outs, num_tokens=3, **switches)
    trees = all_trees(model)
    for label in range(model.num_classes):
        y = torch.full((len(trees),), label)
        log_prob = model.log_prob(trees, y, y + 1)
        assert float(log_prob.exp().sum()) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize('switches', SWITCHES)
@pytest.mark.parametrize('fan_outs', [[3], [2, 1], [1, 2]])
@torch.no_grad()
def test_samples_come_from_the_model(fan_outs, switches):
    model = make(fan_outs, num_tokens=2, **switches)
    trees, draws = all_trees(model), 10_000
    y = torch.ones(draws, dtype=torch.long)
    tokens = model.sample(y, torch.Generator().manual_seed(0), y + 2)
    y = y[: len(trees)]
    expected = draws * model.log_prob(trees, y, y + 2).exp()
    base = (model.num_tokens + 1) ** torch.arange(model.shape.num_slots)
    counts = torch.bincount((tokens * base).sum(dim=1), minlength=3**model.shape.num_slots)
    observed = counts[(trees * base).sum(dim=1)]
    assert int(observed.sum()) == draws  # nothing but valid trees
    often = expected > 5
    chi_square = float(((observed - expected)[often] ** 2 / expected[often]).sum())
    assert chi_square < int(often.sum()) + 5 * math.sqrt(2 * int(often.sum()))


def naive_typed_log_prob(model, tokens, label, scene):
    """Typed siblings, written out with loops over types, parents and children."""
    head, shape, null = model.head, model.shape, model.num_tokens
    scenes = model.num_scenes or model.num_classes
    scene = scene if model.num_scenes else label  # roots of a label are a scene
    per_type = []

    def query(path):
        return naive_query(model.streams, path, label, scene if model.num_scenes else None)

    def hidden(path, kind):
        return torch.nn.functional.gelu(head.hidden(query(path)) + head.latent.weight[kind])

    def token_probability(path, kind, layer):
        logits = head.vocabulary.out(hidden(path, kind))
        if layer < 2:
            table = head.root_base if layer == 0 else head.child_base
            base = table.weight[scene * model.num_classes + label]
        else:
            base = head.token_base.weight[(layer - 2) * scenes + scene]
        return torch.softmax(logits + base, dim=0)

    prior = torch.log_softmax(head.type_prior(query([int(tokens[0])])), dim=0)
    for kind in range(model.num_types):
        total = prior[kind]
        for slot in range(shape.num_internal):
            if tokens[slot] == null:
                continue
            path, at = [], slot
            while at >= 0:
                path.insert(0, int(tokens[at]))
                at = int(shape.parent[at])
            layer, h = int(shape.layer[slot]), hidden(path, kind)
            below = [int(t) for t in tokens[shape.parent == slot] if t != null]
            beside = [int(t) for t in tokens[shape.layer_slice(layer)] if t != null]
            number = head.number(h) + head.number_base.weight[layer * scenes + scene]
            number = number[: shape.num_neighbors[layer] + 1]
            total = total + torch.log_softmax(number, dim=0)[len(below)]
            probability = token_probability(path, kind, layer + 1)
            origin = head.origin(h) + head.origin_base.weight[layer]
            if layer == 0:
                origin[1] = -torch.inf
            origin = torch.softmax(origin, dim=0)
            pull = torch.nn.functional.softplus(head.urn(h) + head.urn_base.weight[layer])[0]
            for i, token in enumerate(below):
                chance = origin[0] * probability[token]
                chance += origin[1] * (len(path) > 1 and token == path[-2])
                chance += origin[2] * beside.count(token) / len(beside)
                chance = (chance + pull * below[:i].count(token)) / (1 + pull * i)
                total = total + torch.log(chance)
        per_type.append(total)
    root = torch.log(token_probability([], -1, 0)[int(tokens[0])])
    return root + torch.logsumexp(torch.stack(per_type), dim=0)


@pytest.mark.parametrize('num_scenes', [0, 4])
@pytest.mark.parametrize('fan_outs', FAN_OUTS)
@torch.no_grad()
def test_typed_likelihood_is_the_sum_over_types_written_out(fan_outs, num_scenes):
    model = make(fan_outs, siblings='typed', num_types=3, num_tokens=3, num_scenes=num_scenes)
    tokens, y = random_tokens(model, 3, nulls=True)
    scene = torch.tensor([3, 0, 2])
    expected = torch.stack(
        [
            naive_typed_log_prob(model, tree, int(label), int(code))
            for tree, label, code in zip(tokens, y, scene, strict=True)
        ]
    )
    assert torch.allclose(model.log_prob(tokens, y, scene), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize('fan_outs', FAN_OUTS)
def test_nothing_real_is_sampled_below_null(fan_outs):
    model = make(fan_outs)
    with torch.no_grad():
        model.head.vocabulary.out.bias[model.num_tokens] += 2.0  # many nulls
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


def test_config_makes_the_same_model_again():
    model = make([3, 2], position='slot')
    again = CGTGenerator(**model.config())
    again.double().load_state_dict(model.state_dict())
    tokens, y = random_tokens(model, 2, nulls=True)
    assert torch.equal(again.eval().log_prob(tokens, y), model.log_prob(tokens, y))
