"""Golden screens: what a user sees, as text files under ``tests/data/screens``.

``KSHOT_GOLDEN=write pytest …`` writes them again; look at the difference before you commit it.
"""

import os
from pathlib import Path

SCREENS = Path(__file__).parent / "data" / "screens"


def assert_screen(name, text):
    """Compare a screen with its file ``NAME.txt``; spaces at the ends of lines do not count."""
    shown = "\n".join(line.rstrip() for line in text.splitlines()).strip("\n") + "\n"
    path = SCREENS / f"{name}.txt"
    if os.environ.get("KSHOT_GOLDEN") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(shown, encoding="utf-8")
    assert path.exists(), f"there is no {path.name}: KSHOT_GOLDEN=write makes it"
    expected = path.read_text(encoding="utf-8")
    assert shown == expected, f"{path.name} differs; is\n{shown}\nwas\n{expected}"
