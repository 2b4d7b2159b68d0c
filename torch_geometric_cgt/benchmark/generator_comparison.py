r"""Compares generators on graphs: runs what is missing, and keeps each result when it is there."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from torch_geometric_cgt.benchmark.generator_runs import (
    SHARED,
    BuildSettings,
    ComparedGenerator,
    ComparedGraph,
    GraphScores,
    measure_build,
    recipe_of,
)
from torch_geometric_cgt.benchmark.judge import CEILING
from torch_geometric_cgt.benchmark.metrics import generated_trees
from torch_geometric_cgt.benchmark.zoo import ZOO, ZooConfig, ZooTrees
from torch_geometric_cgt.pipeline import BuildConfig, KAnonymity, Source
from torch_geometric_cgt.utils.files import append_line
from torch_geometric_cgt.utils.limited_process import (
    FAILED,
    FINISHED,
    WALL,
    LimitedRun,
    run_limited,
)
from torch_geometric_cgt.utils.run_limits import Limits, is_out_of_memory

QUICK = ('GCN', 'SGC', 'GIN', 'GAT')
BUILD, STATISTICS, ATTACK = 'build', 'statistics', 'attack'  # parts that are not models
GIB = 1 << 30

# Attacks a generator, given source, parameters, seed, number of records and limits. It is
# given from outside, because audits and benchmarks do not import each other.
AttackGenerator = Callable[[Source, BuildConfig, int, int, Limits], dict[str, Any]]


@dataclass(frozen=True)
class ComparisonConfig:
    r"""The settings of a comparison.

    Args:
        settings (BuildSettings, optional): What all builds share.
        models (tuple[str, ...], optional): The GNNs, of the zoo.
            (default: the whole zoo)
        seconds (float, optional): The largest time of a build, and of an attack.
            (default: :obj:`1200`)
        memory (float, optional): The largest memory of each, in GiB.
            (default: :obj:`8`)
        num_seeds (int, optional): The number of splits, builds and trainings of
            each graph. (default: :obj:`1`)
        max_records (int, optional): The number of members, and of others, that are
            attacked. (default: :obj:`1000`)
        training (ZooConfig, optional): How GNNs are trained.
        only_builds (bool, optional): Whether to measure builds only, without GNNs,
            statistics and attacks. (default: :obj:`False`)
        clock (str, optional): Whether :obj:`seconds` are :obj:`"wall"` time or time of
            the :obj:`"processor"`. (default: :obj:`"wall"`)
    """

    settings: BuildSettings = field(default_factory=BuildSettings)
    models: tuple[str, ...] = ZOO
    seconds: float | None = 1200
    memory: float | None = 8
    num_seeds: int = 1
    max_records: int = 1000
    training: ZooConfig = field(default_factory=ZooConfig)
    only_builds: bool = False
    clock: str = WALL

    @property
    def max_bytes(self) -> int | None:
        r"""The largest memory in bytes."""
        return None if self.memory is None else int(self.memory * GIB)


Key = tuple[str, str, int, str, str]  # graph, recipe, seed, column, part


class ResultFile:
    r"""The results of a file, one JSON line each.

    Args:
        path (Path): The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.results: dict[Key, dict[str, Any]] = {}
        lines = path.read_text(encoding='utf-8').splitlines() if path.exists() else []
        for number, line in enumerate(lines, start=1):
            try:
                result = json.loads(line)
                self.results[key_of(result)] = result
            except (ValueError, KeyError, TypeError):
                warnings.warn(f"Line {number} of '{path}' is damaged", stacklevel=2)

    def add(self, key: Key, content: dict[str, Any]) -> None:
        r"""Adds a result and writes it.

        Args:
            key (tuple): What it is the result of.
            content (dict): The result.
        """
        names = ('graph', 'recipe', 'seed', 'column', 'part')
        result = {**dict(zip(names, key, strict=True)), **content}
        append_line(self.path, json.dumps(result))
        self.results[key] = result


def key_of(result: dict[str, Any]) -> Key:
    r"""What a line is the result of."""
    return (
        str(result['graph']),
        str(result['recipe']),
        int(result['seed']),
        str(result['column']),
        str(result['part']),
    )


