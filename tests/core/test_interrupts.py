"""Signals that ask a command to end leave the process as it was."""

import sys
from contextlib import suppress
from types import SimpleNamespace

from kshot.core import interrupts


def test_the_hook_of_the_caller_is_used_meanwhile_and_comes_back(monkeypatch):
    seen = []
    monkeypatch.setattr(interrupts._state, "armed", False)
    monkeypatch.setattr(sys, "unraisablehook", seen.append)
    mine = sys.unraisablehook
    dropped = SimpleNamespace(exc_value=ValueError("x"))
    with suppress(KeyError), interrupts.interruptible():
        assert sys.unraisablehook is not mine
        sys.unraisablehook(dropped)
        raise KeyError
    assert sys.unraisablehook is mine
    assert seen == [dropped]
