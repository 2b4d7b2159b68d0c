r"""Named errors, one place. Wrong arguments raise :class:`ValueError`."""


class CGTError(Exception):
    r"""The base class of all errors that this package defines."""


class SourceError(CGTError, ValueError):
    r"""The source graph cannot be turned into computation graphs."""


class AnonymityError(CGTError):
    r"""A clustering does not hold the minimum size it was asked for."""


class CorruptFileError(CGTError):
    r"""A cached or released file is truncated, altered or not ours."""


class NotWritableError(CGTError, OSError):
    r"""A folder that must be written to cannot be written to."""


class NotEnoughMemoryError(CGTError, MemoryError):
    r"""An estimate exceeds the memory that is available; nothing was allocated."""


class UnsupportedError(CGTError):
    r"""The request is meaningful, but this version does not offer it."""


class CheckpointError(CGTError):
    r"""A checkpoint belongs to another run than the one that wants to resume."""


class NotFiniteError(CGTError):
    r"""The loss became infinite or not a number."""


class DistributedError(CGTError):
    r"""Processes cannot work together, or one of them failed."""


class LedgerError(CGTError):
    r"""A privacy ledger is incomplete, was altered, or cannot say what it was asked."""


class BudgetError(CGTError, ValueError):
    r"""A privacy budget cannot be met, or is too small for any signal."""
