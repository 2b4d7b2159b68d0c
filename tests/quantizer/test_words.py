import pytest
import torch
from sklearn.feature_extraction.text import TfidfTransformer

from torch_geometric_cgt.quantizer.words import is_bag_of_words, tf_idf


def words(seed=0):
    return (torch.rand(60, 40, generator=torch.Generator().manual_seed(seed)) > 0.95).float()


@pytest.mark.parametrize('layout', ['dense', 'coo', 'csr'])
def test_tf_idf_equals_scikit_learn(layout):
    x = words()
    expected = TfidfTransformer().fit_transform(x.numpy()).toarray()
    given = {'dense': x, 'coo': x.to_sparse(), 'csr': x.to_sparse_csr()}[layout]
    assert torch.allclose(tf_idf(given).to_dense(), torch.from_numpy(expected).float(), atol=1e-6)


def test_rows_without_words_stay_zero():
    x = words()
    x[3] = 0
    assert (tf_idf(x).to_dense()[3] == 0).all()


def test_what_counts_as_a_bag_of_words():
    assert is_bag_of_words(words()) and is_bag_of_words(words().to_sparse())
    assert not is_bag_of_words(-words())
    assert not is_bag_of_words(torch.rand(10, 10))
