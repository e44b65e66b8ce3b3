import json

import pytest

from kshot.core.errors import DataError
from kshot.lookup.generate import completions, generate, parts, read, write
from kshot.lookup.prompt_writer import fill


def test_reads_what_generate_writes(tmp_path):
    path = write(tmp_path, "unique", 12, 5, 3)
    assert read(path) == read(str(path), "UL") == generate("unique", 12, 5, 3)


def test_parts_with_and_without_bar():
    assert parts("abcb|b") == parts("abcbb") == ("abcb", "b")


def edited(**changes):
    return {**generate("unique", 8, 1, 1)[0], **changes}


@pytest.mark.parametrize(
    ("line", "task", "words"),
    [
        ("{", None, "not JSON"),
        ("[]", None, "not a JSON object"),
        ("{}", None, "input_no_space"),
        (json.dumps(edited(UL="?")), None, "contradicts"),
        (json.dumps(edited(UL=7)), None, "contradicts"),
        (json.dumps(edited(input_with_space="ab|c")), None, "differ"),
        (json.dumps(generate("nonunique", 8, 1, 1)[0]), "UL", "unique records"),
        (json.dumps(generate("unique", 8, 1, 1)[0]), "NLLast", "nonunique records"),
        (json.dumps({k: v for k, v in edited().items() if k != "UL"}), "UL", "no answer for UL"),
        (json.dumps({k: v for k, v in edited().items() if not k.startswith("U")}), None, "at least one task"),
    ],
)
def test_broken_lines_are_named(tmp_path, line, task, words):
    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps(generate("unique", 8, 1, 1)[0]) + "\n\n" + line + "\n")
    with pytest.raises(DataError, match=words) as caught:
        read(path, task)
    if task != "NLLast":
        assert "data.jsonl, line 3" in str(caught.value)


def test_missing_file_and_foreign_values(tmp_path):
    with pytest.raises(DataError, match="nowhere"):
        read(tmp_path / "nowhere.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(DataError, match=r"empty\.jsonl: the file holds no records"):
        read(tmp_path / "empty.jsonl")
    with pytest.raises(DataError, match="record 0"):
        read(["text"])


def test_recorded_completions_are_checked():
    good = {"input": "abcd|b", "target": "a", "full_output": "a", "task": "UL"}
    assert completions([good]) == [good]
    for change, words in (({"target": "c"}, "contradicts"), ({"task": "NLLast"}, "nonunique"), ({"input": 1}, "input")):
        with pytest.raises(DataError, match=words):
            completions([{**good, **change}])


def test_a_completion_of_an_unknown_task_is_named_with_its_line(tmp_path):
    row = {"input": "abc|b", "target": "a", "full_output": "x", "task": "UX"}
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    with pytest.raises(DataError, match=r"a\.jsonl, line 1: there is no lookup task 'UX'"):
        completions(tmp_path / "a.jsonl")


@pytest.mark.parametrize("template", ["{q.x}", "{q:>99999999999}", "{q.__class__}", "{q[x]}"])
def test_a_template_that_cannot_be_filled_in_is_refused(template):
    with pytest.raises(DataError, match="cannot be filled in"):
        fill(template, q="a")
