r"""Models of token trees behind one face, and what they are conditioned on."""
