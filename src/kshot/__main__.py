"""The command ``kshot``, and ``python -m kshot``. Signals are handled before anything else is imported."""

import atexit
import signal
import sys
from contextlib import suppress

from kshot.core import interrupts


def command() -> int:
    """Run the command of this process, and return its exit code."""
    interrupts.arm()
    atexit.register(interrupts.ignore)  # the first that is registered is the last that runs
    try:
        from kshot.cli import command as run

        code = run()
        interrupts.done(code)
    except KeyboardInterrupt:  # before the command has begun, or after its end
        number = interrupts.received() or signal.SIGINT
        with suppress(OSError):  # after SIGHUP there may be no terminal
            sys.stderr.write(f"\nkshot: {interrupts.stop_word(number)}\n")
        code = interrupts.stop_code(number)
        interrupts.done(code)
    return code


if __name__ == "__main__":
    sys.exit(command())
