"""Every command, with hostile text in every place: nothing of it steers the terminal, on a pipe and on a terminal."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kshot.core.registry import _entry_points
from kshot.core.visible import visible
from kshot.metrics.making import METRICS
from tests.commands import kshot
from tests.fake_server import FakeServer, Reply, chat
from tests.passages.books import CHAPTERS, question
from tests.terminal import on_terminal

pytestmark = pytest.mark.filterwarnings("ignore")  # pytest would print them; a process of its own shows them below

CONTROLS = "\x1b[58;5;77mX\x1b[2J\x1b[6n\x9b31m\x90q\x85\u202eR\u2066\u200f\u061c\u2028\u2029\U000e0041\x7f\b\r\x07\x0b"
MARKUP = "[red]m[/red][bold][/][link=x]:smile:"
NAME = CONTROLS + "[red]m[bold]"
"""What a file may be called."""

TEXT = f"{CONTROLS}{MARKUP}\x1b]0;TITLE\x07\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\\x1bPq\x1b\\\x00\ufeff"
MARK = r"\x1b[58;5;77mX"
JSON_MARK = r"\u001b[58;5;77mX"
OWN_CODES = re.compile(r"\x1b\[(?:[0-9;]*m|\?25[hl]|[0-9]*[AK])|\r")
"""What rich writes: colours, the cursor of the bars, and the start of a line."""

QUIZ = f"""
import os, sys, warnings
from kshot import Em, Generate, Generated, GenerationDataset, Metric, MultipleChoiceDataset, Retriever

TEXT = {TEXT!r}

class Loud(Metric):
    __doc__ = TEXT
    name = "m" + TEXT
    def rate(self, prediction, reference):
        return 1.0

class Rows:
    __doc__ = TEXT
    evaluation_set, example_set, category_column, id_column = "test", "train", "kind", "id"
    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        warnings.warn("warned of " + TEXT)
        print("printed " + TEXT)
        sys.stderr.write("written " + TEXT + "\\n")
        rows = [{{"id": str(i) + TEXT, "question": TEXT, "kind": TEXT, TEXT: TEXT}} for i in range(3)]
        self.evaluation_data, self.example_data = rows, rows[:1]

class Quiz(Rows, MultipleChoiceDataset):
    instruction = "{{{{question}}}}{{{{options}}}}\\nAnswer:"
    metrics = ["accuracy", Loud()]
    def format_instance(self, row):
        return dict(question=row["question"], options=["a" + TEXT, "b" + TEXT], target_idx=0)

class Free(Rows, GenerationDataset):
    instruction = "{{{{question}}}}"
    metrics = [Em(), Loud()]
    def format_instance(self, row):
        return dict(question=row["question"], target=TEXT)

class Broken(Free):
    def format_instance(self, row):
        raise ValueError(TEXT)

class Model:
    __doc__ = TEXT
    name, answers, fingerprint, notes = "model{MARKUP}", (Generate,), "f", (TEXT,)
    def serve(self, queue):
        for request in queue:
            yield request, Generated("A " + TEXT)
    def close(self):
        raise ValueError(TEXT)

class Failing(Model):
    name = "failing"
    def serve(self, queue):
        from kshot import Failed
        for request in queue:
            yield request, Failed(TEXT, TEXT)

class Named(Model):
    name = "model" + TEXT

class Raising(Model):
    def serve(self, queue):
        raise ValueError(TEXT)
        yield

class Chooser(Retriever):
    __doc__ = TEXT
    def ranked(self):
        raise ValueError(TEXT)

class Unmade:
    def __init__(self):
        raise OSError(TEXT)
