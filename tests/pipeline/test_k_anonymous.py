"""Builds with k-anonymous or private clusters."""

import json

import pytest
import torch

from tests.helpers.builds import plain, promised
from tests.helpers.graphs import random_graph
from torch_geometric_cgt import SyntheticCGTDataset
from torch_geometric_cgt.pipeline import k_anonymous


def test_feature_vectors_cost_epsilon_and_nothing_else_is_promised(quick, tmp_path):
    graph = random_graph(num_nodes=400, num_edges=900)
    dataset = SyntheticCGTDataset(graph, **plain(quick, cluster_epsilon=20))
    card = dataset.privacy
    assert 15 < card.cluster_epsilon <= 20.1 and card.cluster_delta == pytest.approx(400**-1.1)
    assert card.epsilon is None and card.delta is None and card.k == 1 and card.unit == 'node'
    assert card.num_clusters == len(dataset.codebook) and dataset.codebook.size(1) == 8
    assert len(card.guaranteed) == 1 and 'differentially private' in card.guaranteed[0]
    text = ' '.join(card.not_guaranteed)
    assert 'not end-to-end' in text and 'No k is guaranteed' in text

    dataset.save(tmp_path / 'release')
    content = json.loads((tmp_path / 'release' / 'card.json').read_text())
    assert content['privacy']['mechanism'] == 'private clusters'
    assert content['parameters']['cluster_epsilon'] == 20
    readme = (tmp_path / 'release' / 'README.md').read_text()
    assert 'reached k' not in readme and 'not end-to-end' in readme
    assert SyntheticCGTDataset.load(tmp_path / 'release').privacy == card


def test_two_groups_are_enough(graph, quick):
    dataset = SyntheticCGTDataset(graph, **{**quick, 'k': 50})
    assert len(dataset.codebook) == 2 and dataset.privacy.k_reached >= 50


def test_candidates_of_a_small_release_are_drawn_once(graph, quick, monkeypatch, tmp_path):
    """They are the ones that views are matched on, and drawing them again gives the same trees."""
    pipeline, drawn = k_anonymous.KAnonymousPipeline, []
    candidates, take_tilt = pipeline.candidates, pipeline.take_tilt

    def count(self, *args):
        drawn.append(args)
        return candidates(self, *args)

    def forget(self, *args):
        take_tilt(self, *args)
        self.kept = None

    monkeypatch.setattr(pipeline, 'candidates', count)
    arguments = promised(quick, task_weight=0.0)
    once = SyntheticCGTDataset(graph, **{**arguments, 'root': tmp_path / 'once'})
    assert len(drawn) == 1
    monkeypatch.setattr(pipeline, 'take_tilt', forget)
    again = SyntheticCGTDataset(graph, **{**arguments, 'root': tmp_path / 'again'})
    assert len(drawn) == 3
    assert torch.equal(once.tokens, again.tokens)
