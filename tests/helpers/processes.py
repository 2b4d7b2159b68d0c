"""Runs modules of the tests in other processes."""

import multiprocessing
import os
import runpy
import socket
import subprocess
import sys
import tempfile
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, 'PYTHONPATH': str(ROOT), 'OMP_NUM_THREADS': '1'}
PRELOAD = ['torch_geometric_cgt.benchmark.runner', 'tests.helpers.tiny']


def imported() -> ForkServerContext:
    """A context whose processes begin with the package imported, which takes seconds.

    They are copies of one process that has imported it and has done nothing else.
    """
    context = multiprocessing.get_context('forkserver')
    context.set_forkserver_preload(PRELOAD)
    first = context.Process(target=int)  # waits for the imports
    first.start()
    first.join()
    return context


def in_processes(
    module, *arguments, environments, timeout=300
) -> list[subprocess.CompletedProcess[str]]:
    """Runs a module in one process for each environment, at the same time."""
    context, processes = imported(), []
    with tempfile.TemporaryDirectory() as folder:
        for i, environment in enumerate(environments):
            out, err = Path(folder) / f'{i}.out', Path(folder) / f'{i}.err'
            task = (module, arguments, environment, out, err)
            processes.append((context.Process(target=_run, args=task), out, err))
        for process, *_ in processes:
            process.start()
        return [
            subprocess.CompletedProcess(
                module, _exit_code(process, timeout), out.read_text(), err.read_text()
            )
            for process, out, err in processes
        ]


def in_a_process(module, *arguments, timeout=300) -> subprocess.CompletedProcess[str]:
    """Runs a module in one process."""
    return in_processes(module, *arguments, environments=[{}], timeout=timeout)[0]


def in_a_world(module, *arguments, processes=2) -> list[subprocess.CompletedProcess[str]]:
    """Runs a module in several processes that form one world, as torchrun does."""
    with socket.socket() as free:
        free.bind(('localhost', 0))
        port = free.getsockname()[1]
    world = {'WORLD_SIZE': processes, 'MASTER_ADDR': 'localhost', 'MASTER_PORT': port}
    ranks = [{**world, 'RANK': rank, 'LOCAL_RANK': rank} for rank in range(processes)]
    return in_processes(module, *arguments, environments=ranks)


def torchrun(module, *arguments, processes=2) -> subprocess.CompletedProcess[str]:
    """Runs a module in several processes of torchrun."""
    launch = ['-m', 'torch.distributed.run', '--standalone', '--nproc-per-node', str(processes)]
    return subprocess.run(
        [sys.executable, *launch, '-m', module, *map(str, arguments)],
        cwd=ROOT,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=300,
    )


def _run(module, arguments, environment, out, err) -> None:
    for stream, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), stream)
    os.environ.update({name: str(value) for name, value in environment.items()})
    sys.argv = [module, *map(str, arguments)]
    runpy.run_module(module, run_name='__main__')


def _exit_code(process: ForkServerProcess, timeout: float) -> int:
    process.join(timeout)
    if process.exitcode is None:
        process.kill()
        process.join()
    return process.exitcode
