r"""Node-wise samplers: every parent draws some of its children."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from torch_geometric_cgt.benchmark.convs import TreeConv
from torch_geometric_cgt.benchmark.draws import draw_positions
from torch_geometric_cgt.benchmark.gnn import TreeGNN, families, lookup
from torch_geometric_cgt.benchmark.rows import Rows, linear
from torch_geometric_cgt.data import TreeShape


class NodeSampler(nn.Module):
    r"""Draws children for each parent."""

    with_replacement = False

    def prepare(self, x: Rows) -> Tensor | None:
        r"""What the sampler has to know of each distinct row, ``[R, D]``."""
        return None

    def choose(
        self, known: Tensor | None, parents: Tensor, children: Tensor, real: Tensor, num: int
    ) -> tuple[Tensor, Tensor]:
        r"""The children that are drawn, as positions ``[B, P, num]``, and their
        weights: one where they are real, and zero where they are null.

        Args:
            known (torch.Tensor, optional): What :meth:`prepare` gave.
            parents (torch.Tensor): The rows of the parents, ``[B, P]``.
            children (torch.Tensor): The rows of their children, ``[B, P, f]``.
            real (torch.Tensor): Which children are real, ``[B, P, f]``.
            num (int): The number of children to draw.
        """
        raise TypeError(f'{type(self).__name__} must define choose()')


class UniformSampler(NodeSampler):
    r"""Draws real children at random, none of them twice (GraphSAGE). Where all
    are to be drawn, nothing is left to chance.
    """

    def choose(
        self, known: Tensor | None, parents: Tensor, children: Tensor, real: Tensor, num: int
    ) -> tuple[Tensor, Tensor]:
        if num == real.size(2):
            return torch.arange(num, device=real.device).expand_as(real), real
        key = torch.rand(real.shape, device=real.device).masked_fill(~real, 2.0)
        choice = key.topk(num, dim=2, largest=False).indices
        return choice, real.gather(2, choice)


class PASSSampler(NodeSampler):
    r"""Draws children that help with the task (PASS, Yoon et al., 2021).

    Child :math:`j` of :math:`i` is drawn, with replacement, with probability

    .. math::
        q(j|i) = a_1 \, \mathrm{softmax}_j \left(
            (W_s x_i)^{\top} (W_s x_j) / \sqrt{D} \right) + a_2 \frac{1}{d_i}

    where :math:`a = \mathrm{softmax}(a_s)`. Of what was drawn comes the mean.
    The gradient of the loss goes through a draw by the log-derivative trick:
    each message is multiplied by :math:`q / q`, of which one is a constant.
    Its value is one and its gradient :math:`\nabla \log q(j|i)`, so that the
    sampler is trained by :math:`\nabla_{h_i} L \cdot \frac{1}{s} \sum_j h_j
    \nabla \log q(j|i)`, as in the paper.

    Args:
        in_channels (int): The number of features.
        hidden_channels (int): The number of rows of :math:`W_s`.
    """

    with_replacement = True

    def __init__(self, in_channels: int, hidden_channels: int) -> None:
        super().__init__()
        self.lin = nn.Linear(in_channels, hidden_channels, bias=False)
        self.mix = nn.Parameter(torch.zeros(2))

    def prepare(self, x: Rows) -> Tensor | None:
        return linear(x, self.lin)

    def probability(self, known: Tensor, parents: Tensor, children: Tensor, real: Tensor) -> Tensor:
        r"""The probability of each child, ``[B, P, f]``, zero where null."""
        target, source = lookup(known, parents), lookup(known, children)
        score = (source * target[:, :, None]).sum(dim=-1) / known.size(1) ** 0.5
        share = score.masked_fill(~real, -1e9).softmax(dim=2)
        even = real / real.sum(dim=2, keepdim=True).clamp(min=1)
        mix = self.mix.softmax(dim=0)
        return (mix[0] * share + mix[1] * even) * real

    def choose(
        self, known: Tensor | None, parents: Tensor, children: Tensor, real: Tensor, num: int
    ) -> tuple[Tensor, Tensor]:
        if known is None:
            raise TypeError('PASSSampler needs what prepare() gives')
        q = self.probability(known, parents, children, real)
        choice = draw_positions(q.detach(), num)
        drawn = real.gather(2, choice)
        chance = q.gather(2, choice).masked_fill(~drawn, 1.0)
        return choice, drawn * (chance / chance.detach())


class NodewiseGNN(TreeGNN):
    r"""Convolutions on the part of each computation graph that was drawn,
    from the root down, in training as at test time.

    Args:
        convs (list[TreeConv]): One convolution per layer of the tree.
        shape (TreeShape): The geometry of the trees.
        sampler (NodeSampler): Draws the children.
        num_sampled (int, optional): The number of children that each parent
            draws. If set to :obj:`None`, as many as the tree has slots for.
            (default: :obj:`None`)
        dropout (float, optional): The dropout probability of the inputs of
            each layer. (default: :obj:`0.5`)
    """

    samples = True

    def __init__(
        self,
        convs: Sequence[TreeConv],
        shape: TreeShape,
        sampler: NodeSampler,
        num_sampled: int | None = None,
        dropout: float = 0.5,
    ) -> None:
        drawn = [num_sampled or f for f in shape.num_neighbors]
        if not sampler.with_replacement:
            drawn = [min(n, f) for n, f in zip(drawn, shape.num_neighbors, strict=True)]
        super().__init__(convs, TreeShape(tuple(drawn)), dropout)
        self.full_shape = shape
        self.sampler = sampler

    def forward(self, x: Rows, index: Tensor) -> Tensor:
        index, weight = self.draw(x, index)
        return self.run(x, index, [families(weight, self.shape)] * self.shape.depth)[0]

    def draw(self, x: Rows, index: Tensor) -> tuple[Tensor, Tensor]:
        r"""The rows of the slots that were drawn, and their weights, in the
        order of the smaller tree.
        """
        known, null = self.sampler.prepare(x), x.size(0)
        rows, weights = [index[:, :1]], [index[:, :1] < null]
        slot = torch.zeros_like(index[:, :1])  # in its layer
        for layer, fan_out in enumerate(self.full_shape.num_neighbors):
            below = index[:, self.full_shape.layer_slice(layer + 1)].unflatten(1, (-1, fan_out))
            below = below.gather(1, slot[..., None].expand(-1, -1, fan_out))  # [B, P, f]
            num = self.shape.num_neighbors[layer]
            choice, weight = self.sampler.choose(known, rows[-1], below, below < null, num)
            rows.append(below.gather(2, choice).flatten(1))
            weights.append(weight.flatten(1))
            slot = (slot[..., None] * fan_out + choice).flatten(1)
        return torch.cat(rows, dim=1), torch.cat(weights, dim=1)
