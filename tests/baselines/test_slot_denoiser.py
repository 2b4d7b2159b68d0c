"""The denoiser: symmetries of its predictions, and what they may depend on."""

import torch

from torch_geometric_cgt.baselines.slot_denoiser import SlotBatch, SlotDenoiser, slot_relations
from torch_geometric_cgt.data import TreeShape

SHAPE = TreeShape.of([2, 3])
MASK = 4


def strong_denoiser(num_states=(4, 4, 4), copies=True) -> SlotDenoiser:
    torch.manual_seed(0)
    denoiser = SlotDenoiser(SHAPE, num_states, 3, 2, 16, 2, 2, 0.0, copies).eval()
    for parameter in denoiser.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return denoiser


def trees(num_trees=5) -> SlotBatch:
    rng = torch.Generator().manual_seed(2)
    size = (num_trees, SHAPE.num_slots)
    exists = torch.rand(size, generator=rng) < 0.8
    exists[:, 0] = True
    exists[:, 3:] &= exists[:, SHAPE.parent[3:]]
    state = torch.randint(5, size, generator=rng)
    count = torch.randint(-1, 4, size, generator=rng)
    return SlotBatch(state, exists, count, torch.arange(num_trees) % 3, torch.arange(num_trees) % 2)


def table(denoiser, batch):
    """The log-probability of each state of each slot that exists, [B, T, V]."""
    found = denoiser(batch, batch.exists)
    num = found.log_prob_new.size(0)
    each = [found.log_prob(torch.full((num,), v)) for v in range(denoiser.num_states)]
    out = torch.full((*batch.exists.shape, denoiser.num_states), -torch.inf)
    out[batch.exists] = torch.stack(each, dim=1).detach()
    return out


def test_permuted_siblings_give_permuted_predictions():
    # The children 1 and 2 change places with their subtrees, and so do two of the grandchildren.
    perm = torch.tensor([0, 2, 1, 7, 6, 8, 3, 4, 5])
    denoiser, batch = strong_denoiser(), trees()
    moved = SlotBatch(
        batch.state[:, perm],
        batch.exists[:, perm],
        batch.num_children[:, perm],
        batch.y,
        batch.scene,
    )
    torch.testing.assert_close(table(denoiser, moved), table(denoiser, batch)[:, perm])
    # A permutation that takes a grandchild to another parent is none of these.
    wrong = torch.tensor([0, 1, 2, 6, 4, 5, 3, 7, 8])
    moved = SlotBatch(
        batch.state[:, wrong],
        batch.exists[:, wrong],
        batch.num_children[:, wrong],
        batch.y,
        batch.scene,
    )
    assert not torch.allclose(table(denoiser, moved), table(denoiser, batch)[:, wrong], atol=1e-3)


def test_relations_tell_parents_siblings_and_cousins_apart():
    relation = slot_relations(SHAPE)
    names = {
        'self': relation[3, 3],
        'parent': relation[3, 1],
        'root': relation[3, 0],
        'sibling': relation[3, 4],
        'cousin': relation[3, 6],
        'uncle': relation[3, 2],
        'child': relation[1, 3],
        'nephew': relation[1, 6],
    }
    assert len({int(value) for value in names.values()}) == len(names)
    assert relation[3, 4] == relation[8, 7] and relation[3, 6] == relation[7, 5]


def test_probabilities_sum_to_one_with_and_without_copies():
    for copies in (True, False):
        total = table(strong_denoiser(copies=copies), trees()).exp().sum(dim=2)
        torch.testing.assert_close(total[trees().exists], torch.ones(int(trees().exists.sum())))


def test_slots_that_do_not_exist_do_not_matter():
    denoiser, batch = strong_denoiser(), trees()
    other = torch.where(batch.exists, batch.state, (batch.state + 1) % 4)
    changed = SlotBatch(other, batch.exists, batch.num_children, batch.y, batch.scene)
    torch.testing.assert_close(table(denoiser, changed), table(denoiser, batch))


def test_predictions_depend_on_label_scene_and_numbers_of_children():
    denoiser, batch = strong_denoiser(), trees()
    for y, scene, count in (
        ((batch.y + 1) % 3, None, 0),
        (None, 1 - batch.scene, 0),
        (None, None, 1),
    ):
        changed = SlotBatch(
            batch.state,
            batch.exists,
            (batch.num_children + 1 + count) % 5 - 1,
            batch.y if y is None else y,
            batch.scene if scene is None else scene,
        )
        assert not torch.allclose(table(denoiser, changed), table(denoiser, batch), atol=1e-3)


def test_only_slots_that_are_not_masked_are_copied():
    denoiser = strong_denoiser()
    torch.nn.init.constant_(denoiser.copy_bias, 50.0)  # copies are certain
    state = torch.full((1, SHAPE.num_slots), MASK)
    state[0, 5] = 2
    exists = torch.ones_like(state, dtype=torch.bool)
    batch = SlotBatch(state, exists, torch.zeros_like(state), torch.tensor([0]), torch.tensor([0]))
    wanted = state == MASK
    assert bool((denoiser(batch, wanted).sample(None) == 2).all())
    state[0, 5] = MASK  # nothing is left to copy
    drawn = torch.cat([denoiser(batch, wanted).sample(None) for _ in range(50)])
    assert int(drawn.max()) < MASK and drawn.unique().numel() > 1


def test_layers_with_fewer_states_never_draw_the_others():
    denoiser = strong_denoiser(num_states=(4, 2, 1), copies=False)
    found = table(denoiser, trees()).exp()
    assert float(found[:, 1:3, 2:].max()) == 0.0
    assert float(found[:, 3:, 1:].max()) == 0.0
    assert float(found[:, 0].min()) > 0.0


def test_marginals_are_the_predictions_before_training():
    denoiser = SlotDenoiser(SHAPE, [4, 4, 4], 3, 2, 16, 2, 2, 0.0, False).eval()
    state = torch.zeros(100, SHAPE.num_slots, dtype=torch.long)
    state[:25, 0], state[:, 1:3] = 3, 1
    exists = torch.ones_like(state, dtype=torch.bool)
    denoiser.set_marginals(state, exists)
    found = table(denoiser, trees()).exp()
    torch.testing.assert_close(found[:, 0, 3], torch.full((5,), 0.25), atol=0.05, rtol=0)
    assert float(found[:, 1:3, 1][trees().exists[:, 1:3]].min()) > 0.9
