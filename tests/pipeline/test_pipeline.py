"""The runner of stages: order, what is kept, and who may read."""

from types import SimpleNamespace

import pytest
import torch

from tests.helpers.graphs import random_graph
from tests.helpers.trees import two_trees
from torch_geometric_cgt.errors import LedgerError
from torch_geometric_cgt.pipeline import Build, Pipeline, Stage, check_source
from torch_geometric_cgt.pipeline import pipeline as pipeline_module
from torch_geometric_cgt.pipeline.config import BuildConfig
from torch_geometric_cgt.privacy import Entry, Gaussian, Ledger


class Literal(Pipeline):
    """Three stages: two whose results are kept, and one between them that is not."""

    def __init__(self, work, ledger=None, paid_by=((), (), ()), reads=(), **config):
        config = BuildConfig(num_neighbors=(3, 2), **config)
        super().__init__(check_source(random_graph()), config, work, log=False)
        self.ledger, self.paid_by, self.reads = ledger, paid_by, reads
        self.ran, self.taken, self.read = [], {}, []

    def prepare(self):
        self.ran.append('prepare')

    def stages(self):
        runs = {'first': self.first, 'second': self.second, 'third': self.third}
        return [
            Stage(name, run, None if name == 'second' else self.taker(name), paid)
            for (name, run), paid in zip(runs.items(), self.paid_by, strict=True)
        ]

    def enter(self, name):
        self.ran.append(name)
        if name in self.reads:
            self.read.append(self.source.data.num_nodes)

    def first(self):
        self.enter('first')
        return {'x': torch.tensor([1, 2])}, {'n': 2}

    def second(self):
        self.enter('second')
        self.sum = int(self.taken['first'][0]['x'].sum())

    def third(self):
        self.enter('third')
        return {'y': torch.tensor([self.sum])}, {}

    def taker(self, stage):
        return lambda *outcome: self.taken.update({stage: outcome})

    def result(self):
        self.ran.append('result')
        return Build(two_trees(), self.taken['third'][0]['y'], seconds=self.seconds)


def ledger_of(*stages):
    """A ledger that pays for some stages."""
    return Ledger(stages, [Entry(stage, 'sums', noise=Gaussian(1.0)) for stage in stages])


def test_stages_run_in_their_order_and_use_what_came_before(tmp_path):
    pipeline = Literal(tmp_path)
    build = pipeline.run()
    assert pipeline.ran == ['prepare', 'first', 'second', 'third', 'result']
    assert build.codebook.tolist() == [3]
    assert set(pipeline.taken) == {'first', 'third'}  # those with a result that is kept
    assert pipeline.taken['first'][0]['x'].tolist() == [1, 2]
    assert pipeline.taken['first'][1] == {'n': 2}


def test_kept_stages_are_read_and_others_run_again(tmp_path):
    Literal(tmp_path).run()
    assert sorted(path.name for path in tmp_path.iterdir()) == ['first', 'third']
    again = Literal(tmp_path)
    assert again.run().codebook.tolist() == [3]
    assert again.ran == ['prepare', 'second', 'result']
    assert again.taken['first'][1] == {'n': 2}


def test_a_stage_that_failed_runs_again_after_those_that_were_kept(tmp_path, monkeypatch):
    failed = Literal(tmp_path)
    monkeypatch.setattr(failed, 'third', lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        failed.run()
    assert failed.ran == ['prepare', 'first', 'second'] and set(failed.seconds) == {*failed.ran[1:]}
    again = Literal(tmp_path)
    again.run()
    assert again.ran == ['prepare', 'second', 'third', 'result']


def test_the_seconds_of_each_stage_are_recorded(tmp_path, monkeypatch):
    clock = iter([10.0, 11.5, 20.0, 20.25, 30.0, 34.0])
    monkeypatch.setattr(pipeline_module, 'time', SimpleNamespace(monotonic=lambda: next(clock)))
    build = Literal(tmp_path).run()
    assert build.seconds == {'first': 1.5, 'second': 0.25, 'third': 4.0}


def test_without_a_ledger_every_stage_reads_the_source(tmp_path):
    pipeline = Literal(tmp_path, reads=('first', 'second', 'third'))
    pipeline.run()
    assert pipeline.read == [120, 120, 120]
    assert pipeline.entries('anything') == []


def test_with_a_ledger_only_a_paid_stage_reads_the_source(tmp_path):
    ledger = ledger_of('labels', 'model')
    paid_by = (('labels',), (), ('labels', 'model'))
    pipeline = Literal(tmp_path / 'paid', ledger, paid_by, reads=('first', 'third'))
    pipeline.run()
    assert pipeline.read == [120, 120]
    with pytest.raises(LedgerError, match='outside of a stage'):
        _ = pipeline.source  # between stages
    assert [entry.stage for entry in pipeline.entries('model')] == ['model']

    unpaid = Literal(tmp_path / 'unpaid', ledger, paid_by, reads=('second',))
    with pytest.raises(LedgerError, match="Stage 'second' reads the source, but names no entry"):
        unpaid.run()
    assert unpaid.read == [] and 'third' not in unpaid.ran


def test_nothing_runs_if_any_stage_is_unpaid(tmp_path):
    paid_by = (('labels',), (), ('labels', 'model', 'centres'))
    pipeline = Literal(tmp_path, ledger_of('labels'), paid_by, reads=('first',))
    with pytest.raises(LedgerError, match='no entry in the ledger: model, centres'):
        pipeline.run()
    assert pipeline.ran == ['prepare'] and pipeline.read == []
    assert list(tmp_path.iterdir()) == []


def test_every_purpose_and_draw_has_a_seed_of_its_own(tmp_path):
    places = [('fit', 0), ('fit', 1), ('fit', 2), ('sample', 0), ('sample', 1)]
    found = [
        Literal(tmp_path, seed=seed).seed(purpose, draw)
        for seed in (0, 1)
        for purpose, draw in places
    ]
    assert len(set(found)) == len(found)
    assert found[0] == Literal(tmp_path).seed('fit')


def test_the_share_of_clustering_grows_with_the_graph():
    names = ['quantize', 'scenes', 'fit']
    small, middle, large = (pipeline_module.stage_shares(names, n) for n in (2_000, 50_000, 10**7))
    assert list(small) == names
    assert small['quantize'] < middle['quantize'] < large['quantize'] < large['fit']
    assert small['fit'] == large['fit'] > 10 * small['quantize']
    assert 'quantize' not in pipeline_module.stage_shares(['labels'], 10)
