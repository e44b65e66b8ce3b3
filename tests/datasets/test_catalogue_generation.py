"""The catalogue's benchmarks of free text, on rows in the columns of their real datasets."""

import math

import pytest

import kshot
from kshot.cleanups.programs import completed_program
from kshot.core.errors import UsageError
from kshot.core.records import Generated, Likelihood, Scored
from tests.datasets.fakes import Fake, as_csv, asked, disk, jsonl, parquet, says, seen, values

PROBLEMS = [
    {"question": "Tom has 3 apples\nand buys 2. How many?", "answer": "3+2=<<3+2=5>>5\n#### 5"},
    {"question": "What do 12 cost at $100 each?", "answer": "12*100=<<12*100=1200>>1200\n#### 1,200"},
]


@pytest.mark.parametrize(
    ("reply", "answer", "right"),
    [
        ("3+2=<<3+2=5>>5\n#### 5", "5", True),
        ("The answer is $5.00.", "5", True),
        ("5 apples", "5", True),
        ("I started with 10-5", "5", True),
        ("It is -5", "-5", False),
        ("no idea", "", False),
    ],
)
def test_gsm8k(tmp_path, reply, answer, right):
    jsonl(tmp_path / "test.jsonl", PROBLEMS)
    (sample, other) = kshot.evaluate(says(reply), "gsm8k", dataset_path=tmp_path).samples
    assert (sample["answer"], sample["target"]) == (answer, ["5"])
    assert sample["scores"] == {"Accuracy": 100.0 if right else 0.0}
    assert other["target"] == ["1200"]


def test_gsm8k_styles_of_reasoning(tmp_path):
    jsonl(tmp_path / "test.jsonl", PROBLEMS[1:])
    jsonl(tmp_path / "train.jsonl", PROBLEMS[:1])
    ((plain,),) = seen("gsm8k", dataset_path=tmp_path, num_shots=1)
    assert "How many?\nAnswer: 3+2=<<3+2=5>>5\n#### 5\n\nAnswer the following question." in plain
    ((base,),) = seen("gsm8k", dataset_path=tmp_path, num_shots=1, cot="base")
    assert "How many?\nAnswer: 3+2=5 The answer is 5.\n\nAnswer the following question." in base
    ((zero,),) = seen("gsm8k", dataset_path=tmp_path, cot="k0_math")
    assert zero.endswith("at $100 each?\nAnswer: Let's think step by step.")
    ((least,),) = seen("gsm8k", dataset_path=tmp_path, cot="least_to_most")
    assert "smaller questions" in least
    with pytest.raises(UsageError, match=r"'pal' is not supported\. Supported: base, k0_math, least_to_most"):
        seen("gsm8k", dataset_path=tmp_path, cot="pal")


TASK = {
    "task_id": "HumanEval/53",
    "prompt": '\n\ndef add(x: int, y: int):\n    """Add two numbers x and y\n    """\n',
    "canonical_solution": "    return x + y\n",
    "test": "\n\nMETADATA = {}\n\n\ndef check(candidate):\n    assert candidate(2, 3) == 5\n",
    "entry_point": "add",
}
HEAD = TASK["prompt"].rstrip()


@pytest.mark.parametrize(
    ("reply", "body"),
    [
        ("\n    return x + y", "\n    return x + y"),
        ("    return x + y", "\n    return x + y"),
        (" return x + y", "\n    return x + y"),
        ("  \n    return x + y", "\n    return x + y"),
        ("Sure:\n```python\ndef add(x, y):\n    return x + y\n```\nDone.", "\n\ndef add(x, y):\n    return x + y"),
        ("```\n    return x + y\n```", "\n    return x + y"),
    ],
)
def test_humaneval_programs(reply, body):
    assert completed_program(TASK["prompt"], "add", reply) == HEAD + body


def test_humaneval(tmp_path):
    parquet(tmp_path / "test-00000-of-00001.parquet", [TASK])
    (request,) = asked("humaneval", dataset_path=tmp_path)
    assert request.prompt.text == HEAD.strip()
    assert "\ndef" in request.stop
    (request,) = asked("humaneval", dataset_path=tmp_path, model_type="chat")
    assert request.prompt.text.endswith(f"```python\n{HEAD.strip()}\n```")
    assert request.stop == ()
    backend = Fake(lambda r: Generated("    return x + y" if r.replica else "    return x - y"))
    result = kshot.evaluate(backend, "humaneval", dataset_path=tmp_path, sample_num=2, pass_at_k=[1, 2])
    assert values(result) == {"humaneval": {"pass@1": 50.0, "pass@2": 100.0}}
    assert result.samples[0]["id"] == "HumanEval/53"


