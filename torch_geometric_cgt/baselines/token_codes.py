r"""Binary codes of tokens, for generators of continuous vectors."""

from __future__ import annotations

import math

import torch
from torch import Tensor


class TokenCodes:
    r"""Maps tokens to vectors of signs, and any vector back to a token.

    A vocabulary of :math:`m` tokens has codes of :math:`b = \lceil \log_2 m \rceil`
    signs. Code :math:`c` belongs to token :math:`c \bmod m`, so that every code
    belongs to a token, and a token has one or two codes.

    The generators of molecules use one coordinate per atom type, add noise to it and
    take the largest coordinate. With hundreds of tokens, the largest of the many
    coordinates that are only noise often exceeds the right one. Codes need few
    coordinates, and only the sign of each matters.

    Args:
        num_tokens (int): The number of tokens.
    """

    def __init__(self, num_tokens: int) -> None:
        self.num_tokens = num_tokens
        self.num_bits = max(1, math.ceil(math.log2(num_tokens)))

    def encode(self, tokens: Tensor, generator: torch.Generator | None = None) -> Tensor:
        r"""One code of each token, ``[..., b]``, as numbers -1 and 1. A token with two
        codes gets either with the same probability.

        Args:
            tokens (torch.Tensor): Tokens of any shape.
            generator (torch.Generator, optional): The source of randomness.
                (default: :obj:`None`)
        """
        uniform = torch.rand(tokens.shape, generator=generator, device=tokens.device)
        code = tokens + self.num_tokens * (uniform * self.num_codes(tokens)).long()
        bits = (code[..., None] >> self._powers(tokens)) & 1
        return 2.0 * bits - 1.0

    def decode(self, x: Tensor) -> Tensor:
        r"""The tokens of vectors by their signs.

        Args:
            x (torch.Tensor): Vectors, ``[..., b]``.
        """
        code = ((x >= 0).long() << self._powers(x)).sum(dim=-1)
        return code % self.num_tokens

    def num_codes(self, tokens: Tensor) -> Tensor:
        r"""The number of codes of each token, 1 or 2."""
        return 1 + (tokens + self.num_tokens < 2**self.num_bits).long()

    def _powers(self, like: Tensor) -> Tensor:
        return torch.arange(self.num_bits, device=like.device)