"""
CONFIG = f"""
from opencompass.openicl.icl_prompt_template import PromptTemplate
from opencompass.openicl.icl_retriever import ZeroRetriever
from opencompass.openicl.icl_inferencer import GenInferencer
from opencompass.openicl.icl_evaluator import EMEvaluator
from opencompass.datasets import NewsDataset
datasets = [dict(
    abbr={"a" + NAME + MARKUP!r}, type=NewsDataset, path='rows',
    reader_cfg=dict(input_columns=['text'], output_column='label', test_split='test'),
    infer_cfg=dict(
        prompt_template=dict(type=PromptTemplate, template=dict(round=[
            dict(role='HUMAN', prompt={TEXT!r} + '{{text}}'), dict(role='BOT', prompt='{{label}}')])),
        retriever=dict(type=ZeroRetriever), inferencer=dict(type=GenInferencer, max_out_len=4)),
    eval_cfg=dict(evaluator=dict(type=EMEvaluator)))]
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with a hostile name, full of hostile files."""
    folder = tmp_path_factory.mktemp("hostile") / NAME
    (folder / "rows").mkdir(parents=True)
    (folder / "quiz.py").write_text(QUIZ)
    (folder / f"{NAME}.py").write_text(QUIZ)
    (folder / "config.py").write_text(CONFIG)
    (folder / "other.py").write_text(CONFIG.replace("'HUMAN'", "'BOT'"))
    (folder / "broken.py").write_text(f"raise ValueError({TEXT!r})\n")
    (folder / "syntax.py").write_text(f"x = '{MARKUP}\x1b[58;5;77mX\x9b\u202e\n")
    rows = "".join(json.dumps({"text": TEXT, "label": TEXT, TEXT: TEXT}) + "\n" for _ in range(2))
    (folder / "rows" / "test.jsonl").write_text(rows)
    (folder / f"bad{NAME}.jsonl").write_text('{"' + "\x1b[58;5;77mX" + '": ]')
    (folder / f"{NAME}.csv").write_text("a\n1,2\n")
    book = folder / f"book{NAME}"
    (book / "chapters").mkdir(parents=True)
    for chapter, text in CHAPTERS.items():
        (book / "chapters" / f"{chapter}.md").write_text(f"{text}\n{TEXT.replace(chr(0), '')}\n")
    (book / "chapters" / f"{NAME}.md").write_text("# Hills\nHills are high.\n")
    quotes = [["in the shallows"], [f"not there {TEXT}"]]
    questions = [question(1, 1, TEXT, quotes, answer=TEXT), question(2, 2, TEXT, [["Granite"]])]
    questions.append(question(1, NAME, TEXT, [["Hills are"]]))
    questions[0]["answer_context"][1]["answer_component"] = TEXT
    (book / "questions.json").write_text(json.dumps({"questions": questions}))
    (folder / "trec.txt").write_text("1.1 Q0 nothing\x1b[58;5;77mX 1 1.0 tag\x1b[58;5;77mX\n")
    (folder / "system.json").write_text(json.dumps({TEXT: {"runs": []}, "b" + TEXT: {"runs": []}}))
    spec = {
        "identity": {"datasets": [f"{NAME}.py:Free"]},
        "models": [{"role": "model", "name": TEXT, "fingerprint": "f"}],
    }
    (folder / f"run{NAME}").mkdir()
    (folder / f"run{NAME}" / "spec.json").write_text(json.dumps(spec))
    (folder / f"run{NAME}" / "journal.jsonl").write_text("")
    site = folder / "site" / "evil-1.dist-info"
    site.mkdir(parents=True)
    (site / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\x1b[58;5;77mX\x9b\nVersion: 1\x1b[58;5;77mX\n")
    (site / "entry_points.txt").write_text(f"[kshot.metrics]\nevil{MARK!s} \x1b[58;5;77mX\u202e = quiz:Loud\n")
    return folder


@pytest.fixture
def here(files, monkeypatch):
    monkeypatch.chdir(files)
    monkeypatch.setenv("COLUMNS", "1000")
    for old in ("out", "exported", "own"):
        shutil.rmtree(files / old, ignore_errors=True)
    return files


def check(text, *, own_codes=False):
    """Find nothing that a terminal obeys, but for kshot's own colours, and nothing that reads as another text."""
    for code in ("\x1b[58", "\x1b[2J", "\x1b[6n", "\x1b]", "\x1bP", "\x9b", "\u202e"):
        assert code not in text
    rest = OWN_CODES.sub("", text) if own_codes else text
    assert visible(rest) == rest, repr(next(line for line in rest.split("\n") if visible(line) != line))


