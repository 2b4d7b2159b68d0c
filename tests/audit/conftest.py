from functools import cache

import pytest

from torch_geometric_cgt.privacy import ledger


@pytest.fixture(scope='package', autouse=True)
def accounting_once():
    """Builds of one promise compose the same mechanisms: each composition is computed once."""
    compute = ledger.epsilon_of

    @cache
    def computed(losses, delta, *coarseness):
        return compute(losses, delta, *coarseness)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            ledger,
            'epsilon_of',
            lambda losses, delta, *coarseness: computed(tuple(losses), delta, *coarseness),
        )
        yield
