"""Comparing takes memory for scores, not for texts."""

import json
import subprocess
import sys

import pytest

from tests.finished_runs import Item, finished, task

SAMPLES, SHORT, LONG = 5_000, 100, 8_000
MOST_MIB = 8
"""What long prompts may add; all texts of one run are 40 MB."""

COMPARE = """
import sys, kshot
found = kshot.compare(*sys.argv[1:])
assert found.rows[0]["n"] == 5_000
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def longer(folder, target, characters):
    """Copy a run of one sample as one of many, with prompts of so many characters."""
    target.mkdir()
    for name in ("spec.json", "summary.json"):
        text = (folder / name).read_text()
        if name == "summary.json":
            found = json.loads(text)
            found["results"] = [{**row, "n": SAMPLES} for row in found["results"]]
            text = json.dumps(found)
        (target / name).write_text(text)
    row = json.loads((folder / "samples.jsonl").read_text().splitlines()[0])
    with (target / "samples.jsonl").open("w") as file:
        for at in range(SAMPLES):
            changed = {**row, "id": f"q{at}", "question": f"{at:064x}", "prompt": "x" * characters}
            file.write(json.dumps(changed) + "\n")
    return target


@pytest.mark.skipif(sys.platform != "linux", reason="its peak of memory is read from /proc")
def test_memory_does_not_grow_with_the_length_of_prompts(tmp_path):
    one = finished(tmp_path / "one", task("quiz", {"q0": Item(100, "question")}))
    peaks = []
    for characters in (SHORT, LONG):
        run = longer(one, tmp_path / str(characters), characters)
        done = subprocess.run(
            [sys.executable, "-c", COMPARE, str(run), str(run)], check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        peaks.append(int(done.stdout) / 1024)
    assert peaks[1] - peaks[0] < MOST_MIB
