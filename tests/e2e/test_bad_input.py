"""Every kind of bad input: one message that names the place and the remedy, exit code 2, no traceback."""

import json
import os
import re
from pathlib import Path

import pytest

from tests.commands import CAPITALS, kshot

BACKEND = """
from kshot.core.records import Failed, Generate, Generated
class Echo:
    name = fingerprint = "echo"
    answers = (Generate,)
    def serve(self, waiting):
        for request in waiting:
            yield request, Generated("Paris")
class Half(Echo):
    serve = None
class Needs(Echo):
    def __init__(self, key): pass
"""

CLASS = """
from kshot import Em, GenerationDataset, MultipleChoiceDataset
class Mine(MultipleChoiceDataset):
    instruction = {instruction!r}
    evaluation_set = "test"
    rows = {rows!r}
    def load_raw_dataset(self, *where):
        self.evaluation_data = self.rows
    def format_instance(self, row):
        return {body}
    {more}
"""
GOOD_ROWS = [{"q": "one", "o": ["a", "b"], "t": 0}, {"q": "two", "o": ["a", "b"], "t": 1}]
GOOD_BODY = 'dict(q=row["q"], options=row["o"], target_idx=row["t"])'


def written(rows=GOOD_ROWS, body=GOOD_BODY, instruction="{q}", more="pass"):
    return CLASS.format(rows=rows, body=body, instruction=instruction, more=more)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("echo.py").write_text(BACKEND)
    Path("capitals.py").write_text(CAPITALS)
    Path("good.py").write_text(written())
    return tmp_path


def refused(capsys, *arguments, match):
    done = kshot(capsys, *arguments)
    assert done.code == 2, done
    lines = [line for line in done.err.splitlines() if line.startswith("kshot: ")]
    assert len(lines) >= 1, done.err
    assert re.search(match, lines[-1]), lines[-1]
    assert "Traceback" not in done.err + done.out
    return lines[-1]


def run(capsys, dataset, *more, match, model="echo.py:Echo"):
    return refused(capsys, "run", "-m", model, "-d", dataset, "--out", "run", *more, match=match)


