"""Examples: how many, from where, drawn by lm-eval's own random stream."""

import random

import pytest

from kshot.core.errors import DataError
from tests.lmeval.tasks import task, write

TRAIN = [{"q": f"q{n}", "a": f"a{n}"} for n in range(9)]
TEST = [{"q": f"t{n}", "a": f"b{n}"} for n in range(4)]
ROWS = {"train": TRAIN, "test": TEST}


def contexts(tmp_path, keys, rows=ROWS, num_fewshot=None):
    found = task(tmp_path, {"fewshot_delimiter": ";", **keys}).requests(rows, num_fewshot)
    return [each["context"].split(";") for each in found]


@pytest.mark.parametrize(
    ("in_file", "given", "expected"), [(None, None, 0), (2, None, 2), (2, 1, 1), (0, 3, 0), (None, 3, 3), (2, 0, 0)]
)
def test_how_many_examples(tmp_path, in_file, given, expected):
    keys = {"training_split": "train", "num_fewshot": in_file}
    assert all(len(parts) == expected + 1 for parts in contexts(tmp_path, keys, num_fewshot=given))


def test_a_negative_number_of_examples(tmp_path):
    with pytest.raises(DataError, match="num_fewshot is -1"):
        contexts(tmp_path, {"training_split": "train"}, num_fewshot=-1)


def test_one_random_stream_goes_on_through_the_documents(tmp_path):
    stream = random.Random(1234)
    expected = [[f"q{n} a{n}" for n in stream.sample(range(9), 2)] for _ in TEST]
    assert [parts[:-1] for parts in contexts(tmp_path, {"training_split": "train"}, num_fewshot=2)] == expected


def test_a_document_is_no_example_of_itself(tmp_path):
    stream = random.Random(1234)
    expected = []
    for number in range(4):
        drawn = [n for n in stream.sample(range(4), 3) if n != number][:2]
        expected.append([f"t{n} b{n}" for n in drawn])
    assert [parts[:-1] for parts in contexts(tmp_path, {"fewshot_split": "test"}, num_fewshot=2)] == expected


def test_a_pool_with_the_document_many_times_is_drawn_from_without_it(tmp_path):
    rows = {"test": [TEST[0], TEST[0], TEST[0], TEST[1], TEST[2]]}
    for parts in contexts(tmp_path, {"fewshot_split": "test"}, rows, num_fewshot=2):
        question = parts[-1]
        assert len(parts) == 3
        assert not any(part.startswith(question) for part in parts[:-1])


def test_the_first_ones(tmp_path):
    keys = {"fewshot_split": "test", "fewshot_config": {"sampler": "first_n"}}
    found = contexts(tmp_path, keys, num_fewshot=2)
    assert [parts[:-1] for parts in found[:2]] == [["t1 b1", "t2 b2"], ["t0 b0", "t2 b2"]]


def test_samples_of_the_file_and_overrides(tmp_path):
    shot = {
        "sampler": "first_n",
        "samples": [{"word": "owl", "sound": "hoo"}],
        "doc_to_text": "{{word}}:",
        "doc_to_target": "{{sound}}",
        "target_delimiter": "",
        "fewshot_delimiter": "/",
    }
    found = task(tmp_path, {"fewshot_config": shot}).requests(ROWS, 1)
    assert found[0]["context"] == "owl:hoo/t0"


@pytest.mark.parametrize(
    ("keys", "split"),
    [
        ({}, "test"),
        ({"validation_split": "val"}, "val"),
        ({"validation_split": "val", "training_split": "train"}, "train"),
    ],
)
def test_where_examples_come_from_without_a_split_for_them(tmp_path, keys, split):
    rows = {name: [{"q": f"{name}{n}", "a": "x"} for n in range(5)] for name in ("train", "val", "test")}
    keys = {**keys, "fewshot_config": {"sampler": "first_n"}}
    assert contexts(tmp_path, keys, rows, num_fewshot=1)[0][0] == f"{split}0 x"


@pytest.mark.parametrize("sampler", ["default", "first_n"])
def test_more_examples_than_there_are(tmp_path, sampler):
    keys = {"training_split": "train", "fewshot_config": {"sampler": sampler}}
    with pytest.raises(DataError, match="10 documents are wanted for examples, and there are 9"):
        contexts(tmp_path, keys, num_fewshot=10)


def test_a_sampler_that_there_is_not(tmp_path):
    with pytest.raises(DataError, match="there is no sampler 'best'"):
        contexts(tmp_path, {"fewshot_config": {"sampler": "best"}}, num_fewshot=1)


def test_a_sampler_of_the_task_itself(tmp_path):
    write(
        tmp_path,
        utils_py="""
        from lm_eval.api.samplers import ContextSampler

        class Last(ContextSampler):
            def sample(self, n, eval_doc=None, **kwargs):
                return self.rm_eval_doc(eval_doc, self.df[::-1], n)
        """,
        task_yaml="""
        task: birds
        test_split: test
        fewshot_split: test
        doc_to_text: "{{q}}"
        doc_to_target: a
        fewshot_delimiter: ";"
        fewshot_config: {sampler: !function utils.Last}
        """,
    )
    import kshot

    with kshot.lmeval.load(tmp_path / "task.yaml") as birds:
        found = [each["context"] for each in birds.requests(ROWS, 2)]
    assert found[0] == "t3 b3;t2 b2;t0"
    assert found[3] == "t2 b2;t1 b1;t3"
