"""The examples of the document that dataset classes follow, run as it prints them.

Changed are only the import lines and the slips that the specification names; ``...`` is filled in by a subclass.
"""

import json
from functools import cached_property

import pytest

import kshot
from kshot import F1, Accuracy, Dataset, Em, GenerationDataset, GPTEval, MultipleChoiceDataset
from kshot.core.records import Generated, Likelihood, Message, Scored
from tests.datasets.fakes import Fake, from_rows, prefers, says, values

NAMES = {
    "Accuracy": Accuracy,
    "Em": Em,
    "F1": F1,
    "GPTEval": GPTEval,
    "GenerationDataset": GenerationDataset,
    "MultipleChoiceDataset": MultipleChoiceDataset,
    "Dataset": Dataset,
    "List": list,
    "Tuple": tuple,
}


def printed(code, **more):
    """Run a listing and give the class it defines."""
    names = {**NAMES, **more}
    exec(code, names)
    return names.get("MyDataset") or names["NewDataset"]


def rows_in(tmp_path, **splits):
    for split, rows in splits.items():
        (tmp_path / f"{split}.json").write_text(json.dumps(rows))
    return tmp_path


MULTIPLE_CHOICE = """
class MyDataset(MultipleChoiceDataset):
    instruction = "Answer the following question.\\n\\n{{question}}{{'\\n' + options if options}}\\nAnswer:"

    def format_instance(self, instance):
        return dict(
            question=instance["question"],
            target_idx=instance["answer"],
            options=[instance[label] for label in ["A", "B", "C", "D"]],
        )
"""
QUESTION = {
    "question": "[Question A]",
    "A": "[Answer A]",
    "B": "[Answer B]",
    "C": "[Answer C]",
    "D": "[Answer D]",
    "answer": 2,
}


@pytest.fixture
def choice(tmp_path):
    class Whole(printed(MULTIPLE_CHOICE)):
        evaluation_set = "test"
        load_args = (str(rows_in(tmp_path, test=[QUESTION])),)

    return Whole


def test_multiple_choice_by_perplexity(choice):
    (preview,) = kshot.preview(choice)
    (request,) = preview.requests
    assert request.prompt.text == "Answer the following question.\n\n[Question A]\nAnswer:"
    assert request.continuations == (" [Answer A]", " [Answer B]", " [Answer C]", " [Answer D]")
    assert values(kshot.evaluate(prefers("[Answer C]"), choice)) == {"whole": {"Accuracy": 100.0}}
    assert values(kshot.evaluate(prefers("[Answer D]"), choice)) == {"whole": {"Accuracy": 0.0}}


LISTED = (
    "Answer the following question.\n\n[Question A]\n"
    "A. [Answer A]\nB. [Answer B]\nC. [Answer C]\nD. [Answer D]\nAnswer:"
)


def test_multiple_choice_by_probability(choice):
    (preview,) = kshot.preview(choice, ranking_type="prob")
    (request,) = preview.requests
    assert request.prompt.text == LISTED
    assert request.continuations == (" A", " B", " C", " D", "A", "B", "C", "D")
    assert values(kshot.evaluate(prefers("C"), choice, ranking_type="prob")) == {"whole": {"Accuracy": 100.0}}


def test_multiple_choice_by_generation(choice):
    (preview,) = kshot.preview(choice, ranking_type="generation")
    (request,) = preview.requests
    assert request.prompt.text == LISTED
    result = kshot.evaluate(says("Not A; the answer is C."), choice, ranking_type="generation")
    assert values(result) == {"whole": {"Accuracy": 100.0}}


def test_the_table_of_scores_for_multiple_choice(choice):
    """Lowest NLL per token, and with normalisation the lowest difference to the normalising prompt."""
    pairs = [(4.0, 1), (6.0, 3), (5.0, 1), (9.0, 1)]  # per token: B
    base = [(1.0, 1), (1.0, 1), (4.0, 1), (2.0, 1)]  # differences: 3, 5, 1, 7

    def answer(request):
        chosen = base if request.prompt.text == "Question: \nAnswer:" else pairs
        return Scored(tuple(Likelihood(-nll, tokens) for nll, tokens in chosen))

    plain = kshot.evaluate(Fake(answer), choice)
    assert [row["answer"] for row in plain.samples] == [1]
    normalised = kshot.evaluate(Fake(answer), type("Norm", (choice,), {"use_normalization": True}))
    assert [row["answer"] for row in normalised.samples] == [2]
    assert values(normalised) == {"norm": {"Accuracy": 100.0}}


