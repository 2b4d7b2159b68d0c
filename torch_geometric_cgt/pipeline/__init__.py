r"""From a source graph to a build: stages and the runner of them."""
