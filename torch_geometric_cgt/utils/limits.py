r"""The limits of files that a stranger may have written. Reading refuses what exceeds them.

Each limit is far above what a build of this package writes, and low enough to refuse a file within
seconds and with less than a gigabyte of memory.
"""

# Files of a release.
MAX_RELEASE_BYTES = 1 << 29  # of all tensors; an argument of 'save' and 'load' overrides it
SHARD_BYTES = MAX_RELEASE_BYTES  # a larger release is written in several files
MAX_CARD_BYTES = 1 << 20
MAX_README_BYTES = 1 << 20
MAX_SIGNATURE_BYTES = 1 << 12  # also of a file that holds a key
MAX_HEADER_BYTES = 1 << 16  # of a tensor file

# JSON. The second pair is for files that this package keeps for itself, such as checkpoints.
MAX_JSON_DEPTH = 32
MAX_JSON_ITEMS = 100_000
MAX_DIGITS = 40  # of a number
MAX_OWN_JSON_BYTES = 1 << 28
MAX_OWN_JSON_ITEMS = 10_000_000

# Facts of a card.
MAX_COUNT = 1 << 40  # nodes, edges, trees, clusters, labels and features
MAX_TEXT = 1_000  # characters of a name, a version or a date
MAX_EDGE_COLUMNS = 1 << 20  # of edge attributes
MAX_LAYERS = 16  # of a computation graph
MAX_SLOTS = 1 << 20  # of a computation graph
MAX_PARAMETER = 1e15  # any number among the parameters of a build, apart from seeds
MAX_MODEL_LAYERS = 64  # of a Transformer
MAX_MODEL_WIDTH = 1 << 16  # of a Transformer

# Ledgers. An accountant runs only within these limits. Sums are over all entries and totals.
MAX_ENTRIES = 256  # entries times totals
MAX_STAGES = 64
MAX_TOTALS = 8
MAX_RUNS = 10_000  # sum
MAX_SAMPLED = 16  # mechanisms with sampling, DP-SGD
MAX_STEPS = 1_000_000  # sum, of DP-SGD
MAX_MIXTURES = 20_000.0  # sum of the privacy losses of DP-SGD with groups, see stated_ledger.py
MAX_GROUP = 1_000  # rows that belong to one unit
MAX_DISCRETE_NOISE = 50_000.0  # sum of the widths of discrete noise, whose integers are listed
MIN_PROBABILITY = 1e-9  # that a step of DP-SGD draws a record
MIN_NOISE, MAX_NOISE = 1e-6, 1e9  # width of the noise
MAX_CHANGE = 1e6  # by one unit, in widths of the noise
MIN_DELTA = 1e-100
