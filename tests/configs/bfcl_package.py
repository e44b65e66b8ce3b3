"""A small package in the place of bfcl_eval: it has one of the classes on which the calls of conversations work."""

from contextlib import contextmanager

import pytest

from kshot.configs.evaluators.bfcl_calls import EXECUTED

TICKETS = """
class TicketAPI:
    def __init__(self):
        self.tickets, self._calls = [], 0

    def _load_scenario(self, scenario, long_context=False):
        self.tickets = scenario.get("tickets", []) + ["long"] * long_context

    def add(self, name, priority=1):
        self.tickets.append((name, priority))
        return {"id": len(self.tickets)}

    def count(self):
        self._calls += 1
        return len(self.tickets)

    def wait(self):
        while True:
            pass
"""


@contextmanager
def small_package(folder):
    """Put the package into a folder, from which it is then taken."""
    place = folder / "bfcl_eval" / "eval_checker" / "multi_turn_eval" / "func_source_code"
    place.mkdir(parents=True)
    (folder / "bfcl_eval" / "__init__.py").touch()
    (place / "ticket_api.py").write_text(TICKETS, encoding="utf-8")
    EXECUTED.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setattr(EXECUTED, "seconds", 0.3)
        yield
        EXECUTED.close()
