"""One command in a process of its own: which functions of kshot it calls, and what it imports.

A walk is what somebody reads who follows the calls: each function once, in the order of its first call. It is counted in
functions, in the modules that have them, and in returns: how often it comes back to a module that it has left. It has
three parts: before the run, in it, after it. What runs while modules are imported does not count, nor do other threads.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from itertools import pairwise
from types import FrameType
from typing import Any

RUN = "Run.all"
"""The function that is the run, as ``__qualname__`` has it."""
PARTS = ("before", "in", "after")


@dataclass
class Part:
    """The functions of one part with their files, in the order of their first calls; and how many calls there were."""

    calls: int = 0
    functions: dict[tuple[str, str], str] = field(default_factory=dict)

    def counts(self) -> list[int]:
        """Return functions, modules, returns and calls."""
        files = list(self.functions.values())
        moves = sum(file != before for before, file in pairwise(files))
        modules = len(set(files))
        return [len(files), modules, moves - max(0, modules - 1), self.calls]


class Walk:
    """Follows the calls of the main thread."""

    def __init__(self, root: str) -> None:
        self._root, self._parts = root, [Part() for _ in PARTS]
        self._at = self._importing = 0

    def follow(self, frame: FrameType, event: str, _: Any) -> None:
        """Take an event of ``sys.setprofile``."""
        code = frame.f_code
        if not code.co_filename.startswith(self._root):
            return
        if code.co_name == "<module>":
            self._importing += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not self._importing:
            if code.co_qualname == RUN:
                self._at = 1
            part = self._parts[self._at]
            part.calls += 1
            part.functions.setdefault((code.co_filename, code.co_qualname), code.co_filename)
        elif event == "return" and code.co_qualname == RUN:
            self._at = 2

    def counts(self) -> dict[str, list[int]]:
        """Return the counts of each part."""
        if self._at != 2:
            raise RuntimeError(f"no function {RUN} was called: name the one that is the run in {__file__}")
        return {name: part.counts() for name, part in zip(PARTS, self._parts, strict=True)}


def main() -> None:
    """Run the command of this process, and print what was counted and imported."""
    import kshot
    from kshot.cli import main as run

    walk = Walk(kshot.__file__.removesuffix("__init__.py"))
    sys.setprofile(walk.follow)
    try:
        run(sys.argv[1:])
    finally:
        sys.setprofile(None)
    own = [name for name in sys.modules if name.split(".")[0] == "kshot"]
    others = {name.split(".")[0] for name in sys.modules} - {"kshot", *sys.stdlib_module_names}
    found = {"counts": walk.counts(), "imported": sorted([*own, *others])}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
