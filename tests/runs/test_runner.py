"""Whole evaluations from Python: tasks as values, judges, several models, folders."""

import json
import math

import pytest

import kshot
from kshot import Accuracy, GenerationDataset, GPTEval, Metric, Option, Perplexity, Prompt, Sample, Task, ask
from kshot.backends.adapters import as_model
from kshot.core.errors import BackendError, DataError, RunError, UsageError
from kshot.core.records import Answers, Failed, Generate, Generated, Likelihood, Scored
from kshot.methods import repeat
from kshot.runs.watchers import SilentWatcher
from tests.datasets.fakes import Fake, from_rows, generation, says


def digits(**more):
    parts = dict(
        name="digits",
        samples=[Sample(str(i), {"n": i}, Option(i % 2), category="even" if i % 2 == 0 else "odd") for i in range(6)],
        template=lambda sample, shots: Prompt(f"{sample.fields['n']} is odd?"),
        method=lambda sample, prompt: odd(prompt),
        metrics=(Accuracy(),),
    )
    return Task(**(parts | more))


def odd(prompt):
    (reply,) = yield from ask(Generate(prompt, max_tokens=1))
    return int(reply.text)


def test_a_task_value_by_category():
    result = kshot.evaluate(Fake(lambda r: Generated("1")), digits())
    assert {row["task"]: row["value"] for row in result.results} == {
        "digits[even]": 0.0,
        "digits[odd]": 100.0,
        "digits": 50.0,
    }
    assert [row["n"] for row in result.results] == [3, 3, 6]
    assert [row["answer"] for row in result.samples] == [1] * 6


def test_a_model_is_closed_before_the_next_opens_by_the_code_that_opened_it(monkeypatch):
    seen = []

    class Heavy(Fake):
        def close(self):
            seen.append(f"{self.name} closed")

    def opened(spec, options):
        seen.append(f"{spec} opened")
        model = Heavy(lambda r: Generated("1") if spec != "c" else None)  # None is no answer
        model.name = model.fingerprint = spec
        return as_model(model)

    monkeypatch.setattr(kshot.api, "open_model", opened)
    monkeypatch.setattr(kshot.planning, "check_model", lambda spec, options: None)
    monkeypatch.setattr(kshot.planning, "check_answers", lambda *_: None)
    own = Heavy(lambda r: Generated("1"))
    kshot.evaluate(["a", own, "b"], digits())
    assert seen == ["a opened", "a closed", "b opened", "b closed"]
    with pytest.raises(BackendError):
        kshot.evaluate(["c", "a"], digits())
    assert seen[4:] == ["c opened", "c closed"]


@pytest.mark.parametrize(
    "close", ["close = None", "def close(self, why): ...", "def close(self): raise OSError('busy')"]
)
def test_what_is_answered_is_not_lost_by_a_model_that_cannot_be_closed(tmp_path, close):
    (tmp_path / "own.py").write_text(f"""
from kshot.core.records import Generate, Generated
class Own:
    name = fingerprint = "own"
    answers = (Generate,)
    def serve(self, waiting):
        for request in waiting:
            yield request, Generated("1")
    {close}
""")
    notes = []

    class Watcher(SilentWatcher):
        def note(self, text):
            notes.append(text)

    result = kshot.evaluate(f"{tmp_path}/own.py:Own", digits(), out=tmp_path / "run", watcher=Watcher())
    assert result.results[-1]["value"] == 50.0
    assert (tmp_path / "run" / "summary.json").exists()
    assert [note.split(" (")[0] for note in notes] == ["own could not be closed"] * (close != "close = None")


def test_a_limit_holds_for_task_values_too():
    result = kshot.evaluate(says("1"), digits(), limit=2)
    assert result.results[-1]["n"] == 2
    assert len(kshot.preview(digits(), limit=4)) == 4


def test_failed_samples_are_neither_right_nor_wrong():
    backend = Fake(lambda r: Failed("down", "no answer") if r.prompt.text.startswith("3") else Generated("1"))
    result = kshot.evaluate(backend, digits())
    rows = {row["task"]: row for row in result.results}
    assert (rows["digits"]["value"], rows["digits"]["n"], rows["digits"]["failed"]) == (40.0, 5, 1)
    assert (rows["digits[odd]"]["n"], rows["digits[odd]"]["failed"]) == (2, 1)
    assert result.samples[3]["failed"] == "down: no answer"
    assert result.first_failures == ["digits on fake: 1 failed (down: no answer)"]


