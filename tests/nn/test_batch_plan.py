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
