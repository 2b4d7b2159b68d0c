r"""Whether the page of an evaluation may be published: which of its numbers describe the source."""

from __future__ import annotations

from typing import Any

# The columns that are computed from the source.
SOURCE_COLUMNS = (
    'original',
    'ceiling',
    'quantized',
    'transfer',
    'quantized transfer',
    'control transfer',
)


def publication_of(evaluation: dict[str, Any]) -> dict[str, Any]:
    r"""Returns whether an evaluation may be published with its release, and a
    notice for the reader.

    Args:
        evaluation (dict): As in
            :func:`~torch_geometric_cgt.report.report_files.write_evaluation`.
    """
    found = [column for column in SOURCE_COLUMNS if column in evaluation['scores']]
    parts = [f'the accuracies {", ".join(found)}'] if found else []
    views = evaluation.get('views', {})
    if any(set(SOURCE_COLUMNS) & scores.keys() for scores in views.values()):
        parts.append('the accuracies of views')
    if any(set(SOURCE_COLUMNS) & counts.keys() for counts in evaluation['histograms'].values()):
        parts.append('the histograms of the source and the distances to them')
    if 'original' in evaluation.get('graph', {}).get('statistics', {}):
        parts.append('the statistics of the source as one graph')
    if evaluation.get('fit'):
        parts.append('the likelihoods of the fit')
    privacy = evaluation['card']['privacy']
    is_private = privacy['mechanism'] == 'differential privacy'
    if parts:
        contained = f'{", ".join(parts[:-1])} and {parts[-1]}' if parts[1:] else parts[0]
        promise = (
            'they have no noise, and the epsilon of the release does not cover them'
            if is_private
            else 'the k-anonymity of the release does not cover them'
        )
        notice = (
            f'Not for publication. This page contains exact statistics of the source: {contained}. '
            f"Unlike the release, {promise}. 'cgt evaluate --publishable' leaves them out."
        )
        return {'publishable': False, 'notice': notice}
    notice = (
        'This page is computed from the release alone and reveals nothing that the release does '
        'not reveal. It does not show how similar the release is to the source.'
    )
    number = evaluation.get('num_builds', 1)
    if number > 1:
        cost = 'their costs add up (cgt budget)' if is_private else 'they can be intersected'
        notice += f' It shows means over {number} builds: if all are released, {cost}.'
    return {'publishable': True, 'notice': notice}