def test_errors_of_methods_and_metrics_name_the_sample():
    class Odd(Metric):
        name = "Odd"

        def rate(self, prediction, reference):
            raise ZeroDivisionError

    class Unsummed(Metric):
        name = "Unsummed"

        def rate(self, prediction, reference):
            return 1.0

        def reduce(self, name, values):
            return sum(values, "")

    with pytest.raises(DataError, match="dataset digits, sample 0: it cannot be asked: ValueError"):
        kshot.evaluate(says("x"), digits())
    with pytest.raises(DataError, match="dataset digits, sample 0: Odd failed: ZeroDivisionError"):
        kshot.evaluate(says("1"), digits(metrics=(Odd(),)))
    with pytest.raises(DataError, match="dataset digits, sample 0: Unsummed cannot be summed up: TypeError"):
        kshot.evaluate(says("1"), digits(metrics=(Unsummed(),)))
    with pytest.raises(DataError, match="sample 0: it cannot be asked: KeyError"):
        kshot.preview(digits(template=lambda sample, shots: Prompt(sample.fields["nothing"])))


def test_a_judge_rates_through_its_own_backend(tmp_path):
    cls = from_rows(GenerationDataset, [{"q": "Why?"}, {"q": "How?"}], instruction="{q}", metrics=[GPTEval()])
    judge = tmp_path / "judge.py"
    judge.write_text(
        "from kshot.core.records import Generate, Generated\n"
        "class Judge:\n"
        "    name = fingerprint = 'strict'\n"
        "    answers = (Generate,)\n"
        "    def serve(self, waiting):\n"
        "        for request in waiting:\n"
        "            yield request, Generated('Rating: [[9]]' if 'Why?' in request.prompt.text else 'Rating: [[4]]')\n"
    )
    result = kshot.evaluate(says("Because."), cls, judge=f"{judge}:Judge", out=tmp_path / "run")
    assert result.results[0]["metric"] == "GPT-Eval"
    assert result.results[0]["value"] == 6.5
    assert [row["scores"]["GPT-Eval"] for row in result.samples] == [9.0, 4.0]
    spec = json.loads((tmp_path / "run" / "spec.json").read_text())
    assert [(each["role"], each["name"]) for each in spec["models"]] == [("model", "fake"), ("judge", "strict")]


def test_a_judge_without_a_verdict_is_a_failure_not_a_zero():
    cls = from_rows(GenerationDataset, [{"q": "Why?"}], instruction="{q}", metrics=[GPTEval()])

    class Mumbles(Fake):
        name = fingerprint = "mumbles"

    task = kshot.sources.source_of(cls, kshot.settings.Settings())
    assert task.label
    from kshot.core.memo import MemoryMemo
    from kshot.index.store import Store
    from kshot.runs.runner import Run
    from kshot.settings import Settings

    helpers = {"judge": as_model(Mumbles(lambda r: Generated("well")))}
    run = Run(Settings(), MemoryMemo(), store=Store(), helpers=helpers)
    result = run.all([as_model(says("Because."))], [task])
    assert (result.results[0]["value"], result.results[0]["failed"]) == (None, 1)
    assert "judge" in result.first_failures[0]


def test_perplexity_of_targets_is_over_the_corpus():
    cls = from_rows(
        GenerationDataset,
        [{"t": "aa"}, {"t": "b"}],
        instruction="Say",
        metrics=[Perplexity()],
        format_instance=lambda self, row: {"target": row["t"]},
    )
    backend = Fake(lambda r: Scored(tuple(Likelihood(-2.0 * len(c.strip()), len(c.strip())) for c in r.continuations)))
    backend.answer = lambda r: Scored((Likelihood(-3.0, 2) if "aa" in r.continuations[0] else Likelihood(-3.0, 1),))
    result = kshot.evaluate(backend, cls)
    assert result.results[0]["metric"] == "PPL"
    assert result.results[0]["value"] == pytest.approx(math.exp(6 / 3))
    assert [row["scores"]["PPL"] for row in result.samples] == pytest.approx([math.exp(1.5), math.exp(3)])


def test_a_changed_model_in_the_same_folder_is_refused(tmp_path):
    first, second = says("1"), says("1")
    second.fingerprint = "fake, retrained"
    kshot.evaluate(first, digits(), out=tmp_path / "run")
    with pytest.raises(RunError, match="fake has changed since this run began"):
        kshot.evaluate(second, digits(), out=tmp_path / "run")


def test_samples_are_read_back_whatever_they_contain(tmp_path):
    odd_text = "a\u2028b\u0085c\r\nd\ud800"
    cls = from_rows(GenerationDataset, [{"q": odd_text}], instruction="{q}", metrics=[kshot.Em()], references=[["x"]])
    result = kshot.evaluate(says(odd_text), cls, out=tmp_path / "run")
    assert result.samples[0]["response"] == odd_text
    again = kshot.evaluate(says(odd_text), cls, out=tmp_path / "run")
    assert again.samples == result.samples


