"""Which command is killed at which point: every point of every scenario, chosen anew for every seed."""

import random
from collections import Counter

ALWAYS = (
    "spec.opened",
    "spec.replaced",
    "samples.opened",
    "samples.writing",
    "samples.written",
    "summary.opened",
    "summary.replaced",
)
"""Points that a resumed run passes again, wherever the run before it was killed."""


def kills_of(passes, times, rng):
    """Choose kills for one scenario: each of its points so many times, at any pass, and then several in a row."""
    kills = [(f"{point} {rng.randint(1, count)}",) for point, count in sorted(passes.items()) for _ in range(times)]
    if not times:
        return kills
    if count := passes.get("journal.torn_line"):
        kills.append((f"journal.torn_line {rng.randint(1, count)}", "journal.cut 1"))
    for length in (2, 3):
        point, count = rng.choice(sorted(passes.items()))
        kills.append((f"{point} {rng.randint(1, count)}", *(f"{rng.choice(ALWAYS)} 1" for _ in range(length - 1))))
    return kills


def missing_kills(passes_of, hits, points, at_least, seed):
    """Choose further kills, as (scenario, kills), for the points that were hit less often than ``at_least``."""
    rng = random.Random(seed)
    chosen = []
    for point in points:
        first = "journal.torn_line" if point == "journal.cut" else point
        able = [name for name, passes in passes_of.items() if first in passes]
        for number in range(max(0, at_least - hits[point]) if able else 0):
            name = able[number % len(able)]
            kill = f"{first} {rng.randint(1, passes_of[name][first])}"
            chosen.append((name, (kill, "journal.cut 1") if point == "journal.cut" else (kill,)))
    return chosen


def hits_of(outcomes):
    """Count how often a process was killed at each point."""
    return Counter(kill.partition(" ")[0] for outcome in outcomes for kill in outcome["kills"])
