"""Documents: which split, rows as a table has them, process_docs, and random generators."""

import pytest

from kshot.core.errors import DataError
from kshot.lmeval.documents import as_table
from kshot.lmeval.functions import Functions
from tests.lmeval.tasks import ref, task, write

ROWS = {"test": [{"q": "a", "a": "x"}, {"q": "b", "a": "y"}], "val": [{"q": "c", "a": "z"}]}


def test_the_test_split_is_evaluated_else_that_for_validation(tmp_path):
    assert [doc["q"] for doc in task(tmp_path, {"validation_split": "val"}).documents(ROWS).docs] == ["a", "b"]
    found = task(tmp_path, {"test_split": None, "validation_split": "val"}).documents(ROWS)
    assert [doc["q"] for doc in found.docs] == ["c"]


@pytest.mark.parametrize(
    ("keys", "rows", "expected"),
    [
        ({"test_split": None}, ROWS, "names neither a test_split nor a validation_split"),
        ({"test_split": "dev"}, ROWS, "has no split 'dev'. The splits are: test, val"),
        ({}, {"test": []}, "the split 'test' has no documents"),
    ],
)
def test_no_documents(tmp_path, keys, rows, expected):
    with pytest.raises(DataError, match=expected):
        task(tmp_path, keys).documents(rows)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([{"a": 1}, {"b": "x"}], [{"a": 1, "b": None}, {"a": None, "b": "x"}]),
        ([{"a": 1}, {"a": 2.5}, {"a": None}], [{"a": 1.0}, {"a": 2.5}, {"a": None}]),
        ([{"a": (1, 2)}, {"a": [3.5]}, {"a": None}], [{"a": [1.0, 2.0]}, {"a": [3.5]}, {"a": None}]),
        ([{"a": {"x": 1}}, {"a": {"y": "2"}}], [{"a": {"x": 1, "y": None}}, {"a": {"x": None, "y": "2"}}]),
        ([{"a": [{"x": 1}, {}]}], [{"a": [{"x": 1}, {"x": None}]}]),
        ([{"a": {}}], [{"a": {}}]),
        ([{"a": []}, {"a": None}], [{"a": []}, {"a": None}]),
        ([], []),
    ],
)
def test_rows_as_a_table_gives_them_back(rows, expected):
    found = as_table(rows)
    assert found == expected
    assert repr(found) == repr(expected)  # 1 and 1.0 are equal


@pytest.mark.needs("datasets")
def test_rows_are_those_of_arrow():
    import datasets

    rows = [
        {"a": 1, "b": ["x"], "c": {"p": 1, "q": [{"r": 1}]}, "d": None},
        {"a": 2.5, "b": [], "c": {"q": [{"s": "t"}, {"r": 2}]}, "d": "e"},
    ]
    assert repr(as_table(rows)) == repr(list(datasets.Dataset.from_list(rows)))


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return write(
        tmp_path_factory.mktemp("tree"),
        utils_py="""
        import random
        from datasets import Dataset

        def process_docs(dataset):
            assert dataset.features["q"].dtype == "string"
            return dataset.map(lambda doc: {"loud": doc["q"].upper(), "pair": (1, 2)}).remove_columns("a")

        def shuffled(dataset):
            return dataset.map(lambda doc: {"drawn": random.random()})

        own = random.Random(42)

        def shuffled_by_its_own(dataset):
            return dataset.map(lambda doc: {"drawn": own.random()})

        def first(dataset):
            return Dataset.from_list(list(dataset)[:1])

        def listed(dataset):
            return [doc for doc in dataset]

        def failing(dataset):
            return dataset.map(lambda doc: {"x": doc["missing"]})
        """,
    )


@pytest.fixture(scope="module")
def functions(tree):
    worker = Functions(tree)
    yield worker
    worker.close()


@pytest.mark.needs("datasets")
class TestProcessDocs:
    @pytest.fixture
    def documents(self, tree, functions):
        def make(name, rows=ROWS, **keys):
            keys = {"process_docs": ref(tree, name), "doc_to_target": "x", **keys}
            return task(tree, keys, functions).documents(rows)

        return make

    def test_a_real_table_comes_in_and_arrow_s_values_go_out(self, documents):
        found = documents("process_docs")
        assert found.docs[1] == {"q": "b", "loud": "B", "pair": [1, 2]}
        assert found.columns == ["q", "loud", "pair"]

    def test_it_may_make_other_rows(self, documents):
        assert documents("first").docs == [{"q": "a", "a": "x"}]
        assert documents("listed").columns == ["q", "a"]

    def test_a_function_that_fails_is_named_with_its_line(self, documents):
        with pytest.raises(DataError, match=r"task\.yaml:3:1: utils\.failing: KeyError: 'missing' \(.*utils\.py:24\)"):
            documents("failing")

    @pytest.mark.parametrize(("name", "seed"), [("shuffled", 0), ("shuffled_by_its_own", 42)])
    def test_what_it_draws_is_what_lm_eval_draws_in_a_run_of_its_own(self, documents, name, seed):
        import random

        stream = random.Random(seed)
        before = [stream.random() for _ in range(1 + 2)]  # the one example, then the documents for a first look
        expected = [stream.random() for _ in range(2)]
        found = documents(name, fewshot_split="val")
        assert [doc["drawn"] for doc in found.docs] == expected
        assert [doc["drawn"] for doc in found.splits.pool] == before[:1]
        assert [doc["drawn"] for doc in documents(name, fewshot_split="val").docs] == expected