class Comparison:
    r"""Runs all parts of a comparison that are not in its file.

    A part is the build of a generator, its statistics, an attack on it, or one GNN on
    one column. Builds and attacks run in processes with limits. Whatever ends them is
    a result. An error in any other part is the result of that part.

    Args:
        graphs (list[ComparedGraph]): The graphs.
        generators (list[ComparedGenerator]): The generators.
        path (Path): The file of results.
        root (Path): The folder of builds.
        config (ComparisonConfig, optional): The settings. (default: :obj:`None`)
        attack (callable, optional): Attacks a generator. (default: :obj:`None`)
        retry (bool, optional): Whether to run parts again that did not finish.
            (default: :obj:`False`)
        log (callable, optional): Is called with a line of text after each part.
            (default: :obj:`None`)
    """

    def __init__(
        self,
        graphs: Sequence[ComparedGraph],
        generators: Sequence[ComparedGenerator],
        path: Path,
        root: Path,
        config: ComparisonConfig | None = None,
        attack: AttackGenerator | None = None,
        retry: bool = False,
        log: Callable[[str], None] | None = None,
    ) -> None:
        self.graphs, self.generators = list(graphs), list(generators)
        self.root, self.config, self.attack = root, config or ComparisonConfig(), attack
        self.retry, self.log = retry, log
        self.file = ResultFile(path)
        self.keys: list[Key] = []  # of this comparison, in order

    def run(self) -> list[dict[str, Any]]:
        r"""Runs what is missing and returns all results of this comparison."""
        self.keys = []
        for seed in range(self.config.num_seeds):
            for graph in self.graphs:
                self._run_graph(graph, graph.load(seed), seed)
        return [self.file.results[key] for key in self.keys]

    def _run_graph(self, graph: ComparedGraph, data: Data, seed: int) -> None:
        config = self.config
        training = {'training': asdict(config.training)}
        own = recipe_of(data, config.settings, training)
        scores = GraphScores(data, config.settings, seed, self.root)
        for column in () if config.only_builds else SHARED:
            self._score(scores, (graph.name, own, seed, column), partial(scores.shared, column))
        for generator in self.generators:
            more = {'generator': generator.generator, 'fit': generator.fit.to_dict(), **training}
            recipe = recipe_of(data, config.settings, more)
            start = (graph.name, recipe, seed, generator.name)
            self._run_generator(scores, generator, start)

    def _run_generator(
        self, scores: GraphScores, generator: ComparedGenerator, start: tuple[str, str, int, str]
    ) -> None:
        config, seed = self.config, start[2]
        build = (scores.data, generator, config.settings, seed, self.root)
        sizes = {'num_nodes': scores.data.num_nodes, 'num_edges': scores.data.num_edges}
        if not self._limited((*start, BUILD), measure_build, *build, **sizes):
            return
        if config.only_builds:
            return
        self._part((*start, STATISTICS), lambda: scores.statistics(scores.dataset(generator)))

        def batches() -> ZooTrees:
            return ZooTrees(generated_trees(scores.dataset(generator)), seed=seed)

        self._score(scores, start, batches)
        if self.attack is not None:
            asked = BuildConfig(
                privacy=KAnonymity(config.settings.k),
                num_neighbors=config.settings.num_neighbors,
                seed=seed,
                generator=generator.generator,
                fit=generator.fit,
            )
            more = (scores.source, asked, seed, config.max_records)
            self._limited((*start, ATTACK), self.attack, *more)

    def _score(
        self, scores: GraphScores, start: tuple[str, str, int, str], batches: Callable[[], ZooTrees]
    ) -> None:
        r"""Trains the missing models of a column."""
        column = start[3]
        made: list[ZooTrees] = []

        def run(model: str) -> dict[str, Any]:
            if not made:
                made.append(batches())
            transfer = column not in ('original', CEILING)
            is_ceiling = column == CEILING
            return scores.score(model, made[0], self.config.training, transfer, is_ceiling)

        for model in self.config.models:
            self._part((*start, model), partial(run, model))

    def _limited(self, key: Key, function: Callable[..., Any], *args: Any, **facts: Any) -> bool:
        r"""Runs a part in a process with limits, and returns whether it finished. Its result
        has some facts, however it ends.
        """
        if not self._is_done(key):
            seconds, max_bytes = self.config.seconds, self.config.max_bytes
            clock = self.config.clock
            run = run_limited(function, *args, seconds=seconds, max_bytes=max_bytes, clock=clock)
            limits = {'seconds': seconds, 'max_bytes': max_bytes, 'clock': clock}
            self._add(key, run, {**limits, **facts})
        return bool(self.file.results[key]['status'] == FINISHED)

    def _part(self, key: Key, function: Callable[[], Any]) -> None:
        r"""Runs a part in this process."""
        if self._is_done(key):
            return
        started, busy = time.monotonic(), time.process_time()
        try:
            run = LimitedRun(FINISHED, function())
        except Exception as error:
            if is_out_of_memory(error):
                raise
            run = LimitedRun(FAILED, message=f'{type(error).__name__}: {error}')
        seconds, busy = time.monotonic() - started, time.process_time() - busy
        self._add(key, replace(run, seconds=round(seconds, 3), processor_seconds=round(busy, 3)))

    def _is_done(self, key: Key) -> bool:
        r"""Whether a part has a result. One that met a limit is run again if it may use
        more now.
        """
        self.keys.append(key)
        found = self.file.results.get(key)
        if found is None:
            return False
        if found['status'] == FINISHED:
            return True
        limits = {'seconds': self.config.seconds, 'max_bytes': self.config.max_bytes}
        return not self.retry and not any(
            found.get(name) is not None and (now is None or now > found[name])
            for name, now in limits.items()
        )

    def _add(self, key: Key, run: LimitedRun, facts: dict[str, Any] | None = None) -> None:
        content = {
            'status': run.status,
            'message': run.message,
            'value': run.value,
            'wall_seconds': run.seconds,
            'peak_bytes': run.peak_bytes,
            'processor_seconds': run.processor_seconds,
            **(facts or {}),
        }
        self.file.add(key, content)
        if self.log is not None:
            graph, _, seed, column, part = key
            self.log(f'{graph}, seed {seed}, {column}, {part}: {run.text}, {run.seconds:.1f} s')
