"""The places where the host may wait for a GPU, and why. docs/scaling.md has the same table."""

from typing import NamedTuple


class Allowed(NamedTuple):
    """When a function of our code waits, and why."""

    phase: str
    when: str
    why: str


# Folder and function of each place.
ALLOWED = {
    'training/fit': Allowed('fit', 'once', 'the weights move to the device'),
    'training/StepMonitor.read': Allowed(
        'fit',
        'every 25 steps, and once per epoch',
        'a loss that is not finite ends the fit, before a checkpoint is written',
    ),
    'training/evaluate': Allowed(
        'fit', 'once per epoch', 'the held-out likelihood decides which weights are kept'
    ),
    'training/fit_privately': Allowed(
        'dp_sgd',
        'at the start, and once per weight at the end',
        'the trees move to the device; weights that are not finite are an error',
    ),
    'training/noisy_step': Allowed(
        'dp_sgd',
        'several times per physical batch',
        'opacus finds the distinct rows of embeddings for the norm of a gradient',
    ),
    'training/StepRecorder._flat': Allowed(
        'dp_sgd', 'in 8 steps of a training', 'the audit of the owner needs weights of some steps'
    ),
    'nn/Layout.to': Allowed('dp_sgd', 'once', 'positions and masks move to the device'),
    'training/sample_blocks': Allowed(
        'sample', 'once per block of 4,096 trees', 'sampled trees are kept on the host'
    ),
    'nn/DistinctPaths.of': Allowed(
        'sample',
        'once, and twice per layer, for each layer of a block',
        'equal paths are evaluated once; their number is the size of the next layer',
    ),
    'nn/Parents.of': Allowed(
        'sample', 'once per layer of a block', 'null slots have no children to sample'
    ),
    'nn/Tiling.of': Allowed(
        'sample',
        'several times per layer of a block, with a vocabulary of cells',
        'one product serves all cells; the number of its tiles depends on the tokens',
    ),
    'nn/IndependentChildren.sample_root': Allowed(
        'sample',
        'once per block, with independent siblings',
        'roots that came out as null are drawn again',
    ),
    'quantizer/FlowKMeans._cluster': Allowed(
        'quantize', 'once, if there is one cell', 'labels move to the host'
    ),
    'quantizer/refine_cells': Allowed(
        'quantize', 'once per cell', 'labels of a cell move to the host'
    ),
    'quantizer/refine_cell': Allowed(
        'quantize', 'per step of a cell', 'the flow is solved on the host'
    ),
    'quantizer/_total_inertia': Allowed(
        'quantize', 'once per cell', 'a step is judged on the host'
    ),
    'quantizer/_explained_inertia': Allowed(
        'quantize', 'once per step of a cell', 'a step is taken only if it lowers the inertia'
    ),
    'quantizer/standardize': Allowed(
        'quantize', 'once per cell or split', 'rows that are all equal are not scaled'
    ),
    'quantizer/assign_recursively': Allowed(
        'quantize',
        'twice per split',
        'the sizes of the parts decide how rows are split again, on the host',
    ),
    'quantizer/assign_greedily': Allowed(
        'quantize',
        'per split, and per part that is too small',
        'rows move until all parts are large enough',
    ),
}


def sites(phase: str) -> set[str]:
    """The places of one phase."""
    return {site for site, allowed in ALLOWED.items() if allowed.phase == phase}


def table() -> str:
    """The table of the documentation."""
    rows = ['| phase | function | when | why |', '|---|---|---|---|']
    for site, (phase, when, why) in ALLOWED.items():
        folder, function = site.split('/')
        rows.append(f'| {phase} | `{function}` in `{folder}/` | {when} | {why} |')
    return '\n'.join(rows)
