"""``kshot merge RUN… --out DIR``: the shards of a run become one run; and what a shard says at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from kshot.result import Result

OK, NOTHING_ANSWERED = 0, 1


def add(command: argparse.ArgumentParser) -> None:
    """Declare the arguments of the command."""
    from kshot.cli.score import add_rescoring

    command.description = (
        "Join the shards of a run to one run, with the files that one machine would have written. No model "
        "is asked. The shards stay as they are."
    )
    command.add_argument("run", nargs="+", metavar="RUN", help="run folder of a shard")
    command.add_argument("--out", required=True, metavar="DIR", help="run folder to write")
    add_rescoring(command)


def execute(parsed: argparse.Namespace) -> int:
    """Join the shards, and show the figures."""
    from functools import partial

    from kshot.cli.score import rescored
    from kshot.core.errors import UsageError
    from kshot.merging import merge

    if parsed.out == "":
        raise UsageError("--out is empty", hint="Name a folder.")
    return rescored(parsed, parsed.out, partial(merge, parsed.run, parsed.out))


def finish_shard(result: Result, shard: str, *, as_json: bool) -> int:
    """Say what a shard has done. It has no figures: those of a part would be taken for figures of the whole."""
    from kshot.cli.streams import say, show, show_json
    from kshot.core.visible import one_line
    from kshot.report.table import spending

    asked = failed = 0
    for row in result.iter_samples():
        asked += 1
        failed += "failed" in row
    if as_json:
        counts = {"shard": shard, "samples": asked, "failed": failed}
        show_json({**counts, "notes": result.notes, "usage": result.usage, "run": str(result.path)}, indent=2)
    else:
        for line in result.first_failures[:3]:
            say(line)
        show(f"shard {shard}: {asked:,} samples of the run, {failed:,} failed; the figures come with kshot merge")
        for line in (*spending(result.usage), f"run folder: {result.path}"):
            show(one_line(line))
    return NOTHING_ANSWERED if asked and failed == asked else OK


def shard_folder(whole: str, shard: str) -> str:
    """Return the run folder of a shard: those of one run lie side by side, in the order of their numbers."""
    from kshot.core.settings import Shard

    found = Shard.parse(shard)
    return f"{whole}-shards/{found.number:0{len(str(found.of))}}-of-{found.of}"
