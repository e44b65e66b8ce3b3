"""Packages of kshot's extras that look as if they were not installed."""

import sys

from kshot.core.extras import PACKAGES


def lack(monkeypatch, *packages):
    """Hide these packages (all of them, if none is named) until the test ends."""
    for package in packages or PACKAGES:
        monkeypatch.setitem(sys.modules, PACKAGES[package].module, None)
