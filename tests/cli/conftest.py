import pytest


@pytest.fixture
def quick(tmp_path) -> list[str]:
    """Arguments of a build of the embedded graph that takes seconds."""
    arguments = '--source Digits --epochs 1 --quiet --num-neighbors 2 2'.split()
    return [*arguments, '--root', str(tmp_path / 'root')]
