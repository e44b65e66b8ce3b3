"""Draws docs/performance.svg and docs/growth.svg from benchmarks/results.json.

    python benchmarks/chart.py

Each ratio there is {"group", "label", "ratio"}: how many times as fast kshot was on the same work, in one run; one bar
each, on a logarithmic scale. ``growth`` has a row [samples, milliseconds of CPU a sample, peak MiB] for each size.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from xml.sax.saxutils import escape

HERE = Path(__file__).parent
WIDTH, LEFT, BAR, GAP = 760, 330, 16, 8
INK, FILL, LINE = "#24292f", "#2f6f4f", "#d0d7de"


def growth(points: list[list[float]]) -> str:
    """Cost by the number of samples: two panels side by side, each from zero."""
    width, height, parts = 340, 150, []
    for panel, (column, title) in enumerate(((1, "CPU ms a sample"), (2, "peak MiB"))):
        left = 30 + panel * (width + 40)
        most = 1.25 * max(point[column] for point in points)
        low, high = (math.log10(points[at][0]) for at in (0, -1))
        spots = [
            (
                left + 40 + (width - 80) * (math.log10(point[0]) - low) / (high - low),
                40 + height * (1 - point[column] / most),
                point,
            )
            for point in points
        ]
        parts.append(f'<text x="{left}" y="20" font-weight="bold">{title}</text>')
        parts.append(f'<line x1="{left}" x2="{left + width}" y1="{40 + height}" y2="{40 + height}" stroke="{LINE}"/>')
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in spots)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{FILL}" stroke-width="2"/>')
        for x, y, point in spots:
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{FILL}"/>')
            parts.append(f'<text x="{x:.1f}" y="{y - 9:.1f}" text-anchor="middle">{point[column]:.3g}</text>')
            parts.append(f'<text x="{x:.1f}" y="{58 + height}" text-anchor="middle">{point[0]:,}</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height + 70}" '
    return head + f'font-family="sans-serif" font-size="12" fill="{INK}">' + "".join(parts) + "</svg>\n"


def svg(entries: list[dict]) -> str:
    """The chart as SVG text."""
    most = max(10.0, *(entry["ratio"] for entry in entries))
    ticks = [10**power for power in range(math.ceil(math.log10(most)) + 1)]
    scale = (WIDTH - LEFT - 70) / math.log10(ticks[-1] / 0.5)
    parts, y, group = [], 30, None
    for entry in entries:
        if entry["group"] != group:
            group, y = entry["group"], y + GAP * 2
            parts.append(f'<text x="8" y="{y}" font-weight="bold">{escape(group)}</text>')
            y += GAP
        width = max(1.0, scale * math.log10(entry["ratio"] / 0.5))
        parts.append(f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end">{escape(entry["label"])}</text>')
        parts.append(f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{FILL}"/>')
        parts.append(f'<text x="{LEFT + width + 6:.1f}" y="{y + 12}">{entry["ratio"]:.3g} ×</text>')
        y += BAR + GAP
    lines = []
    for tick in ticks:
        x = LEFT + scale * math.log10(tick / 0.5)
        lines.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="24" y2="{y}" stroke="{LINE}"/>')
        lines.append(f'<text x="{x:.1f}" y="18" text-anchor="middle">{tick} ×</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 10}" '
    style = f'font-family="sans-serif" font-size="12" fill="{INK}">'
    return head + style + "".join((*lines, *parts)) + "</svg>\n"


if __name__ == "__main__":
    found = json.loads((HERE / "results.json").read_text(encoding="utf-8"))
    docs = HERE.parent / "docs"
    (docs / "performance.svg").write_text(svg(found["ratios"]), encoding="utf-8")
    (docs / "growth.svg").write_text(growth(found["growth"]), encoding="utf-8")
    print("docs/performance.svg docs/growth.svg")
