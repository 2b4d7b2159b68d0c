from tests.helpers.attacked import records, trees
from torch_geometric_cgt.audit.guesses import guess_cluster, guess_label


def test_labels_are_guessed_from_trees():
    released = trees([[0, 1, 1, 1, 1]] * 5 + [[0, 2, 2, 2, 2]] * 5, [0] * 5 + [1] * 5)
    found = guess_label(released, records([[0, 1, 1, 1, 1], [0, 2, 2, 2, 2]], [1, 0]))
    assert found.tolist() == [0, 1]


def test_clusters_are_guessed_from_label_and_neighbours():
    released = trees(
        [[0, 1, 1, 1, 1]] * 5 + [[2, 2, 2, 2, 2]] * 5 + [[1, 1, 1, 1, 1]] * 5,
        [0] * 10 + [1] * 5,
    )
    known = records([[2, 1, 1, 1, 1], [0, 2, 2, 2, 2], [0, 1, 1, 1, 1]], [0, 0, 1])
    # what stands at the root does not matter, the label does
    assert guess_cluster(released, known).tolist() == [0, 2, 1]


def test_a_label_that_was_not_released_is_not_guessed():
    released = trees([[0, 1, 1, 1, 1]], [0])
    assert guess_cluster(released, records([[0, 1, 1, 1, 1]], [1])).tolist() == [-1]
