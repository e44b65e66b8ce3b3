"""How dataset classes behave: what is called when, what wins over what, and what is never shared."""

from functools import cached_property

import numpy as np
import pytest

import kshot
from kshot import Accuracy, Em, GenerationDataset, Perplexity
from kshot.core.errors import DataError, UsageError
from kshot.core.records import Likelihood, Prompt, Scored
from kshot.datasets.settings import DatasetSettings
from kshot.datasets.source import compile_dataset
from tests.datasets.fakes import QUESTIONS, Fake, asked, choice, from_rows, generation, prefers, says, texts, values

# ---- what is called when ----


def test_init_arguments_comes_before_loading_and_sees_the_settings():
    calls = []

    class Mine(GenerationDataset):
        metrics = (Em(),)

        def init_arguments(self):
            calls.append(("init", self.model_type, self.num_shots, self.subset_name, self.args.seed))
            self.instruction = "{q}!"
            self.evaluation_set = "late"

        def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
            calls.append(("load", dataset_path, subset_name, evaluation_set, example_set))
            self.evaluation_data = QUESTIONS

        def format_instance(self, instance):
            return instance

    assert texts(Mine, model_type="chat", seed=5, dataset_path="here") == ["one!", "two!", "three!"]
    assert calls == [("init", "chat", 0, None, 5), ("load", "here", None, "late", None)]
    texts(Mine, evaluation_set="mine", example_set="other")
    assert calls[-1] == ("load", None, None, "mine", "other")  # what the user says wins


def test_the_users_instruction_wins_and_its_escapes_are_decoded():
    class Mine(generation()):
        def init_arguments(self):
            self.instruction = "class: {q}"

    assert texts(Mine, limit=1) == ["class: one"]
    assert texts(Mine, limit=1, instruction=r"Q\t{q}\nA\\n\u00e9") == ["Q\tone\nA\\né"]
    assert texts(Mine, limit=1, instruction=r"{{ q + '\n!' if q }}") == ["one\n!"]


def test_the_template_context():
    row = {"q": "x", "target": "y"}
    keys = ("dataset_name", "subset_name", "display_name", "num_turns", "turn_idx", "real_num_shots", "example_idx")
    cls = generation([row], [row, row], instruction="|".join(f"{{{key}}}" for key in keys), subset_name="sub")
    assert texts(cls, num_shots=2) == [
        "mine|sub|mine:sub|0|-1|2|0 y\n\nmine|sub|mine:sub|0|-1|2|1 y\n\nmine|sub|mine:sub|0|0|2|-1"
    ]


METHODS = ("init_arguments", "load_raw_dataset", "references", "post_processing", "construct_examples")


@pytest.mark.parametrize("method", METHODS)
def test_a_method_that_fails_is_named(method):
    def broken(self, *args):
        raise OverflowError("my mistake")

    cls = generation(**{method: broken})
    with pytest.raises(DataError, match=f"^dataset mine: {method} fails: OverflowError: my mistake"):
        kshot.evaluate(says("x"), cls)


def test_format_instance_failures_name_the_row():
    cls = generation([{"id": "r7", "q": 1}], format_instance=lambda self, row: {"q": row["question"]})
    with pytest.raises(DataError, match=r"row 0 \(id r7\): format_instance wants 'question'; the row has: id, q"):
        texts(cls)
    with pytest.raises(DataError, match="row 0: format_instance fails: TypeError"):
        texts(generation(format_instance=lambda self, row: row["q"] + 1))
    with pytest.raises(DataError, match="row 0: format_instance returned tuple, not a dict"):
        texts(generation(format_instance=lambda self, row: (1, 2)))


@pytest.mark.parametrize(
    ("rows", "message"),
    [([], "no rows to evaluate"), (["text"], "row 0: a row must be a dict of named fields, not str")],
)
def test_rows_that_cannot_be_used(rows, message):
    with pytest.raises(DataError, match=message):
        texts(generation(rows))


