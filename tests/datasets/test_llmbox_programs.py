"""Programs that a file of LLMBox hands to ``exec`` and ``eval`` run in the sandbox, and nowhere else."""

import os
import socket
import sys
from functools import partial

import pytest

import kshot
from kshot.core.errors import DataError, KshotError, UsageError
from kshot.core.records import Generated
from kshot.datasets.llmbox.imports import program_answers, refusals_raised
from kshot.sandbox import program as sandbox
from tests.datasets.fakes import Fake
from tests.datasets.llmbox_tree import GENERATION, Tree, changed

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="programs are confined on Linux alone")


def counting(*lines):
    """A file whose answers are computed by programs, in these lines of a ``try`` whose ``except`` is bare."""
    body = "\n".join(f"                {line}" for line in lines)
    method = f"""\
    def post_processing(self, predictions):
        answers = []
        for reply in predictions:
            try:
{body}
                answers.append(str(found))
            except:
                answers.append("")
        return answers

    def format_instance"""
    return changed(GENERATION, ("    def format_instance", method))


USUAL = counting("exec(reply)", "found = eval('answer()')")
RIGHT = "import math\n\ndef half(x):\n    return x // 2\n\ndef answer():\n    return math.factorial(4) + half(8)"


@pytest.fixture
def tree(tmp_path):
    made = Tree(tmp_path)
    made.write_rows(test=[{"q": f"q{i}", "choices": ["28"], "gold": 0} for i in range(3)])
    return made


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A busy machine may take long to start a process."""
    monkeypatch.setattr(sandbox, "_GRACE_SECONDS", 60.0)
    monkeypatch.setattr(sandbox, "value_of", partial(sandbox.value_of, timeout=60.0))


def replies(*texts):
    return Fake(lambda request: Generated(texts[int(request.prompt.text[1])]))


def answered(tree, model, text, **options):
    """The answers of a run, in the order of the rows."""
    result = kshot.evaluate(model, f"{tree.add(text)}:Words", dataset_path=str(tree.rows), **options)
    assert result.results[0]["n"] == 3
    return [sample["answer"] for sample in result.samples]


def test_programs_are_scored_by_their_values(tree):
    assert tree.scores(replies(RIGHT, RIGHT, "def answer():\n    return 7"), USUAL, "Words")["EM"] == pytest.approx(
        200 / 3
    )


def test_a_program_sees_nothing_of_the_one_before_it_or_of_the_file(tree):
    found = answered(tree, replies(RIGHT, "x = 1", "def answer():\n    return reply"), USUAL)
    assert found == ["28", "", ""]


@pytest.mark.parametrize("how", ["write", "connect", "kill", "exit", "raise", "syntax"])
def test_a_hostile_program_harms_its_own_sample_alone(tree, tmp_path, how):
    mark = tmp_path / "mark"
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        attack = {
            "write": f"open({str(mark)!r}, 'w').write('here')",
            "connect": f"import socket\nsocket.create_connection(('127.0.0.1', {server.getsockname()[1]}))",
            "kill": f"import os\nos.kill({os.getpid()}, 9)",
            "exit": "import os\nos._exit(0)",
            "raise": "raise SystemExit",
            "syntax": "def answer(:",
        }[how]
        assert answered(tree, replies(RIGHT, f"{attack}\n{RIGHT}", RIGHT), USUAL) == ["28", "", "28"]
        with pytest.raises(BlockingIOError):
            server.accept()
    assert not mark.exists()


def test_a_program_that_never_ends_is_ended(tree, monkeypatch):
    in_time = sandbox.value_of

    def in_a_second(program, expression, **more):
        return in_time(program, expression, **more | ({"timeout": 1.0} if "while" in program else {}))

    monkeypatch.setattr(sandbox, "value_of", in_a_second)
    assert answered(tree, replies(RIGHT, "while True:\n    pass", RIGHT), USUAL) == ["28", "", "28"]


def test_literals_need_no_process(tree, monkeypatch):
    monkeypatch.setattr(sandbox, "value_of", None)
    text = counting("found = eval(reply)[0]", "assert eval('1', {})")
    assert answered(tree, replies("[28]", " ('28', {})", "{0: 28.5}"), text) == ["28", "28", "28.5"]


def test_other_expressions_are_computed_apart(tree, tmp_path):
    mark = tmp_path / "mark"
    found = answered(tree, replies("4 * 7", f"open({str(mark)!r}, 'w')", "nonsense"), counting("found = eval(reply)"))
    assert found == ["28", "", ""]
    assert not mark.exists()


def test_a_literal_after_a_program_that_fails_has_no_value(tree):
    text = counting("exec(reply)", "found = eval('28')")
    assert answered(tree, replies("x = 1", "x = 1 / 0", "x ="), text) == ["28", "", ""]


@pytest.mark.parametrize(
    "program",
    [
        "def answer():\n    return answer",
        "def answer():\n    yield 28",
        "def answer():\n    return [28, {'value': lambda: 28}]",
        "class Answer:\n    pass\ndef answer():\n    return Answer()",
        "class Answer:\n    __str__ = lambda self: f'28 {object()}'\ndef answer():\n    return Answer()",
        "def answer():\n    return str(answer)",
    ],
)
def test_an_object_whose_text_is_an_address_fails_its_sample(tree, program):
    text = tree.add(USUAL)
    result = kshot.evaluate(replies(RIGHT, program, RIGHT), f"{text}:Words", dataset_path=str(tree.rows))
    first, second, third = result.samples
    assert (first["answer"], second["answer"], third["answer"]) == ("28", None, "28")
    assert second["failed"] == "answer: it is or holds an object, which has no text of its own"
    assert (result.results[0]["n"], result.results[0]["failed"]) == (2, 1)


def test_no_address_reaches_a_file_that_looks_for_numbers(tree):
    text = counting("import re", "exec(reply)", "found = re.findall(r'[0-9]', str(eval('answer()')))")
    program = "def answer():\n    return answer"
    raised = "def answer():\n    raise ValueError(answer)"
    assert answered(tree, replies(program, raised, RIGHT), text) == ["[]", "", "['2', '8']"]


def test_objects_with_a_text_of_their_own_are_texts(tree):
    program = "class Answer:\n    __str__ = lambda self: '28'\ndef answer():\n    return Answer()"
    assert answered(tree, replies(program, "answer = int", "def answer():\n    return {28}"), USUAL) == [
        "28",
        "0",
        "{28}",
    ]


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["names = {}", "exec(reply, names)", "found = names['answer']()"], "exec with variables of its own"),
        (["exec(reply, globals())", "found = answer()"], "exec with variables of its own"),
        (["exec(reply)", "found = eval('answer()', {}, {})"], "eval with variables of its own"),
        (["exec(compile(reply, 'reply', 'exec'))", "found = 28"], "exec with code in place of a text"),
        (["exec(reply)", "found = locals()['answer']()"], "exec and then no eval"),
        (["exec(reply)", "found = 28"], "exec and then no eval"),
    ],
)
def test_what_kshot_cannot_answer_is_refused_whatever_the_file_catches(tree, lines, why):
    with pytest.raises(DataError, match=why) as raised:
        answered(tree, replies(RIGHT, RIGHT, RIGHT), counting(*lines))
    assert raised.value.where.endswith("mine.py")


def test_a_refusal_in_a_thread_of_the_file_is_raised_too(tree):
    threaded = """\
