"""The arguments that name a source: what they load, and which contradict each other."""

import argparse

import pytest

from torch_geometric_cgt.cli.source_arguments import add_source_arguments, has_source, source_of

TABLES = ['--nodes', 'nodes.csv', '--edges', 'edges.csv']


def parsed(*words, epsilon=None, default=None):
    parser = argparse.ArgumentParser()
    add_source_arguments(parser, default)
    return argparse.Namespace(**vars(parser.parse_args(words)), epsilon=epsilon)


def test_a_second_call_returns_the_same_dataset():
    args = parsed('--source', 'digits')  # names may be in any case
    source = source_of(args)
    assert source_of(args) is source and source[0].num_nodes == 1797


def test_whether_a_source_is_named():
    assert not has_source(parsed()) and has_source(parsed('--source', 'Digits'))
    assert has_source(parsed(*TABLES[:2])) and has_source(parsed(*TABLES[2:]))


@pytest.mark.parametrize(
    'words, message',
    [
        ([], "Give '--source', or '--nodes' and '--edges'"),
        (TABLES[:2], "'--edges' is missing"),
        (TABLES[2:], "'--nodes' is missing"),
        ([*TABLES, '--source', 'Cora'], r"not both \(got 'Cora'\)"),
    ],
)
def test_contradictions_are_errors(words, message):
    with pytest.raises(ValueError, match=message):
        source_of(parsed(*words))


@pytest.mark.parametrize('words', [['--standardize'], ['--missing', 'mean']])
def test_private_builds_do_not_read_means_without_noise(words):
    with pytest.raises(ValueError, match=f"'{' '.join(words)}' computes means"):
        source_of(parsed('--source', 'Digits', *words, epsilon=4.0))
