"""``kshot lookup generate``: data for token lookup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kshot.cli.parser import list_of
from kshot.cli.streams import show
from kshot.core.visible import one_line

if TYPE_CHECKING:
    import argparse


def add(lookup: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    actions = lookup.add_subparsers(dest="action", metavar="ACTION", required=True)
    make = actions.add_parser("generate", help="write JSONL files under the published names")
    make.add_argument("--group", choices=("unique", "nonunique"), required=True)
    make.add_argument(
        "--length", type=list_of(int), nargs="+", required=True, metavar="L", help="lengths, such as 10 20 or 10,20"
    )
    make.add_argument("--samples", type=int, default=1500, metavar="N", help="records in each file (default: 1500)")
    make.add_argument("--seed", type=int, default=2025, metavar="S", help="seed of the records (default: 2025)")
    make.add_argument("--out", default=".", metavar="DIR", help="folder to write GROUP/FILE to (default: here)")
    make.add_argument("--hard", action="store_true", help="the query occurs only in the first half")
    make.add_argument("--divisor", type=int, default=5, metavar="D", help="at most length/D occurrences (default: 5)")
    make.add_argument("--vocab", default=None, metavar="CHARS", help="characters to use (default: letters and digits)")


def execute(parsed: argparse.Namespace) -> int:
    """Write the files, and print the path of each."""
    from kshot.lookup.generate import VOCAB, write

    vocab = VOCAB if parsed.vocab is None else parsed.vocab
    for length in dict.fromkeys(length for lengths in parsed.length for length in lengths):
        options = {"hard": parsed.hard, "divisor": parsed.divisor, "vocab": vocab}
        show(one_line(write(parsed.out, parsed.group, length, parsed.samples, parsed.seed, **options)))
    return 0
