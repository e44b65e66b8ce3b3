"""Files of runs are not replaced by what other commands write."""

import pytest

from kshot.core.errors import UsageError
from kshot.runs.run_state import spare_runs


@pytest.fixture
def folders(tmp_path):
    (tmp_path / "run" / "sub").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "run" / "journal.jsonl").write_text("")
    (tmp_path / "link").symlink_to("run")
    return tmp_path


@pytest.mark.parametrize(
    "name", ["spec.json", "journal.jsonl", "samples.jsonl", "summary.json", "progress.json", "samples.sqlite"]
)
@pytest.mark.parametrize("folder", ["run", "link", "run/../run", "run/sub/..", "link/sub/..", "./other/../link"])
def test_a_file_of_a_run_is_refused_however_it_is_written(folders, folder, name, monkeypatch):
    monkeypatch.chdir(folders)
    for out in (folders / folder / name, folders / folder / name.upper()):
        with pytest.raises(UsageError, match="a file of a run"):
            spare_runs(out)
    with pytest.raises(UsageError, match="a file of a run"):
        spare_runs(type(folders)(folder) / name)


@pytest.mark.parametrize("path", ["run/table.csv", "other/spec.json", "new/summary.json", "link", "run/sub/spec.json"])
def test_other_files_are_not(folders, path):
    spare_runs(folders / path)


def test_a_folder_of_links_that_lead_in_a_circle_has_no_run(folders):
    (folders / "a").symlink_to("b")
    (folders / "b").symlink_to("a")
    spare_runs(folders / "a" / "spec.json")
