r"""Full-batch GCN, an ordinary PyG script. With --synthetic, one line changes its dataset.

python examples/gcn.py
python examples/gcn.py --synthetic
"""

import argparse

import torch
import torch.nn.functional as F
from torch_geometric.nn import GCN

from torch_geometric_cgt import SyntheticCGTDataset
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
model = GCN(dataset.num_features, 64, num_layers=2, out_channels=dataset.num_classes, dropout=0.5)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)


@torch.no_grad()
def accuracy(mask: torch.Tensor) -> float:
    model.eval()
    out = model(data.x, data.edge_index)
    return float((out[mask].argmax(dim=1) == data.y[mask]).float().mean())


best_val = test = 0.0
for epoch in range(1, 101):
    model.train()
    optimizer.zero_grad()
    out = model(data.x, data.edge_index)
    loss = F.cross_entropy(out[data.train_mask], data.y[data.train_mask])
    loss.backward()
    optimizer.step()
    if (val := accuracy(data.val_mask)) > best_val:
        best_val, test = val, accuracy(data.test_mask)
    if epoch % 20 == 0:
        print(f'Epoch {epoch:3d}, loss {float(loss.detach()):.4f}, val {val:.4f}, test {test:.4f}')
