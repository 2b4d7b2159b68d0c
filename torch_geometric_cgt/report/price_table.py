r"""The table of ``cgt price``: every mechanism of a private build and what it costs."""

from __future__ import annotations

from torch_geometric_cgt.privacy.ledger import Entry, Ledger
from torch_geometric_cgt.privacy.noise import Gaussian, Laplace, Noise, SampledGaussian
from torch_geometric_cgt.report.text_tables import align_columns

HEADER = ('stage', 'mechanism', 'rows', 'runs', 'noise', 'epsilon alone')


def price_table(ledger: Ledger, unit: str, delta: float) -> str:
    r"""The noise and the cost of each mechanism, and the cost of all together.

    Args:
        ledger (Ledger): The ledger.
        unit (str): The unit of privacy: what neighbouring datasets differ in.
        delta (float): The failure probability.
    """
    rows = [HEADER, *(_row(ledger, entry, unit, delta) for entry in ledger.entries)]
    total = ledger.total(unit, delta)
    lines = [
        align_columns(rows, ['left'] * len(HEADER)),
        f'together: epsilon = {total.epsilon:.4g}, delta = {delta:.3g} per {unit} '
        f'({total.relation}; accountant: {total.accountant})',
    ]
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
    noise = _describe(entry.noise)
    return entry.stage, entry.name, entry.unit, str(entry.count), noise, f'{cost:.3g}'


def _describe(noise: Noise) -> str:
    if isinstance(noise, SampledGaussian):
        return (
            f'{noise.noise_multiplier:.3g} x clipping norm, {int(noise.steps)} steps, sampling '
            f'rate {noise.sampling_probability:.2%}'
        )
    if isinstance(noise, Gaussian):
        return f'{noise.kind.replace("_", " ")}, sigma {noise.sigma:.4g}'
    if isinstance(noise, Laplace):
        return f'Laplace, scale {noise.scale:.4g}'
    return repr(noise)
