"""Run folders of strangers in a list: whatever their files hold, each has a line, and nothing steers the terminal."""

import io
from datetime import datetime, timedelta, timezone

from hypothesis import strategies as st
from rich.console import Console

from kshot.cli.runs_watch import end_line, watched_lines, watched_view
from kshot.core.visible import visible_json
from kshot.report.runs_table import Clock, run_details, runs_table
from kshot.runs.listing import describe, details
from tests.fuzz.harness import folder, fuzz, grafted, json_bytes
from tests.run_folders import figure, session, subsets, used

NOW = datetime(2026, 11, 16, 10, tzinfo=timezone.utc)
SPEC = {
    "identity": {"models": ["m", "openai:x@http://h:1/v1"], "datasets": ["a", "b/c.py:D"], "num_shots": 5},
    "format": 2,
    "options": {"price_in": 1.0, "price_out": 2.0},
    "sessions": [session("stopped"), session(started=NOW - timedelta(hours=1))],
    "spent": {"model": {"requests": 5, "failed": 1, "prompt_tokens": 10, "completion_tokens": 2}},
    "models": [{"role": "model", "name": "m", "fingerprint": "f"}],
}
SUMMARY = {
    "results": [
        *subsets("m", [1.0, 2.0]),
        figure(category="c", task="t[c]"),
        figure(metric="nDCG@10", kind="passages", benchmark="b", passages=3, chunks="x"),
        figure(sd=1.0, lowest=0.0, highest=1.0),
    ],
    "notes": [],
    "usage": [used(cost_usd=1.0)],
}


@fuzz(grafted(SPEC, odds=20), grafted(SUMMARY, odds=40), st.sampled_from([1, 40, 80, 120, 200]), examples=50)
def test_a_folder_of_any_files_is_listed(spec, summary, width):
    with folder() as place:
        (place / "spec.json").write_bytes(json_bytes(spec))
        (place / "summary.json").write_bytes(json_bytes(summary))
        (place / "journal.jsonl").touch()
        run, whole, clock = describe(place, NOW), details(place, NOW), Clock(NOW, timezone.utc)
        console = Console(width=width, file=io.StringIO(), markup=False, highlight=False)
        for line in (*runs_table([run], place, width, clock), *run_details(whole, clock)):
            console.print(line, soft_wrap=True)
        for progress in ({}, {run["run"]: None}):
            console.print(watched_view([run], progress, place, (width, 10), clock))
        assert watched_lines([run], {run["run"]: None})
        assert end_line(run)
        assert visible_json(whole)
        assert "\x1b" not in console.file.getvalue()
