import pytest
import torch

from torch_geometric_cgt.data import TreeShape
from torch_geometric_cgt.models.scenes import (
    SceneTable,
    agreement_prior,
    draw_roots,
    in_proportion,
    label_evidence,
    scenes_of,
)


def make_table(seed=0, n=3000, num_classes=4, num_scenes=9):
    rng = torch.Generator().manual_seed(seed)
    y = torch.randint(num_classes, (n,), generator=rng)
    noise = torch.randint(num_scenes, (n,), generator=rng)
    scene = torch.where(torch.rand(n, generator=rng) < 0.5, 2 * y, noise)
    split = torch.tensor([1, 2, 4])[torch.randint(3, (n,), generator=rng)]
    return SceneTable(y, split, scene, num_classes, num_scenes), y, split, scene


def test_shares_are_those_of_the_counts():
    table, *_ = make_table()
    share = table.table()
    assert torch.allclose(share.sum(dim=2), torch.ones(share.shape[:2], dtype=torch.double))
    for split in (1, 2, 4):
        count = table.count[split]
        assert torch.allclose(share[split], count / count.sum(dim=1, keepdim=True), atol=0.01)


def test_scenes_are_drawn_from_the_table():
    table, *_ = make_table()
    y, split = torch.full((20_000,), 2), torch.full((20_000,), 4)
    drawn = table.draw(y, split, torch.Generator().manual_seed(0))
    expected = table.table()[4, 2]
    share = torch.bincount(drawn, minlength=9) / drawn.numel()
    assert torch.allclose(share.double(), expected / expected.sum(), atol=1e-4)  # its share
    other = table.draw(y, split, torch.Generator().manual_seed(1))
    assert 0.05 < float((drawn == other).double().mean()) < 0.5  # whose it is, is left to chance
    again = table.draw(y, split, torch.Generator().manual_seed(0))
    assert torch.equal(drawn, again)


def test_a_split_or_label_without_a_root_still_has_scenes():
    table, *_ = make_table()
    drawn = table.draw(torch.tensor([0, 1]), torch.tensor([3, 0]), torch.Generator().manual_seed(0))
    assert ((drawn >= 0) & (drawn < 9)).all()


def test_naming_a_scene_costs_its_conditional_entropy():
    table, *_ = make_table(n=60_000)
    count = table.count.view(-1, 9)
    count = count[count.sum(dim=1) > 0]
    share = count / count.sum(dim=1, keepdim=True)
    entropy = -float((count * share.clamp(min=1e-30).log()).sum() / count.sum())
    assert table.nll() == pytest.approx(entropy, rel=0.01)


def test_scenes_by_hand():
    shape = TreeShape.of([2])
    table = torch.tensor([[0.9, 0.1], [0.1, 0.9]], dtype=torch.double)
    evidence = label_evidence(table, torch.tensor([0.5, 0.5], dtype=torch.double))
    assert torch.equal(evidence[2], torch.zeros(2, dtype=torch.double))
    tokens = torch.tensor([[0, 1, 2], [1, 2, 2], [0, 1, 1]])  # one child counts half, two tie
    assert scenes_of(tokens, evidence, shape)[:2].tolist() == [0, 1]
    prior = agreement_prior(torch.tensor([[0.4, 0.1], [0.1, 0.4]], dtype=torch.double))
    assert torch.allclose(prior, torch.tensor([[0.8, 0.2], [0.2, 0.8]], dtype=torch.double))


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def test_splits_have_their_share_and_labels_that_of_their_split():
    y = torch.tensor([0] * 90 + [1] * 10 + [1] * 50)
    split = torch.tensor([1] * 100 + [4] * 50)
    new_y, new_split = draw_roots(y, split, 30_001, rng())
    assert (new_split == 1).sum() == 20_001 and (new_split == 4).sum() == 10_000
    assert float(new_y[new_split == 1].float().mean()) == pytest.approx(0.1, abs=0.05)
    assert (new_y[new_split == 4] == 1).all()
    assert draw_roots(y, split, 1, rng())[0].numel() == 1
    once = draw_roots(torch.tensor([2]), torch.tensor([1]), 3, rng())  # whatever the noise is
    assert once[0].tolist() == [2, 2, 2] and once[1].tolist() == [1, 1, 1]


def test_numbers_of_labels_are_noisy_and_vary_less_than_independent_draws():
    y, split = torch.arange(5).repeat_interleave(111), torch.full((555,), 4)
    found = torch.stack(
        [torch.bincount(draw_roots(y, split, 555, rng(seed))[0], minlength=5) for seed in range(60)]
    ).double()
    assert (found.sum(dim=1) == 555).all()
    # The noise of a label is 1.4, less a fifth of that of all five; independent draws make 9.4.
    assert float(found.std()) == pytest.approx(1.24, abs=0.25)
    assert float(found.mean(dim=0).sub(111).abs().max()) < 0.7


def test_numbers_in_proportion_have_no_noise_of_their_own():
    weight, rng = torch.tensor([2.5, 0.0, 5.0, 2.5]), torch.Generator().manual_seed(0)
    drawn = in_proportion(weight, 400, rng)
    assert drawn.bincount(minlength=4).tolist() == [100, 0, 200, 100]
    assert not torch.equal(drawn, drawn.sort().values)  # in random order
    assert in_proportion(weight, 3, rng).bincount(minlength=4).sum() == 3