CONTEXTS = """
class MyDataset(MultipleChoiceDataset):
    instruction = "Answer the following question.\\n\\n{source}\\nAnswer:"
    ...

    def format_instance(self, instance):
        return dict(
            source=[instance["ctx_a"], instance["ctx_b"]],
            source_idx=int(instance["answer"]) - 1,
            target=instance["completion"],
        )
"""


def test_several_contexts(tmp_path):
    row = {"ctx_a": "[Context A]", "ctx_b": "[Context B]", "answer": "2", "completion": "[Completion]"}

    class Whole(printed(CONTEXTS)):
        evaluation_set = "test"
        load_args = (str(rows_in(tmp_path, test=[row])),)

    (preview,) = kshot.preview(Whole)
    assert [(r.prompt.text, r.continuations) for r in preview.requests] == [
        ("Answer the following question.\n\n[Context A]\nAnswer:", (" [Completion]",)),
        ("Answer the following question.\n\n[Context B]\nAnswer:", (" [Completion]",)),
    ]
    backend = Fake(lambda r: Scored((Likelihood(-1.0 if "[Context B]" in r.prompt.text else -2.0, 1),)))
    assert values(kshot.evaluate(backend, Whole)) == {"whole": {"Accuracy": 100.0}}


GENERATION = '''
INSTRUCTION = """Answer the following question.

{question}
Answer:"""
NO_INSTRUCTION = "{question}"

class MyDataset(GenerationDataset):

    instruction = None
    metrics = [Em(), F1()]
    ...

    def init_arguments(self):
        if self.model_type == "base":
            self.instruction = NO_INSTRUCTION
        else:
            self.instruction = INSTRUCTION

    def format_instance(self, instance):
        return dict(
            question=instance["question"],
            target=instance["answer"],
        )
'''


def test_generation(tmp_path):
    rows = rows_in(tmp_path, test=[{"question": "Who?", "answer": "the old man"}])

    class Whole(printed(GENERATION)):
        evaluation_set = "test"
        load_args = (str(rows),)

    (base,), (chat,) = kshot.preview(Whole), kshot.preview(Whole, model_type="chat")
    assert base.requests[0].prompt.text == "Who?"
    assert base.requests[0].prompt.messages == ()
    asked = "Answer the following question.\n\nWho?\nAnswer:"
    assert chat.requests[0].prompt.messages == (Message("user", asked),)
    (again,) = kshot.preview(Whole, model_type="chat", instruction="{question}")
    assert again.requests[0].prompt.text == "Who?"
    found = values(kshot.evaluate(says("An old man."), Whole))
    assert found == {"whole": {"EM": 100.0, "F1": 100.0}}
    assert values(kshot.evaluate(says("The young man"), Whole))["whole"]["F1"] == pytest.approx(50.0)


MULTI_TURN = """
class MyDataset(GenerationDataset):

    instruction = "{{source[turn_idx]}}"
    metrics = [GPTEval(multi_turn=False)]
    multi_turn = True
    ...

    def format_instance(self, instance):
        return dict(
            source=[instance["question_1"], instance["question_2"]]
        )

    def post_processing(self, predictions: List[Tuple[str, ...]]):
        # By default, model outputs a tuple of predictions for each turn
        # You can implement the post_processing method to return the last turn's assistant output
        return [pred[-1] for pred in predictions]
"""
JUDGE = """
from kshot.core.records import Generate, Generated

class Judge:
    name = fingerprint = "judge"
    answers = (Generate,)

    def serve(self, queue):
        for request in queue:
            asked = request.prompt.messages[-1].content
            yield request, Generated("Rating: [[9]]" if "last word" in asked and "first word" not in asked else "[[1]]")
"""


@pytest.mark.parametrize("model_type", ["base", "chat"])
def test_multi_turn(tmp_path, model_type):
    (tmp_path / "judge.py").write_text(JUDGE)
    rows = rows_in(tmp_path, test=[{"question_1": "Hello?", "question_2": "And now?"}])

    class Whole(printed(MULTI_TURN)):
        evaluation_set = "test"
        load_args = (str(rows),)

    replies = {1: "first word", 3: "last word"}
    if model_type == "chat":
        backend = Fake(lambda r: Generated(replies[len(r.prompt.messages)]))
    else:
        backend = Fake(lambda r: Generated("last word" if "And now?" in r.prompt.text else "first word"))
    result = kshot.evaluate(backend, Whole, judge=f"{tmp_path}/judge.py:Judge", model_type=model_type)
    assert values(result) == {"whole": {"GPT-Eval": 9.0}}
    assert result.samples[0]["response"] == ["first word", "last word"]
    assert result.samples[0]["answer"] == "last word"
    assert [r.prompt.text for r in backend.asked] == ["Hello?", "Hello? first word\n\nAnd now?"]


