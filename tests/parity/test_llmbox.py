"""Dataset files of LLMBox, unchanged: the original's prompts and references, and a score on the same rows."""

import json
import sys
from pathlib import Path

import pytest

import kshot
from kshot.core.errors import DataError
from kshot.core.records import Generate, Generated, Likelihood, Loglik, Scored
from kshot.datasets.settings import DatasetSettings
from kshot.datasets.source import compile_dataset, resolve

GOLDEN = Path(__file__).parents[3] / "shared" / "data" / "golden" / "llmbox_classes.json"
WHOLE = json.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.exists() else {"helpers": {}, "cases": [], "seed": 0}
FILES = {each["name"]: each for each in WHOLE["cases"]}
CASES = {
    f"{name}-{case['shots']}-{case['ranking_type'] or 'generation'}": (each, case)
    for name, each in FILES.items()
    for case in each["cases"]
}
REFUSED = {
    f"{name}-{shots}-{ranking or 'generation'}": (each, shots, ranking)
    for name, each in FILES.items()
    for shots, ranking, _ in each["fails"]
}

pytestmark = pytest.mark.skipif(not GOLDEN.exists(), reason="../shared has the files of LLMBox")


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """The files as they lie in LLMBox's repository, and a folder of rows for each."""
    root = tmp_path_factory.mktemp("llmbox")
    texts = WHOLE["helpers"] | {each["file"]: each["source"] for each in FILES.values()}
    texts |= {
        f"rows/{name}/{split}.jsonl": "".join(json.dumps(row) + "\n" for row in rows)
        for name, each in FILES.items()
        for split, rows in each["rows"].items()
    }
    for place, text in texts.items():
        path = root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root


def asked_for(tree, each):
    subset = f":{each['subset']}" if each["subset"] else ""
    return f"{tree / each['file']}:{each['cls']}{subset}"


def options(tree, each, shots, ranking):
    found = {"num_shots": shots, "seed": WHOLE["seed"], "dataset_path": str(tree / "rows" / each["name"])}
    return found | ({"ranking_type": ranking} if ranking else {})


def whole(prompts):
    return [prompt["prompt"] + prompt["continuation"] for prompt in prompts]


def measured(previews):
    """The texts whose likelihood is asked for: those of the options, then those after the normalising prompt."""
    return [[r.prompt.text + text for r in each.requests for text in r.continuations] for each in previews]


@pytest.mark.parametrize("name", CASES)
def test_prompts(tree, name):
    each, case = CASES[name]
    got = kshot.preview(asked_for(tree, each), **options(tree, each, case["shots"], case["ranking_type"]))
    requests = [request for preview in got for request in preview.requests]
    if case["method"] == "get_ppl":
        texts, again = measured(got), "normalization" in case
        counts = [len(found) // 2 if again else len(found) for found in texts]
        assert [t for found, n in zip(texts, counts, strict=True) for t in found[:n]] == whole(case["prompts"])
        if again:
            after = [t for found, n in zip(texts, counts, strict=True) for t in found[n:]]
            assert after == whole(case["normalization"])
    elif case["method"] == "get_prob":
        asked = [{"prompt": r.prompt.text, "options": len(r.continuations) // 2} for r in requests]
        assert asked == case["prompts"]
    else:
        expected = [each.get("prompt") or each["turns"][0] for each in case["prompts"]]
        if "quirk" in case:  # the original drops the text of construct_examples; here it comes before the question
            assert all(r.prompt.text.endswith(f"\n\n{text}") for r, text in zip(requests, expected, strict=True))
        else:
            assert [r.prompt.text for r in requests] == expected


@pytest.mark.parametrize("name", CASES)
def test_references(tree, name):
    each, case = CASES[name]
    settings = DatasetSettings(**options(tree, each, case["shots"], case["ranking_type"]))
    cls = resolve(asked_for(tree, each)).dataset
    compiled = compile_dataset(cls(settings, each["subset"]))
    found = json.loads(json.dumps(list(compiled.dataset.references)))
    # squad makes a set of its references: their order is Python's
    assert [sorted(r) if isinstance(r, list) else r for r in found] == [
        sorted(r) if isinstance(r, list) else r for r in case["references"]
    ]


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_original_refuses_is_a_clear_message(tree, name):
    each, shots, ranking = REFUSED[name]
    with pytest.raises(DataError, match=r"it has no examples to show \(2 wanted\)"):
        kshot.preview(asked_for(tree, each), **options(tree, each, shots, ranking))


class Knowing:
    """A model that knows one text: it writes it, and it is the likeliest."""

    name = fingerprint = "knowing"
    answers = (Generate, Loglik)

    def serve(self, queue):
        for request in queue:
            if isinstance(request, Generate):
                yield request, Generated("The answer is A.")
            else:
                found = (Likelihood(-1.0 if "A" in text else -1.0 - len(text), 1) for text in request.continuations)
                yield request, Scored(tuple(found))


@pytest.mark.parametrize("name", [name for name in FILES if name != "mt_bench"])
def test_every_file_runs_to_a_score(tree, name):
    each = FILES[name]
    for ranking in dict.fromkeys(case["ranking_type"] for case in each["cases"]):
        result = kshot.evaluate(Knowing(), asked_for(tree, each), **options(tree, each, 0, ranking))
        rows = [row for row in result.results if not row.get("detail")]
        assert rows
        assert all(row["value"] is not None and row["failed"] == 0 and row["n"] == 3 for row in rows), rows


def test_a_judge_rates_the_conversations_of_mt_bench(tree, tmp_path):
    each = FILES["mt_bench"]
    (tmp_path / "judge.py").write_text("def judge(prompt):\n    assert 'second?' in prompt\n    return 'So: [[7]]'\n")
    given = options(tree, each, 0, None) | {"judge": f"{tmp_path / 'judge.py'}:judge"}
    result = kshot.evaluate(Knowing(), asked_for(tree, each), **given)
    assert [(row["metric"], row["value"], row["n"]) for row in result.results] == [("GPT-Eval", 7.0, 3)]


def test_programs_that_are_right_pass(tree):
    """The reference of humaneval has the place of the program inside it."""
    each = FILES["humaneval"]
    rows = {row["prompt"].strip(): row for row in each["rows"]["test"]}

    class Solving(Knowing):
        def serve(self, queue):
            for request in queue:
                yield request, Generated("\n" + rows[request.prompt.text]["canonical_solution"])

    result = kshot.evaluate(Solving(), asked_for(tree, each), **options(tree, each, 0, None))
    assert [row["value"] for row in result.results] == [100.0]


class Programming(Knowing):
    """A model that writes programs: a right one, one that ends itself, and one that is none."""

    def serve(self, queue):
        for request in queue:
            number = int(request.prompt.text.split("Question: te")[1][0])
            yield request, Generated(PROGRAMS[number])


PROGRAMS = [
    "```python\ndef solution():\n    coins = 10 ** 3\n    return coins / 1\n```",
    "import os\nos.kill(os.getpid(), 9)",
    "He has 1,002.",
]


@pytest.mark.skipif(sys.platform != "linux", reason="programs are confined on Linux alone")
def test_programs_of_gsm8k_run_in_the_sandbox(tree):
    each = FILES["gsm8k"]
    result = kshot.evaluate(Programming(), asked_for(tree, each), cot="pal", **options(tree, each, 1, None))
    assert [sample["answer"] for sample in result.samples] == ["1000", "", ""]
    assert result.results[0]["value"] == pytest.approx(100 / 3)
