"""Every case of the golden file; where a case has a quirk, the documented behaviour."""

import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest

import kshot
from kshot.core.records import Generate, Generated, Likelihood, Loglik, Scored
from kshot.datasets import GenerationDataset, MultipleChoiceDataset
from kshot.datasets.settings import DatasetSettings
from kshot.datasets.source import compile_dataset
from kshot.metrics import F1, Accuracy, Em

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "golden_datasets.json").read_text())
CASES = {case["id"]: case for case in GOLDEN["cases"]}
BASES = {"MultipleChoiceDataset": MultipleChoiceDataset, "GenerationDataset": GenerationDataset}

GEMMA_LIKE = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    "<{{ m.role }}>{{ m.content }}{% endfor %}"
)


def dataset_of(case):
    """Build the class of a case; its format_instance replays what the original's gave."""
    spec = case["dataset"]
    rows, shown = spec["raw_evaluation_data"], spec["raw_example_data"]
    made = {}
    drawn = case["expected"]["random_indice"] or []
    for row, formatted in zip(
        [*rows, *(shown[i] for i in drawn)], spec["format_instance_calls_in_order"], strict=False
    ):
        made[json.dumps(row, sort_keys=True)] = formatted

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        self.evaluation_data, self.example_data = rows, shown

    def init_arguments(self):
        self.jinja2_env.globals["preprocess"] = _preprocess

    body = {
        "instruction": spec["instruction"],
        "name": "my_data",
        "load_raw_dataset": load_raw_dataset,
        "init_arguments": init_arguments,
        "format_instance": lambda self, instance: dict(made[json.dumps(instance, sort_keys=True)]),
        "subset_name": spec["subset_name"],
    }
    for name in ("use_normalization", "normalization_prompt", "supported_cot", "multi_turn"):
        if name in spec:
            body[name] = spec[name]
    if spec["base"] == "GenerationDataset":
        body["metrics"] = [Em(), F1()]
    elif not any({"target_idx", "label", "source_idx", "target"} & set(f) for f in made.values()):
        body["references"] = property(lambda self: [int(row["label"]) for row in self.evaluation_data])
    return type(spec["class"].replace(" ", ""), (BASES[spec["base"]],), body)


def _preprocess(text):  # HellaSwag's own helper
    return text.replace(" [title]", ".").replace(" [substeps]", "").replace("  ", " ")


def options_of(case, tmp_path):
    args = {k: v for k, v in case["args"].items() if k not in {"tokenizer", "chat_template", "max_example_tokens"}}
    if case["args"].get("chat_template") == "gemma":  # a template without a system role: the text joins the first turn
        file = tmp_path / "gemma.jinja"
        file.write_text(GEMMA_LIKE)
        args["chat_template"] = file
    return args


def documented(case, instances):
    """What the documentation says where the original's output contradicts it."""
    match case["id"]:
        case "mcq-fstring-options-none":  # None renders as nothing
            return [[source.replace("None", ""), target] for source, target in instances]
        case "mcq-label-str-leading-space-ppl_no_option":  # an option's own spaces are stripped
            return [[source, " " + target.strip()] for source, target in instances]
        case "mcq-no-target-prob":  # the options are listed whether or not there is a target
            return [
                [
                    "A man is sitting on a roof. He\nA. is using wrap.\nB. is ripping tiles.\nC. holds a cube. \nAnswer:",
                    3,
                ]
            ]
        case "multictx-1shot":  # evaluated contexts are wrapped by the instruction as the example is
            wrapped = "Answer the following question.\n\n{}\nAnswer:"
            head = wrapped.format("Tom beat Bob so Tom") + " won.\n\n"
            contexts = ["Sarah was better than Maria so Sarah", "Sarah was better than Maria so Maria"]
            return [[head + wrapped.format(context), " always got the easier cases."] for context in contexts]
        case "ranking-target-text-prob-1shot":  # letters are listed and answered with
            return [["sun?\nA. hot\nB. cold\nA: A\n\nsky?\nA. red\nB. blue\nA:", 2]]
        case "llmbox-arc-prob":  # no normalised copies: probability does not use them
            return instances[:1]
        case "ws-0shot":  # values are stripped
            return [_stripped(each) for each in instances]
        case "cmdline-instruction":  # values are stripped
            return [{"messages": [{"role": "user", "content": "Say\nComplete:!"}], "prompt": "Say\nComplete:!"}]
        case "reserved-keys":  # None is nothing; real_num_shots, turn_idx and num_turns as the table says
            texts = ["[0|-1|0|2|my_data|sub|my_data:sub|||] ex0", "[1|-1|0|2|my_data|sub|my_data:sub|||] ex1"]
            last = "[-1|0|0|2|my_data|sub|my_data:sub|||] eval"
            return [{"messages": None, "prompt": f"{texts[0]} 2\n\n{texts[1]} 3\n\n{last}"}]
    return instances


def _stripped(instance):
    messages = [{**m, "content": m["content"].strip()} for m in instance["messages"]]
    return {"messages": messages, "prompt": instance["prompt"]}


