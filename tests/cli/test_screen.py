"""The terminal that tables are drawn on."""

import io
import sys

from rich.table import Table

from kshot.cli.screen import Screen


def drawn(monkeypatch, **environment):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    table = Table(box=None)
    table.add_column("task")
    table.add_column("why")
    table.add_row("short", "")
    table.add_row("a  longer name", "x")
    screen = Screen()
    screen.print(table)
    screen.print("a ", end="")
    screen.print("b  ")
    return sys.stdout.getvalue()


def test_a_pipe_gets_no_spaces_at_the_ends_of_lines(monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert drawn(monkeypatch) == " task            why\n short\n a  longer name  x\na b\n"


def test_a_terminal_gets_whole_lines(monkeypatch):
    lines = drawn(monkeypatch, FORCE_COLOR="1", TERM="dumb").splitlines()
    assert len(lines[1]) == len(lines[2]) > len(lines[1].rstrip())
