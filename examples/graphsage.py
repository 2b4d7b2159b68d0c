r"""Mini-batch GraphSAGE with NeighborLoader. With --synthetic, one line changes its dataset.

    python examples/graphsage.py
    python examples/graphsage.py --synthetic

The sampler is ours because the stock one needs pyg-lib or torch-sparse; where one of them is
installed, leave out `neighbor_sampler`.
"""

import argparse

import torch
import torch.nn.functional as F
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import GraphSAGE

from torch_geometric_cgt import SyntheticCGTDataset, TreeNeighborSampler
from torch_geometric_cgt.datasets import load_source

parser = argparse.ArgumentParser()
parser.add_argument('--source', default='Digits')
parser.add_argument('--synthetic', action='store_true')
args = parser.parse_args()

dataset = load_source(args.source)
if args.synthetic:
    dataset = SyntheticCGTDataset(source=dataset, k=30)  # the one line

torch.manual_seed(0)
data = dataset[0]
sampler = TreeNeighborSampler(data, num_neighbors=[5, 5])


def make_loader(mask: torch.Tensor, shuffle: bool = False) -> NeighborLoader:
    return NeighborLoader(
        data,
        num_neighbors=[5, 5],
        neighbor_sampler=sampler,
        input_nodes=mask,
        batch_size=64,
        shuffle=shuffle,
    )


model = GraphSAGE(dataset.num_features, 64, num_layers=2, out_channels=dataset.num_classes)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
train_loader, test_loader = make_loader(data.train_mask, True), make_loader(data.test_mask)


@torch.no_grad()
def test() -> float:
    model.eval()
    correct = total = 0
    for batch in test_loader:
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        correct += int((out.argmax(dim=1) == batch.y[: batch.batch_size]).sum())
        total += batch.batch_size
    return correct / total


for epoch in range(1, 11):
    model.train()
    total_loss = 0.0
    for batch in train_loader:
        optimizer.zero_grad()
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        loss = F.cross_entropy(out, batch.y[: batch.batch_size])
        loss.backward()
        optimizer.step()
        total_loss += float(loss.detach()) * batch.batch_size
    print(
        f'Epoch {epoch:2d}, loss {total_loss / int(data.train_mask.sum()):.4f}, test {test():.4f}'
    )