ROWS = {
    "missing key in format_instance": (
        dict(rows=[GOOD_ROWS[0], {"q": "x", "t": 0}]),
        r"dataset mine, row 1: format_instance wants 'o'; the row has: q, t",
    ),
    "format_instance raises": (dict(body="1 / 0"), r"row 0: format_instance fails: ZeroDivisionError"),
    "format_instance returns no dict": (dict(body='["a"]'), r"row 0: format_instance returned list, not a dict"),
    "no options": (dict(body='dict(q="x", target_idx=0)'), r"row 0: format_instance gave no options"),
    "options are text": (dict(body='dict(q="x", options="ab", target_idx=0)'), r"row 0: options must be a list of texts, not str"),
    "empty list of options": (dict(body='dict(q="x", options=[], target_idx=0)'), r"row 0: the list of options is empty"),
    "an empty option": (dict(body='dict(q="x", options=["a", " "], target_idx=0)'), r"row 0: option 1 is empty"),
    "target out of range": (dict(body='dict(q="x", options=["a", "b"], target_idx=2)'), r"row 0: the target is 2, but there are 2 options"),
    "negative target": (dict(body='dict(q="x", options=["a", "b"], target_idx=-1)'), r"row 0: the target is -1"),
    "target is no index": (dict(body='dict(q="x", options=["a", "b"], target_idx="B")'), r"row 0: target_idx is 'B'; it must be the index"),
    "no target": (dict(body='dict(q="x", options=["a", "b"])'), r"row 0: there is no target_idx, label or matching target"),
    "duplicate ids": (dict(rows=[{**GOOD_ROWS[0], "id": 7}, {**GOOD_ROWS[1], "id": 7}]), r"dataset mine: two samples have the id '7'.*id_column"),
    "no rows": (dict(rows=[]), r"dataset mine: there are no rows to evaluate"),
    "bad jinja": (dict(instruction="{% if q %}{{ q }}"), r"dataset mine: the template cannot be read: .*line 1"),
    "bad format string": (dict(instruction="{q"), r"dataset mine: the template cannot be read.*brace"),
    "unknown field": (dict(instruction="{question}"), r"sample 0: the template wants 'question', which is not among"),
    "jinja reaches out": (dict(instruction="{{ q.__class__.__mro__ }}{{ ''.__class__.__subclasses__() }}"), r"dataset mine.*not allowed"),
    "jinja type error": (dict(instruction="{{ q + 1 }}"), r"sample 0: the template fails: TypeError"),
    "references of another length": (dict(more="references = [1]"), r"references has 1 entries for 2 rows"),
    "unusable model arguments": (dict(more="extra_model_args = dict(temprature=1)"), r"extra_model_args has 'temprature', which generation cannot use.*max_tokens"),
    "category column missing": (dict(more="category_column = 'kind'"), r"row 0: the row has no category column 'kind'"),
    "no instruction": (dict(instruction=None), r"dataset mine: it has no instruction.*--instruction"),
    "post_processing loses answers": (dict(more="post_processing = lambda self, p: p[:1]"), r"post_processing returned 1 answers for 2 rows"),
    "post_processing raises": (dict(more="post_processing = lambda self, p: p[9]"), r"post_processing fails: IndexError"),
    "no examples": (dict(), r"dataset mine: it has no examples to show \(3 wanted\)"),
    "unsupported cot": (dict(more="supported_cot = ['base', 'pal']"), r"--cot 'least' is not supported. Supported: base, pal"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ROWS)
def test_datasets(kind, here, capsys):
    changes, match = ROWS[kind]
    Path("bad.py").write_text(written(**changes))
    more = {"no examples": ["-k", "3"], "unsupported cot": ["--cot", "least"]}.get(kind, [])
    run(capsys, "bad.py:Mine", "--ranking-type", "generation", *more, match=match)


def test_perplexity_cannot_use_generation_arguments(here, capsys):
    Path("bad.py").write_text(written(more="extra_model_args = dict(temperature=0)"))
    run(
        capsys,
        "bad.py:Mine",
        match=r"extra_model_args has temperature, which ppl_no_option cannot use. Only generation can use them",
    )


FILES = {
    "broken JSON line": ("rows.jsonl", '{"q": 1}\n{"q": \n', r"rows\.jsonl:2: this line is not JSON"),
    "broken JSON": ("rows.json", "[{]", r"rows\.json:1: this is not JSON"),
    "a row that is no object": ("rows.jsonl", "[1, 2]\n", r"rows\.jsonl:1: a row must be an object"),
    "short CSV row": ("rows.csv", "q,a\n1,2\n3\n", r"rows\.csv:3: this row does not have the 2 fields"),
    "not UTF-8": ("rows.jsonl", b'{"q": "\xff\xfe"}\n', r"rows\.jsonl:1: the file is not UTF-8"),
    "no parquet": ("rows.parquet", "hello", r"rows\.parquet: this parquet file cannot be read"),
    "unknown type": ("rows.xml", "<a/>", r"rows\.xml: files of type '\.xml' cannot be read.*\.jsonl"),
}


@pytest.mark.parametrize("kind", FILES)
def test_files(kind, here, capsys):
    name, text, match = FILES[kind]
    Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())
    run(capsys, "boolq", "--dataset-path", name, match=match)


def test_a_missing_file_and_an_unreadable_one(here, capsys):
    run(capsys, "boolq", "--dataset-path", "nowhere.jsonl", match=r"nowhere\.jsonl: there is no such file or folder")
    Path("folder.jsonl").mkdir()
    run(
        capsys,
        "boolq",
        "--dataset-path",
        "folder.jsonl",
        match=r"folder\.jsonl: there is no file for split 'validation'",
    )


def test_names(here, capsys):
    run(capsys, "bolq", match=r"there is no dataset 'bolq'. Did you mean 'boolq'\?")
    run(capsys, "mmlu:[stm]", match=r"there is no category 'stm' in mmlu. Categories: stem")
    run(capsys, "nowhere.py:Mine", match=r"nowhere\.py: there is no such file")
    run(capsys, "good.py:Other", match=r"good\.py: there is no dataset 'Other' in this file. It has: Mine")
    run(
        capsys, "capitals.py", match=r"capitals\.py:\d+: kshot\.Em"
    )  # a file without a class is a config, and never imported
    Path("bad.py").write_text("def (:\n")
    run(capsys, "bad.py:Mine", match=r"bad\.py:1: this is not Python")
    Path("bad.py").write_text("x = 1\nimport nothing_like_this\n")
    run(capsys, "bad.py:Mine", match=r"bad\.py:2: the file cannot be imported: ModuleNotFoundError")


