r"""The peak memory of a process, as the operating system counts it."""

import resource
from pathlib import Path


def peak_memory() -> float:
    r"""The largest memory of this process so far, in MB."""
    status = Path('/proc/self/status')
    if status.exists():  # ru_maxrss begins with the peak of the process that started this one
        lines = status.read_text().splitlines()
        return int(next(line for line in lines if line.startswith('VmHWM')).split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
