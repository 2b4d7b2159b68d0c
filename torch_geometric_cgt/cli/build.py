r"""From parsed arguments to a source and a synthetic dataset.

This module imports PyTorch and PyG. Commands import it when they run.
"""

from __future__ import annotations

import argparse
from typing import Any

from torch_geometric.data import Dataset

from torch_geometric_cgt.datasets import SyntheticCGTDataset, load_source
from torch_geometric_cgt.datasets.options import make_promise
from torch_geometric_cgt.pipeline import Promise
from torch_geometric_cgt.training import FitConfig, join_world, leave_world, resolve_device


def source_of(args: argparse.Namespace) -> Dataset:
    r"""Loads the source graph."""
    return load_source(args.source, args.largest_component, args.random_split)


def build_dataset(args: argparse.Namespace, seed: int) -> SyntheticCGTDataset:
    r"""Builds the synthetic dataset, or loads it from the cache."""
    return SyntheticCGTDataset(
        source_of(args),
        num_neighbors=args.num_neighbors,
        num_samples=args.num_samples,
        root=args.root,
        seed=seed,
        device=args.device,
        force_reload=args.force,
        log=not args.quiet,
        privacy=promise_of(args),
        generator={} if args.num_scenes is None else {'num_scenes': args.num_scenes},
        fit=FitConfig(
            epochs=args.epochs,
            batch_size=args.batch_size,
            precision=args.precision,
            accumulate=args.accumulate,
            compile=args.compile,
            checkpoint_minutes=args.checkpoint_minutes,
            resume=not args.no_resume,
        ),
    )


def promise_of(args: argparse.Namespace) -> Promise:
    r"""Returns what the release will promise, or says which arguments contradict."""
    options = {
        'l': args.l,
        'min_support': args.min_support,
        'num_clusters': args.num_clusters,
        'task_weight': args.task_weight,
        'private_args': None if args.epsilon is None else private_args(args),
    }
    return make_promise(args.k, args.epsilon, args.delta, options)


def private_args(args: argparse.Namespace) -> dict[str, Any]:
    r"""Returns the arguments of a differentially private build."""
    return {
        'unit': args.unit,
        'max_parents': args.max_parents,
        'form': args.form,
        'accept_large_delta': args.accept_large_delta,
        'public': None if args.public is None else load_source(args.public),
    }


def leave_process_group(args: argparse.Namespace) -> bool:
    r"""Leaves the process group of a build. Returns whether this process is
    the first one, which writes and prints the result; the others are done.
    """
    is_first = join_world(resolve_device(args.device)).is_first
    leave_world()
    return is_first
