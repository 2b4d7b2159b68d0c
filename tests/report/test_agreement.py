import pytest

from tests.helpers.cells import agreement_of, by_key, pair_cell
from torch_geometric_cgt.benchmark.metrics import Estimate


def test_summary_on_the_same_rows_and_on_all():
    # The paper: 0.86 and 0.76 for GCN, 0.85 and 0.75 for SGC.
    cells = by_key(pair_cell(0.8, 0.75), pair_cell(0.7, 0.75, model='SGC'))
    found = agreement_of(cells)
    assert (found.run, found.asked, found.num_same, found.num_paper) == (2, 84, 2, 84)
    assert found.ours['mse'].value == pytest.approx(0.0025)
    assert found.ours['top1'].value == pytest.approx(1 / 2)  # a tie on the generated graph
    assert found.same['mse'].value == pytest.approx(0.01)
    assert found.same['top1'].value == 1
    assert round(found.paper['mse'].value, 4) == 0.0109
    assert found.is_better('mse') and not found.is_better('top1')
    assert not found.is_better('kendall')  # not defined: ours are tied
    cora = agreement_of(cells, dataset='Cora')
    assert (cora.run, cora.asked, cora.num_paper) == (2, 12, 12)
    assert agreement_of(cells, dataset='Photo').ours['mse'] == Estimate(None)


def test_summary_has_intervals_with_several_seeds_only():
    one = by_key(pair_cell(0.8, 0.75))
    assert agreement_of(one).ours['mse'].low is None
    two = one | by_key(pair_cell(0.8, 0.65, seed=1))
    found = agreement_of(two).ours['mse']
    assert (found.low, found.value, found.high) == pytest.approx((0.0025, 0.01, 0.0225))


def test_rows_that_the_paper_lacks_do_not_make_it_better():
    cells = [pair_cell(0.8, 0.65), pair_cell(0.8, 0.65, model='SGC')]
    extra = [pair_cell(0.8, 0.8, model=f'mine {i}') for i in range(8)]
    found = agreement_of(by_key(*cells, *extra), dataset='Cora')
    assert found.ours['mse'].value < found.same['mse'].value < found.common['mse'].value
    assert not found.is_better('mse')
