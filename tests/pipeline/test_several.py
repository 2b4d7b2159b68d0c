import torch

from tests.helpers.builds import builds
from tests.helpers.graphs import random_graph
from tests.helpers.processes import torchrun
from tests.helpers.several import arguments
from torch_geometric_cgt import SyntheticCGTDataset


def test_two_processes_build_one_dataset(tmp_path):
    out = torchrun('tests.helpers.several', tmp_path)
    assert out.returncode == 0, out.stderr[-2000:]
    facts = [torch.load(tmp_path / f'{rank}.pt') for rank in range(2)]
    assert facts[0]['error'] == 'RuntimeError: out of ideas'  # and the other does not wait for ever
    assert facts[1]['error'].startswith('DistributedError: Process 0 of 2 failed to quantize: Run')
    assert torch.equal(facts[0]['tokens'], facts[1]['tokens'])
    assert out.stderr.count('sample (') == 1, out.stderr[-2000:]  # the first one alone reports
    (folder,) = builds(tmp_path / 'root')

    one = SyntheticCGTDataset(random_graph(), **arguments(tmp_path / 'alone'), log=False)
    assert one.tokens.shape == facts[0]['tokens'].shape == (9000, 10)
    assert torch.equal(one.trees.y, facts[0]['y'])
    # Weights differ by rounding, so a draw falls to the other side now and then.
    assert (one.tokens == facts[0]['tokens']).float().mean() > 0.98
    assert [path.name for path in builds(tmp_path / 'alone')] == [folder.name]
