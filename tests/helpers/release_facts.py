"""The facts behind the page of a release, by hand."""

from tests.helpers.cards import card


def k_card(**changes) -> dict:
    privacy = {**card().to_dict(), 'k': 30, 'k_reached': 31, **changes}
    source = {'name': 'People', 'num_nodes': 200, 'num_edges': 800}
    return {'source': source, 'num_trees': 200, 'created': '2026-01-01', 'privacy': privacy}


def private_card(**changes) -> dict:
    facts = {
        'mechanism': 'differential privacy',
        'epsilon': 4.0,
        'delta': 1e-4,
        'protects': 'node',
        'unit': 'one node',
        'seeded_noise': False,
        'k': None,
        'k_reached': None,
        **changes,
    }
    return k_card(**facts)


def evaluation(**changes) -> dict:
    """Three GNNs, on the original and elsewhere."""
    mean = {
        'original': [0.5, 0.8, 0.9],
        'ceiling': [0.51, 0.79, 0.9],
        'generated': [0.49, 0.79, 0.89],
        'control': [0.5, 0.5, 0.4],
        'transfer': [0.45, 0.75, 0.85],
        'control transfer': [0.4, 0.4, 0.4],
    }
    mean.update({name.replace('_', ' '): column for name, column in changes.items()})
    mean = {name: column for name, column in mean.items() if column is not None}
    return {'models': ['MLP', 'GCN', 'GAT'], 'metric': 'accuracy', 'floor': [], 'mean': mean}


def audit(*verdicts, **settings) -> dict:
    checks = [
        {'name': f'Check {i}', 'verdict': verdict, 'says': 'so'}
        for i, verdict in enumerate(verdicts)
    ]
    best = 'The best attack finds 4.5 % of members while wrongly accusing 0.9 %.'
    return {
        'headline': best,
        'summary': f'{len(checks)} checks.',
        'strongest': None,
        'checks': checks,
        'settings': {'checks': ['groups', 'membership'], 'num_shadows': 0, **settings},
    }
