r"""GraphSAGE with PyTorch Lightning: mini-batches of LightningNodeData."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from common import arguments, open_dataset, report
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.data.lightning import LightningNodeData
from torch_geometric.nn import GraphSAGE

from torch_geometric_cgt import TreeNeighborSampler


class LitSAGE(pl.LightningModule):
    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.gnn = GraphSAGE(in_channels, 64, 2, out_channels, dropout=0.5)

    def roots(self, batch: Data) -> tuple[Tensor, Tensor]:
        out = self.gnn(batch.x, batch.edge_index)
        return out[: batch.batch_size], batch.y[: batch.batch_size]

    def training_step(self, batch: Data, _: int) -> Tensor:
        return F.cross_entropy(*self.roots(batch))

    def test_step(self, batch: Data, _: int) -> None:
        out, y = self.roots(batch)
        correct = (out.argmax(dim=1) == y).float().mean()
        self.log('accuracy', correct, batch_size=batch.batch_size)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01, weight_decay=5e-4)


def main(argv: Sequence[str] | None = None) -> float:
    args = arguments(argv, epochs=20)
    dataset = open_dataset(args, T.NormalizeFeatures())
    data = dataset[0]
    datamodule = LightningNodeData(
        data,
        data.train_mask,
        input_val_nodes=data.val_mask,
        input_test_nodes=data.test_mask,
        node_sampler=TreeNeighborSampler(data, [5, 5], seed=args.seed),
        batch_size=64,
    )
    logging.getLogger('pytorch_lightning').setLevel(logging.ERROR)
    quiet = {'logger': False, 'enable_checkpointing': False, 'enable_progress_bar': False}
    trainer = pl.Trainer(
        max_epochs=args.epochs, accelerator='cpu', enable_model_summary=False, **quiet
    )
    model = LitSAGE(dataset.num_features, dataset.num_classes)
    trainer.fit(model, datamodule)
    return report(trainer.test(model, datamodule, verbose=False)[0]['accuracy'])


if __name__ == '__main__':
    main()
