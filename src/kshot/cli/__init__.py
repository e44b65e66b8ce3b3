"""The command line parses, calls and prints. It imports heavy packages only when it needs them."""

from kshot.cli.main import command, main

__all__ = ["command", "main"]
