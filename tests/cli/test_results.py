"""The figures of a run on the screen."""

import pytest

from kshot.cli.results import show_result
from kshot.result import Result


@pytest.mark.parametrize(("tasks", "told"), [(0, 0), (3, 3), (57, 4)])
def test_the_failures_of_many_tasks_are_counted(tasks, told, capsys, tmp_path):
    failures = [f"big:{number} on m: 1 failed (timeout: late)" for number in range(tasks)]
    show_result(Result([], [], tmp_path / "my run", failures), as_json=False)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == told
    if tasks > told:
        assert lines[-1] == (
            f"kshot: … and failures in 54 more tasks; kshot samples '{tmp_path}/my run' --failed shows them"
        )
