"""The terminal, as tables are printed to it."""

from __future__ import annotations

from rich.console import Console


class Screen(Console):
    """A console for which the reader of a pipe may go: that ends the printing, and is no fault of anyone's."""

    def on_broken_pipe(self) -> None:
        """Leave it to whoever runs the command."""
        raise BrokenPipeError