def passages(*arguments):
    return (
        "passages",
        *arguments,
        "-d",
        "fastbook",
        "--data",
        f"book{NAME}",
        "--chunker",
        "headings:50,tokenizer=words",
    )


SEARCH = ("run", "-d", "fastbook", "--data", f"book{NAME}", "--chunker", "headings:50,tokenizer=words")
RUN_QUIZ = ("run", "-m", "quiz.py:Model", "--out", "out", "-d")
COMMANDS = {
    # command: (arguments, exit code)
    "run a multiple-choice class": (("run", "-m", "embedded", "-d", "quiz.py:Quiz", "--out", "out"), 0),
    "run a generation class": ((*RUN_QUIZ, "quiz.py:Free"), 0),
    "run as JSON": ((*RUN_QUIZ, "quiz.py:Free", "--json"), 0),
    "run with subsets": ((*RUN_QUIZ, f"quiz.py:Free:{NAME.partition('[red]')[0].replace('[', '')}"), None),
    "run from a file with a hostile name": ((*RUN_QUIZ, f"{NAME}.py:Free"), None),
    "run two models": (("run", "-m", "quiz.py:Model", "-m", "quiz.py:Failing", "-d", "quiz.py:Free", "--out", "out"), 0),
    "run a model that fails": (("run", "-m", "quiz.py:Failing", "-d", "quiz.py:Free", "--out", "out"), 1),
    "run a model that raises": (("run", "-m", "quiz.py:Raising", "-d", "quiz.py:Free", "--out", "out"), 2),
    "run a model that cannot be made": (("run", "-m", "quiz.py:Unmade", "-d", "quiz.py:Free", "--out", "out"), 2),
    "run a model with a hostile name": (("run", "-m", "quiz.py:Named", "-d", "quiz.py:Free", "--out", "out"), 2),
    "run a class that raises": ((*RUN_QUIZ, "quiz.py:Broken"), 2),
    "run a retriever that raises": ((*RUN_QUIZ, "quiz.py:Free", "--retriever", "quiz.py:Chooser", "-k", "1"), 2),
    "run a config": (("run", "config.py", "-m", "quiz.py:Model", "--out", "out"), 0),
    "run a config that raises": (("run", "broken.py", "-m", "quiz.py:Model", "--out", "out"), 2),
    "run a config that is not Python": (("run", "syntax.py", "-m", "quiz.py:Model", "--out", "out"), 2),
    "run lookup": (("run", "-d", "lookup:UR", "--length", "10", "--samples", "2", "-m", "quiz.py:Model", "--out", "out"), 0),
    "run passages": ((*SEARCH, "-m", "fts5", "-m", "bm25", "--out", "out"), 0),
    "run to a folder with a hostile name": (("run", "-m", "quiz.py:Model", "-d", "quiz.py:Free", "--out", f"own/{NAME}"), 0),
    "run a recorded TREC run": ((*SEARCH, "-m", "replay:trec.txt", "--out", "out"), 2),
    "run recorded systems": ((*SEARCH, "-m", "replay:system.json", "--out", "out"), 2),
    "preview text": (("preview", "-d", "quiz.py:Quiz", "-k", "1"), 0),
    "preview JSON": (("preview", "-d", "quiz.py:Quiz", "--json"), 0),
    "preview a config": (("preview", "config.py"), 0),
    "preview a difference": (("preview", "config.py", "--diff", "other.py"), 0),
    "preview passages": (("preview", *SEARCH[1:]), 0),
    "list": (("list", "metrics"), 0),
    "list JSON": (("list", "metrics", "--json"), 0),
    "score a folder from elsewhere": (("score", f"run{NAME}"), 2),
    "score nothing": (("score", NAME), 2),
    "lookup": (("lookup", "generate", "--group", "unique", "--length", "10", "--samples", "2", "--out", f"own/{NAME}"), 0),
    "lookup with a hostile vocabulary": (("lookup", "generate", "--group", "unique", "--length", "9", "--vocab", CONTROLS), 2),
    "passages check": (("passages", "check", f"book{NAME}"), 0),
    "passages check JSON": (("passages", "check", f"book{NAME}", "--json"), 0),
    "passages ceiling": (passages("ceiling", "--all"), 0),
    "passages ceiling JSON": (passages("ceiling", "--json"), 0),
    "passages question": (passages("question", "1.1"), 0),
    "passages question JSON": (passages("question", "1.1", "--json"), 0),
    "passages question that is not there": (passages("question", NAME), 2),
    "passages chunks": (passages("chunks"), 0),
    "passages chunks JSON": (passages("chunks", "--json"), 0),
    "passages export nothing": (("passages", "export", NAME, "exported"), 2),
    "rows that are not JSON": (("run", "-m", "embedded", "-d", "arc", "--dataset-path", f"bad{NAME}.jsonl", "--out", "out"), 2),
    "rows that are not CSV": (("run", "-m", "embedded", "-d", "arc", "--dataset-path", f"{NAME}.csv", "--out", "out"), 2),
    "a hostile dataset name": (("run", "-m", "embedded", "-d", NAME), 2),
    "a hostile model name": (("run", "-m", NAME, "-d", "quiz.py:Free"), 2),
    "a hostile hub name": (("run", "-m", f"hf:{NAME}", "-d", "quiz.py:Free"), 2),
    "a hostile metric": ((*RUN_QUIZ, "quiz.py:Free", "--metric", NAME), 2),
    "a hostile option": ((*RUN_QUIZ, "quiz.py:Free", f"--{NAME}"), 2),
    "a hostile value": ((*RUN_QUIZ, "quiz.py:Free", "--limit", NAME), 2),
    "a hostile choice": (("list", NAME), 2),
    "a hostile command": ((NAME,), 2),
    "help": (("--help",), 0),
    "help of a command": (("run", "--help"), 0),
}  # fmt: skip
SILENT = {"help", "help of a command", "run lookup", "run passages", "lookup with a hostile vocabulary"}
"""Commands that show none of the text, or none of it in one piece."""


