"""The terminal that tables are printed to."""

from __future__ import annotations

from rich.console import Console


class Screen(Console):
    """A console that stops printing when the reader of a pipe closes it, which is not an error."""

    def on_broken_pipe(self) -> None:
        """Raise the error; the command handles it."""
        raise BrokenPipeError
