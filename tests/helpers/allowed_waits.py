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
    'baselines/train': Allowed(
        'fit of a flow', 'at the start and at the end', 'the weights move to the device and back'
    ),
    'baselines/_mean_loss': Allowed(
        'fit of a flow', '20 times', 'a loss that is not finite ends the fit'
    ),
    'baselines/SlotModel.score': Allowed(
        'fit of a flow', 'twice per step', 'null slots are not scored'
    ),
    'baselines/DiffusionTraining.__init__': Allowed(
        'fit of a diffusion', 'once', 'the weights move to the device'
    ),
    'baselines/SlotDenoiser.set_marginals': Allowed(
        'fit of a diffusion', 'once', 'frequencies of tokens are counted'
    ),
    'baselines/SlotDenoiser.forward': Allowed(
        'fit of a diffusion', 'twice per network and step', 'null slots are not computed'
    ),
    'baselines/masked_log_prob': Allowed(
        'fit of a diffusion', 'twice per network and step', 'only masked slots are scored'
    ),
    'baselines/DiffusionTraining.run': Allowed(
        'fit of a diffusion',
        '12 times, and once at the end',
        'a loss that is not finite ends the fit; the weights move back',
    ),
    'baselines/DiffusionTraining.held_out_nll': Allowed(
        'fit of a diffusion', '12 times', 'the held-out bound decides which weights are kept'
    ),
    'baselines/DiffusionTraining.counted_slots': Allowed(
        'fit of a diffusion', '12 times', 'the held-out bound is one per slot'
    ),
    'baselines/elbo': Allowed(
        'fit of a diffusion', '12 times, per mask', 'the bound of small trees is enumerated'
    ),
    'baselines/every_mask': Allowed(
        'fit of a diffusion', '12 times, per mask', 'the bound of small trees is enumerated'
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