@pytest.fixture
def new_packages():
    """Look for installed packages anew, and forget afterwards what was found."""

    def forget():
        _entry_points.cache_clear()
        vars(METRICS).pop("_installed", None)

    forget()
    yield
    forget()


@pytest.mark.usefixtures("new_packages")
@pytest.mark.parametrize("name", COMMANDS)
def test_on_a_pipe(here, capsys, monkeypatch, name):
    monkeypatch.syspath_prepend(str(here / "site"))
    arguments, code = COMMANDS[name]
    done = kshot(capsys, *arguments)
    assert code is None or done.code == code, done.err
    check(done.out)
    check(done.err)
    assert MARK in done.out + done.err or JSON_MARK in done.out or name in SILENT
    if "--json" in arguments:
        texts = (
            done.out.splitlines()
            if arguments[0] == "preview" or "chunks" in arguments
            else [done.out[done.out.index("{") :]]
        )
        for text in texts if arguments[0] != "list" else [done.out]:
            if text.startswith(("{", "[\n")):  # plug-ins print lines of their own
                json.loads(text)


ON_TERMINAL = [name for name in COMMANDS if name.startswith(("run ", "preview", "passages c", "score", "list"))]


@pytest.mark.parametrize("name", ON_TERMINAL)
def test_on_a_terminal(here, monkeypatch, name):
    monkeypatch.syspath_prepend(str(here / "site"))
    arguments, code = COMMANDS[name]
    found, text = on_terminal(*arguments)
    assert code is None or found == code, text
    check(text, own_codes=True)
    if arguments[0] == "run" and found == 0 and "--json" not in arguments:
        assert "\x1b[1m" in text  # kshot's own colours are there
        assert "[red]m[/red]" in text or name in SILENT  # markup is literal


