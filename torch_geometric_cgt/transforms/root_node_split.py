r"""Splits the roots of a forest, which alone have labels."""

from __future__ import annotations

from torch_geometric.data import Data
from torch_geometric.transforms import RandomNodeSplit


class RootNodeSplit(RandomNodeSplit):
    r"""Splits the roots of a forest at random into training, validation and
    test nodes. The arguments are those of
    :class:`~torch_geometric.transforms.RandomNodeSplit`, which would also
    choose nodes without a label. Shares refer to the number of roots. A graph
    without :obj:`root_mask` is split by
    :class:`~torch_geometric.transforms.RandomNodeSplit`.

    Args:
        split (str, optional): :obj:`"train_rest"`, :obj:`"test_rest"` or
            :obj:`"random"`. (default: :obj:`"train_rest"`)
        num_splits (int, optional): The number of splits. (default: :obj:`1`)
        num_train_per_class (int, optional): Training roots per class, for
            :obj:`"test_rest"` and :obj:`"random"`. (default: :obj:`20`)
        num_val (int or float, optional): The number or share of validation
            roots. (default: :obj:`500`)
        num_test (int or float, optional): The number or share of test roots,
            for :obj:`"train_rest"` and :obj:`"random"`. (default: :obj:`1000`)
        key (str, optional): The name of the labels. (default: :obj:`"y"`)
    """

    @classmethod
    def like(cls, other: RandomNodeSplit) -> RootNodeSplit:
        r"""A split with the arguments of another one."""
        names = ('split', 'num_splits', 'num_train_per_class', 'num_val', 'num_test', 'key')
        return cls(**{name: getattr(other, name) for name in names})

    def forward(self, data: Data) -> Data:
        if 'root_mask' not in data:
            return super().forward(data)
        root = data.root_mask.nonzero().view(-1)
        roots = Data(num_nodes=root.numel())
        if self.key is not None and self.key in data:
            roots[self.key] = data[self.key][root]
        roots = super().forward(roots)
        for name in ('train_mask', 'val_mask', 'test_mask'):
            if name in roots:
                mask = roots[name].to(root.device)
                data[name] = mask.new_zeros(data.num_nodes, *mask.shape[1:]).index_copy_(
                    0, root, mask
                )
        return data