def test_a_stream_is_not_a_list_of_rows():
    def load_raw_dataset(self, *args):
        self.evaluation_data = iter(QUESTIONS)

    with pytest.raises(DataError, match="evaluation_data is list_iterator, not a list of rows"):
        texts(generation(load_raw_dataset=load_raw_dataset))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"instruction": None}, "it has no instruction. Set one, or give --instruction"),
        ({"metrics": []}, "it has no metrics. Set metrics"),
        ({"metrics": Em()}, r"metrics is .*Write a list"),
        ({"metrics": [Em]}, r"metrics has .*Write Em\(\)"),
        ({"metrics": [5]}, "metrics has 5, which is not a metric. See kshot list metrics"),
        ({"load_args": ("race")}, r"load_args is a text. Write it as a tuple: \('race',\)"),
        ({"load_args": 5}, "load_args is 5. Write a tuple: the dataset on the hub"),
        ({"load_args": ("race", 3)}, "load_args is .*Write a tuple: the dataset on the hub"),
        ({"instruction": "{gone}"}, "sample 0: the template wants 'gone'"),
        ({"multi_turn": True}, "row 0: multi_turn needs source to be a list of turns"),
        ({"category_column": "kind"}, "row 0: the row has no category column 'kind'"),
        ({"references": ["1"]}, "references has 1 entries for 3 rows"),
        ({"post_processing": lambda self, p: p[:1]}, "post_processing returned 1 answers for 3 rows"),
        ({"metrics": [Em(), Perplexity()]}, "Perplexity cannot be mixed"),
    ],
)
def test_faulty_classes(body, message):
    with pytest.raises(DataError, match=message):
        kshot.evaluate(says("x"), generation(**body))


def test_a_bare_dataset_must_be_of_a_kind():
    with pytest.raises(DataError, match="Subclass MultipleChoiceDataset or GenerationDataset"):
        texts(from_rows(kshot.Dataset, QUESTIONS, instruction="{q}"))


def test_without_format_instance_or_evaluation_set():
    class Empty(GenerationDataset):
        instruction = "{q}"
        metrics = (Em(),)

    with pytest.raises(DataError, match="evaluation_set is not set"):
        texts(Empty)
    with pytest.raises(DataError, match="does not define format_instance"):
        texts(
            from_rows(
                GenerationDataset, QUESTIONS, instruction="", metrics=[Em()], format_instance=Empty.format_instance
            )
        )


# ---- references ----


@pytest.mark.parametrize("kind", [property, cached_property, lambda method: method])
def test_references_may_be_a_property_or_a_method(kind):
    cached = kind(lambda self: [[row["target"], "x"] for row in self.evaluation_data])
    if isinstance(cached, cached_property):
        cached.__set_name__(None, "references")
    result = kshot.evaluate(says("x"), generation(references=cached), limit=2)
    assert [row["target"] for row in result.samples] == [["1", "x"], ["2", "x"]]
    assert values(result) == {"mine": {"EM": 100.0}}


@pytest.mark.parametrize(("given", "index"), [(1, 1), ("1", 1), ("B", 1), (True, 1), (np.int64(1), 1), (1.0, 1)])
def test_references_of_options(given, index):
    cls = choice([{"options": ["a", "b"]}], instruction="?", references=[given])
    assert kshot.evaluate(prefers(), cls).samples[0]["target"] == index


@pytest.mark.parametrize("given", [None, "C", 0.5, "blue", [0, "C"]])
def test_references_that_are_no_option(given):
    with pytest.raises(DataError, match=r"row 0: the reference is .*; it must be"):
        texts(choice([{"options": ["a", "b"]}], instruction="?", references=[given]))


# ---- categories, ids, limit ----


def test_category_column():
    rows = [row | {"kind": kind} for row, kind in zip(QUESTIONS, "aba", strict=True)]
    found = values(kshot.evaluate(says("1"), generation(rows, category_column="kind")))
    assert found == {"mine[a]": {"EM": 50.0}, "mine[b]": {"EM": 0.0}, "mine": {"EM": pytest.approx(100 / 3)}}


def test_ids_of_rows():
    rows = [{"id": "x-1", "q": "a"}, {"id": 7, "q": "b"}, {"id": None, "q": "c"}, {"id": "", "q": "d"}]
    assert [each.id for each in kshot.preview(generation(rows))] == ["x-1", "7", "2", "3"]
    named = generation([{"uid": "u", "id": "i", "q": "a"}], id_column="uid")
    assert [each.id for each in kshot.preview(named)] == ["u"]


