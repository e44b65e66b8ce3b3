"""A limit on the time of a piece of work."""

import contextlib
import signal


@contextlib.contextmanager
def limited(seconds):
    """Raise TimeoutError in the main thread after so many seconds."""

    def stop(number, frame):
        raise TimeoutError(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