def test_options_are_checked_by_name_and_type():
    with pytest.raises(UsageError, match="there is no option 'shots_num'"):
        kshot.evaluate(says("1"), digits(), shots_num=3)
    with pytest.raises(UsageError, match="num_shots is '3'; it must be int"):
        kshot.evaluate(says("1"), digits(), num_shots="3")
    with pytest.raises(UsageError, match="reuse needs out"):
        kshot.evaluate(says("1"), digits(), reuse="runs/x")
    with pytest.raises(UsageError, match="a dataset is a name, a class or a Task, not int"):
        kshot.evaluate(says("1"), 3)
    with pytest.raises(UsageError, match="at least one model and one dataset"):
        kshot.evaluate([], digits())


# ---- several replies ----


def test_a_failed_reply_of_three_is_counted_and_the_others_vote(tmp_path):
    def answer(request):
        return Failed("broken", "no reply", retryable=True) if request.replica == 1 else Generated("x")

    rows = [{"q": str(i), "target": "x"} for i in range(4)]
    model = Fake(answer)
    options = dict(sample_num=3, temperature=1.0, out=tmp_path / "run")
    result = kshot.evaluate(model, generation(rows), **options)
    (row,) = result.results
    assert (row["n"], row["failed"], row["failed_replies"], row["value"]) == (4, 0, 4, 100.0)
    assert all(sample["failed_replies"] == 1 and len(sample["response"]) == 2 for sample in result.samples)
    assert result.first_failures == ["mine on fake: 4 replies failed (broken: no reply; the same command asks again)"]
    model.answer = lambda _: Generated("x")  # the same command asks again what failed, and nothing else
    asked = len(model.asked)
    (row,) = kshot.evaluate(model, generation(rows), **options).results
    assert len(model.asked) == asked + 4
    assert "failed_replies" not in row


def test_a_class_processes_the_replies_that_are_left():
    def post_processing(self, predictions):
        seen.append(list(predictions))
        return [text.lower() for text in predictions]

    def answer(request):
        return Failed("broken", "no reply") if request.replica == 0 else Generated("X")

    seen = []
    cls = generation([{"q": "a", "target": "x"}, {"q": "b", "target": "x"}], post_processing=post_processing)
    (row,) = kshot.evaluate(Fake(answer), cls, sample_num=3, temperature=1.0).results
    assert (row["n"], row["value"], row["failed_replies"]) == (2, 100.0, 2)
    assert seen == [["X", "X"], ["X", "X"], ["", ""]]


def test_pass_at_k_fails_a_sample_with_too_few_programs():
    def answer(request):
        broken = request.replica == 0 and "two" in request.prompt.text
        return Failed("broken", "no reply") if broken else Generated("x = 1")

    rows = [{"q": "one", "target": "assert x == 1"}, {"q": "two", "target": "assert x == 1"}]
    for k, failed in ((1, 0), (2, 1)):
        cls = generation(rows, metrics=[kshot.PassAtK(k=k)])
        (row,) = kshot.evaluate(Fake(answer), cls, sample_num=2, temperature=1.0).results
        assert (row["n"], row["failed"], row["value"]) == (2 - failed, failed, 100.0)


AN_OBJECT_WITH_FIELDS = "__import__('dataclasses').make_dataclass('Answer', ['value'])([lambda: 4])"


@pytest.mark.parametrize(
    "reply", ["lambda: 4", "(n for n in '4')", "[{'4': object()}]", "{object(): 4}", AN_OBJECT_WITH_FIELDS]
)
@pytest.mark.parametrize(
    ("how", "failed"),
    [("value", "answer"), ("text", "answer"), ("list", "answer"), ("clean-up", "answer"), ("metric", "score")],
)
def test_an_answer_without_a_text_of_its_own_is_a_failed_sample(tmp_path, reply, how, failed):
    made = {"value": eval, "text": lambda reply: str(eval(reply)), "list": lambda reply: [eval(reply)]}

    class Value(kshot.Metric):
        name = "value"

        def rate(self, prediction, reference):
            return {"value": eval(prediction)}

    options, body = {}, {"post_processing": lambda self, replies: list(map(made[how], replies))} if how in made else {}
    if how == "clean-up":
        (tmp_path / "own.py").write_text("def value(reply):\n    return eval(reply)\n")
        options["cleanup"] = f"{tmp_path}/own.py:value"
    if how == "metric":
        body["metrics"] = [Value()]
    model = Fake(lambda request: Generated(reply if "two" in request.prompt.text else "1"))
    result = kshot.evaluate(model, generation(**body), **options, out=tmp_path / "run")
    (row,) = result.results
    assert (row["n"], row["failed"]) == (2, 1)
    assert result.samples[1]["failed"].startswith(f"{failed}: ")
    assert " at 0x" not in (tmp_path / "run" / "samples.jsonl").read_text() + str(result.results)


