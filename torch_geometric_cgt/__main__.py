r"""``python -m torch_geometric_cgt`` is ``cgt``."""

import sys

from torch_geometric_cgt.cli import main

if __name__ == '__main__':
    sys.exit(main())
