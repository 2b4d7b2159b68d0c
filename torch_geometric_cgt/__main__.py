r"""``python -m torch_geometric_cgt`` is ``cgt``."""

import sys

from torch_geometric_cgt.cli import main

sys.exit(main())