def test_lambada_measures_the_last_word_as_lm_eval_does(tmp_path):
    passages = ["tom threw the ball to ann", "the cat ran from the dog", "say it again"]
    jsonl(tmp_path / "test.jsonl", [{"text": text, "domain": None} for text in passages])
    assert seen("lambada", dataset_path=tmp_path) == [
        ("tom threw the ball to", " ann"),
        ("the cat ran from the", " dog"),
        ("say it", " again"),
    ]
    found = {" ann": (-1.0, True), " dog": (-2.5, False), " again": (-0.5, True)}
    model = Fake(lambda r: Scored(tuple(Likelihood(found[t][0], 1, found[t][1]) for t in r.continuations)))
    result = kshot.evaluate(model, "lambada", dataset_path=str(tmp_path))
    figures = values(result, details=True)["lambada"]
    assert next(iter(figures)) == "acc"
    assert figures["acc"] == pytest.approx(200 / 3)
    assert figures["perplexity"] == pytest.approx(math.exp(4 / 3))


def test_lambada_by_replies(tmp_path):
    rows = [{"text": "he left the room with bob", "domain": "x"}, {"text": "she said 'hello", "domain": "y"}]
    jsonl(tmp_path / "test.jsonl", rows)
    options = {"dataset_path": str(tmp_path), "metric": ("accuracy",)}
    assert seen("lambada", **options) == [("he left the room with",), ("she said",)]
    first, _ = asked("lambada", **options)
    assert (first.max_tokens, first.stop) == (16, ("\n",))
    result = kshot.evaluate(says(" bob. And"), "lambada", **options)
    assert [row["target"] for row in result.samples] == [["bob"], ["'hello"]]
    assert [row["scores"]["Accuracy"] for row in result.samples] == [100.0, 0.0]


JUDGE = """
from kshot.core.records import Generate, Generated

class Judge:
    name = fingerprint = "judge"
    answers = (Generate,)

    def serve(self, queue):
        for request in queue:
            yield request, Generated("[[7]]" if "paper one" in request.prompt.messages[-1].content else "[[3]]")
"""


def test_mt_bench(tmp_path):
    rows = [
        {"category": "writing", "prompt": ["Write a poem.", "Shorter."], "reference": [], "prompt_id": 81},
        {
            "category": "math",
            "prompt": ["2+2?", "Twice that?"],
            "reference": ["4, on paper one", "8"],
            "prompt_id": 111,
        },
    ]
    jsonl(tmp_path / "train.jsonl", rows)
    (tmp_path / "judge.py").write_text(JUDGE)
    backend = Fake(lambda r: Generated(f"reply {len(r.prompt.messages)}"))
    result = kshot.evaluate(
        backend, "mt_bench", dataset_path=tmp_path, judge=f"{tmp_path}/judge.py:Judge", model_type="chat"
    )
    assert [row["id"] for row in result.samples] == ["81", "111"]
    assert result.samples[0]["answer"] == ("reply 1", "reply 3")
    assert values(result) == {
        "mt_bench[math]": {"GPT-Eval": 7.0},
        "mt_bench[writing]": {"GPT-Eval": 3.0},
        "mt_bench": {"GPT-Eval": 5.0},
    }
    assert [m.content for m in backend.asked[-1].prompt.messages if m.role == "user"] == ["2+2?", "Twice that?"]


def test_nq(tmp_path):
    jsonl(tmp_path / "validation.jsonl", [{"question": "who wrote hamlet", "answer": ["Shakespeare", "the Bard"]}])
    jsonl(tmp_path / "train.jsonl", [{"question": "who was first?", "answer": ["Adam", "Lucy"]}])
    head = "Answer the following question in a few words.\n\nQuestion: "
    assert seen("nq", dataset_path=tmp_path, num_shots=1) == [
        (f"{head}who was first?\nAnswer: Adam\n\n{head}who wrote hamlet?\nAnswer:",)
    ]
    assert values(kshot.evaluate(says("The bard."), "nq", dataset_path=tmp_path)) == {"nq": {"EM": 100.0, "F1": 100.0}}


