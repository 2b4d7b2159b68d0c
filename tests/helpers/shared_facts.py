"""Facts of the card and candidates that the processes of a world draw together."""

import sys
from pathlib import Path

import torch

from tests.helpers.graphs import random_graph
from torch_geometric_cgt.pipeline import (
    BuildConfig,
    KAnonymity,
    KAnonymousPipeline,
    check_source,
    tree_facts,
)
from torch_geometric_cgt.training import World, join_world, leave_world


def facts(folder: Path, world: World) -> dict:
    tree_facts.ENCODE_BLOCK = 50
    config = BuildConfig(
        KAnonymity(10, task_weight=0.0),
        num_neighbors=(1, 2),
        generator={'hidden_channels': 16, 'num_layers': 1, 'num_heads': 2},
    )
    source = check_source(random_graph(400, 6000))
    run = KAnonymousPipeline(source, config, folder / f'work-{world.size}', log=False, world=world)
    for stage in run.stages()[:3]:
        run.run_stage(stage)
    run.model = run.new_model()
    pool = run.candidates(run.y, run.split, 7, world)
    tokens = run.draws.tokens(torch.arange(run.y.numel()), torch.Generator().manual_seed(0))
    own = world.share(run.y.numel())
    return {
        'facts': run.facts,
        'candidates': pool.trees.tokens,
        'unique': tree_facts.unique_share(run.y[own], tokens[own].int(), world),
    }


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    world = join_world()
    torch.save(facts(folder, world), folder / f'{world.rank}-of-{world.size}.pt')
    leave_world()


if __name__ == '__main__':
    main(Path(sys.argv[1]))
