import inspect
import re
from fractions import Fraction

import pytest

from torch_geometric_cgt import FitConfig
from torch_geometric_cgt.training.config import (
    MAX_EPOCHS,
    MIN_EPOCHS,
    MIN_EPOCHS_GRAPHS,
    RUNTIME,
    USUAL_GRAPHS,
)

WRONG = [
    {'epochs': '2'},
    {'epochs': 2.5},
    {'precision': 'float16'},
    {'accumulate': 0},
    {'accumulate': 129},
    {'checkpoint_minutes': -1.0},
    {'checkpoint_minutes': float('nan')},
]


@pytest.mark.parametrize(
    'wrong', [{'epochs': 0}, {'holdout': 1.0}, {'lr': 0.0}, {'patience': 0}, *WRONG]
)
def test_wrong_config(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        FitConfig(**wrong)


@pytest.mark.parametrize(
    'num_roots, epochs', [(10, 25), (2_485, 25), (20_000, 10), (170_000, 3), (10**6, 1)]
)
def test_larger_graphs_need_fewer_epochs(num_roots, epochs):
    assert FitConfig().num_epochs(num_roots) == epochs
    assert FitConfig(epochs=7).num_epochs(num_roots) == 7


def stated_numbers() -> list[int]:
    """The numbers in the description of `epochs`, in the order of the text."""
    text = inspect.getdoc(FitConfig).split('epochs (int, optional):')[1].split('(default')[0]
    return [int(number.replace(',', '')) for number in re.findall(r'\d[\d,]*', text)]


def test_the_docstring_states_the_numbers_of_the_code():
    assert stated_numbers() == [USUAL_GRAPHS, MAX_EPOCHS, MIN_EPOCHS, MIN_EPOCHS_GRAPHS]


def stated_epochs(num_roots: int) -> int:
    """The rule of the docstring, with its numbers."""
    usual_graphs, most, least, least_graphs = stated_numbers()
    if num_roots * least > least_graphs:  # fewer epochs show that many graphs
        least = -(-least_graphs // num_roots)
    return min(most, max(least, round(Fraction(usual_graphs, num_roots))))


def test_the_number_of_epochs_is_the_one_that_the_docstring_states():
    sizes = [*range(1, 300), *range(300, 2_000_000, 997)]
    sizes += [n + d for n in (8_000, 40_000, 100_000, 125_000, 500_000) for d in (-1, 0, 1)]
    config = FitConfig()
    for num_roots in sizes:
        assert config.num_epochs(num_roots) == stated_epochs(num_roots), num_roots


def test_five_epochs_are_the_minimum_up_to_125_000_graphs():
    config = FitConfig()
    assert min(config.num_epochs(n) for n in range(1, 125_000, 61)) == 5
    assert config.num_epochs(124_999) == 5
    assert config.num_epochs(125_000) == 4  # they show the model 500,000 graphs
    assert config.num_epochs(499_999) == 2
    assert config.num_epochs(500_000) == 1
    assert config.num_epochs(0) == 25


@pytest.mark.parametrize(
    'change', [{'compile': True}, {'checkpoint_minutes': 0.0}, {'resume': False}]
)
def test_what_does_not_change_the_model_is_not_in_the_dictionary(change):
    assert FitConfig().resume
    config = FitConfig(**change)
    assert config != FitConfig() and config.to_dict() == FitConfig().to_dict()
    assert not config.to_dict().keys() & set(RUNTIME)
