"""A world that stands still: clock, machine, versions, folders. What is left of the real one is taken out of a text."""

from __future__ import annotations

import base64
import gzip
import os
import platform
import re
import sys
import tempfile
from collections.abc import Sequence
from datetime import datetime, tzinfo
from importlib import metadata
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "data"
"""Reference data that is not in the repository; what reads it is skipped where it is missing."""

_NOW = (2026, 1, 2, 3, 4, 5)
_PACKED = re.compile(r'(<script type="application/json"[^>]*>)(H4sI[\w+/=]+)')
_CODE = re.compile(r"(<script(?! type=.application/json)[^>]*>|<style[^>]*>).*?(</script>|</style>)", re.DOTALL)


class _Standing(datetime):
    """A datetime whose ``now`` is always the same."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        return datetime(*_NOW, tzinfo=tz)


class _StoppedClocks(MetaPathFinder):
    """Gives the standing datetime to each module of kshot; compiled packages need the real one."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name.startswith("kshot.") else None
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def stopped(module: ModuleType) -> None:
                run(module)
                if vars(module).get("datetime") is datetime:
                    module.datetime = _Standing

            spec.loader.exec_module = stopped
        return spec


def stand_still() -> None:
    """Stop the clock, and hide this machine and its versions, before kshot is imported."""
    if any(name.startswith("kshot") for name in sys.modules):
        raise RuntimeError("kshot is imported before its world stands still")
    real_version = metadata.version

    def version(package: str) -> str:
        if sys._getframe(1).f_globals.get("__name__", "").startswith("kshot"):
            raise metadata.PackageNotFoundError(package)  # kshot then leaves it out
        return real_version(package)

    metadata.version = version
    platform.node = lambda: "machine"
    platform.platform = lambda: "platform"
    platform.python_version = lambda: "3.0.0"
    sys.meta_path.insert(0, _StoppedClocks())
    import kshot

    kshot.__version__ = "0.0.0"


_VARYING = {
    r"\b(127\.0\.0\.1|localhost):\d+": r"\1:<port>",
    r"\?token=[\w-]+": "?token=<token>",
    r"\b(report\.html|progress\.json) [\d.]+ [kM]?B": r"\1 <size>",
    r'("name": ?"(?:report\.html|progress\.json)", ?"bytes": ?)\d+': r"\1<size>",
    r'"elapsed": ?[\d.e-]+': '"elapsed": 0',
    r"cost [\d.]+ seconds": "cost <some> seconds",  # jieba says so
    r"(?m)^kshot: [\d,]+ of [\d,]+ \(.*\n": "",  # a line every half minute
}


def settled(text: str) -> str:
    """Return a text without what differs between two runs of the same code, and with pages that can be compared."""
    if "<!doctype html>" in text[:99].lower():
        text = _page(text)
    text = text.replace(os.path.realpath(Path.cwd()), "<here>").replace(str(ROOT), "<root>")
    text = re.sub(rf"{re.escape(os.path.realpath(tempfile.gettempdir()))}/[\w.-]+", "<temporary>", text)
    for pattern, instead in _VARYING.items():
        text = re.sub(pattern, instead, text)
    return text


def _page(text: str) -> str:
    """Return a page with its data unpacked, without its scripts and styles, and with one tag on each line."""
    text = _CODE.sub(r"\1\2", text)
    text = _PACKED.sub(lambda found: found[1] + gzip.decompress(base64.b64decode(found[2])).decode(), text)
    return re.sub(r"sha256-[\w+/=]+", "sha256", text).replace("><", ">\n<")
