import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / 'examples'


@pytest.mark.slow
@pytest.mark.parametrize('name', ['gcn.py', 'graphsage.py'])
def test_one_line_changes_the_dataset(name):
    scores = []
    for arguments in [[], ['--synthetic']]:
        out = subprocess.run(
            [sys.executable, EXAMPLES / name, *arguments], capture_output=True, text=True
        )
        assert out.returncode == 0, out.stderr
        scores.append(float(out.stdout.split()[-1]))
    assert scores[0] > 0.95 and abs(scores[0] - scores[1]) < 0.06
