r"""Files, seeds, memory and argument checks."""
