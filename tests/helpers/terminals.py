"""A terminal for tests of what a person sees."""

import fcntl
import os
import pty
import struct
import sys
import termios
from contextlib import contextmanager

import pytest


@contextmanager
def terminal():
    """A pseudo-terminal as stderr; the function returns what was drawn on it."""
    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 160, 0, 0))
    with open(writer, 'w', buffering=1) as stream, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, 'stderr', stream)

        def drawn() -> str:
            stream.flush()
            os.set_blocking(reader, False)
            found = b''
            while True:
                try:
                    found += os.read(reader, 1 << 16)
                except BlockingIOError:
                    return found.decode()

        yield drawn
    os.close(reader)
