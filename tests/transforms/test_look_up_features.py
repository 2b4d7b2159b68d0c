import pytest
import torch
from torch_geometric.data import Data

from torch_geometric_cgt.nn import CodebookEmbedding
from torch_geometric_cgt.transforms import LookUpFeatures

CODEBOOK = torch.tensor([[1.0, 2.0], [3.0, 4.0]])


def test_tokens_become_rows_of_the_codebook():
    x = torch.tensor([1, 0, 1])
    assert LookUpFeatures(CODEBOOK)(Data(x=x)).x.tolist() == [[3, 4], [1, 2], [3, 4]]
    embed = CodebookEmbedding(CODEBOOK)
    assert embed(x).tolist() == [[3, 4], [1, 2], [3, 4]]
    assert not list(embed.parameters()) and 'codebook' in embed.state_dict()


def test_features_are_refused():
    with pytest.raises(ValueError, match=r'dataset.compact.*\[3, 2\], torch.float32'):
        LookUpFeatures(CODEBOOK)(Data(x=torch.ones(3, 2)))
