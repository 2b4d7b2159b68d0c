r"""Where numbers come from: which cells one command measured, when, and for how long."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from torch_geometric_cgt.benchmark.cells import Cell

RUN = ('commit', 'version', 'settings', 'command')  # what cells of one run share


def runs_of(cells: Iterable[Cell]) -> list[dict[str, Any]]:
    r"""Which cells came from the same code, settings and command, and when.

    :obj:`seconds` is what GNNs took, :obj:`build_seconds` what their graphs
    took. Cells that share a graph name the same build, which counts once: for
    the first run that has it. A cell that was copied from another table has
    the facts of that one, and counts for nothing more.

    Args:
        cells (list[Cell]): All cells.
    """
    groups: dict[tuple[str, ...], list[Cell]] = defaultdict(list)
    for cell in cells:
        run = (cell.key.experiment, *(_fact(cell, name) for name in RUN))
        groups[run].append(cell)
    out, builds = [], set()
    for (experiment, *shared), part in groups.items():
        dates = sorted(_text(cell.facts['date']) for cell in part if cell.facts.get('date'))
        build_seconds = 0.0
        measured = [cell for cell in part if 'copied_from' not in cell.facts]
        for cell in measured:
            # Builds take as long as each other to a tenth of a second only if they are one.
            key, seconds = cell.key, _seconds(cell, 'build_seconds')
            build = (key.dataset, key.variant, key.seed, seconds, *shared)
            if build not in builds:
                builds.add(build)
                build_seconds += seconds
        out.append(
            {
                'experiment': experiment,
                'cells': len(part),
                'seeds': sorted({cell.key.seed for cell in part}),
                'first': dates[0] if dates else '',
                'last': dates[-1] if dates else '',
                'copied': len(part) - len(measured),
                'seconds': sum(_seconds(cell, 'seconds') for cell in measured),
                'build_seconds': build_seconds,
                **dict(zip(RUN, shared, strict=True)),
            }
        )
    return out


def _fact(cell: Cell, name: str) -> str:
    if name != 'settings':
        return _text(cell.facts.get(name))
    config = cell.facts.get('config')
    known = config if isinstance(config, dict) else {'config': config}
    return _text({**known, 'protocol': cell.facts.get('protocol')})


def _seconds(cell: Cell, name: str) -> float:
    found = cell.facts.get(name)
    return float(found) if isinstance(found, int | float) else 0.0


def _text(fact: Any) -> str:
    if isinstance(fact, dict):
        known = {name: value for name, value in fact.items() if value is not None}
        return ', '.join(f'{name} = {_text(value)}' for name, value in known.items())
    if isinstance(fact, list):
        return ' '.join(map(str, fact))
    return '' if fact is None else str(fact)
