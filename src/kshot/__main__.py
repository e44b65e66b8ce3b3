"""``python -m kshot``."""

import sys

from kshot.cli import command

sys.exit(command())
