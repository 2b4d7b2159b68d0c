"""Builds in several processes that ask for the same budget at the same time."""

import os
import sys
import time
from contextlib import nullcontext
from pathlib import Path

from tests.helpers.costs import DELTA, UNIT, gaussian_cost
from tests.helpers.graphs import random_graph
from torch_geometric_cgt.errors import BudgetError
from torch_geometric_cgt.pipeline import CountedBuild, Odometer, check_source, odometer


def main(root: Path, num_builds: int, how: str) -> None:
    source = check_source(random_graph())
    Odometer(root).set_limit(source, 2.5, UNIT, DELTA)
    if how == 'unlocked':  # a planted bug
        Odometer._locked = lambda _: nullcontext()
    check = odometer._check_limits
    odometer._check_limits = lambda *a: (check(*a), time.sleep(0.3))  # the others come in between
    cost = gaussian_cost(2.0)  # 1.99; two of them cost 2.94
    ready, start = os.pipe()
    children = []
    for i in range(num_builds):
        child = os.fork()
        if child == 0:
            os.close(start)
            os.read(ready, 1)  # returns in all of them when the parent closes its end
            try:
                Odometer(root).charge(source, CountedBuild(str(i), f'build-{i}', 'now', cost))
                os._exit(0)
            except BudgetError:
                os._exit(7)
        children.append(child)
    os.close(start)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    sys.stdout.write(f'{sorted(codes)}')


if __name__ == '__main__':
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