def test_a_run_is_scored_and_exported_again(here, capsys):
    assert kshot(capsys, *COMMANDS["run a generation class"][0]).code == 0
    for arguments in (("score", "out"), ("score", "out", "--json")):
        done = kshot(capsys, *arguments)
        assert done.code == 0
        check(done.out + done.err)
        assert MARK in done.out or JSON_MARK in done.out
    check(on_terminal("score", "out")[1], own_codes=True)
    for to in (
        ("csv",),
        ("csv", "--what", "samples"),
        ("markdown",),
        ("latex",),
        ("latex", "--out", f"own/{NAME}.tex"),
    ):
        done = kshot(capsys, "export", "out", "--to", *to)
        assert done.code == 0
        check(done.out + done.err)
        assert "58;5;77mX" in done.out
    shutil.rmtree(here / "out")
    assert kshot(capsys, *COMMANDS["run passages"][0]).code == 0
    done = kshot(capsys, "passages", "export", "out", f"own/{NAME}")
    check(done.out + done.err)
    assert done.code == 2  # the ids of passages are no words of a TREC file
    assert f"a TREC file cannot hold the topic '{MARK}" in done.err


SERVERS = {
    "a reply": chat(f"A {TEXT}"),
    "a reply of another model": {**chat(TEXT), "model": f"other{TEXT}"},
    "a stop reason": chat("A", stop_reason=TEXT),
    "an error": Reply({"error": {"message": TEXT, "type": TEXT, "code": TEXT}}, status=400),
    "an error that is text": Reply(TEXT, status=400),
    "a reply that is not JSON": TEXT,
    "a reply without choices": {TEXT: TEXT},
    "a redirect": Reply("", status=302, headers={"location": "http://evil.example/\x1b[58;5;77mX\x9b"}),
    "a reason phrase": Reply("", status="400 \x1b[58;5;77mX"),
    "a header": Reply({"error": TEXT}, status=429, headers={"retry-after": "\x1b[58;5;77mX", "x-\x1b": "\x9b"}),
}


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.needs("aiohttp")
def test_servers(here, capsys, name):
    with FakeServer(lambda _: SERVERS[name]) as server:
        arguments = (
            "run",
            "-m",
            "openai:m",
            "--base-url",
            f"{server.url}/v1",
            "--model-type",
            "chat",
            "--patience",
            "0.01",
        )
        arguments = (*arguments, "-d", "quiz.py:Free", "--limit", "1", "--out", "out")
        done = kshot(capsys, *arguments)
        assert server.calls, done.err
        shutil.rmtree(here / "out")
        code, text = on_terminal(*arguments)
    check(done.out + done.err)
    check(text, own_codes=True)
    assert done.code == code
    assert code in {0, 1, 2}


ENVIRONMENT = {
    "KSHOT_CACHE": f"/proc/{NAME}",
    "HF_ENDPOINT": f"http://{NAME}",
    "HTTP_PROXY": NAME,
    "HF_HOME": f"/proc/{NAME}",
}


@pytest.mark.parametrize("variable", ENVIRONMENT)
def test_environment_variables(here, capsys, monkeypatch, variable):
    monkeypatch.setenv(variable, ENVIRONMENT[variable])
    for arguments in (
        COMMANDS["run passages"][0],
        ("run", "-m", "hf:no/model", "-d", "quiz.py:Free"),
        ("run", "-d", "beir", "--data", "http://127.0.0.1:9/x"),
    ):
        done = kshot(capsys, *arguments)
        check(done.out + done.err)


THREADED = """
import threading, logging, warnings
from kshot import Em, GenerationDataset
TEXT = {text!r}

class Threaded(GenerationDataset):
    instruction, metrics, evaluation_set = "{{{{question}}}}", [Em()], "test"
    def load_raw_dataset(self, *_):
        def fail():
            raise ValueError(TEXT)
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
        logging.getLogger("other").warning(TEXT)
        warnings.warn(TEXT)
        raise ValueError("the end " + TEXT)  # {line}
    def format_instance(self, row):
        return row
"""


