"""The command line on a pseudo-terminal, in this process, with colours and progress bars."""

import fcntl
import os
import pty
import struct
import termios
import threading
import tty
from contextlib import suppress

import pytest

from kshot.cli import main


def on_terminal(*arguments, columns=1000):
    """Return the exit code, and everything that the terminal gets."""
    master, slave = pty.openpty()
    tty.setraw(slave)  # no character is added
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 60, columns, 0, 0))
    seen = []

    def read():
        with suppress(OSError):  # the other end is closed
            while block := os.read(master, 1 << 16):
                seen.append(block)

    reader = threading.Thread(target=read)
    reader.start()
    with os.fdopen(slave, "w", encoding="utf-8", buffering=1) as terminal, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", terminal)
        patch.setattr("sys.stderr", terminal)
        patch.setenv("TERM", "xterm-256color")
        patch.delenv("NO_COLOR", raising=False)
        patch.setenv("COLUMNS", str(columns))
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as exc:
            code = exc.code
    reader.join()
    os.close(master)
    return code, b"".join(seen).decode("utf-8")
