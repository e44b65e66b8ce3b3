"""The catalogue: its golden instances, and multiple choice on rows in the columns of the real datasets."""

import json
from pathlib import Path

import pytest

import kshot
from kshot.datasets.catalogue.mmlu import Mmlu
from tests.datasets.fakes import as_csv, as_json, asked, disk, jsonl, parquet, prefers, seen, values

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "golden_datasets.json").read_text())


# ---- the golden instances ----

BY_NAME = {
    "LLMBox Mmlu": "mmlu",
    "LLMBox Arc": "arc",
    "LLMBox Hellaswag": "hellaswag",
    "LLMBox WinoGrande": "winogrande",
    "LLMBox Copa": "copa",
    "LLMBox Boolq": "boolq",
    "LLMBox Gsm8k": "gsm8k",
    "LLMBox Lambada": "lambada",
}
CASES = [case for case in GOLDEN["cases"] if case["dataset"]["class"] in BY_NAME]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_golden_instances(case, tmp_path):
    spec = case["dataset"]
    name, subset = BY_NAME[spec["class"]], spec["subset_name"]
    jsonl(tmp_path / "eval.jsonl", spec["raw_evaluation_data"])
    jsonl(tmp_path / "shown.jsonl", spec["raw_example_data"])
    options = {key: case["args"][key] for key in ("ranking_type", "num_shots") if key in case["args"]}
    requests = asked(
        f"{name}:{subset}" if subset else name,
        dataset_path=f"{tmp_path}/{{split}}.jsonl",
        evaluation_set="eval",
        example_set="shown",
        **options,
    )
    want = case["expected"]["instances"]
    match case["expected"]["model_evaluation_method"]:
        case "generation":
            assert [r.prompt.text for r in requests] == [each["prompt"] for each in want]
        case "get_prob":  # the original repeats arc's under a normalising prompt, of no use to probability
            assert [[r.prompt.text, len(r.continuations) // 2] for r in requests] == want[:1]
        case _:
            assert [[r.prompt.text, text] for r in requests for text in r.continuations] == want


# ---- multiple choice ----


def test_arc(tmp_path):
    rows = [
        {
            "id": "Mercury_1",
            "question": "Which is a gas?",
            "choices": {"text": ["iron", "oxygen"], "label": ["A", "B"]},
            "answerKey": "B",
        },
        {
            "id": "NYSEDREGENTS_2",
            "question": "What do plants need?",
            "choices": {"text": ["light", "noise", "salt"], "label": ["1", "2", "3"]},
            "answerKey": "1",
        },
    ]
    for subset in ("ARC-Easy", "ARC-Challenge"):
        (tmp_path / subset).mkdir()
        parquet(tmp_path / subset / "test-00000-of-00001.parquet", rows)
    backend = prefers("oxygen", "noise")
    result = kshot.evaluate(backend, "arc:ARC-Easy,ARC-Challenge", dataset_path=tmp_path)
    assert [row["id"] for row in result.samples] == ["Mercury_1", "NYSEDREGENTS_2"] * 2
    assert [row["target"] for row in result.samples] == [1, 0] * 2
    assert values(result)["arc[Macro Average]"].keys() == {"Accuracy"}
    assert {row["rule"] for row in result.results if row["metric"] == "Accuracy"} == {"acc_mutual_info"}
    assert seen("arc:ARC-Easy", dataset_path=tmp_path, limit=1) == [
        ("Question: Which is a gas?\nAnswer:", " iron", " oxygen"),
        ("Question: \nAnswer:", " iron", " oxygen"),
    ]


@pytest.mark.parametrize("label", [{"label": 1}, {"answer": True}])
def test_boolq(tmp_path, label):
    jsonl(tmp_path / "validation.jsonl", [{"question": "can dogs bark?", "passage": "Dogs bark.", "idx": 0} | label])
    assert seen("boolq", dataset_path=tmp_path) == [("Dogs bark.\nquestion: can dogs bark?\nanswer:", " no", " yes")]
    assert values(kshot.evaluate(prefers("yes"), "boolq", dataset_path=tmp_path)) == {"boolq": {"Accuracy": 100.0}}


def test_copa(tmp_path):
    rows = [
        {
            "premise": "It rained.",
            "choice1": "I stayed in.",
            "choice2": "I swam.",
            "question": "effect",
            "idx": 0,
            "label": 0,
        },
        {
            "premise": "I fell.",
            "choice1": "I sang.",
            "choice2": "I slipped.",
            "question": "cause",
            "idx": 1,
            "label": 1,
        },
    ]
    path = disk(tmp_path / "copa", validation=rows)
    head = "Complete the following the sentence.\n\n"
    assert seen("copa", dataset_path=path) == [
        (f"{head}It rained therefore", " i stayed in.", " i swam."),
        (f"{head}I fell because", " i sang.", " i slipped."),
    ]
    assert seen("copa", dataset_path=path, ranking_type="ppl", limit=1) == [
        (f"{head}It rained therefore\nA. i stayed in.\nB. i swam.\nAnswer:", " A. i stayed in.", " B. i swam.")
    ]
    assert [r["target"] for r in kshot.evaluate(prefers(), "copa", dataset_path=path).samples] == [0, 1]


def test_hellaswag(tmp_path):
    row = {
        "ind": 4,
        "activity_label": "Removing ice",
        "ctx_a": "Then, the man writes.",
        "ctx_b": "then",
        "ctx": "Then, the man writes. then",
        "endings": [", he stops.", ", he drives. [title] Off", " [substeps] he goes.", "x"],
        "source_id": "activitynet~v_1",
        "split": "val",
        "split_type": "indomain",
        "label": "3",
    }
    parquet(tmp_path / "validation-00000-of-00001.parquet", [row])
    assert seen("hellaswag", dataset_path=tmp_path) == [
        ("Removing ice: Then, the man writes. Then", " , he stops.", " , he drives.. Off", " he goes.", " x")
    ]


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("How to bake [header] How to bake [title] Mix. [step] Use flour.", "How to bake How to bake. Mix. Use flour."),
        (" [substeps] Go home. [/step]", " Go home. "),  # the outer white space goes before the marks do
        ("[title] One. [title] Two.", " One.. Two."),  # a title at the beginning ends no sentence
        ("a [b] [c]  d", "a  d"),
        ("no marks", "no marks"),
    ],
)
def test_hellaswag_marks(text, clean):
    """The rule of lm-eval."""
    from kshot.datasets.catalogue.hellaswag import preprocess

    assert preprocess(text) == clean


