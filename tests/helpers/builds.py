"""Builds: what their folder holds, and their arguments."""

from pathlib import Path

from torch_geometric_cgt import KAnonymity


def builds(root: Path) -> list[Path]:
    """All builds and working folders, but neither the locks nor the odometer."""
    others = ('.locks', 'odometer')
    return sorted(path for path in Path(root).iterdir() if path.name not in others)


def promised(arguments: dict, **promise) -> dict:
    """Arguments of a dataset with further parameters of k-anonymity."""
    rest = {name: value for name, value in arguments.items() if name != 'k'}
    return {**rest, 'privacy': KAnonymity(arguments['k'], **promise)}


def plain(arguments: dict, **promise) -> dict:
    """Arguments of a dataset without scenes and with a fixed task weight.

    A small build then takes a fifth of the time, because it trains no probes.
    """
    generator = {**arguments['generator'], 'num_scenes': 0}
    return {**promised(arguments, task_weight=0.0, **promise), 'generator': generator}


def damage(path: Path, how: str) -> None:
    """Truncates or removes a file, or flips a bit of it."""
    content = path.read_bytes()
    middle = len(content) // 2
    if how == 'remove':
        path.unlink()
    elif how == 'truncate':
        path.write_bytes(content[:middle])
    else:
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