def test_models(here, capsys, tiny_llama):
    ok = "good.py:Mine"
    run(
        capsys, ok, model="gpt2", match=r"there is no model 'gpt2'. See kshot list models and kshot list search-engines"
    )
    run(capsys, ok, model="opena:m", match=r"there is no model 'opena:m'. Did you mean openai:MODEL\?")
    run(capsys, ok, model="bm52", match=r"there is no model 'bm52'. Did you mean bm25\?")
    run(capsys, ok, model="hf:./nowhere", match=r"\./nowhere: there is no such folder")
    run(capsys, ok, model=f"hf:{here}", match=re.escape(str(here)))
    run(
        capsys,
        ok,
        model="replay:nowhere.jsonl",
        match=r"replay:nowhere\.jsonl: the recording cannot be read: No such file",
    )
    run(capsys, ok, "--ranking-type", "generation", model="echo.py:Half", match=r"it has no serve")
    run(capsys, ok, model="echo.py:Needs", match=r"echo\.py:Needs: it needs the option 'key'")
    run(capsys, ok, match=r"echo\.py:Echo: it cannot answer Loglik requests, only Generate. Ask by generation instead")
    Path("recorded.jsonl").write_text('{"prompt": "x"}\n')
    run(capsys, ok, model="replay:recorded.jsonl", match=r"recorded\.jsonl:1: this line is not a recorded answer")
    Path("recorded.jsonl").write_text('{"prompt": "x", "response": "y"}\noops\n')
    run(capsys, ok, model="replay:recorded.jsonl", match=r"recorded\.jsonl:2: this line is not JSON")
    run(capsys, ok, "--dtype", "float12", model=f"hf:{tiny_llama}", match=r"float12")
    run(
        capsys,
        ok,
        "--chat-template",
        "nowhere.jinja",
        model=f"hf:{tiny_llama}",
        match=r"nowhere\.jinja: the chat template cannot be read",
    )
    run(capsys, ok, "--model-type", "chat", model=f"hf:{tiny_llama}", match=r"chat template")


def test_nan_weights(here, capsys, tiny_llama):
    import shutil

    from safetensors.torch import load_file, save_file

    shutil.copytree(tiny_llama, "nan")
    weights = load_file("nan/model.safetensors")
    save_file({k: v * float("nan") for k, v in weights.items()}, "nan/model.safetensors", metadata={"format": "pt"})
    line = run(capsys, "good.py:Mine", model="hf:nan", match="NaN")
    assert "hf:nan" in line


OPTIONS = {
    "nothing to preview": (["preview"], "there is nothing to preview. Name a config file"),
    "unknown command": (["walk"], "invalid choice: 'walk'"),
    "unknown option": (["run", "-m", "x", "-d", "y", "--shoots", "3"], "unrecognized arguments: --shoots"),
    "not a number": (["run", "-m", "x", "-d", "y", "-k", "many"], "argument -k/--num-shots: invalid int value"),
    "negative shots": (["run", "-m", "x", "-d", "y", "-k", "-1"], "--num-shots is -1; it must be 0 or more"),
    "zero limit": (["run", "-m", "x", "-d", "y", "--limit", "0"], "--limit is 0; it must be 1 or more"),
    "unknown ranking": (
        ["run", "-m", "x", "-d", "y", "--ranking-type", "best"],
        "--ranking-type is 'best'; it must be",
    ),
    "top-p": (["run", "-m", "x", "-d", "y", "--top-p", "1.5"], "--top-p is 1.5"),
    "pass@0": (["run", "-m", "x", "-d", "y", "--pass-at-k", "0"], "--pass-at-k is 0; it must be 1 or more"),
    "no run to score": (["score", "nowhere"], "nowhere: this is not a run folder"),
}


@pytest.mark.parametrize("kind", OPTIONS)
def test_options(kind, here, capsys):
    arguments, match = OPTIONS[kind]
    refused(capsys, *arguments, match=match)


def test_pass_at_k(here, capsys):
    run(capsys, "capitals.py:Cities", "--pass-at-k", "3", match=r"--pass-at-k needs a dataset with the metric PassAtK")


def test_a_judge_is_needed(here, capsys):
    Path("judged.py").write_text(
        "from kshot import GPTEval\nfrom capitals import Cities\nclass Judged(Cities):\n    metrics = [GPTEval()]\n"
    )
    run(
        capsys,
        "judged.py:Judged",
        match=r"dataset judged: its metrics ask a judge, and none is named. Name the judging model with --judge",
    )


