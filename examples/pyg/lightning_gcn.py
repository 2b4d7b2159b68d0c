r"""Full-batch GCN with PyTorch Lightning: the dataset itself in a LightningDataset."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from common import accuracy, arguments, open_dataset, report
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.lightning import LightningDataset
from torch_geometric.nn import GCN


class LitGCN(pl.LightningModule):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.gnn = GCN(in_channels, 16, 2, out_channels, dropout=0.5)

    def training_step(self, data: Data, _: int) -> Tensor:
        out = self.gnn(data.x, data.edge_index)
        return F.cross_entropy(out[data.train_mask], data.y[data.train_mask])

    def test_step(self, data: Data, _: int) -> None:
        score = accuracy(self.gnn(data.x, data.edge_index), data, data.test_mask)
        self.log('accuracy', score, batch_size=1)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01, weight_decay=5e-4)


def main(argv: Sequence[str] | None = None) -> float:
    args = arguments(argv, epochs=60)
    dataset = open_dataset(args, T.NormalizeFeatures())
    datamodule = LightningDataset(dataset, test_dataset=dataset)
    logging.getLogger('pytorch_lightning').setLevel(logging.ERROR)
    quiet = {'logger': False, 'enable_checkpointing': False, 'enable_progress_bar': False}
    trainer = pl.Trainer(
        max_epochs=args.epochs, accelerator='cpu', enable_model_summary=False, **quiet
    )
    model = LitGCN(dataset.num_features, dataset.num_classes)
    trainer.fit(model, datamodule)
    return report(trainer.test(model, datamodule, verbose=False)[0]['accuracy'])


if __name__ == '__main__':
    main()
