"""Functions that run in a limited process."""

import os
import signal
import time

import torch

from torch_geometric_cgt.benchmark.generator_runs import measure_build


def add(a, b, limits):
    limits.check()
    return a + b


def sleep(seconds, limits):
    time.sleep(seconds)
    limits.check()


def compute(*args):
    """Is busy for some processor seconds, or for ever."""
    seconds = args[0] if len(args) > 1 else float('inf')
    while time.process_time() < seconds:
        pass


def obey(limits):
    while True:
        limits.check()
        time.sleep(0.01)


def allocate(limits):
    parts = []
    while True:
        parts.append(torch.ones(1 << 23))  # 32 MiB
        time.sleep(0.01)


def allocate_too_much(limits):
    torch.empty(1 << 60)


def fail(limits):
    raise ValueError('a wrong\nvalue')


def die(number, limits):
    os.kill(os.getpid(), getattr(signal, number))


def leave(limits):
    os._exit(3)


def build_or_fail(data, generator, settings, seed, root, limits):
    """Builds, unless the name of the generator stands for another end."""
    ends = {'Independent': (sleep, 600), 'ConfigurationModel': (allocate,)}
    if generator.name == 'DegreeCorrectedSBM':
        raise ValueError('no blocks')
    if generator.name in ends:
        function, *args = ends[generator.name]
        function(*args, limits)
    return measure_build(data, generator, settings, seed, root, limits)


def count_records(source, config, seed, max_records, limits):
    """In the place of an attack."""
    if config.generator.get('model') == 'Resampled':
        raise ValueError('nobody to attack')
    return {'score': 'count', 'group': 'all', 'area': 0.6, 'low': 0.5, 'high': 0.7}