@pytest.mark.parametrize("name", CASES)
def test_prompts(name, tmp_path):
    case = CASES[name]
    if name == "tokens-limit-0":
        pytest.skip("the token budget needs a tokenizer: see test_token_budget")
    expected = documented(case, case["expected"]["instances"])
    got = kshot.preview(dataset_of(case), **options_of(case, tmp_path))
    chat = case["args"].get("model_type") == "chat"
    requests = [request for each in got for request in each.requests]
    if case["expected"]["model_evaluation_method"] == "generation":
        repeats = case["args"].get("sample_num", 1)
        shown = [(r.prompt, r.replica) for r in requests]
        assert [replica for _, replica in shown] == [*range(repeats)] * len(got)
        firsts = [prompt for prompt, replica in shown if replica == 0]
        for prompt, want in zip(firsts, expected, strict=False):
            if chat and case["args"].get("chat_template"):
                assert [{"role": m.role, "content": m.content} for m in prompt.messages] == want["messages"]
            else:
                assert prompt.text == want["prompt"]
        return
    if case["expected"]["model_evaluation_method"] == "get_prob":
        assert [[r.prompt.text, len(r.continuations) // 2] for r in requests] == expected
        assert requests[0].continuations[:2] == (" A", " B")
        assert requests[0].continuations[-1] == requests[0].continuations[len(requests[0].continuations) // 2 - 1][1:]
        return
    pairs = [[r.prompt.text, text] for r in requests for text in r.continuations]
    if chat:  # the rendered text is the original's own; its messages and bare answers are compared
        contents = [m.content for m in requests[0].prompt.messages]
        assert all(content in expected[0][0] for content in contents)
        assert [text for _, text in pairs] == [target for _, target in expected]
        return
    assert sorted(pairs) == sorted(expected)


def test_token_budget():
    case = CASES["tokens-limit-0"]
    task = compile_dataset(dataset_of(case)(DatasetSettings(num_shots=3, max_example_tokens=5))).task(
        count_tokens=lambda text: len(text.encode())
    )
    (request,) = next(task.ask(next(iter(task.samples))))
    assert request.prompt.text == case["expected"]["instances"][0]["prompt"]
    assert task.facts["shots"] == 0
    assert task.notes == ("my_data: 0 of 3 examples fit 5 tokens",)


# ---- post-processing ----


def rows_dataset(option_nums, references, **body):
    rows = [
        {"question": f"q{i}", "n": n, "answer": a} for i, (n, a) in enumerate(zip(option_nums, references, strict=True))
    ]

    def load_raw_dataset(self, *args):
        self.evaluation_data = rows

    def format_instance(self, row):
        return {
            "question": row["question"],
            "options": [f"{row['question']}o{j}" for j in range(row["n"])],
            "target_idx": row["answer"],
        }

    made = {
        "name": "my_data",
        "instruction": "{question}{options}",
        "load_raw_dataset": load_raw_dataset,
        "format_instance": format_instance,
    }
    return type("MyData", (MultipleChoiceDataset,), made | body)


class Recorded:
    """Answers each request with the recorded raw prediction of its question."""

    name = fingerprint = "recorded"
    answers = (Generate, Loglik)

    def __init__(self, answer):
        self._answer = answer

    def serve(self, queue):
        for request in queue:
            yield request, self._answer(request)


def raw_answers(case):
    """From the flat predictions of the original to an answer per request."""
    flat, nums, kind = case["raw_predictions"], case["option_nums"], case["ranking_type"]
    starts = [sum(nums[:i]) for i in range(len(nums))]

    def answer(request):
        if kind == "generation":
            return Generated(flat[int(request.prompt.text.split("q")[1].split("A.")[0])])
        if kind == "prob":
            row = flat[int(request.prompt.text.split("q")[1].split("A.")[0])]
            return Scored(tuple(Likelihood(p, 1) for p in [*map(math.log, row), *(-9.0 for _ in row)]))
        shift = sum(nums) if request.prompt.text.startswith("Question:") else 0
        question = int(request.continuations[0].split("q")[1].split("o")[0])
        pairs = flat[shift + starts[question] : shift + starts[question] + nums[question]]
        return Scored(tuple(Likelihood(-nll, tokens) for nll, tokens in pairs))

    return answer


READ_OTHERWISE = {"Answer: A. apple, not B": 0, "b": 1}
"""Replies whose last capital letter the original takes; kshot's rules read them as a reader does."""


def as_kshot_reads(case):
    """Return a case with the answers, and so the accuracy, that kshot documents."""
    if case["ranking_type"] != "generation":
        return case
    processed = [READ_OTHERWISE.get(r, p) for r, p in zip(case["raw_predictions"], case["processed"], strict=True)]
    right = [100.0 * (p == r) for p, r in zip(processed, case["references"], strict=True)]
    figures = dict.fromkeys(case["metrics"]["my_data"], sum(right) / len(right))
    return case | {"processed": processed, "metrics": {"my_data": figures}}


PROCESSED = [as_kshot_reads(case) for case in GOLDEN["post_processing"]]


@pytest.mark.parametrize("case", PROCESSED, ids=lambda case: case["id"])
def test_post_processing(case):
    cls = rows_dataset(case["option_nums"], case["references"], use_normalization=case["use_normalization"])
    result = kshot.evaluate(Recorded(raw_answers(case)), cls, ranking_type=case["ranking_type"])
    assert [row["answer"] for row in result.samples] == case["processed"]
    # the original's Accuracy:Norm is kshot's acc_mutual_info, the headline of such a dataset
    headlines = [(row["metric"], row["value"]) for row in result.results if not row.get("detail")]
    assert headlines == [("Accuracy", value) for value in case["metrics"]["my_data"].values()]
    if case["use_normalization"] and "ppl" in case["ranking_type"]:
        assert result.results[0]["rule"] == "acc_mutual_info"
    unanswered = case["processed"].count(-1)
    assert result.results[0].get("unanswered", 0) == unanswered
    # the same through the method a user may call or override
    dataset = cls(DatasetSettings(ranking_type=case["ranking_type"]))
    compile_dataset(dataset)
    assert list(dataset.post_processing(case["raw_predictions"])) == case["processed"]


@pytest.mark.parametrize("case", PROCESSED, ids=lambda case: case["id"])
def test_an_overridden_post_processing_sees_the_documented_raw_form(case):
    seen = SimpleNamespace(raw=None)

    def post_processing(self, predictions):
        seen.raw = predictions
        return MultipleChoiceDataset.post_processing(self, predictions)

    normalised = case["use_normalization"]
    cls = rows_dataset(
        case["option_nums"], case["references"], use_normalization=normalised, post_processing=post_processing
    )
    result = kshot.evaluate(Recorded(raw_answers(case)), cls, ranking_type=case["ranking_type"])
    assert [row["answer"] for row in result.samples] == case["processed"]
    raw = [list(each) if isinstance(each, tuple) else each for each in seen.raw]
    if case["ranking_type"] == "prob":
        raw = [[math.exp(each) for each in logprobs[: len(logprobs) // 2]] for logprobs in raw]
        assert raw == [pytest.approx(each) for each in case["raw_predictions"]]
        return
    assert raw == case["raw_predictions"]


# ---- aggregation ----


def aggregated(result):
    found = {}
    for row in result.results:
        found.setdefault(row["task"], {})[row["metric"]] = row["value"]
    return found


def test_majority_of_three():
    case = next(c for c in GOLDEN["aggregation"] if c["id"] == "mode-over-3-samples")
    flat = case["raw_predictions"]

    def answer(request):
        question = int(request.prompt.text.split("q")[1].split("A.")[0])
        return Generated(flat[request.replica * 2 + question])

    result = kshot.evaluate(Recorded(answer), rows_dataset([4, 4], case["references"]), sample_num=3)
    assert aggregated(result) == {task: pytest.approx(values) for task, values in case["result"].items()}
    assert any("temperature 0 becomes 1" in note for note in result.notes)
    assert any("goes by generation" in note for note in result.notes)


def test_categories_of_subsets():
    case = next(c for c in GOLDEN["aggregation"] if c["id"] == "categories")
    asked = [(name.split(":")[1], question) for name in case["datasets"] for question in (0, 1)]
    replies = dict(zip(asked, case["raw_predictions"], strict=True))
    cls = rows_dataset(
        [4, 4],
        case["references"][:2],
        instruction="{subset_name}q{question}{options}",
        categorized_subsets=case["categorized_subsets"],
        banned_subsets=["s5"],  # did not run in the original either
    )

    def answer(request):
        subset, _, question = request.prompt.text.split("A.")[0].partition("q")
        return Generated(replies[subset, int(question.removeprefix("q"))])

    result = kshot.evaluate(Recorded(answer), cls, ranking_type="generation")
    assert aggregated(result) == {task: pytest.approx(values) for task, values in case["result"].items()}
    assert all(row["ci95"][0] <= row["value"] <= row["ci95"][1] for row in result.results)


def test_category_column():
    case = next(c for c in GOLDEN["aggregation"] if c["id"] == "category-column")
    rows = [
        {"q": f"q{i}", "a": a, "grp": g}
        for i, (a, g) in enumerate(zip(case["references"], case["categories"], strict=True))
    ]

    class MyData(MultipleChoiceDataset):
        instruction = "{q}{options}"
        category_column = "grp"
        metrics = [Accuracy()]

        def load_raw_dataset(self, *args):
            self.evaluation_data = rows

        def format_instance(self, row):
            return {"q": row["q"], "options": ["a", "b", "c", "d"], "target_idx": row["a"]}

    replies = case["raw_predictions"]
    backend = Recorded(lambda request: Generated(replies[int(request.prompt.text[1])]))
    result = kshot.evaluate(backend, MyData, ranking_type="generation")
    assert aggregated(result) == {task: pytest.approx(values) for task, values in case["result"].items()}
