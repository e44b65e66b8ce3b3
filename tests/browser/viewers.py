"""Starting ``kshot view`` as a user does, and reading the link that it prints."""

import re
import subprocess
import sys
from contextlib import contextmanager

LINK = re.compile(r"http://\S+")


@contextmanager
def viewer_of(*folders, cwd=None):
    """Serve these folders until the block ends; yield the link with its token."""
    command = [sys.executable, "-u", "-m", "kshot", "view", *map(str, folders), "--no-browser", "--port", "0"]
    with subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield _link(process)
        finally:
            process.terminate()


def _link(process):
    """Wait until the viewer has printed its link."""
    said = []
    for line in process.stdout:
        said.append(line)
        found = LINK.search(line)
        if found:
            return found[0]
    raise AssertionError(f"kshot view ended without a link: {''.join(said)}")
