import torch

from tests.helpers.generators import TINY, make, random_tokens
from torch_geometric_cgt import CGTGenerator


def test_one_context_and_one_query_per_internal_slot():
    for fan_outs, positions in [([5, 5], 7), ([20, 20], 22), ([2, 3, 4], 1 + 1 + 2 + 6)]:
        model = CGTGenerator(5, 2, fan_outs, evaluation='trees', **TINY)
        layout = model.streams.layout(len(fan_outs), torch.device('cpu'))
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