from concurrent.futures import ThreadPoolExecutor

def run(reply):
    try:
        exec(reply, {})
    except:
        return ""

class Words"""
    text = counting("with ThreadPoolExecutor(1) as pool:", "    found = pool.submit(run, reply).result()")
    with pytest.raises(DataError, match="exec with variables of its own"):
        answered(tree, replies(RIGHT, RIGHT, RIGHT), changed(text, ("class Words", threaded)))


def test_functions_of_a_neighbour_run_nothing_either(tree, tmp_path):
    mark = tmp_path / "mark"
    tree.add("def run(reply):\n    exec(reply)\n    return eval('answer()')\n", "dataset/running.py")
    text = changed(counting("found = run(reply)"), ("from functools", "from .running import run\nfrom functools"))
    attack = f"open({str(mark)!r}, 'w')\n{RIGHT}"
    assert answered(tree, replies(RIGHT, attack, RIGHT), text) == ["28", "", "28"]
    assert not mark.exists()


def test_code_that_runs_within_other_code_has_programs_of_its_own():
    names = program_answers(__file__)
    with refusals_raised():
        names["exec"]("x = 1")
        with refusals_raised(), pytest.raises(NameError):
            names["eval"]("x")
        assert names["eval"]("x") == 1


# ---- systems that cannot confine programs ----


@pytest.fixture
def without_layers(monkeypatch):
    monkeypatch.setattr(sandbox, "run", partial(sandbox.run, layers=("guard",)))
    monkeypatch.setattr(sandbox, "value_of", partial(sandbox.value_of, layers=("guard",)))
    sandbox._try_out.cache_clear()
    yield
    sandbox._try_out.cache_clear()


def test_a_system_that_cannot_confine_programs_gives_no_answers(tree, without_layers, tmp_path):
    model, spec = replies(RIGHT, RIGHT, RIGHT), f"{tree.add(USUAL)}:Words"
    run = {"dataset_path": str(tree.rows), "out": tmp_path / "run"}
    with pytest.raises(UsageError, match="does not run programs that a model wrote on this system") as raised:
        kshot.evaluate(model, spec, **run)
    assert "--unsafe-programs" in str(raised.value)
    result = kshot.evaluate(model, spec, **run, unsafe_programs=True)
    assert result.results[0]["value"] == 100.0
    assert sandbox.UNSAFE_NOTE in result.notes
    assert len(model.asked) == 3  # the replies of the refused run were kept


def test_a_process_that_cannot_start_gives_no_answers(tree, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(KshotError, match=r"a process for a program cannot be started: .*nowhere"):
        answered(tree, replies(RIGHT, RIGHT, RIGHT), USUAL)