def test_two_rows_with_one_id():
    rows = [{"id": "x", "q": "a", "target": "1"}, {"id": "x", "q": "b", "target": "1"}]
    with pytest.raises(DataError, match=r"dataset mine: two samples have the id 'x'.*id_column = None"):
        kshot.evaluate(says("1"), generation(rows))
    result = kshot.evaluate(says("1"), generation(rows, id_column=None))
    assert [row["id"] for row in result.samples] == ["0", "1"]


def test_limit():
    assert texts(generation(), limit=2) == ["one:", "two:"]
    assert texts(generation(), limit=9) == ["one:", "two:", "three:"]


# ---- nothing is shared ----


def test_normalisation_does_not_leak():
    plain, normal = choice(), choice(use_normalization=True)
    backend = prefers("blue", "hot")
    first = kshot.evaluate(backend, [normal, plain])
    rules = ["acc", "acc_norm", "acc_bytes", "acc_token"]
    assert [(row["metric"], row.get("rule")) for row in first.results] == [
        ("Accuracy", "acc_mutual_info"),
        *((rule, None) for rule in (*rules, "acc_mutual_info")),
        ("Accuracy", "acc_token"),
        *((rule, None) for rule in rules),
    ]
    by_letter = kshot.evaluate(prefers("A"), normal, ranking_type="prob")
    assert [(row["metric"], row.get("rule")) for row in by_letter.results] == [("Accuracy", None)]


def test_what_an_instance_adds_stays_its_own():
    shared = {
        "metrics": [Em()],
        "extra_model_args": {"stop": ["a"]},
        "categorized_subsets": {"g": ["s"]},
        "banned_subsets": ["t"],
        "supported_cot": ["base"],
    }

    class Mine(generation(**shared)):
        def init_arguments(self):
            self.metrics.append(Accuracy())
            self.extra_model_args["stop"].append("b")
            self.extra_model_args["max_tokens"] = 3
            self.categorized_subsets["g"].append("u")
            self.banned_subsets.append("v")
            self.supported_cot.append("pal")
            self.jinja2_env.globals["x"] = 1

    for _ in range(2):
        dataset = Mine(DatasetSettings())
        compile_dataset(dataset)
        assert dataset.extra_model_args == {"stop": ["a", "b"], "max_tokens": 3}
        assert len(dataset.metrics) == 2
    assert (len(Mine.metrics), Mine.extra_model_args, Mine.categorized_subsets) == (1, {"stop": ["a"]}, {"g": ["s"]})
    assert (Mine.banned_subsets, Mine.supported_cot) == (["t"], ["base"])
    other = generation()(DatasetSettings())
    assert other.extra_model_args == {}
    assert "x" not in other.jinja2_env.globals


def test_examples_load_only_when_they_are_used(tmp_path):
    (tmp_path / "test.jsonl").write_text('{"q": "one", "target": "1"}\n')

    class Mine(GenerationDataset):
        instruction, metrics, evaluation_set, example_set = "{q}", [Em()], "test", "train"

        def format_instance(self, instance):
            return instance

    assert texts(Mine, dataset_path=tmp_path) == ["one"]  # no train split, and none is needed
    with pytest.raises(DataError, match="no file for split 'train'"):
        texts(Mine, dataset_path=tmp_path, num_shots=1)
    with pytest.raises(DataError, match="cannot be both 'test' and 'train'"):
        texts(Mine, dataset_path=tmp_path / "test.jsonl", num_shots=1)


def test_perplexity_of_the_target():
    cls = generation(QUESTIONS[:1], metrics=[Perplexity()])
    (request,) = asked(cls)
    assert (request.prompt.text, request.continuations) == ("one:", (" 1",))
    result = kshot.evaluate(Fake(lambda _: Scored((Likelihood(-2.0, 2, greedy=True),))), cls)
    per_text = pytest.approx(np.exp(2))
    assert values(result, details=True) == {
        "mine": {
            "PPL": pytest.approx(np.e),
            "word_perplexity": per_text,
            "byte_perplexity": per_text,
            "bits_per_byte": pytest.approx(2 / np.log(2)),
            "perplexity": per_text,
            "acc": 100.0,
        }
    }
    assert result.samples[0]["answer"] == {"nll": 2.0, "tokens": 2, "words": 1, "bytes": 1, "greedy": True}
    assert result.samples[0]["response"] == [{"text": " 1", "logprob": -2.0, "tokens": 2, "greedy": True}]
    with pytest.raises(DataError, match="sample 0: perplexity needs a target text"):
        texts(generation([{"q": "one"}], metrics=[Perplexity()]))