def test_hellaswag_scores(tmp_path):
    row = {"activity_label": "A", "ctx_a": "b", "ctx_b": "c", "endings": ["v", "w", "y", "x"], "label": "3"}
    jsonl(tmp_path / "validation.jsonl", [row])
    assert kshot.evaluate(prefers("x"), "hellaswag", dataset_path=tmp_path).samples[0]["scores"]["Accuracy"] == 100.0


def test_mmlu(tmp_path):
    for subject, right in (("virology", 3), ("anatomy", 0)):
        row = {"question": f"On {subject}?", "subject": subject, "choices": ["w", "x", "y", "z"], "answer": right}
        (tmp_path / subject).mkdir()
        parquet(tmp_path / subject / "test-00000-of-00001.parquet", [row])
        parquet(tmp_path / subject / "dev-00000-of-00001.parquet", [row | {"question": "Shown?"}])
    text = "The following are multiple choice questions (with answers) about virology.\n\nQuestion: "
    assert seen("mmlu:virology", dataset_path=tmp_path, ranking_type="prob", num_shots=1) == [
        (
            f"{text}Shown?\nA. w\nB. x\nC. y\nD. z\nAnswer: D\n\n{text}On virology?\nA. w\nB. x\nC. y\nD. z\nAnswer:",
            *(" A", " B", " C", " D", "A", "B", "C", "D"),
        )
    ]
    result = kshot.evaluate(prefers("D"), "mmlu", dataset_path=tmp_path, ranking_type="prob")
    assert values(result) == {
        "mmlu:anatomy": {"Accuracy": 0.0},
        "mmlu:virology": {"Accuracy": 100.0},
        "mmlu[Macro Average]": {"Accuracy": 50.0},
    }


