"""The journal: whole or absent records, torn lines, locks, full disks."""

import json
import re
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from kshot.core.errors import RunError
from kshot.core.records import Failed, Generated, Hit, Likelihood, Ranking, Scored, Usage
from kshot.runs import Journal
from kshot.runs.folder import RunFolder, stored_answers

RESPONSES = {
    "00" * 16: Generated("héllo\n\ud800 wörld", "length", Usage(3, 4)),
    "a1" * 16: Scored((Likelihood(-1.25, 2), Likelihood(-float("inf"), 1))),
    "b2" * 16: Ranking((Hit("d1", 0.5, "text"), Hit("d2", 0.25))),
    "c3" * 16: Generated(""),
    "e7" * 16: Generated("x", "window", reasoning="hm", cut_tokens=7),
    "f6" * 16: Scored((Likelihood(-1.0, 2, greedy=True), Likelihood(-1.0, 1, greedy=False)), cut_tokens=3),
}


def filled(path, responses=RESPONSES):
    journal = Journal(path)
    for key, response in responses.items():
        journal.put(key, f"asked-{key[:4]}", response)
    journal.close()
    return path


def test_every_response_comes_back_equal(tmp_path):
    journal = Journal(filled(tmp_path / "journal.jsonl"))
    assert {key: journal.get(key) for key in RESPONSES} == RESPONSES
    assert journal.get("ff" * 16) is None
    assert len(journal) == len(RESPONSES)


def test_a_journal_of_before_does_not_say_what_is_greedy(tmp_path):
    line = {"key": "0a" * 16, "asked": "0b" * 16, "response": {"scored": [[-1.5, 2], [-2.0, 1]]}}
    (tmp_path / "journal.jsonl").write_text(json.dumps(line) + "\n")
    stored = Journal(tmp_path / "journal.jsonl").get("0a" * 16)
    assert stored == Scored((Likelihood(-1.5, 2), Likelihood(-2.0, 1)))
    assert [each.greedy for each in stored.likelihoods] == [None, None]


def newer(data):
    """The lines as a later version might write them: another format, and checksums by other rules."""
    return data.replace(b'"v":2,"sum":"', b'"v":3,"sum":"')


def test_a_journal_of_a_newer_version_is_refused(tmp_path):
    path = filled(tmp_path / "journal.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    written = lines[0] + newer(lines[1]).replace(b'"sum":"', b'"sum":"0')[:-4] + b'"}\n'
    path.write_bytes(written)
    with pytest.raises(
        RunError, match=r"journal\.jsonl:2: a newer version of kshot wrote this \(format 3; this version"
    ):
        Journal(path)
    assert path.read_bytes() == written