# ---- run folders ----


def test_other_settings_in_the_same_folder(here, capsys):
    assert kshot(capsys, "run", "-m", "echo.py:Echo", "-d", "capitals.py:Cities", "--out", "run").code == 0
    before = {path.name: path.read_bytes() for path in Path("run").iterdir()}
    line = run(
        capsys, "capitals.py:Cities", "--max-tokens", "9", match=r"run: this folder holds a run with other settings"
    )
    assert "max_tokens was not set, is 9" in line
    assert "--reuse run" in line
    assert {path.name: path.read_bytes() for path in Path("run").iterdir()} == before


def test_folders_that_cannot_be_used(here, capsys):
    Path("file").write_text("x")
    asked = ("run", "-m", "echo.py:Echo", "-d", "capitals.py:Cities", "--out")
    refused(
        capsys,
        *asked,
        "file/run",
        match=r"file/run: the run folder cannot be made",
    )
    Path("full").mkdir()
    Path("full/thesis.tex").write_text("precious")
    refused(
        capsys,
        *asked,
        "full",
        match=r"full: the folder is not empty and holds no run",
    )
    run(capsys, "capitals.py:Cities", "--reuse", "nowhere", match=r"nowhere: there is no journal to reuse")
    Path("damaged").mkdir()
    Path("damaged/spec.json").write_text("{")
    refused(capsys, "score", "damaged", match=r"damaged: spec\.json is damaged")


@pytest.mark.parametrize(
    "files",
    [
        {"summary.json": "mine"},
        {"samples.jsonl": "{}\n"},
        {"progress.json": ""},
        {".summary.json.draft": "mine"},
        {"spec.json": '{"openapi": "3.1.0"}', "summary.json": "mine"},
        {"spec.json": ""},
        {"journal.jsonl": '{"MESSAGE": "systemd"}\n'},
        {"journal.jsonl": "day one", "spec.json": "[]"},
        {"journal.jsonl": "", "summary.json": "mine"},
        {"journal.jsonl": "", "samples.jsonl": "mine", "spec.json": "[]"},
    ],
    ids="+".join,
)
@pytest.mark.parametrize("command", ["run", "sweep", "merge"])
def test_files_of_the_user_in_a_folder_that_holds_no_run_are_kept(here, capsys, command, files):
    Path("mine").mkdir()
    for name, text in files.items():
        (Path("mine") / name).write_text(text)
    given = {
        "run": ("run", "-m", "echo.py:Echo", "-d", "capitals.py:Cities"),
        "sweep": ("run", "-m", "echo.py:Echo", "-d", "capitals.py:Cities", "-k", "0,1"),
        "merge": ("merge", "one", "two"),
    }[command]
    if command == "merge":
        for shard, folder in enumerate(("one", "two"), start=1):
            ran = ("run", "-m", "echo.py:Echo", "-d", "capitals.py:Cities", "--shard", f"{shard}/2", "--out", folder)
            assert kshot(capsys, *ran, "--no-report").code == 0
        capsys.readouterr()
    refused(
        capsys, *given, "--out", "mine", match=r"mine: (the folder is not empty and holds no run|kshot did not write)"
    )
    assert {path.name: path.read_text() for path in Path("mine").iterdir()} == files


def test_a_full_disk_keeps_what_was_answered(here, capsys, monkeypatch):
    """The 4th write of a record fails as on a full disk; the same command then goes on from the 3 that were kept."""
    real, written_records = os.write, []

    def filling(fd, data):
        if data.startswith(b'{"key"'):
            if len(written_records) == 3:
                raise OSError(28, "No space left on device")
            written_records.append(data)
        return real(fd, data)

    monkeypatch.setattr(os, "write", filling)
    command = ["run", "-m", "echo.py:Echo", "-d", "capitals.py:Cities", "--out", "run"]
    refused(
        capsys,
        *command,
        match=r"journal\.jsonl: the journal cannot be read or written: No space left on device. Free some space",
    )
    monkeypatch.undo()
    monkeypatch.chdir(here)
    assert len(Path("run/journal.jsonl").read_text().splitlines()) == 3
    assert kshot(capsys, *command).code == 0
    assert len(Path("run/journal.jsonl").read_text().splitlines()) == 5
    assert json.loads(Path("run/summary.json").read_text())["results"][0]["n"] == 5
