r"""Which histograms a private tree model asks for, and what each may cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from torch_geometric_cgt.privacy.entry import Entry
from torch_geometric_cgt.privacy.noise import DiscreteGaussian, Gaussian

STAGE = 'sequence model'
ROOTS, SCENES, SCENE_ROOTS = 'root tokens per label', 'scenes per label', 'root tokens per scene'
# Parts of the budget; those of layers are divided among the layers.
SHARES = {
    'roots': 0.3,
    'scenes': 0.1,
    'scene_roots': 0.1,
    'numbers': 0.1,
    'tokens': 0.35,
    'returns': 0.05,
}


def numbers(layer: int) -> str:
    r"""The name of the histogram of numbers of children."""
    return f'numbers of children per scene, layer {layer}'


def tokens_of_layer(layer: int) -> str:
    r"""The name of the histogram of tokens of children."""
    return f'tokens per scene, layer {layer}'


def returns(layer: int) -> str:
    r"""The name of the histogram of returns."""
    return f'returns per number of children, layer {layer}'


def plan_histograms(depth: int, noise: float = 1.0) -> list[Entry]:
    r"""One entry per histogram, each with its share of the budget and some noise.

    The rows are computation graphs. Leaving one out moves each histogram by
    1 at most.

    Args:
        depth (int): The number of layers below the root.
        noise (float, optional): The width of the noise of all of them.
            (default: :obj:`1.0`)
    """

    def entry(name: str, key: str, kind: type[Gaussian], parts: int = 1) -> Entry:
        return Entry(STAGE, name, 'record', 1.0, kind(noise), share=SHARES[key] / parts)

    entries = [
        entry(ROOTS, 'roots', DiscreteGaussian),
        entry(SCENES, 'scenes', DiscreteGaussian),
        entry(SCENE_ROOTS, 'scene_roots', DiscreteGaussian),
    ]
    for layer in range(1, depth + 1):
        entries.append(entry(numbers(layer), 'numbers', Gaussian, depth))
        entries.append(entry(tokens_of_layer(layer), 'tokens', Gaussian, depth))
        if layer > 1:
            entries.append(entry(returns(layer), 'returns', Gaussian, depth - 1))
    return entries


def with_noise(
    planned: Sequence[Entry], given: Iterable[Entry]
) -> tuple[list[Entry], dict[str, float]]:
    r"""The planned entries with the noise of given ones of the same name, and
    the width of the noise of each histogram.

    Args:
        planned (list[Entry]): What will run.
        given (list[Entry]): What was paid for.
    """
    paid = {entry.name: entry for entry in given if entry.stage == STAGE}
    entries, sigma = [], {}
    for entry in planned:
        found = paid.get(entry.name)
        if found is None:
            raise ValueError(
                f"There is no entry '{entry.name}' among those given "
                f'({", ".join(paid) or "none of this stage"})'
            )
        if not entry.is_same_as(found):
            raise ValueError(f"The entry '{entry.name}' is not the one that runs: got {found}")
        entries.append(replace(entry, noise=found.noise))
        if isinstance(found.noise, Gaussian):
            sigma[entry.name] = found.noise.sigma
    return entries, sigma
