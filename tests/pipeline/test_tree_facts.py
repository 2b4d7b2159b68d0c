"""Facts of the card, counted by one and by several processes."""

import pytest
import torch

from tests.helpers.processes import in_a_world
from tests.helpers.shared_facts import facts
from torch_geometric_cgt.pipeline import tree_facts
from torch_geometric_cgt.pipeline.tree_facts import unique_share
from torch_geometric_cgt.training import World


@pytest.mark.parametrize('processes', [2, 3])
def test_any_number_of_processes_finds_the_same_facts_and_candidates(
    tmp_path, monkeypatch, processes
):
    monkeypatch.setattr(tree_facts, 'ENCODE_BLOCK', 50)
    alone = facts(tmp_path, World())
    for out in in_a_world('tests.helpers.shared_facts', tmp_path, processes=processes):
        assert out.returncode == 0, out.stderr[-2000:]
    assert alone['candidates'].size(0) > 4096 and 0 < alone['unique'] < 1
    for rank in range(processes):
        found = torch.load(tmp_path / f'{rank}-of-{processes}.pt')
        assert found['facts'] == alone['facts'] and found['unique'] == alone['unique']
        assert torch.equal(found['candidates'], alone['candidates'])


def test_no_roots():
    assert unique_share(torch.zeros(0, dtype=torch.long), torch.zeros(0, 3, dtype=torch.int32)) == 0