def test_a_process_with_everything_else_that_prints(here):
    """Warnings, logging, threads, tracebacks with lines of the file: Python itself prints them."""
    (here / "threaded.py").write_text(THREADED.format(text=TEXT, line=CONTROLS.replace("\r", "").replace("\x0b", "")))
    done = subprocess.run(
        [sys.executable, "-m", "kshot", "preview", "-d", "threaded.py:Threaded"],
        capture_output=True,
        check=False,
        env={**os.environ, "KSHOT_DEBUG": "1", "PYTHONIOENCODING": "utf-8"},
    )
    text = done.stderr.decode("utf-8")
    check(text)
    check(done.stdout.decode("utf-8"))
    assert done.returncode == 2
    for printed in ("Exception in thread", "UserWarning", "Traceback (most recent call last)", "ValueError: the end"):
        assert printed in text
    assert text.count(MARK) >= 5


def test_what_is_printed_while_bars_are_shown_is_safe(here):
    """rich would obey the sequences of what others print then: it draws that above the bars."""
    code, text = on_terminal(*COMMANDS["run a generation class"][0])
    assert code == 0
    assert "\x1b[?25l" in text  # the bars were shown
    shown = text[text.index("\x1b[?25l") :]
    assert f"printed {MARK}" in shown
    assert f"written {MARK}" in shown


def test_wide_and_right_to_left_names_stay_readable(here, capsys):
    names = ["模型" * 3, "שלום", "نموذج", "abc"]
    source = (here / "quiz.py").read_text()
    for name in names:
        source += f"\nclass M{names.index(name)}(Model):\n    name = {name!r}\n"
    (here / "wide.py").write_text(source)
    models = [part for at in range(len(names)) for part in ("-m", f"wide.py:M{at}")]
    done = kshot(capsys, "run", *models, "-d", "wide.py:Free", "--out", "out")
    assert all(name in done.out for name in names)
    from rich.cells import cell_len

    rows = [
        line
        for line in done.out.splitlines()
        if line.startswith(tuple(f"{name} ·" for name in names)) and "em" in line.lower()
    ]
    assert len(rows) >= len(names)
    places = {cell_len(row[: re.search(r" (EM|Em) ", row).start()]) for row in rows if re.search(r" (EM|Em) ", row)}
    assert len(places) == 1  # the columns stand under each other


ROOT = Path(visible.__code__.co_filename).parents[1]
OUTPUT = {"cli/streams.py": {"print", "stdout", "stderr"}, "cli/screen.py": {"Console", "stdout", "stderr"}}
FLUSHES = {
    *("__main__.py", "backends/vllm/model.py", "cli/main.py", "cli/progress.py", "core/interrupts.py"),
    *("cli/export.py", "cli/preview.py", "cli/runs.py", "cli/samples.py", "loggers/making.py"),
}
"""Modules that ask a stream whether it is a terminal, flush it, put it aside, or write their own words; exports write
through the safe stream."""


def test_there_is_no_other_way_to_the_terminal():
    import ast

    for path in ROOT.rglob("*.py"):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith("sandbox/") or "/_" in name:
            continue  # these run in processes whose output is a pipe
        source = path.read_text()
        if not re.search(r"print\(|Console|sys\.|rich", source):
            continue
        for node in ast.walk(ast.parse(source)):
            allowed = OUTPUT.get(name, set()) | ({"stdout", "stderr"} if name in FLUSHES else set())
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"print", "Console"}:
                assert node.func.id in allowed, f"{name}:{node.lineno}"
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sys":
                assert node.attr not in {"__stdout__", "__stderr__"}, f"{name}:{node.lineno}"
                assert node.attr not in {"stdout", "stderr"} or node.attr in allowed, f"{name}:{node.lineno}"
            if isinstance(node, ast.ImportFrom) and node.module in {"rich.text", "rich.markup", "rich.console", "rich"}:
                texts = {alias.name for alias in node.names} & {"Text", "Console", "print", "escape", "render"}
                assert not texts or name in TEXTS, f"{name}:{node.lineno}"


TEXTS = {"cli/screen.py", "report/cells.py", "report/table.py", "report/drawn_table.py", "report/progress.py"}
"""Modules that make texts for rich: figures, or texts that are made safe there."""
