r"""The likelihood of trees with one row per tree, as gradients per record need it."""

from __future__ import annotations

from torch import Tensor, nn

from torch_geometric_cgt.nn.cgt_generator import CGTGenerator
from torch_geometric_cgt.nn.layout import factorised_layout
from torch_geometric_cgt.nn.vocabulary import FlatVocabulary, log_softmax


class TreeRows(nn.Module):
    r"""The same numbers as :meth:`CGTGenerator.log_prob`, from a computation in
    which dimension 0 of every input of every module is the tree, and each
    module is called once.

    Libraries that clip gradients per record take dimension 0 for the record.
    Paths, which the generator evaluates by default, are no records: a tree has
    many of them, and each would be clipped by itself.

    Args:
        generator (CGTGenerator): A model with independent siblings and a flat
            vocabulary, whose parameters all belong to linear layers,
            embeddings and layer norms.
    """

    def __init__(self, generator: CGTGenerator) -> None:
        super().__init__()
        vocabulary = generator.head.vocabulary
        if generator.siblings != 'independent' or not isinstance(vocabulary, FlatVocabulary):
            raise ValueError(
                "Gradients per tree need siblings='independent' and vocabulary='flat' (got "
                f"siblings='{generator.siblings}' and {type(vocabulary).__name__})"
            )
        if not generator.is_factorised:
            raise ValueError(
                "Gradients per tree need position='layer' and attention='ancestors' (got "
                f"position='{generator.position}' and attention='{generator.attention}')"
            )
        self.streams = generator.streams
        self.out = vocabulary.out
        self.num_tokens = generator.num_tokens
        self.shape = generator.shape
        self.layout = factorised_layout(generator.shape)  # no buffers: they are no weights

    def forward(self, tokens: Tensor, y: Tensor, scene: Tensor | None = None) -> Tensor:
        r"""The log-likelihood of each token tree, ``[B]``.

        Args:
            tokens (torch.Tensor): Token trees, ``[B, T]``.
            y (torch.Tensor): The label of each root, ``[B]``.
            scene (torch.Tensor, optional): The scene of each root, ``[B]``.
                (default: :obj:`None`)
        """
        layout = self.layout.to(tokens.device)
        tokens = tokens.long()
        logits = self.out(self.streams.rows(tokens, y, scene, layout))  # [B, Q, m + 1]
        root = log_softmax(logits[:, 0, : self.num_tokens]).gather(1, tokens[:, :1])  # never null
        below = log_softmax(logits)[:, layout.query_of_slot[1:]]  # [B, T - 1, m + 1]
        below = below.gather(2, tokens[:, 1:, None])[:, :, 0]
        orphan = tokens[:, self.shape.parent[1:].to(tokens.device)] == self.num_tokens
        return root[:, 0] + below.masked_fill(orphan, 0.0).sum(dim=1)
