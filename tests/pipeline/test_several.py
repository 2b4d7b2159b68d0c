import time

import pytest
import torch

from tests.helpers.builds import builds
from tests.helpers.graphs import random_graph
from tests.helpers.processes import in_a_process, in_a_world, torchrun
from tests.helpers.several import arguments
from torch_geometric_cgt import SyntheticCGTDataset


def test_two_processes_build_one_dataset(tmp_path):
    """A process fails in the middle of a stage, then in the middle of the next one. Every time,
    the other one ends with its error instead of waiting."""
    for stage, kept in [('quantize', set()), ('fit', {'quantize', 'scenes', 'encode'})]:
        started = time.monotonic()
        first, second = in_a_world('tests.helpers.several', tmp_path, stage)
        assert time.monotonic() - started < 60
        assert first.returncode == second.returncode == 1
        assert 'RuntimeError: out of ideas' in second.stderr
        quoted = f"Process 1 of 2 failed to run the stage '{stage}': RuntimeError: out of ideas"
        assert f'DistributedError: {quoted}' in first.stderr, first.stderr[-2000:]
        folders = {path.name for work in builds(tmp_path / 'root') for path in work.iterdir()}
        assert {name for name in folders if not name.startswith('step-')} == kept

    out = torchrun('tests.helpers.several', tmp_path, 'whole')
    assert out.returncode == 0, out.stderr[-2000:]
    facts = [torch.load(tmp_path / f'{rank}.pt') for rank in range(2)]
    assert torch.equal(facts[0]['tokens'], facts[1]['tokens'])
    assert out.stderr.count('sample (') == 1, out.stderr[-2000:]  # the first one alone reports
    (folder,) = builds(tmp_path / 'root')

    one = SyntheticCGTDataset(random_graph(), **arguments(tmp_path / 'alone'), log=False)
    assert one.tokens.shape == facts[0]['tokens'].shape == (9000, 10)
    assert torch.equal(one.trees.y, facts[0]['y'])
    assert torch.equal(one.codebook, facts[0]['codebook'])
    # Weights differ by rounding, so a draw falls to the other side now and then.
    assert (one.tokens == facts[0]['tokens']).float().mean() > 0.98
    assert [path.name for path in builds(tmp_path / 'alone')] == [folder.name]


@pytest.mark.slow
@pytest.mark.parametrize('others', [[2, 2, 2], [1, 3]])
def test_one_of_two_processes_is_killed_at_a_random_moment(tmp_path, others):
    """The other one ends by itself. As many processes then end with the bytes of an undisturbed
    build, and another number of them with a release of the same promise."""
    out = in_a_process('tests.helpers.killed_world', tmp_path, *others, timeout=1200)
    assert out.returncode == 0, out.stderr[-2000:]
    assert out.stdout.count('killed') >= len(others) - 1, out.stdout