def test_a_damaged_format_number_is_damage(tmp_path):
    path = filled(tmp_path / "journal.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + newer(lines[1]) + b"".join(lines[2:]))
    with closing(Journal(path)) as journal:
        assert len(journal) == len(RESPONSES) - 1
        assert "1 line is damaged (2 at byte" in journal.notes[0]


def test_a_key_that_only_begins_alike_is_not_mistaken(tmp_path):
    journal = Journal(filled(tmp_path / "journal.jsonl"))
    assert journal.get("00" * 8 + "11" * 8) is None


def test_failures_are_written_but_asked_again(tmp_path):
    path = filled(tmp_path / "journal.jsonl", {"d4" * 16: Failed("timeout", "slow", retryable=True)})
    assert "timeout" in path.read_text()
    assert Journal(path).get("d4" * 16) is None
    stored = Journal(path, read_only=True, use_failures=True).get("d4" * 16)
    assert stored == Failed("timeout", "slow", retryable=True)


def test_a_later_answer_replaces_an_earlier_failure(tmp_path):
    key = "d4" * 16
    path = filled(tmp_path / "journal.jsonl", {key: Failed("timeout", "slow")})
    filled(path, {key: Generated("now")})
    assert Journal(path, read_only=True, use_failures=True).get(key) == Generated("now")


def test_a_torn_last_line_is_cut_wherever_it_broke_and_the_next_record_is_whole(tmp_path):
    whole = filled(tmp_path / "whole.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    before = b"".join(lines[:-1])
    for cut in range(len(before), len(whole) - 1):  # a line that lacks only its end is whole
        path = tmp_path / f"torn-{cut}.jsonl"
        path.write_bytes(whole[:cut])
        journal = Journal(path)
        assert len(journal) == len(RESPONSES) - 1
        journal.put("e5" * 16, "asked", Generated("next"))
        journal.close()
        again = Journal(path)
        assert again.get("e5" * 16) == Generated("next")
        assert len(again) == len(RESPONSES)
        again.close()
        assert path.read_bytes().startswith(before)


def test_reading_another_runs_torn_journal_changes_nothing(tmp_path):
    path = filled(tmp_path / "journal.jsonl")
    path.write_bytes(path.read_bytes()[:-5])
    before = path.read_bytes()
    assert len(Journal(path, read_only=True)) == len(RESPONSES) - 1
    assert path.read_bytes() == before


def test_a_damaged_line_in_the_middle_is_named_and_moved_aside(tmp_path):
    path = filled(tmp_path / "journal.jsonl")
    lines = path.read_text().splitlines()
    lines[1], torn = lines[1][:20], lines[1][:20]
    start = len(lines[0]) + 1
    path.write_text("\n".join(lines) + "\n")
    with closing(Journal(path)) as journal:
        assert journal.notes == [
            f"{path}: 1 line is damaged (2 at byte {start}); what it answered is asked again",
        ]
        assert {key: journal.get(key) for key in RESPONSES} == {**RESPONSES, "a1" * 16: None}
        journal.put("a1" * 16, "asked-a1a1", RESPONSES["a1" * 16])
    assert (tmp_path / "journal.damaged").read_text() == torn + "\n"
    with closing(Journal(path)) as journal:
        assert journal.notes == []
        assert {key: journal.get(key) for key in RESPONSES} == RESPONSES
    assert sorted(each.name for each in tmp_path.iterdir()) == ["journal.damaged", "journal.jsonl"]


@pytest.mark.parametrize(
    "line",
    [
        *('{"key": 3, "response": {}}', "[]", '{"key": "zz", "response": {}}', '{"response": {}}', "3", "null", '"x"'),
        '{"key": "' + "0a" * 16 + '", "asked": 3, "response": {"text": "x"}}',
        "[" * 100_000,
        "\0" * 4096,
    ],
)
def test_lines_that_are_no_record_are_named(tmp_path, line):
    path = tmp_path / "journal.jsonl"
    path.write_text(line + "\n")
    with closing(Journal(path)) as journal:
        assert len(journal) == 0
        assert "1 line is damaged (1 at byte 0)" in journal.notes[0]


def test_only_some_damaged_lines_are_named(tmp_path):
    path = filled(tmp_path / "journal.jsonl")
    path.write_text("garbage\n" * 1000 + path.read_text())
    with closing(Journal(path, read_only=True)) as journal:
        assert journal.notes[0].endswith(
            "1,000 lines are damaged (1 at byte 0, 2 at byte 8, 3 at byte 16, 4 at byte 24, 5 at byte 32, …); "
            "they are not used"
        )
        assert len(journal) == len(RESPONSES)


def test_two_processes_cannot_write_one_journal(tmp_path):
    held = Journal(tmp_path / "journal.jsonl")
    with pytest.raises(RunError, match="another process is working in this run folder"):
        Journal(tmp_path / "journal.jsonl")
    held.close()
    Journal(tmp_path / "journal.jsonl").close()


FULL = """
import resource, sys
from pathlib import Path
from kshot.core.errors import RunError
from kshot.core.records import Generated
from kshot.runs.journal import Journal

resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))  # the file system takes no more, as a full disk does
journal = Journal(Path(sys.argv[1]))
number = 0
try:
    while True:
        journal.put(f"{number:02x}" * 16, "asked", Generated("x"))
        number += 1
except RunError as exc:
    print(number, exc)
"""


def test_a_full_disk_is_a_clear_error_and_loses_nothing(tmp_path):
    pytest.importorskip("resource", reason="this system has no limits on file sizes")
    path = tmp_path / "journal.jsonl"
    done = subprocess.run([sys.executable, "-c", FULL, path], capture_output=True, text=True, check=True)
    written, _, message = done.stdout.partition(" ")
    assert re.search(r"only part of a record|File too large\. Free some space", message)
    with closing(Journal(path)) as journal:
        assert all(journal.get(f"{number:02x}" * 16) == Generated("x") for number in range(int(written)))
        assert len(journal) == int(written) > 10
        journal.put("ff" * 16, "asked", Generated("y"))
        assert journal.get("ff" * 16) == Generated("y")


def test_an_unreadable_place_is_a_clear_error(tmp_path):
    with pytest.raises(RunError, match="the journal cannot be read or written"):
        Journal(tmp_path)


def test_long_records_are_read_whole(tmp_path):
    long = Generated("x" * 300_000)
    journal = Journal(filled(tmp_path / "journal.jsonl", {"aa" * 16: long, "bb" * 16: Generated("y")}))
    assert journal.get("aa" * 16) == long
    assert journal.get("bb" * 16) == Generated("y")


@settings(max_examples=30)
@given(st.dictionaries(st.binary(min_size=16, max_size=16), st.text(), max_size=60))
def test_any_texts_under_any_keys(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    responses = {key.hex(): Generated(text) for key, text in texts.items()}
    filled(path, responses)
    journal = Journal(path)
    assert {key: journal.get(key) for key in responses} == responses
    assert all(json.loads(line)["key"] in responses for line in path.read_text().splitlines())
    journal.close()


def open_files(path):
    """The descriptors of this process that are open on files of a folder."""
    links = Path("/proc/self/fd")
    if not links.is_dir():
        pytest.skip("open files are listed on Linux alone")
    targets = []
    for link in links.iterdir():
        with suppress(OSError):  # the listing itself is closed by now
            targets.append(str(link.readlink()))
    return [target for target in targets if target.startswith(str(path))]


def test_a_journal_that_cannot_be_read_is_not_left_open_or_locked(tmp_path):
    path = tmp_path / "journal.jsonl"
    path.write_bytes(newer(filled(path).read_bytes()).replace(b'"sum":', b'"digest":'))
    for read_only in (False, True):
        with pytest.raises(RunError, match="newer version") as held:  # the traceback keeps what failed alive
            Journal(path, read_only=read_only)
        assert open_files(tmp_path) == []
        assert held.traceback
    path.write_text("")
    Journal(path).close()


def test_a_folder_that_cannot_be_opened_is_not_left_open_or_locked(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunError, match="there is no journal to reuse") as held:
        RunFolder(tmp_path / "run", {}, reuse=tmp_path / "empty")
    assert open_files(tmp_path) == []
    assert held.traceback
    with RunFolder(tmp_path / "run", {}):
        assert len(open_files(tmp_path)) == 1
    assert open_files(tmp_path) == []


def test_stored_responses_are_closed(tmp_path):
    filled(tmp_path / "journal.jsonl")
    with closing(stored_answers(tmp_path)) as stored:
        assert stored.get("c3" * 16) == Generated("")
        assert len(open_files(tmp_path)) == 1
    assert open_files(tmp_path) == []
