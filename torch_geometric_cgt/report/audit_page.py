r"""The report of an audit: JSON always, one HTML page where it can be drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch_geometric_cgt.audit import CHECKS, Audit, Limit
from torch_geometric_cgt.report.template import can_render, render
from torch_geometric_cgt.utils.files import write_text

NUM_POINTS = 200  # of the curve of the limit


def write_audit(folder: Path, audit: Audit) -> list[Path]:
    r"""Writes :obj:`audit.json` and, with the :obj:`report` extra,
    :obj:`audit.html`.

    Args:
        folder (Path): Where to write.
        audit (Audit): What was found.
    """
    content = audit.to_dict()
    paths = [folder / 'audit.json']
    write_text(paths[0], json.dumps(content, indent=2) + '\n')
    if can_render():
        paths.append(folder / 'audit.html')
        write_text(paths[1], render_audit(content))
    return paths


def render_audit(content: dict[str, Any]) -> str:
    r"""The HTML page, with styles and figures inside.

    Args:
        content (dict): What :meth:`Audit.to_dict` gave.
    """
    from torch_geometric_cgt.report import audit_figures

    details = {name: content['details'].get(name) for name in CHECKS}
    figures = {}
    if support := details['support']:
        figures['support'] = audit_figures.support_bars(support['histogram'], support['bins'])
    if membership := details['membership']:
        stated = content['settings']['limit']
        limit = Limit(**stated)
        shares = [10 ** (-4 * (1 - i / NUM_POINTS)) for i in range(NUM_POINTS + 1)]
        figures['curves'] = audit_figures.attack_curves(
            membership['curves'], [(x, limit.highest(x)) for x in shares]
        )
    return render(
        'audit.html',
        audit=content,
        card=content['card'],
        details=details,
        settings=content['settings'],
        figures=figures,
        failed=[check for check in content['checks'] if check['verdict'] == 'failed'],
    )
