import pytest
import torch

from tests.helpers.generators import FORMS, make, random_tokens


@pytest.mark.parametrize('siblings', ['typed', 'independent'])
def test_equal_paths_are_evaluated_once_and_null_parents_never(siblings):
    model = make([3, 2], siblings=siblings)
    null = model.num_tokens
    tree = torch.tensor([[1, 2, 2, null, 3, 3, 4, null, null, null]])
    assert model.plan(tree.repeat(50, 1), torch.zeros(50).long()).paths.sizes == (1, 1, 1)
    y = torch.arange(2).repeat(25)
    assert model.plan(tree.repeat(50, 1), y).paths.sizes == (2, 2, 2)
    bare = torch.tensor([[1] + 9 * [null]])
    assert model.plan(bare, torch.zeros(1).long()).paths.sizes == (1, 1, 0)
    assert torch.isfinite(model.log_prob(bare, torch.zeros(1).long())).all()


def test_contexts_do_not_depend_on_labels_and_scenes():
    model = make([3, 2], num_scenes=2)
    null = model.num_tokens
    trees = torch.tensor([[1, 2, 3, null] + 6 * [null], [1, 2, null, null] + 6 * [null]])
    y, scene = torch.tensor([0, 1]), torch.tensor([1, 0])
    paths = model.plan(trees, y, scene).paths
    assert paths.sizes == (2, 2, 3)
    assert paths.context_token.tolist() == [null, 1, 2, 3]
    assert paths.context.tolist() == [0, 0, 1, 1, 2, 3, 2]
    assert paths.ancestors.tolist() == [[0, 0, 0], [0, 1, 1], [0, 1, 2], [0, 1, 3]]
    assert paths.is_ancestor.sum(dim=1).tolist() == [1, 2, 3, 3]


@torch.no_grad()
def test_queries_without_gradients_are_computed_in_parts(monkeypatch):
    model = make([3, 2], num_scenes=2).eval()
    tokens, y = random_tokens(model, 20, nulls=True)
    whole = model.log_prob(tokens, y, y % 2)
    drawn = model.sample(y, torch.Generator().manual_seed(0), y % 2)
    monkeypatch.setattr('torch_geometric_cgt.nn.two_stream.ROWS', 3)
    assert torch.allclose(model.log_prob(tokens, y, y % 2), whole)
    assert torch.equal(model.sample(y, torch.Generator().manual_seed(0), y % 2), drawn)


@pytest.mark.parametrize('form', FORMS)
def test_a_planned_batch_runs_on_the_meta_device(form):
    # What runs there cannot look at values: on a GPU, nothing of it waits for the host.
    model = make([3, 2], num_scenes=2, **form)
    tokens, y = random_tokens(model, 8, nulls=True)
    scene = y % 2
    plan = model.plan(tokens, y, scene).to('meta')
    loss = model.to('meta')(tokens.to('meta'), y.to('meta'), scene.to('meta'), plan)
    loss.backward()
    assert loss.device.type == 'meta' and loss.shape == ()
