"""``python -m kshot``."""

import sys

from kshot.cli import main

sys.exit(main())
