"""The coverage of a process that was killed while it wrote is left out, and all other is put together."""

import pytest

from tests.broken_coverage import drop_broken

coverage = pytest.importorskip("coverage", reason="the environment of vLLM has pytest alone")

PAGE = 4096
LINES = [(-1, 1), *((line, line + 1) for line in range(1, 60)), (60, -1)]


@pytest.fixture
def base(tmp_path):
    whole = coverage.CoverageData(str(tmp_path / ".coverage"), suffix="whole")
    whole.add_arcs({f"/code/{number}.py": LINES for number in range(100)})
    whole.write()
    whole.close()
    return tmp_path / ".coverage"


def files_measured(base):
    """How many files of code were measured, in all files of coverage together."""
    measured = coverage.Coverage(data_file=str(base), config_file=False)
    measured.combine(keep=True)
    return len(measured.get_data().measured_files())


@pytest.mark.parametrize("how", ["cut", "begun", "empty", "no database"])
def test_what_is_broken_is_dropped(base, how):
    data = base.with_name(".coverage.whole").read_bytes()
    broken = {"cut": data[: len(data) // 2], "begun": data[:PAGE], "empty": b"", "no database": b"\xff" * len(data)}
    base.with_name(".coverage.broken").write_bytes(broken[how])
    assert drop_broken(base) == [".coverage.broken"]
    assert files_measured(base) == 100


@pytest.mark.filterwarnings("ignore::coverage.exceptions.CoverageWarning")
def test_a_page_that_was_not_written_does_not_end_the_tests(base):
    data = base.with_name(".coverage.whole").read_bytes()
    raised = 0
    for page in range(1, len(data) // PAGE):
        broken = base.with_name(".coverage.broken")
        broken.write_bytes(data[: page * PAGE] + bytes(PAGE) + data[(page + 1) * PAGE :])
        try:
            files_measured(base)
        except coverage.exceptions.DataError:
            raised += 1
        base.unlink(missing_ok=True)
        drop_broken(base)
        assert files_measured(base) == 100
        base.unlink()
    assert raised, "coverage itself leaves all of them out: drop_broken is not needed any more"