REFERENCES = """
from functools import cached_property

class MyDataset(MultipleChoiceDataset):

    ...

    @cached_property
    def references(self):
        return [i["answer"] for i in self.evaluation_data]

"""


@pytest.mark.parametrize("answer", [1, "1", "B"])
def test_references(answer):
    rows = [{"options": ["x", "y"], "answer": answer}, {"options": ["y", "x"], "answer": 0}]
    cls = from_rows(printed(REFERENCES), rows, instruction="?")
    assert isinstance(vars(printed(REFERENCES))["references"], cached_property)
    result = kshot.evaluate(prefers("y"), cls)
    assert [(row["target"], row["answer"]) for row in result.samples] == [(1, 1), (0, 0)]


LOADING = """
from kshot import load_raw_dataset_from_file, get_raw_dataset_loader

class MyDataset(Dataset):
    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        self.evaluation_data = get_raw_dataset_loader(...)("test")
        self.example_data = load_raw_dataset_from_file("examples.json")
"""


def test_loading_by_a_function_of_ones_own(tmp_path, monkeypatch):
    rows_in(tmp_path, test=[{"q": "2+2", "target": "4"}], examples=[{"q": "1+1", "target": "2"}])
    monkeypatch.chdir(tmp_path)
    code = LOADING.replace("(...)", "(self.dataset_name, dataset_path, subset_name, self.load_args)")

    class Whole(printed(code), GenerationDataset):
        instruction = "{q}="
        metrics = (Em(),)

        def format_instance(self, instance):
            return instance

    with pytest.raises(kshot.KshotError, match="nothing says where its rows come from"):
        kshot.preview(Whole)
    result = kshot.evaluate(says("4"), Whole, num_shots=1, dataset_path=tmp_path)
    assert result.samples[0]["prompt"] == "1+1= 2\n\n2+2="
    assert values(result) == {"whole": {"EM": 100.0}}


# The document prints: def for class, category_subsets, reference, eval_data. ``func`` is the reader's.
LAST = """
class NewDataset(GenerationDataset):

    instruction = "Answer the following question.\\n\\n{source}"
    metrics = [Accuracy()]
    evaluation_set = "test"
    example_set = "dev"
    load_args = ("huggingface/path", "subset")

    extra_model_args = dict(temperature=0)
    categorized_subsets = {"Group": ["subset1", "subset2"]}

    def format_instance(self, instance):
        src, tgt = func(instance, self.example_data)
        return dict(source=src, target=tgt)

    def references(self):
        return [i["answer"] for i in self.evaluation_data]
"""


@pytest.mark.parametrize("num_shots", [0, 1])
def test_the_last_example(tmp_path, num_shots):
    seen = []

    def func(instance, example_data):
        seen.append(list(example_data))
        return instance["question"], instance["answer"]

    dev = [{"question": "Big?", "answer": "no"}]
    rows_in(tmp_path, test=[{"question": "Small?", "answer": "yes"}, {"question": "Blue?", "answer": "no"}], dev=dev)
    backend = says("yes")
    result = kshot.evaluate(backend, printed(LAST, func=func), dataset_path=tmp_path, num_shots=num_shots)
    assert values(result) == {"new_dataset": {"Accuracy": 50.0}}
    assert all(examples == dev for examples in seen)  # "example data will be automatically loaded"
    asked = "Answer the following question.\n\nSmall?"
    shown = "Answer the following question.\n\nBig? no\n\n" if num_shots else ""
    assert backend.asked[0].prompt.text == shown + asked
    assert backend.asked[0].temperature == 0


def test_the_last_example_by_category(tmp_path):
    class Grouped(printed(LAST, func=lambda instance, _: (instance["question"], instance["answer"]))):
        load_args = ("huggingface/path",)

    for subset, answer in (("subset1", "yes"), ("subset2", "no")):
        (tmp_path / subset).mkdir()
        rows_in(tmp_path / subset, test=[{"question": "Small?", "answer": answer}], dev=[])
    assert values(kshot.evaluate(says("yes"), Grouped, dataset_path=tmp_path)) == {
        "grouped:subset1": {"Accuracy": 100.0},
        "grouped:subset2": {"Accuracy": 0.0},
        "grouped[Group Macro Average]": {"Accuracy": 50.0},
        "grouped[Macro Average]": {"Accuracy": 50.0},
    }
