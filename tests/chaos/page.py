"""The tables of docs/reliability.md."""

from collections import Counter
from pathlib import Path

from kshot.core.kill_points import POINTS
from tests.chaos.plan import hits_of

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"


def tables(outcomes, figures, measured):
    """Return the tables by the names of their marks; a part that was not measured has none."""
    found = {"points": points_table(outcomes)}
    if outcomes:
        found["kills"] = f"Measured: {measured}.\n\n{kills_table(outcomes)}"
    if figures:
        found["faults"] = f"Measured: {measured}.\n\n{faults_table(figures)}"
    return found


def points_table(outcomes):
    """List the points that the code has, and how often a run was killed there."""
    hits = hits_of(outcomes)
    lines = ["| point | what is true there | killed there |", "|---|---|---:|"]
    return "\n".join([*lines, *(f"| `{point}` | {what} | {hits[point]} |" for point, what in POINTS.items())])


def kills_table(outcomes):
    """Sum up by kind of command."""
    lines = [
        "| killed | runs | kills | lost | duplicated | answered requests asked again | other results | asked twice, because the answer was not yet in the journal |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    families = list(dict.fromkeys(outcome["family"] for outcome in outcomes))
    for family in (*families, "all"):
        own = [outcome for outcome in outcomes if family in ("all", outcome["family"])]
        sums = [sum(outcome[name] for outcome in own) for name in ("lost", "duplicated", "asked_again")]
        cells = [len(own), sum(len(outcome["kills"]) for outcome in own), *sums, sum(bool(o["faults"]) for o in own)]
        lines.append(f"| {family} | " + " | ".join(map(str, (*cells, sum(o["unjournalled"] for o in own)))) + " |")
    return "\n".join(lines)


def faults_table(figures):
    """List what was asked, answered and failed, the memory, and the faults by kind."""
    memory = {int(at): kb for at, kb in figures["memory_kb"].items()}
    shown = [at for at in sorted(memory) if at in (2000, 4000, 6000, 8000, 10_000)]
    after = f"memory after {', '.join(f'{at:,}' for at in shown)} samples"
    failures = ", ".join(f"{count:,} {kind}" for kind, count in figures["failures"].items())
    rows = {
        "samples": f"{figures['samples']:,}",
        "requests of the first run": f"{figures['requests']:,}, of which {sum(figures['faults'].values()):,} met a fault of {len(figures['faults'])} kinds",
        "answered + failed": f"{figures['answered']:,} + {figures['failed']:,} = {figures['answered'] + figures['failed']:,}",
        "failed, by kind": failures,
        "samples that the second run asked": f"{figures['asked_in_second']:,}: the failed ones, and no other",
        after: f"{', '.join(f'{memory[at] / 1024:.0f}' for at in shown)} MiB",
        "after the server was mended": "all answered; `samples.jsonl` and `summary.json` are those of a server without faults, but for what the faults cost",
    }
    kinds = Counter(figures["faults"]).most_common()
    lines = ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())]
    return "\n".join([*lines, "", "Faults by kind: " + ", ".join(f"{kind} {count:,}" for kind, count in kinds) + "."])
