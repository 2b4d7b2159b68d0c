"""What the folder of builds holds."""

from pathlib import Path

from torch_geometric_cgt import KAnonymity


def builds(root: Path) -> list[Path]:
    """All builds and working folders, but not the folder of locks."""
    return sorted(path for path in Path(root).iterdir() if path.name != '.locks')


def promised(arguments: dict, **promise) -> dict:
    """Arguments of a dataset with further parameters of k-anonymity."""
    rest = {name: value for name, value in arguments.items() if name != 'k'}
    return {**rest, 'privacy': KAnonymity(arguments['k'], **promise)}