def test_squad(tmp_path):
    row = {
        "id": "56be4db0",
        "title": "Super_Bowl_50",
        "context": "The Broncos {sic} won.",
        "question": "Who won?",
        "answers": {"text": ["The Broncos", "Broncos", "Broncos"], "answer_start": [0, 4, 4]},
    }
    path = disk(tmp_path / "squad", train=[row], validation=[row])
    head = "Answer the question with words taken from the passage.\n\n"
    asked_for = "Passage: The Broncos {sic} won.\nQuestion: Who won?\nAnswer:"
    assert seen("squad", dataset_path=path) == [(head + asked_for,)]
    result = kshot.evaluate(says("broncos"), "squad", dataset_path=path)
    assert (result.samples[0]["id"], result.samples[0]["target"]) == ("56be4db0", ["The Broncos", "Broncos"])
    assert values(result) == {"squad": {"EM": 100.0, "F1": 100.0}}


def test_triviaqa(tmp_path):
    answer = {
        "value": "Paris",
        "aliases": ["City of Light", "Paris"],
        "normalized_aliases": [],
        "type": "WikipediaEntity",
    }
    row = {"question": "Capital of France?", "question_id": "tc_1", "answer": answer}
    jsonl(tmp_path / "validation.jsonl", [row])
    result = kshot.evaluate(says("the city of light"), "triviaqa", dataset_path=tmp_path)
    assert (result.samples[0]["id"], result.samples[0]["target"]) == ("tc_1", ["Paris", "City of Light"])
    assert values(result)["triviaqa"]["EM"] == 100.0
    assert result.samples[0]["prompt"].endswith("Question: Capital of France?\nAnswer:")


def test_wmt(tmp_path):
    rows = [{"translation": {"de": "Guten Morgen allerseits.", "en": "Good morning everyone."}}]
    (tmp_path / "de-en").mkdir()
    jsonl(tmp_path / "de-en" / "test.jsonl", rows)
    jsonl(tmp_path / "de-en" / "validation.jsonl", rows)
    ((into,), (outof,)) = seen(["wmt:wmt16-de-en", "wmt:wmt16-en-de"], dataset_path=tmp_path)
    assert into == (
        "Translate the following text from German into English.\n\nGerman: Guten Morgen allerseits.\nEnglish:"
    )
    assert outof.endswith("English: Good morning everyone.\nGerman:")
    result = kshot.evaluate(says("Good morning everyone."), "wmt:wmt16-de-en", dataset_path=tmp_path)
    found = values(result)["wmt:wmt16-de-en"]
    assert found == {"Sentence_BLEU": pytest.approx(100.0), "Corpus_BLEU": pytest.approx(100.0)}


def test_wmt_finds_its_name_elsewhere(monkeypatch):
    datasets = pytest.importorskip("datasets")
    called = []

    def load_dataset(*args, **more):
        called.append((*args, more["split"]))
        return [{"translation": {"de": "a", "en": "b", "fr": "c"}}]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    kshot.preview(["wmt:wmt16-en-de", "wmt:wmt19-de-fr"])
    assert called == [("wmt/wmt16", "de-en", "test"), ("wmt/wmt19", "fr-de", "test")]
    for spec in ("wmt", "wmt:de-en", "wmt:wmt16-xx-en"):
        with pytest.raises(UsageError, match=r"does not say what to translate.*Write wmt:wmt16-de-en"):
            kshot.preview(spec)


def test_cnn_dailymail(tmp_path):
    row = {"article": "A long story. It ends.", "highlights": "A story.\nIt ends.", "id": "92c514c9"}
    as_csv(tmp_path / "test.csv", [row])
    head = "Sum up the following article in three or four sentences.\n\n"
    assert seen("cnn_dailymail", dataset_path=tmp_path) == [(head + "Article: A long story. It ends.\nSummary:",)]
    result = kshot.evaluate(says("A story. It ends."), "cnn_dailymail", dataset_path=tmp_path)
    assert values(result) == {"cnn_dailymail": dict.fromkeys(("ROUGE-1", "ROUGE-2", "ROUGE-L"), 100.0)}
    assert (result.samples[0]["id"], result.samples[0]["target"]) == ("92c514c9", ["A story.\nIt ends."])
