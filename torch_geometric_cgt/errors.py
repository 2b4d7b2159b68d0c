r"""The errors that this package defines. Wrong arguments raise :class:`ValueError`."""


class CGTError(Exception):
    r"""The base class of all errors that this package defines."""


class SourceError(CGTError, ValueError):
    r"""The source graph cannot be turned into computation graphs."""


class AnonymityError(CGTError):
    r"""A cluster is smaller than the minimum size that was requested."""


class CorruptFileError(CGTError):
    r"""A cached or released file is truncated, altered or was not written by this package."""


class NotWritableError(CGTError, OSError):
    r"""A folder cannot be written to."""


class NotEnoughMemoryError(CGTError, MemoryError):
    r"""The estimated memory exceeds the available memory; nothing was allocated."""


class UnsupportedError(CGTError):
    r"""The request is valid, but this version or installation does not support it."""


class CheckpointError(CGTError):
    r"""A checkpoint belongs to a different run and cannot be resumed."""


class NotFiniteError(CGTError):
    r"""The loss became infinite or not a number."""


class DistributedError(CGTError):
    r"""The processes of a distributed run do not match, or one of them failed."""

    known_to_all = False  # whether all processes raise it, so that none of them waits


class LedgerError(CGTError):
    r"""A privacy ledger is incomplete, was altered, or cannot compute the requested total."""


class BudgetError(CGTError, ValueError):
    r"""A privacy budget cannot be met, or is so small that results would be pure noise."""


class OutOfTime(CGTError, TimeoutError):
    r"""A run did not finish within its limit of time."""


class OutOfMemory(CGTError, MemoryError):
    r"""A run exceeded its limit of memory, or memory could not be allocated."""
