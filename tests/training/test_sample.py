import torch

from tests.helpers.tiny import model
from torch_geometric_cgt.training import sample
from torch_geometric_cgt.training.sample import sample_blocks


def test_sampling_in_batches_gives_every_row():
    tokens = sample(model(), torch.zeros(25, dtype=torch.long), batch_size=10, log=False)
    assert tokens.shape == (25, 7) and (tokens[:, 0] < 4).all()


def test_a_block_is_the_same_whichever_others_are_sampled():
    y, scene = torch.arange(25) % 2, torch.zeros(25, dtype=torch.long)
    whole = sample(model(), y, seed=3, batch_size=10, log=False)
    found = dict(sample_blocks(model(), y, [2, 0], 3, 10, log=False, scene=scene))
    assert torch.equal(found[0], whole[:10]) and torch.equal(found[2], whole[20:])
    assert sample(model(), y[:0], log=False).shape == (0, 7)
