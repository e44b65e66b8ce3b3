"""Token lookup as a source: which tasks, which rules, and which options it refuses."""

import json

import pytest

import kshot
from kshot.core.errors import UsageError
from kshot.core.protocols import Abilities
from kshot.core.records import Failed, Generate, Generated
from kshot.lookup.generate import LOOKUP_TASKS, answers, generate
from kshot.lookup.settings import LookupSettings
from kshot.lookup.source import LookupSamples, LookupSource
from tests.commands import kshot as command
from tests.measures import names


class Right:
    """Answers the known tasks from the last line of the prompt, and all others with a question mark."""

    name = fingerprint = "right"
    answers = (Generate,)

    def __init__(self, *known):
        self.known = known

    def serve(self, queue):
        for request in queue:
            *context, query = request.prompt.text.split("\n\n")[-1].replace("|", " ").rstrip(":").split()
            found = answers("".join(context), query)
            yield request, Generated(next((found[task] for task in self.known if task in found), "?"))


def tasks(text, model=None, **options):
    return list(LookupSource(text).tasks(LookupSettings(**options), model))


def test_the_tasks_that_are_named_or_all():
    named = tasks("lookup: UR ,UL,UR", length=(8,), samples=2)
    assert [task.name for task in named] == ["lookup:UR:8:sep|small|simple_rule", "lookup:UL:8:sep|small|simple_rule"]
    assert [task.labels["lookup"] for task in tasks("lookup", length=(8,), samples=2)] == list(LOOKUP_TASKS)
    assert all(task.kind == "lookup" and isinstance(task.samples, LookupSamples) for task in named)
    with pytest.raises(UsageError, match=r"there is no lookup task 'UX'\. Choose from UL, UR, NLFirst"):
        tasks("lookup:UX")


def test_samples_are_made_anew_on_each_pass():
    (task,) = tasks("lookup:UL", length=(8,), samples=5, limit=3)
    first, second = list(task.samples), list(task.samples)
    assert first == second
    assert len(task.samples) == 3
    assert [(sample.id, sample.position) for sample in first] == [("0", 0), ("1", 1), ("2", 2)]


@pytest.mark.parametrize(("name", "value"), [("metric", ("em",)), ("cleanup", "first-capital")])
def test_options_without_effect_are_refused(name, value):
    with pytest.raises(UsageError, match=rf"--{name} has no effect on token lookup.*-d NAME,{name}="):
        tasks("lookup:UL", **{name: value})
    with pytest.raises(UsageError, match=rf"--{name} has no effect on token lookup"):
        kshot.preview("lookup:UL", **{name: value})


def test_one_data_file():
    with pytest.raises(UsageError, match="takes one --data file"):
        tasks("lookup:UR", data=("a.jsonl", "b.jsonl"))


def test_gaps_compare_tasks_on_the_same_records():
    result = kshot.evaluate(Right("UR"), "lookup:UR,UL", length=[8], samples=20, variant=["sep|small|bare"])
    accuracy = {row["lookup"]: row["value"] for row in result.results if row["metric"] == "Accuracy"}
    assert accuracy["UR"] == 100.0
    (gap,) = [row for row in result.results if row["metric"] == "gap: right - left"]
    assert (gap["lookup"], gap["n"], gap["value"]) == ("UR-UL", 20, 100.0 - accuracy["UL"])
    assert (gap["kind"], gap["length"], gap["variant"]) == ("lookup", 8, "sep|small|bare")
    assert (gap["higher_is_better"], gap["failed"]) == (True, 0)


class Losing(Right):
    """Loses the answers to some of the requests, by their number."""

    def __init__(self, *lost):
        super().__init__("UR")
        self.lost = lost

    def serve(self, queue):
        for at, (request, answer) in enumerate(super().serve(queue)):
            yield request, Failed("timeout", "no answer") if at in self.lost else answer


def test_a_gap_counts_the_records_that_failed_in_either_task(tmp_path, capsys):
    options = {"length": [8], "samples": 20, "variant": ["sep|small|bare"], "out": tmp_path / "run", "fsync": "never"}
    result = kshot.evaluate(Losing(0, 1, 22), "lookup:UR,UL", **options)
    (gap,) = [row for row in result.results if row["metric"] == "gap: right - left"]
    assert (gap["n"], gap["failed"]) == (17, 3)
    shown = command(capsys, "show", str(tmp_path / "run")).out
    assert f"UR is {gap['value']:.0f}† points ahead of UL" in " ".join(shown.split())


def test_recorded_completions_are_read_by_the_rules_of_their_kind(tmp_path):
    (record,) = generate("unique", 8, 1, 1)
    row = {"input": record["input_with_space"], "target": record["UL"], "full_output": "x", "prompt": "p", "task": "UL"}
    file = tmp_path / "recorded.jsonl"
    file.write_text(json.dumps(row) + "\n" + json.dumps(row) + "\n")
    (task,) = tasks("lookup", data=(str(file),))
    assert names(task.metrics[0])[:2] == ("Accuracy", "Accuracy:first word")
    assert [sample.fields["replica"] for sample in task.samples] == [0, 1]
    file.write_text(json.dumps(row | {"kind": "instruct"}) + "\n")

    class Replaying(Right):
        notes, abilities = (), Abilities(recording=file)

        def close(self):
            pass

    (task,) = tasks("lookup:UL", Replaying())
    assert names(task.metrics[0])[:2] == ("Accuracy", "Accuracy:tolerant")
    with pytest.raises(UsageError, match="the recording holds none of UR"):
        tasks("lookup:UR", Replaying())
