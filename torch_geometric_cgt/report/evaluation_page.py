r"""The report of an evaluation: JSON always, one HTML page where it can be drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch_geometric_cgt.report.template import can_render, render
from torch_geometric_cgt.utils.files import write_text

TITLES = {
    'original': 'Original',
    'quantized': 'Quantized',
    'generated': 'Generated',
    'transfer': 'Trained on generated, tested on original',
}


def write_report(folder: Path, report: dict[str, Any]) -> list[Path]:
    r"""Writes :obj:`report.json` and, with the :obj:`report` extra,
    :obj:`report.html`.

    Args:
        folder (Path): Where to write.
        report (dict): The content of an evaluation, with the card of the
            release under :obj:`card` and, if at hand, what happened during
            the fit under :obj:`fit`.
    """
    paths = [folder / 'report.json']
    write_text(paths[0], json.dumps(report, indent=2) + '\n')
    if can_render():
        paths.append(folder / 'report.html')
        write_text(paths[1], render_report(report))
    return paths


def render_report(report: dict[str, Any]) -> str:
    r"""The HTML page, with styles and figures inside."""
    from torch_geometric_cgt.report import figures

    mean, fit = report['mean'], report.get('fit')
    drawn = {
        'scatter': figures.scatter(report['models'], mean['original'], mean['generated']),
        **{name: figures.histogram(c, name) for name, c in report['histograms'].items()},
    }
    if fit:
        drawn['fit'] = figures.loss_curve(fit['train_nll'], fit['holdout_nll'], fit['best_epoch'])
    rows = [
        {'model': model, 'means': {column: mean[column][i] for column in mean}}
        for i, model in enumerate(report['models'])
    ]
    return render(
        'report.html', report=report, card=report['card'], rows=rows, titles=TITLES, figures=drawn
    )
