r"""The names of the files of a release, and the text of its README."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch_geometric_cgt.release.card import K_ANONYMITY, Card
from torch_geometric_cgt.release.optional_facts import PROFILE_TENSOR
from torch_geometric_cgt.release.shards import FORMAT, Shards
from torch_geometric_cgt.release.terms import Terms, class_name_lines

if TYPE_CHECKING:
    from torch_geometric_cgt.release.release import Release

TENSORS, CARD, README = 'release.safetensors', 'card.json', 'README.md'


def describe(release: Release, shards: Shards | None = None) -> str:
    r"""The text of the README of a release.

    Args:
        release (Release): The release.
        shards (Shards, optional): How its trees are divided into files.
            (default: one file)
    """
    card, source, privacy = release.card, release.card['source'], release.privacy
    parameters = '\n'.join(f'- `{name}`: {value}' for name, value in card['parameters'].items())
    versions = '\n'.join(f'- {name} {version}' for name, version in card['versions'].items())
    promises = '\n'.join(f'- {sentence}' for sentence in privacy.guaranteed)
    limits = '\n'.join(f'- {sentence}' for sentence in privacy.not_guaranteed)
    lost = ''
    if 'not_carried' in source:
        names = ', '.join(f'`{name}`' for name in source['not_carried'])
        lost = f'\nThese attributes of the source are not carried over: {names}.\n'
    edges = '' if source['num_edges'] is None else f'{source["num_edges"]:,} edges, '
    stated = Terms.of(card).lines()
    terms = '\n'.join(['## Terms', '', *stated, '', '']) if stated else ''
    class_names = '\n'.join(class_name_lines(card))
    return f"""# Synthetic substitute of {source['name']}

{card['num_trees']:,} synthetic computation graphs, made on {card['created']} from a graph with
{source['num_nodes']:,} nodes, {edges}{source['num_features']:,} features
and {source['num_classes']} labels. They were drawn from a model of that graph, {_origin(privacy)}.
{lost}
```python
from torch_geometric_cgt import SyntheticCGTDataset

dataset = SyntheticCGTDataset.load('path/to/this/folder')
data = dataset[0]  # a PyG Data object
```

## What is guaranteed

Unit: {privacy.unit}. In short: {privacy.summary}.

{promises}

## What is not guaranteed

{limits}

{terms}{class_names}## Files

- `{TENSORS}`: {_tensors(release)}.
{_divided(shards)}- `{CARD}`: the facts on this page for programs, with checksums of all files.

## Parameters

{parameters}

## Versions

{versions}
"""


def _origin(privacy: Card) -> str:
    r"""How the trees of a release differ from those of the source, for its README."""
    if privacy.copies_trees:
        return 'and each of them is a copy of one in it, with the feature vectors of groups'
    if privacy.k_reached == 1 and privacy.mechanism == K_ANONYMITY:
        return 'but their feature vectors can be those of single nodes of it'
    return 'not copied from it'


def _divided(shards: Shards | None) -> str:
    r"""The shards of a release, for its README."""
    if shards is None:
        return ''
    return f"""- `{shards.names[0]}` to `{shards.names[-1]}`:
  the rows of `tokens`, `y`, `split` and, if there are any, `edge_tokens`, for
  {shards.trees_per_shard:,} trees in each file. They are not in `{TENSORS}`. This is format
  {FORMAT}: versions of torch-geometric-cgt before 0.2.0 cannot read it.
"""


def _tensors(release: Release) -> str:
    r"""The tensors of a release, for its README."""
    card, privacy, trees = release.card, release.privacy, release.trees
    codebook = 'the mean feature vector of each group'
    if privacy.rounding is not None:
        codebook = 'the rounded mean feature vector of each group'
    if privacy.mechanism != K_ANONYMITY:
        codebook = 'the noisy mean feature vector of each group'
    text = f"""`tokens` [{card['num_trees']}, {trees.shape.num_slots}] (the group of each
  breadth-first slot, {card['num_tokens']} where there is no node), `y` (labels), `split` (1 train,
  2 validation, 4 test), `codebook` ({codebook})"""
    if release.projection is not None:
        text += ', `projection` (features times this matrix are in the space of the codebook)'
    if trees.edge_values is not None:
        names = ' and '.join(f'`{name}`' for name in trees.edge_values.form.names)
        text += (
            f', `edge_tokens` (the row of `edge_codebook` for the edge of each slot to its parent, '
            f'{len(trees.edge_values)} where there is none), `edge_codebook` ({names})'
        )
    if release.profile is not None:
        text += f', `{PROFILE_TENSOR}` (the mean degree of each group of source nodes, rounded)'
    return text