def test_mmlu_of_mixed_subjects_in_one_file(tmp_path):
    as_json(
        tmp_path / "a.json", [{"question": "Q", "subject": "us_foreign_policy", "choices": ["w", "x"], "answer": 1}]
    )
    ((text, *_),) = seen("mmlu", dataset_path=tmp_path / "a.json")
    assert text.startswith("The following are multiple choice questions (with answers) about us foreign policy.\n")


def test_mmlu_has_57_subjects():
    sizes = {name: len(subjects) for name, subjects in Mmlu.categorized_subsets.items()}
    assert sizes == {"stem": 18, "humanities": 13, "social_sciences": 12, "other": 14}
    assert len({subject for subjects in Mmlu.categorized_subsets.values() for subject in subjects}) == 57


def test_openbookqa(tmp_path):
    row = {
        "id": "7-980",
        "question_stem": "The sun is responsible for",
        "choices": {"text": ["puppies", "plants growing", "trains", "wires"], "label": ["A", "B", "C", "D"]},
        "answerKey": "B",
    }
    as_json(tmp_path / "openbook.json", {"test": [row], "train": [row]})
    requests = seen("openbookqa", dataset_path=tmp_path / "openbook.json")
    assert requests[0] == (
        "Question: The sun is responsible for\nAnswer:",
        *(" puppies", " plants growing", " trains", " wires"),
    )
    assert requests[1][0] == "Question: \nAnswer:"
    (sample,) = kshot.evaluate(prefers(), "openbookqa", dataset_path=tmp_path / "openbook.json").samples
    assert (sample["id"], sample["target"]) == ("7-980", 1)


def test_race(tmp_path):
    rows = [
        {
            "example_id": "high1.txt",  # of the article: several questions share it
            "article": "Tom ran.\nHe fell.",
            "question": question,
            "options": ["ran", "fell", "slept", "ate"],
            "answer": answer,
        }
        for question, answer in (("First, Tom _ .", "A"), ("Then he _ .", "B"))
    ]
    (tmp_path / "high").mkdir()
    jsonl(tmp_path / "high" / "test.jsonl", rows)
    result = kshot.evaluate(prefers(), "race:high", dataset_path=tmp_path)
    assert [(row["id"], row["target"]) for row in result.samples] == [("0", 0), ("1", 1)]
    assert seen("race:high", dataset_path=tmp_path, ranking_type="generation", limit=1) == [
        ("Article: Tom ran.\nHe fell.\n\nQuestion: First, Tom _ .\nA. ran\nB. fell\nC. slept\nD. ate\nAnswer:",)
    ]


def test_winogrande(tmp_path):
    row = {"sentence": "Ann thanked Sue because _ had helped.", "option1": "Ann", "option2": "Sue", "answer": "2"}
    as_csv(tmp_path / "validation.csv", [row])
    as_csv(tmp_path / "train.csv", [row | {"sentence": "Bo hit Al so _ cried.", "option1": "Bo", "option2": "Al"}])
    assert seen("winogrande", dataset_path=tmp_path, num_shots=1) == [
        ("Bo hit Al so Al cried.\n\nAnn thanked Sue because Ann", " had helped."),
        ("Bo hit Al so Al cried.\n\nAnn thanked Sue because Sue", " had helped."),
    ]
    assert kshot.evaluate(prefers(), "winogrande", dataset_path=tmp_path).samples[0]["target"] == 1
