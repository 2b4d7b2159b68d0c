"""The folder name of a build."""

import pytest
import torch

from tests.helpers.configs import CHANGES, config
from torch_geometric_cgt import FitConfig
from torch_geometric_cgt.pipeline import cache_name, check_source


def test_every_parameter_has_a_cache_of_its_own(graph):
    source = check_source(graph)
    names = [cache_name(source, config(**change)) for change in [{}, *CHANGES]]
    assert len(set(names)) == len(names)
    runtime = FitConfig(compile=True, checkpoint_minutes=1.0, resume=False)
    assert cache_name(source, config(fit=runtime)) == names[0]  # how it is run is no parameter


@pytest.mark.parametrize('attribute', ['x', 'edge_index', 'y', 'train_mask'])
def test_a_changed_source_has_a_cache_of_its_own(graph, attribute):
    changed = graph.clone()
    if attribute == 'train_mask':
        changed.train_mask = torch.ones(graph.num_nodes, dtype=torch.bool)
    else:
        changed[attribute].view(-1)[0] = (changed[attribute].view(-1)[0] + 1) % 3
    names = [cache_name(check_source(data), config()) for data in (graph, graph.clone(), changed)]
    assert names[0] == names[1] != names[2]