class Unwritable:
    """What an evaluated reply may give, too: an object whose text is an error."""

    def __repr__(self):
        raise OSError


@pytest.mark.parametrize("reply", ["10**5000", "[{'4': -(10**5000)}]", "Unwritable()"])
@pytest.mark.parametrize("how", ["answer", "score"])
def test_a_value_that_python_cannot_write_is_a_failed_sample(reply, how):
    class Value(kshot.Metric):
        name = "value"

        def rate(self, prediction, reference):
            return {"value": eval(prediction)}

    def post_processing(self, replies):
        return [eval(reply) for reply in replies]

    body = {"post_processing": post_processing} if how == "answer" else {"metrics": [Value()]}
    model = Fake(lambda request: Generated(reply if "two" in request.prompt.text else "1"))
    result = kshot.evaluate(model, generation(**body))
    assert (result.results[0]["n"], result.results[0]["failed"]) == (2, 1)
    assert result.samples[1]["failed"].startswith(f"{how}: ")


def test_an_address_that_a_model_writes_is_its_answer():
    text = "<function f at 0x7f7abe4c32e0>"
    rows = [{"q": "What is printed?", "target": text}]
    (row,) = kshot.evaluate(says(text), generation(rows, metrics=[kshot.ExactMatch()])).results
    assert (row["n"], row["value"]) == (1, 100.0)


def test_a_method_that_asks_nothing():
    def known(sample, prompt):
        return "x"
        yield

    for method in (known, repeat(known, 3)):
        task = Task(
            "known", [Sample("s", {}, Answers(("x",)))], lambda sample, shots: Prompt("?"), method, (kshot.Em(),)
        )
        (row,) = kshot.evaluate(says("never"), task).results
        assert (row["n"], row["value"]) == (1, 100.0)
        (preview,) = kshot.preview(task)
        assert preview.requests == ()


def test_a_method_that_yields_no_list_is_an_error_that_names_the_sample():
    def slip(sample, prompt):
        yield Generate(prompt)  # for: yield from ask(Generate(prompt))

    task = Task("slip", [Sample("s7", {})], lambda sample, shots: Prompt("?"), slip, ())
    message = (
        r"dataset slip, sample s7: it cannot be asked: TypeError: Generate\(.* is no list of requests: write yield"
    )
    for use in (kshot.preview, lambda task: kshot.evaluate(says("x"), task)):
        with pytest.raises(DataError, match=message):
            use(task)


def test_any_object_can_be_a_model_even_an_unhashable_one():
    class Unhashable(Fake):
        __hash__ = None

        def __eq__(self, other):
            return NotImplemented

    model = Unhashable(lambda _: Generated("x"))
    (row,) = kshot.evaluate(model, generation([{"q": "a", "target": "x"}])).results
    assert row["value"] == 100.0


def test_text_that_is_no_utf8_damages_no_file(tmp_path):
    for _ in range(2):  # the second time the folder is read
        result = kshot.evaluate(says("x"), generation(), description="\udcff \ud800", out=tmp_path / "run")
    for file in (tmp_path / "run").glob("*.json*"):
        file.read_bytes().decode()
    assert result.samples[0]["prompt"].startswith("\udcff \ud800")


class Agreement(Metric):
    """How many kinds of values there are: a figure of all values, of which some are no numbers."""

    name = "Kinds"

    def rate(self, prediction, reference):
        return {"Kinds": {"pair": [prediction, reference]} if reference else 3}

    def reduce(self, name, values):
        return float(len(set(map(str, values))))


@pytest.mark.parametrize("turn", [1, -1])
def test_values_may_be_anything_that_has_a_text(turn):
    """Their resamples do not depend on the order of the samples."""
    task = digits(metrics=(Agreement(),))
    result = kshot.evaluate(says("1"), digits(metrics=(Agreement(),), samples=task.samples[::turn]))
    row = result.results[-1]
    assert (row["value"], row["aggregate"], row["n"]) == (2.0, "own", 6)
    assert row["ci95"] == [1.0, 2.0]
    assert result.samples[0]["scores"] == {"Kinds": 1.0}
    assert "parts" not in result.samples[0]


def test_a_function_in_a_class_is_a_metric():
    def long(prediction, reference):
        return len(prediction) >= len(reference[0])

    cls = from_rows(GenerationDataset, [{"q": "Why?", "target": "So."}] * 2, instruction="{q}", metrics=[long, "em"])
    result = kshot.evaluate(says("Yes."), cls)
    assert [(row["metric"], row["value"]) for row in result.results] == [("long", 1.0), ("EM", 0.0)]