def test_an_accuracy_of_targets_that_is_not_known_is_left_out_and_said():
    cls = generation(metrics=[Perplexity()])
    greedy = iter([True, None, False])
    result = kshot.evaluate(Fake(lambda _: Scored((Likelihood(-2.0, 2, next(greedy)),))), cls)
    assert "acc" not in values(result)["mine"]
    assert [("acc" in row["scores"], "greedy" in row["response"][0]) for row in result.samples] == [
        (True, True),
        (False, False),
        (True, True),
    ]
    (note,) = [note for note in result.notes if "acc" in note]
    assert note == "mine on fake: acc is left out: it is not known which tokens are the likeliest (1 of 3 samples)"


def test_documents_are_measured_whole_and_by_themselves():
    rows = [{"q": "x", "target": "  Two  words\n"}, {"q": "y", "target": "日本"}]
    cls = generation(rows, rows, metrics=[Perplexity()], rolling=True)
    for found in (asked(cls), asked(generation(rows, metrics=[Perplexity()]), rolling=True)):
        assert [(r.prompt, r.continuations, r.rolling) for r in found] == [
            (Prompt(), (row["target"],), "auto") for row in rows
        ]
    assert {request.rolling for request in asked(cls, rolling_start="none")} == {"none"}
    assert [r.prompt for r in asked(cls, num_shots=2)] == [Prompt(), Prompt()]
    result = kshot.evaluate(Fake(lambda _: Scored((Likelihood(-3.0, 2, greedy=True),))), cls, num_shots=2)
    assert values(result, details=True)[
        "mine"
    ] == {  # words as lm-eval counts: what white space separates, empty ends too
        "PPL": pytest.approx(np.exp(6 / 4)),
        "word_perplexity": pytest.approx(np.exp(6 / (4 + 1))),
        "byte_perplexity": pytest.approx(np.exp(6 / (13 + 6))),
        "bits_per_byte": pytest.approx(6 / 19 / np.log(2)),
    }
    assert "mine: documents are measured by themselves: no examples are shown" in result.notes
    assert [r.prompt.text for r in asked(cls, rolling=False)] == ["x:", "y:"]
    empty = generation([{"target": ""}, *rows], metrics=[Perplexity()], rolling=True)
    assert next(r.continuations for r in asked(empty)) == ("",)  # the model says that it has no tokens
    lonely = generation(rows, metrics=[Perplexity()], rolling=True)  # nor are any needed
    assert [r.prompt for r in asked(lonely, num_shots=2)] == [Prompt(), Prompt()]
    with pytest.raises(UsageError, match="rolling measures documents, and needs the metric Perplexity"):
        texts(generation(rows, rolling=True))

    with pytest.raises(UsageError, match="--rolling is for datasets of generation"):
        texts(choice(), rolling=True)

    class Bare(GenerationDataset):
        metrics, rolling, evaluation_data = ("perplexity",), True, rows

        def load_raw_dataset(self, *_):
            pass

        def format_instance(self, instance):
            return instance

    assert len(asked(Bare)) == 2  # it needs no instruction


def test_likely_mistakes_are_noted():
    rows = [{"question": "q", "target": "a"}]
    typo = from_rows(
        GenerationDataset,
        rows,
        instruction="{{ quesion }}{{ nick if nick }}",
        metrics=[kshot.Em()],
        category_subsets={},
    )
    result = kshot.evaluate(says("a"), typo)
    assert result.notes == [
        "mine: the instruction uses 'nick', which row 0 does not have: it renders as nothing",
        "mine: the instruction uses 'quesion', which row 0 does not have: it renders as nothing",
        "mine: the class defines 'category_subsets', which means nothing to kshot; 'categorized_subsets' would",
    ]
    fine = from_rows(
        GenerationDataset, rows, instruction="{{ question }}{{ options }}{{ range(3) | list }}", metrics=[kshot.Em()]
    )
    assert kshot.evaluate(says("a"), fine).notes == []
