"""The command line: parse, call, print. Nothing heavy is imported before it is needed."""

from kshot.cli.main import main

__all__ = ["main"]
