from dataclasses import replace

import pytest
import torch

from torch_geometric_cgt.data import TokenTrees, TreeShape
from torch_geometric_cgt.models.scenes import (
    SceneTable,
    Sharpness,
    TreeProbe,
    choose_draw,
    find_sharpness,
    source_accuracy,
)


def make_table(seed=0, n=3000, num_classes=4, num_scenes=9):
    rng = torch.Generator().manual_seed(seed)
    y = torch.randint(num_classes, (n,), generator=rng)
    noise = torch.randint(num_scenes, (n,), generator=rng)
    scene = torch.where(torch.rand(n, generator=rng) < 0.5, 2 * y, noise)
    split = torch.tensor([1, 2, 4])[torch.randint(3, (n,), generator=rng)]
    return SceneTable(y, split, scene, num_classes, num_scenes), y, split, scene


def information(weight):
    share = weight / weight.sum()
    apart = share.sum(dim=0, keepdim=True) * share.sum(dim=1, keepdim=True)
    return float((share * (share / apart.clamp(min=1e-30)).clamp(min=1e-30).log()).sum())


def test_tables_of_any_sharpness_have_the_margins_of_the_counts():
    table, *_ = make_table()
    told = []
    for sharpness in (0.0, 0.5, 1.0, 2.0, 4.0):
        weight = table.table(sharpness)
        for split in (1, 2, 4):
            count = table.count[split]
            assert torch.allclose(weight[split].sum(dim=1), count.sum(dim=1), rtol=1e-3)
            size = float(count.sum())
            assert torch.allclose(
                weight[split].sum(dim=0) / size, count.sum(dim=0) / size, atol=2e-3
            )
        told.append(information(weight[1]))
    assert told == sorted(told) and told[0] < 1e-6 and told[-1] > 2 * told[2]


def test_scenes_are_drawn_from_the_table():
    table, *_ = make_table()
    y, split = torch.full((20_000,), 2), torch.full((20_000,), 4)
    drawn = table.draw(y, split, 1.7, torch.Generator().manual_seed(0))
    expected = table.table(1.7)[4, 2]
    share = torch.bincount(drawn, minlength=9) / drawn.numel()
    assert torch.allclose(share.double(), expected / expected.sum(), atol=1e-4)  # its share
    other = table.draw(y, split, 1.7, torch.Generator().manual_seed(1))
    assert 0.05 < float((drawn == other).double().mean()) < 0.5  # whose it is, is left to chance
    again = table.draw(y, split, 1.7, torch.Generator().manual_seed(0))
    assert torch.equal(drawn, again)


def test_a_split_or_label_without_a_root_still_has_scenes():
    table, *_ = make_table()
    drawn = table.draw(
        torch.tensor([0, 1]), torch.tensor([3, 0]), 1.0, torch.Generator().manual_seed(0)
    )
    assert ((drawn >= 0) & (drawn < 9)).all()


def test_naming_a_scene_costs_its_conditional_entropy():
    table, *_ = make_table(n=60_000)
    count = table.count.view(-1, 9)
    count = count[count.sum(dim=1) > 0]
    share = count / count.sum(dim=1, keepdim=True)
    entropy = -float((count * share.clamp(min=1e-30).log()).sum() / count.sum())
    assert table.nll() == pytest.approx(entropy, rel=0.01)


def naive_average(z, tokens, shape, null):
    """Two rounds of mean over a slot and its real children, written out."""
    values = {slot: z[int(t)] for slot, t in enumerate(tokens) if t != null}
    for _ in range(shape.depth):
        new = {}
        for slot, value in values.items():
            below = [c for c in range(shape.num_slots) if int(shape.parent[c]) == slot]
            group = [value] + [values[c] for c in below if c in values]
            new[slot] = torch.stack(group).mean(dim=0)
        values = new
    return values[0]


@pytest.mark.parametrize('fan_outs', [[3], [3, 2], [2, 2, 2]])
def test_the_probe_averages_trees_as_a_linear_gnn_does(fan_outs):
    shape = TreeShape.of(fan_outs)
    rng = torch.Generator().manual_seed(0)
    probe = TreeProbe(torch.randn(6, 4, generator=rng), shape)
    tokens = torch.randint(7, (40, shape.num_slots), generator=rng)
    tokens[:, 0] = tokens[:, 0].clamp(max=5)
    for slot in range(1, shape.num_slots):  # nothing below null
        tokens[:, slot] = torch.where(tokens[:, shape.parent[slot]] == 6, 6, tokens[:, slot])
    expected = torch.stack([naive_average(probe.z, tree, shape, 6) for tree in tokens])
    assert torch.allclose(probe.features(tokens), expected, atol=1e-6)


def noisy_trees(share, seed, n=3000):
    """Trees of two children, of which a share has tokens of the root's label."""
    rng = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (n,), generator=rng)
    agree = torch.rand(n, 3, generator=rng) < share
    tokens = torch.where(agree, y[:, None], torch.randint(3, (n, 3), generator=rng))
    split = torch.where(torch.rand(n, generator=rng) < 0.5, 1, 4)
    return TokenTrees(tokens, y, split, 3, 3, TreeShape.of([2]))


def test_the_sharpness_is_found_where_generated_trees_score_as_the_source():
    probe = TreeProbe(torch.eye(3), TreeShape.of([2]))

    def draw(sharpness, i):
        return noisy_trees(min(1.0, 0.3 * sharpness), seed=10 + i)

    aim = probe.accuracy(noisy_trees(0.45, seed=1))
    found = find_sharpness(aim, probe, draw, size=3000, log=False)
    assert found.value == pytest.approx(1.5, abs=0.15)
    assert len(found.tried) == 7 and found.aim == aim


@pytest.mark.parametrize('sparse', [False, True])
def test_the_source_is_probed_by_its_own_features(sparse):
    x = torch.eye(3).repeat(100, 1)
    rng = torch.Generator().manual_seed(0)
    tree = torch.randint(300, (2000, 3), generator=rng)
    tree[:, 2] = 300  # null
    y = tree[:, 0] % 3
    split = torch.where(torch.arange(2000) % 2 == 0, 1, 4)
    trees = [TokenTrees(tree, y, split, 300, 3, TreeShape.of([2]))]
    found = source_accuracy(x.to_sparse_csr() if sparse else x, trees)
    assert 0.6 < found < 1.0  # one neighbour in two is noise
    alone = replace(trees[0], tokens=torch.where(torch.arange(3) > 0, 300, tree))
    assert source_accuracy(x, [alone]) == 1.0


def test_nothing_to_tell_apart_is_no_error():
    probe = TreeProbe(torch.eye(3), TreeShape.of([2]))
    trees = noisy_trees(0.5, 0, n=10)
    same = replace(trees, y=torch.zeros(10).long())
    assert probe.accuracy(same) == 1.0


def test_of_several_releases_the_one_closest_to_the_aim_is_chosen():
    probe = TreeProbe(torch.eye(3), TreeShape.of([2]))
    shares = [0.2, 0.5, 0.8]
    aim = probe.accuracy(noisy_trees(0.5, seed=7))
    found = choose_draw(
        Sharpness(aim=aim), probe, lambda i: noisy_trees(shares[i], seed=i), num_draws=3
    )
    assert found.draw == 1 and len(found.draws) == 3
    alone = choose_draw(Sharpness(aim=aim), probe, lambda i: pytest.fail('drawn'), num_draws=1)
    assert alone.draw == 0 and alone.draws == []
