r"""Files, seeds, memory, processes, matrices and argument checks."""
