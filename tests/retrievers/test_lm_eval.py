"""lm-eval's draws: one stream for all rows, and its rule for examples of the evaluated split."""

import random

import pytest

import kshot
from kshot.core.errors import BadValue, KshotError, UsageError
from kshot.retrievers import FirstNRetriever, LMEvalRetriever, make
from tests.tables.rows import write

POOL = [{"q": f"question {i}", "answer": str(i)} for i in range(9)]
TEST = [{"q": f"other {i}", "answer": "x"} for i in range(6)]


def lm_eval(pool, rows, k, *, same, seed=1234):
    """What lm-evaluation-harness 0.4.13 does, on the rows themselves."""
    stream, shown = random.Random(seed), []
    for row in rows:
        drawn = stream.sample(pool, k + same)
        if same:
            drawn = [each for each in drawn if each != row][:k]
            if len(drawn) < k:  # copies of the row were drawn
                drawn = stream.sample([each for each in pool if each != row], k)
        shown.append(drawn)
    return shown


def shown(retriever):
    return [[retriever.train[index] for index in chosen] for chosen in retriever.retrieve()]


@pytest.mark.parametrize("k", [1, 3, 8])
def test_other_split(k):
    made = make("lm_eval", {"train": POOL, "test": TEST}, ice_num=k, seed=2023)
    assert shown(made) == lm_eval(POOL, TEST, k, same=False)
    assert shown(make("lm_eval,seed=7", {"train": POOL, "test": TEST}, ice_num=k)) == lm_eval(
        POOL, TEST, k, same=False, seed=7
    )


@pytest.mark.parametrize("k", [1, 3, 8])
def test_same_split(k):
    pool = [*POOL, dict(POOL[2]), dict(POOL[2])]  # what is equal to the row is not shown to it, copies neither
    made = LMEvalRetriever({"train": pool, "test": [dict(row) for row in pool]}, ice_num=k)
    assert shown(made) == lm_eval(pool, pool, k, same=True)
    few = LMEvalRetriever({"train": pool, "test": [dict(row) for row in pool[:4]], "same_split": True}, ice_num=k)
    assert few.retrieve() == made.retrieve()[:4]
    told = LMEvalRetriever({"train": pool, "test": pool, "same_split": False}, ice_num=k)
    assert shown(told) == lm_eval(pool, pool, k, same=False)


def test_first_n():
    assert FirstNRetriever({"train": POOL, "test": TEST}, ice_num=3).retrieve() == [[0, 1, 2]] * 6
    found = FirstNRetriever({"train": POOL, "test": POOL}, ice_num=3).retrieve()
    assert found[:4] == [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]]
    with pytest.raises(BadValue, match="9 examples for each row are shown; there are 8 rows"):
        FirstNRetriever({"train": POOL, "test": POOL}, ice_num=9).retrieve()


def test_more_than_there_are_is_an_error():
    for made in (LMEvalRetriever, FirstNRetriever):
        with pytest.raises(BadValue, match=r"10 examples for each row are .*there are 9 rows"):
            made({"train": POOL, "test": TEST}, ice_num=10).retrieve()
    with pytest.raises(BadValue, match=r"10 examples .*drawn \(one more than shown.*there are 9 rows"):
        LMEvalRetriever({"train": POOL, "test": POOL}, ice_num=9).retrieve()
    copies = [POOL[0]] * 3
    with pytest.raises(
        BadValue, match="1 examples for each row are drawn among those that differ from it; there are 0"
    ):
        LMEvalRetriever({"train": copies, "test": copies}, ice_num=1).retrieve()
    assert LMEvalRetriever({"train": POOL, "test": TEST[:2]}, ice_num=0).retrieve() == [[], []]


CLASS = """
from kshot import GenerationDataset

class Riddles(GenerationDataset):
    instruction = "{q}"
    evaluation_set = "test"
    example_set = "train"
    metrics = ["em"]
    def format_instance(self, row):
        return dict(q=row["q"], target=row["answer"])
"""


@pytest.fixture
def riddles(tmp_path):
    (tmp_path / "riddles.py").write_text(CLASS)
    write(tmp_path / "data" / "train.jsonl", POOL)
    write(tmp_path / "data" / "test.jsonl", TEST)

    def prompts(**options):
        found = kshot.preview(f"{tmp_path}/riddles.py:Riddles", dataset_path=str(tmp_path / "data"), **options)
        return [preview.requests[0].prompt.text for preview in found]

    return prompts


def test_a_dataset_shows_them_in_the_drawn_order(riddles):
    prompts = riddles(retriever="lm_eval", num_shots=3)
    for prompt, row, drawn in zip(prompts, TEST, lm_eval(POOL, TEST, 3, same=False), strict=True):
        assert [prompt.index(each["q"]) for each in drawn] == sorted(prompt.index(each["q"]) for each in drawn)
        assert prompt.endswith(row["q"])
        assert prompt.count("question") == 3
    assert riddles(retriever="lm_eval", num_shots=3, limit=2) == prompts[:2]
    assert riddles(retriever="lm_eval", num_shots=3, seed=5) == prompts
    assert riddles(retriever="lm_eval,seed=5", num_shots=3) != prompts


@pytest.mark.parametrize("retriever", ["lm_eval", "first_n", "random", "window", "fixk", "balanced,label=answer"])
def test_a_limit_changes_no_example(riddles, retriever):
    whole = riddles(retriever=retriever, num_shots=3, example_set="test")
    assert riddles(retriever=retriever, num_shots=3, example_set="test", limit=2) == whole[:2]
    for number, prompt in enumerate(whole):
        assert prompt.count(f"other {number}") == 1, "a row is never its own example"


def test_errors_name_the_dataset(riddles):
    with pytest.raises(KshotError, match="10 examples"):
        riddles(retriever="lm_eval", num_shots=10)
    with pytest.raises(UsageError, match="no option 'seeds'"):
        riddles(retriever="lm_eval,seeds=1", num_shots=1)
