"""The comparison of ``make lmeval-check`` itself: what is equal counts as equal, and one changed character shows."""

import copy
import json

import pytest

from tests.real_lmeval.task_files import EQUAL, compare_files, counted, difference, kinds_of, lines, near, reasons

pytestmark = pytest.mark.needs("pyyaml")
TASK = """
task: colours
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: [red, blue]
doc_to_target: right
metric_list: [{metric: acc}]
"""
ROWS = {"test": [{"question": "The sky?", "right": 1}, {"question": "A rose?", "right": 0}]}
LINE = {
    "path": "colours.yaml",
    "kind": "text",
    "rows": ROWS,
    "cases": [
        {
            "num_fewshot": None,
            "requests": [
                {"type": "loglikelihood", "context": row["question"], "continuation": f" {colour}"}
                for row in ROWS["test"]
                for colour in ("red", "blue")
            ],
        }
    ],
    "chat": {
        "num_fewshot": None,
        "requests": [
            {
                "type": "loglikelihood",
                "context": f"<|user|>\n{row['question']}<|end|>\n<|assistant|>\n",
                "continuation": colour,
            }
            for row in ROWS["test"]
            for colour in ("red", "blue")
        ],
    },
    "scores": [
        {
            "responses": [[-2.0, False], [-1.0, True], [-2.0, False], [-1.0, True]],
            "metrics": {"acc,none": 0.5},
            "docs": [{"acc,none": 1.0}, {"acc,none": 0.0}],
        }
    ],
}


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "colours.yaml").write_text(TASK)
    return tmp_path


def test_what_is_equal_is_equal(tree):
    (found,) = compare_files(tree, [LINE])
    assert found == {"path": "colours.yaml", "requests": EQUAL, "chat": EQUAL, "scores": EQUAL}
    assert counted([found]) == {"requests": (1, 1), "chat": (1, 1), "scores": (1, 1)}
    assert reasons([found], "requests") == []


@pytest.mark.parametrize(
    ("part", "place", "told"),
    [
        ("requests", ("cases", 0, "requests", 2, "context"), "[2].context at 0: 'A rose?', not '_A rose?'"),
        ("chat", ("chat", "requests", 0, "continuation"), "[0].continuation at 0: 'red', not '_red'"),
        ("scores", ("scores", 0, "docs", 1, "acc,none"), "round 0, docs: [1].acc,none: 0.0, not 1e-06"),
    ],
)
def test_one_change_shows(tree, part, place, told):
    line = copy.deepcopy(LINE)
    inner = line
    for step in place[:-1]:
        inner = inner[step]
    held = inner[place[-1]]
    inner[place[-1]] = f"_{held}" if isinstance(held, str) else held + 1e-6
    (found,) = compare_files(tree, [line])
    assert told in found[part]
    assert {other for other in ("requests", "chat", "scores") if found[other] != EQUAL} == {part}
    assert counted([found])[part] == (0, 1)


def test_a_task_that_fails_is_no_equal_one(tree):
    (found,) = compare_files(tree, [LINE | {"path": "missing.yaml"}])
    assert counted([found]) == {"requests": (0, 1), "chat": (0, 1), "scores": (0, 1)}


def test_numbers_have_nine_digits():
    assert near(1 / 3, 0.333333333)
    assert not near(1 / 3, 0.33333)
    assert near(float("nan"), "nan")
    assert near({1: (0.5, True)}, {"1": [0.5, True]})
    assert not near([1], [1, 2])
    assert difference({"a": 1}, {"b": 1}) == " has the keys ['a'], not ['b']"


def test_what_lm_eval_cannot_make_is_counted_and_left_out(tmp_path):
    file = tmp_path / "part0.jsonl"
    held = [LINE, LINE | {"draws": True}, {"path": "b", "kind": "text", "error": "…"}, {"path": "c", "kind": "group"}]
    file.write_text("".join(json.dumps(line) + "\n" for line in held))
    assert [line["path"] for line in lines(file)] == ["colours.yaml"]
    assert kinds_of(file) == {"text": 3, "requests": 2, "scores": 2, "group": 1}
