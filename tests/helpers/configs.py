"""Configurations of builds that differ in one parameter each."""

from torch_geometric_cgt import (
    DifferentialPrivacy,
    FitConfig,
    KAnonymity,
)
from torch_geometric_cgt.datasets.options import make_config
from torch_geometric_cgt.pipeline import PrivateClusters
from torch_geometric_cgt.training.dp_sgd import DPSGDConfig


def config(k=None, epsilon=None, delta=None, num_neighbors=(5, 5), num_samples=None, **options):
    seed = options.pop('seed', 0)
    return make_config(k, epsilon, delta, num_neighbors, num_samples, seed, options)


CHANGES = [
    {'k': 11},
    {'num_neighbors': [2, 3]},
    {'num_samples': 7},
    {'seed': 1},
    {'epsilon': 4.0},
    {'epsilon': 4.0, 'delta': 1e-5},
    {'privacy': KAnonymity(num_clusters=3)},
    {'privacy': KAnonymity(l=2)},
    {'privacy': KAnonymity(min_support=2)},
    {'privacy': KAnonymity(task_weight=0.5)},
    {'privacy': KAnonymity(cluster_epsilon=3.0)},
    {'privacy': DifferentialPrivacy(4.0, unit='attributes')},
    {'privacy': DifferentialPrivacy(4.0, unit='edge')},
    {'privacy': DifferentialPrivacy(4.0, unit='edge', k=9)},
    {'privacy': DifferentialPrivacy(4.0, unit='frozen_record')},
    {'privacy': DifferentialPrivacy(4.0, max_parents=3)},
    {'privacy': DifferentialPrivacy(4.0, form='rows')},
    {'privacy': DifferentialPrivacy(4.0, form='histograms', max_degree=9)},
    {'privacy': DifferentialPrivacy(4.0, form='histograms', max_degree=8)},
    {'privacy': DifferentialPrivacy(4.0, clusters=PrivateClusters(n_clusters=9))},
    {'privacy': DifferentialPrivacy(4.0, dp_sgd=DPSGDConfig(epochs=3.0))},
    {'privacy': DifferentialPrivacy(4.0, num_classes=9)},
    {'generator': {'num_scenes': 3}},
    {'generator': {'num_heads': 1}},
    {'fit': FitConfig(epochs=1)},
    {'fit': FitConfig(precision='bfloat16')},
    {'fit': FitConfig(accumulate=2)},
]
