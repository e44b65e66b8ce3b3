"""Tables with a fault: one message, which names the file, the line and the column, and what to do."""

import json
import re

import pytest

from kshot.core.errors import KshotError
from tests.commands import kshot
from tests.datasets.rows.tables import FLAGS, HEADER, ONE_COLUMN, ROWS, lines, samples

FULL = dict(zip("QABCD", ("a", "1", "2", "3", "4"), strict=True))
PAIR = {"question": "q", "options": ["x", "y"], "answer": "k"}
FREE = {"question": "q", "target": "t"}

FAULTS = {
    "a short row": ("r.csv", HEADER + ROWS + "x,1,2,3,4\n", FLAGS, r"r\.csv:4: .* 6 fields of the header, but 5: nothing is left for column 'key'"),
    "a long row": ("r.csv", HEADER + ROWS + "x,1,2,3,4,A,B\n", FLAGS, r"r\.csv:4: .* but 7: field 7 \('B'\) has no column. Put quotes around"),
    "a comma without quotes": ("r.csv", HEADER + "x, y,1,2,3,4,A\n", FLAGS, r"r\.csv:2: .* but 7"),
    "another delimiter": ("r.csv", HEADER + ROWS + "x;1;2;3;4;A\n", FLAGS, r"r\.csv:4: .*separated by commas, this line perhaps by semicolons"),
    "an unknown column": ("r.csv", HEADER + ROWS, {**FLAGS, "answer": "kez"}, r"r\.csv:1: there is no column 'kez' \(--answer\). Did you mean 'key'\? The columns are 'Q', 'A'"),
    "an unknown option": ("r.csv", HEADER + ROWS, {**FLAGS, "options": ["A", "B", "E"]}, r"r\.csv:1: there is no column 'E' \(--options\)"),
    "another case": ("r.csv", HEADER + ROWS, {**FLAGS, "question": "q"}, r"r\.csv:1: there is no column 'q' .*Did you mean 'Q'\?"),
    "two answers": ("r.csv", HEADER + ROWS + 'x,1,2,3,4,"A,C"\n', FLAGS, r"r\.csv:4, column 'key': the answer is 'A,C', which names 2 options"),
    "a letter too far": ("r.csv", HEADER + ROWS + "x,1,2,3,4,E\n", FLAGS, r"r\.csv:4, column 'key': the answer is 'E', but the options are called A, B, C, D"),
    "the letter of an empty option": ("r.csv", HEADER + ROWS + "x,1,2,3,,D\n", FLAGS, r"r\.csv:4, column 'key': the answer is 'D'"),
    "another letter too far": ("r.csv", "q,x,y,k\na,1,2,A\nb,1,2,B\nc,1,2,D\n", PAIR, r"r\.csv:4, column 'k': the answer is 'D', but there are 2 options: A to B"),
    "an index too high": ("r.csv", "q,x,y,k\na,r,b,0\nb,r,b,2\nc,r,b,1\n", PAIR, r"r\.csv:3, column 'k': the answer is '2', but there are 2 options: 0 to 1"),
    "a number too high": ("r.csv", "q,x,y,k\na,r,b,1\nb,r,b,2\nc,r,b,2\nd,r,b,3\n", PAIR, r"r\.csv:5, column 'k': the answer is '3', but there are 2 options: 1 to 2"),
    "a text that is no option": ("r.csv", "q,x,y,k\na,red,blue,red\nb,red,blue,green\nc,red,blue,blue\n", PAIR, r"r\.csv:3, column 'k': the answer is 'green', but the options are: red; blue"),
    "a text of two options": ("r.csv", "q,x,y,k\na,red,red,red\n", PAIR, r"r\.csv:2, column 'k': the answer is 'red', and several options have this text"),
    "an empty question": ("r.csv", HEADER + ROWS + " ,1,2,3,4,A\n", FLAGS, r"r\.csv:4, column 'Q': the question is empty"),
    "an empty answer": ("r.csv", HEADER + ROWS + "x,1,2,3,4,\n", FLAGS, r"r\.csv:4, column 'key': the answer is empty. Fill in the cell, or take the row out"),
    "an empty option": ("r.csv", HEADER + ROWS + "x,1,,3,4,A\n", FLAGS, r"r\.csv:4, column 'B': this option is empty, and another one follows it"),
    "one option": ("r.csv", HEADER + ROWS + "x,1,,,,A\n", FLAGS, r"r\.csv:4, column 'B': there is one option; a question needs two or more"),
    "an option that is a list": ("r.jsonl", '{"q": "a", "o": ["x", "y"], "k": "A"}\n{"q": "b", "o": [["x"], "y"], "k": "A"}\n', {"question": "q", "options": "o", "answer": "k"}, r"r\.jsonl:2, column 'o': option 1 is a list or an object, not a text"),
    "an option that is an object": ("r.jsonl", '{"q": "a", "x": "1", "y": {"z": 1}, "k": "A"}\n', PAIR, r"r\.jsonl:1, column 'y': option 2 is a list or an object"),
    "an answer that is true": ("r.jsonl", '{"q": "a", "o": ["x", "y"], "k": true}\n', {"question": "q", "options": "o", "answer": "k"}, r"r\.jsonl:1, column 'k': the answer is True, but there are 2 options: A to B"),
    "an empty target": ("r.csv", "q,t\na,x\nb,\n", FREE, r"r\.csv:3, column 't': the target is empty"),
    "an empty row in the middle": ("r.csv", "q,t\na,x\n,\nb,y\n", FREE, r"r\.csv:3, column 'q': the question is empty"),
    "another encoding": ("r.csv", (HEADER + ROWS).encode() + "caf\xe9,1,2,3,4,A\n".encode("latin-1"), FLAGS, r"r\.csv:4: the file is not UTF-8 text \(byte 0xe9 at character 4\). Save it as UTF-8"),
    "UTF-32": ("r.csv", (HEADER + ROWS).encode("utf-32"), FLAGS, r"r\.csv: it is text in UTF-32"),
    "UTF-16": ("r.csv", (HEADER + ROWS).encode("utf-16"), FLAGS, r"r\.csv: it is text in UTF-16"),
    "a binary file": ("r.csv", bytes(range(256)), FLAGS, r"r\.csv:1: it is a binary file, not text: byte 1 of this line is 0"),
    "a workbook": ("r.csv", b"PK\x03\x04" + bytes(100), FLAGS, r"r\.csv: it is a zip archive or an Excel workbook"),
    "a workbook by name": ("r.xlsx", b"PK\x03\x04", FLAGS, r"r\.xlsx: files of type '\.xlsx' cannot be read.*Save a sheet"),
    "a header with a name twice": ("r.csv", HEADER.replace("B", "A") + ROWS, FLAGS, r"r\.csv:1: the header names the column 'A' twice \(columns 2 and 3\)"),
    "values without a name": ("r.csv", "q,t,,\na,x,,\nb,y,,z\n", FREE, r"r\.csv:3: column 4 has no name in the header, and here it holds 'z'"),
    "an empty file": ("r.csv", "", FLAGS, r"r\.csv:1: the file is empty"),
    "a header alone": ("r.csv", HEADER, FLAGS, r"r\.csv:1: below the header there are no rows"),
    "an open quote": ("r.csv", HEADER + ROWS + 'x,"1,2,3,4,A\ny,1,2,3,4,B\n', FLAGS, r"r\.csv:4: this line is not CSV: in the column 'A' a quote is opened and never closed"),
    "text after a quote": ("r.csv", HEADER + 'x,"1\n" b,2,3,4,A\n', FLAGS, r"r\.csv:3: this line is not CSV: in the column 'A' text follows the closing quote: ' b,2,3,4,A'"),
    "a line that is no JSON": ("r.jsonl", lines(FULL) + '{"Q": \n', FLAGS, r"r\.jsonl:2: this line is not JSON: Expecting value \(character 7\)"),
    "a row that is a list": ("r.jsonl", '["a"]\n', FLAGS, r"r\.jsonl:1: a row must be an object"),
    "null": ("r.jsonl", lines({**FULL, "key": "A"}, {**FULL, "Q": None, "key": "A"}), FLAGS, r"r\.jsonl:2, column 'Q': the question is empty"),
    "a row without the answer": ("r.jsonl", lines({**FULL, "key": "A"}, FULL), FLAGS, r"r\.jsonl:2, column 'key': the answer is empty"),
    "a row of a JSON list": ("r.json", json.dumps([{"q": "a", "o": ["x", "y"], "k": 0}, {"q": "b", "o": ["x", "y"], "k": 2}], indent=2), ONE_COLUMN, r"r\.json:10, column 'k': the answer is 2"),
    "no list": ("r.json", "5", FLAGS, r"r\.json: the file must hold a list of rows"),
    "an empty list": ("r.json", "[]", FLAGS, r"r\.json: there are no rows"),
    "one text in a cell of options": ("r.csv", "q,o,k\na,x|y,A\nb,xy,A\n", ONE_COLUMN, r"r\.csv:3, column 'o': the options are one text \('xy'\): in other rows, options are separated by '\|'"),
    "no separator": ("r.csv", "q,o,k\na,xx,A\n", ONE_COLUMN, r"r\.csv:2, column 'o': the options are one text .*Write a JSON list"),
    "an empty option in a list": ("r.jsonl", lines({"q": "a", "o": ["x", ""], "k": 0}), ONE_COLUMN, r"r\.jsonl:1, column 'o': option 2 is empty"),
    "labels that do not fit": ("r.jsonl", lines({"q": "a", "o": {"text": ["x", "y"], "label": ["A"]}, "k": "A"}), ONE_COLUMN, r"r\.jsonl:1, column 'o': there are 2 options and 1 labels"),
    "a JSON list with a fault": ("r.csv", 'q,o,k\na,"[1,2",A\n', ONE_COLUMN, r"r\.csv:2, column 'o': the options are one text \('\[1,2'\)"),
    "code in place of a list": ("r.csv", 'q,o,k\na,"[f(\'x\'), 1]",A\n', ONE_COLUMN, r"r\.csv:2, column 'o': the options are one text"),
    "a number beyond all": ("r.jsonl", lines({"q": "a", "o": ["x", "y"], "k": 10**400}), ONE_COLUMN, r"r\.jsonl:1, column 'k': the answer is 1000"),
    "labels that are null": ("r.jsonl", lines({"q": "a", "o": {"text": ["x", "y"], "label": None}, "k": "E"}), ONE_COLUMN, r"r\.jsonl:1, column 'k': the answer is 'E'"),
    "an object as question": ("r.jsonl", lines({"q": {"a": 1}, "t": "x"}), {"question": "q", "target": "t"}, r"r\.jsonl:1, column 'q': the question is an object"),
    "a list as question": ("r.jsonl", lines({"q": ["a"], "t": "x"}), {"question": "q", "target": "t"}, r"r\.jsonl:1, column 'q': the question is a list"),
    "the question as target": ("r.csv", "q,t\na,b\n", {"question": "q", "target": "q"}, "the column 'q' cannot be both the question and the target"),
    "the question as answer": ("r.csv", HEADER + ROWS, {**FLAGS, "question": "key"}, "the column 'key' cannot be both the question and the answer"),
    "an object as target": ("r.jsonl", lines({"q": "a", "t": {"x": 1}}), FREE, r"r\.jsonl:1, column 't': the target is an object"),
    "no flags": ("r.csv", HEADER + ROWS, {}, r"r\.csv:1: no flag says .*Perhaps: --question Q --options A,B,C,D --answer key\."),
    "no answer": ("r.csv", HEADER + ROWS, {**FLAGS, "answer": None}, r"r\.csv:1: no flag says which column names the right option \(--answer\)"),
    "no options": ("r.csv", HEADER + ROWS, {**FLAGS, "options": None}, r"r\.csv:1: no flag says which columns hold the options \(--options\)"),
    "no question": ("r.csv", HEADER + ROWS, {**FLAGS, "question": None}, r"r\.csv:1: no flag says which column holds the question \(--question\)"),
    "a target and options": ("r.csv", HEADER + ROWS, {**FLAGS, "target": "A"}, "--target and --options cannot be used together"),
    "a form without an answer": ("r.csv", "q,t\na,b\n", {**FREE, "answer_as": "text"}, "--target and --answer-as cannot be used together"),
    "an option twice": ("r.csv", HEADER + ROWS, {**FLAGS, "options": ["A", "A"]}, "--options names the column 'A' twice"),
    "the answer among the options": ("r.csv", HEADER + ROWS, {**FLAGS, "answer": "A"}, "the column 'A' cannot be an option, too"),
    "an instruction without a column": ("r.csv", HEADER + ROWS, {**FLAGS, "instruction": "Answer."}, r"--instruction shows nothing of a row. Write the names of columns in braces \(Q, A"),
    "an instruction with another column": ("r.csv", HEADER + ROWS, {**FLAGS, "instruction": "{{ Quest }}"}, "--instruction shows 'Quest', and there is no such column"),
    "an instruction that cannot be read": ("r.csv", HEADER + ROWS, {**FLAGS, "instruction": "{{ Q"}, "the template cannot be read"),
    "its own example": ("r.csv", "q,t\na,b\n", {**FREE, "num_shots": 1}, "Its only row would be its own example"),
    "a missing file of examples": ("r.csv", "q,t\na,b\n", {**FREE, "num_shots": 1, "example_set": "no.csv"}, r"no\.csv: there is no such file"),
    "a metric of texts": ("r.csv", HEADER + ROWS, {**FLAGS, "metric": "f1"}, "--metric F1 compares texts"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_with_its_place(name, tmp_path):
    file, content, flags, message = FAULTS[name]
    (tmp_path / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(KshotError) as caught:
        samples(tmp_path / file, **flags)
    assert re.search(message, str(caught.value)), caught.value
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_what_is_near_it(tmp_path):
    (tmp_path / "rows.csv").write_text(HEADER + ROWS)
    with pytest.raises(KshotError, match=r"row\.csv: there is no such file or folder. Did you mean '.*rows\.csv'\?"):
        samples(tmp_path / "row.csv", **FLAGS)


@pytest.mark.parametrize("target", ["r.csv", "gone.csv"])
def test_a_link_that_leads_nowhere(tmp_path, target, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.csv").symlink_to(target)
    with pytest.raises(KshotError, match=r"^r\.csv: this is a link that leads to no file"):
        samples("r.csv", **FLAGS)


def test_a_header_of_many_columns_takes_no_quadratic_time(tmp_path):
    names = [f"c{number}" for number in range(100_000)]
    (tmp_path / "r.csv").write_text(",".join(names) + "\n" + ",".join(names) + "\n")
    (found,) = samples(tmp_path / "r.csv", question="c0", target="c99999")
    assert "c99999" in str(found.target)


def test_other_faults_are_counted(tmp_path):
    (tmp_path / "r.csv").write_text(HEADER + ",1,2,3,4,A\n" + ROWS + "x,1,2,3,4,\n,1,2,3,4,A\n")
    with pytest.raises(KshotError, match=r"r\.csv:2.*2 more rows have faults; kshot check"):
        samples(tmp_path / "r.csv", **FLAGS)


FLAG_WORDS = ("--question", "Q", "--options", "A,B,C,D", "--answer", "key")


@pytest.mark.parametrize("command", ["run", "preview"])
def test_a_fault_on_the_command_line(command, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.csv").write_text(HEADER + ROWS + "x,1,2,3,4,E\n")
    model = ("-m", "embedded") if command == "run" else ()
    done = kshot(capsys, command, *model, "-d", "r.csv", *FLAG_WORDS)
    assert done.code == 2
    assert done.err.startswith("kshot: r.csv:4, column 'key': the answer is 'E'")
    assert not done.out
    assert not (tmp_path / "runs").exists()


def test_check_lists_every_faulty_row(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.csv").write_text(HEADER + ",1,2,3,4,A\n" + ROWS + "x,1,2,3,4,\n")
    done = kshot(capsys, "check", "r.csv", *FLAG_WORDS)
    assert done.code == 1
    assert "4 rows; right: A 1 D 1" in done.out
    assert "r.csv:2, column 'Q': the question is empty" in done.out
    assert "r.csv:5, column 'key': the answer is empty" in done.out
    (tmp_path / "r.csv").write_text(HEADER + ROWS)
    done = kshot(capsys, "check", "r.csv", *FLAG_WORDS, "--json")
    assert (done.code, json.loads(done.out)["missing"]) == (0, [])
    done = kshot(capsys, "check", "r.csv", "--question", "Q", "--target", "A", "--metric", "em")
    assert (done.code, "2 rows" in done.out, "EM" in done.out) == (0, True, True)
    done = kshot(capsys, "check", "r.csv", "--question", "Q", "--target", "A", "--metric", "em,passatk")
    assert (done.code, "r: evaluation: pass@1 runs replies as programs and needs tests" in done.out) == (1, True)
    done = kshot(capsys, "check", "none.csv", *FLAG_WORDS)
    assert (done.code, "none.csv: there is no such file" in done.err) == (1, True)
