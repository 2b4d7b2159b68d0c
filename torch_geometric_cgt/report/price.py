r"""What a private build costs, as a table for people."""

from __future__ import annotations

from torch_geometric_cgt.privacy.entry import Entry
from torch_geometric_cgt.privacy.ledger import Ledger
from torch_geometric_cgt.privacy.noise import Gaussian, Laplace, Noise, SampledGaussian


def price_table(ledger: Ledger, unit: str, delta: float) -> str:
    r"""All mechanisms with their noise, what each costs alone, and what they
    cost together.

    Args:
        ledger (Ledger): The ledger.
        unit (str): What is left out of neighbouring data.
        delta (float): The failure probability.
    """
    rows: list[tuple[str, ...]] = [('stage', 'mechanism', 'rows', 'runs', 'noise', 'epsilon alone')]
    rows += [_row(ledger, entry, unit, delta) for entry in ledger.entries]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        '  '.join(f'{cell:<{width}}' for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    total = ledger.total(unit, delta)
    lines.append(
        f'together: epsilon = {total.epsilon:.4g}, delta = {delta:.3g} per {unit} '
        f'({total.relation}; accountant: {total.accountant})'
    )
    if ledger.sample is not None:
        lines.append(
            f'a node is in at most {ledger.sample.trees_per_node} computation graphs, an edge in '
            f'at most {ledger.sample.trees_per_edge}'
        )
    return '\n'.join(lines)


def _row(ledger: Ledger, entry: Entry, unit: str, delta: float) -> tuple[str, ...]:
    if entry.noise is None:
        return entry.stage, entry.name, '', '', 'none needed', '0'
    cost = ledger.cost(entry, unit, delta)
    noise = _words(entry.noise, entry.sensitivity)
    return entry.stage, entry.name, entry.unit, str(entry.count), noise, f'{cost:.3g}'


def _words(noise: Noise, sensitivity: float) -> str:
    if isinstance(noise, SampledGaussian):
        return (
            f'{noise.noise_multiplier:.3g} x clipping norm, {int(noise.steps)} steps, each record '
            f'with {noise.sampling_probability:.2%}'
        )
    if isinstance(noise, Gaussian):
        return f'{noise.kind.replace("_", " ")}, sigma {noise.sigma:.4g}'
    if isinstance(noise, Laplace):
        return f'Laplace, scale {noise.scale:.4g}'
    return repr(noise)
