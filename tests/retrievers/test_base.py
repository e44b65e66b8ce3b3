"""What all retrievers share: datasets of many shapes, order, budget, what rows are compared by, errors."""

from types import SimpleNamespace

import numpy as np
import pytest

from kshot.core.errors import BadValue, KshotError, UsageError
from kshot.core.registry import Entry
from kshot.core.specs import options_of, parse_spec
from kshot.retrievers import (
    RETRIEVERS,
    BM25Retriever,
    FixKRetriever,
    RandomRetriever,
    Retriever,
    TopkRetriever,
    ZeroRetriever,
    make,
    select,
)
from kshot.retrievers.base import copies_of, own_rows, read_pool, text_of
from kshot.retrievers.making import as_config, retriever_class

TRAIN = [
    {"q": "red apple", "a": "fruit"},
    {"q": "red apple pie", "a": "cake"},
    {"q": "green car", "a": "car"},
    {"q": "red car", "a": "car"},
]
TEST = [{"q": "red apple pie with cream", "a": "cake"}]
DATA = {"train": TRAIN, "test": TEST}
NEAREST = [1, 0, 3]


def bm25(**options):
    return BM25Retriever(DATA, **{"ice_num": 3, "columns": "q", **options}).retrieve()[0]


def test_the_order_of_examples_is_a_choice():
    assert bm25() == NEAREST[::-1]
    assert bm25(strict=False, tokenize=str.split) == [1, 3, 0]  # nearest first; of equal ones the last, as OpenCompass
    assert bm25(order="nearest_last") == NEAREST[::-1]
    assert bm25(order="nearest_first") == NEAREST
    shuffled = {tuple(bm25(order="random", seed=seed)) for seed in range(40)}
    assert {tuple(sorted(each)) for each in shuffled} == {tuple(sorted(NEAREST))}
    assert len(shuffled) == 6
    assert bm25(order="random", seed=3) == bm25(order="random", seed=3)
    with pytest.raises(BadValue, match="order is 'best'; it must be one of nearest_last"):
        bm25(order="best")


def count(text):
    return len(text.split())


def test_a_budget_drops_whole_examples_the_least_near_first():
    # words with the answer: row 1 has 4, row 0 has 3, row 3 has 3
    kept = {limit: bm25(max_tokens=limit, count=count) for limit in (0, 3, 4, 6, 7, 9, 10, 99)}
    assert kept == {0: [], 3: [], 4: [1], 6: [1], 7: [0, 1], 9: [0, 1], 10: [3, 0, 1], 99: [3, 0, 1]}
    assert bm25(max_tokens=7, count=count, order="nearest_first") == [1, 0]
    assert bm25(max_tokens=2, count=lambda text: 1) == [0, 1]
    assert bm25(max_tokens=9, count=count, shown=lambda row: "a b c d e") == [1]
    assert RandomRetriever(DATA, ice_num=4, max_tokens=2, count=lambda text: 1, seed=0).retrieve() == [[2, 3]]
    with pytest.raises(BadValue, match="needs a function that counts tokens"):
        bm25(max_tokens=7)


def test_the_budget_counts_what_a_reader_declares_and_asks_once_per_example():
    seen = []
    data = SimpleNamespace(**DATA, reader=SimpleNamespace(input_columns="q", output_column="a"))
    made = FixKRetriever(data, [0, 0, 3], max_tokens=99, count=lambda text: seen.append(text) or 1)
    assert made.retrieve() == [[0, 0, 3]]
    assert seen == ["red apple fruit\n", "red car car\n"]
    assert FixKRetriever(["x y", "z"], [0], strict=False, max_tokens=2, count=count).retrieve() == [[0], [0]]


class Splits(dict):
    """A reader that holds its splits."""


@pytest.mark.parametrize(
    "dataset",
    [
        DATA,
        SimpleNamespace(**DATA),
        SimpleNamespace(dataset=DATA),
        Splits(DATA),
        SimpleNamespace(dataset=SimpleNamespace(**DATA), input_columns=["q"], output_column="a"),
        SimpleNamespace(**DATA, reader={"input_columns": "q", "output_column": "a"}),
        {**DATA, "input_columns": "q"},
    ],
)
def test_datasets_come_in_many_shapes(dataset):
    pool = read_pool(dataset)
    assert (pool.train, pool.test, pool.questions()) == (TRAIN, TEST, ("q", "a") if not declared(dataset) else ("q",))
    assert RandomRetriever(dataset, ice_num=2).retrieve() == RandomRetriever(DATA, ice_num=2).retrieve()


def declared(dataset):
    return any(
        (hasattr(dataset, n) or (isinstance(dataset, dict) and n in dataset)) for n in ("reader", "input_columns")
    )


def test_rows_alone_are_both_train_and_test():
    assert read_pool(TRAIN).train is read_pool(TRAIN).test
    assert read_pool(SimpleNamespace(dataset=TRAIN)).test is TRAIN
    with pytest.raises(BadValue, match="a dataset with train and test rows"):
        RandomRetriever(7)
    with pytest.raises(BadValue, match="its train rows are str"):
        RandomRetriever("rows.jsonl")
    with pytest.raises(BadValue, match="its train rows are dict"):
        RandomRetriever({"validation": []})


def test_answers_are_not_compared():
    pool = read_pool({"train": [{"text": "a", "extra": "b", "Label": "c"}], "test": []})
    assert pool.questions() == ("text", "extra")
    assert text_of(pool, None, None)(pool.train[0]) == "a b"
    assert text_of(pool, ["extra"], None)(pool.train[0]) == "b"
    assert text_of(pool, None, str)(pool.train[0]) == str(pool.train[0])
    named = read_pool({"train": [{"answer": "a", "x": 1}], "test": [], "output_column": "x"})
    assert named.questions() == ("answer",)
    with pytest.raises(BadValue, match="compared by the column 'no'; a row has: text, extra, Label"):
        text_of(pool, "no", None)(pool.train[0])
    with pytest.raises(BadValue, match="no column is left"):
        BM25Retriever({"train": [{"label": "c"}], "test": [{"label": "d"}]}).retrieve()


def test_columns_decide_what_is_near():
    data = {"train": [{"x": "red", "y": "green"}, {"x": "green", "y": "red"}], "test": [{"x": "red", "y": "red"}]}
    assert BM25Retriever(data, columns="x").retrieve() == [[0]]
    assert BM25Retriever(data, columns=["y"]).retrieve() == [[1]]
    assert BM25Retriever(data, text=lambda row: row["y"]).retrieve() == [[1]]


def test_which_row_is_which():
    assert own_rows(TRAIN, TRAIN) == [0, 1, 2, 3]
    assert own_rows(TRAIN, [dict(row) for row in TRAIN]) == [0, 1, 2, 3]
    assert own_rows(TRAIN, [dict(row) for row in TRAIN[:2]]) == [None, None]
    assert own_rows(TRAIN, [TRAIN[2], TRAIN[2], TEST[0]]) == [2, 2, None]
    arrays = [{"v": np.zeros(2)}, {"v": np.ones(2)}]
    assert own_rows(arrays, [{"v": np.zeros(2)}, {"v": np.ones(2)}]) == [0, 1]
    assert own_rows(arrays, [{"v": np.zeros(2)}, {"v": np.zeros(2)}]) == [None, None]
    assert own_rows(range(3), range(2)) == [None, None]
    unanswered = [{"q": "red car"}, {"q": "red car", "a": "bus"}, {"q": "blue"}]
    assert copies_of(unanswered, TRAIN, lambda row: row["q"]) == [(3,), (), ()]
    assert copies_of(["a"], ["a", "b", "a"], str) == [(0, 2)]


@pytest.mark.parametrize("name", ["bm25", "topk", "mmr", "dpp", "votek", "window", "balanced", "random"])
def test_no_row_is_ever_its_own_example(name):
    rng = np.random.default_rng(0)
    rows = [{"q": f"word{i % 7} word{i % 5}", "answer": str(i % 2), "id": i} for i in range(40)]
    options = {} if name not in {"topk", "mmr", "dpp", "votek"} else {"vectors": (vs := rng.normal(size=(40, 4)), vs)}
    found = make(name, rows, 5, columns="q", **options).retrieve()
    assert all(row not in each and len(set(each)) == 5 for row, each in enumerate(found))
    if name != "random":  # where it is allowed, the row nearest to a row is itself
        shown = make(name, rows, 5, columns="q", exclude_self=False, **options).retrieve()
        assert len(shown) == 40


def test_a_copy_of_the_test_row_is_hidden_from_it():
    data = {"train": [*TRAIN, dict(TEST[0])], "test": TEST}
    assert 4 not in BM25Retriever(data, ice_num=3).retrieve()[0]
    assert BM25Retriever(data, ice_num=3, strict=False).retrieve()[0][0] == 4
    assert BM25Retriever(data, ice_num=3, exclude_self=[1]).retrieve()[0][-1] == 4
    with pytest.raises(BadValue, match="ice_num is 5; the training set has 5 rows, and 1 of them"):
        BM25Retriever(data, ice_num=5).retrieve()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"ice_num": -1}, "ice_num is -1"),
        ({"ice_num": 1.5}, "ice_num is 1.5"),
        ({"ice_num": True}, "ice_num is True"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**32}, "must be below"),
        ({"max_tokens": -2, "count": len}, "max_tokens is -2"),
    ],
)
def test_impossible_options(options, text):
    with pytest.raises(BadValue, match=text) as caught:
        RandomRetriever(DATA, **options)
    assert isinstance(caught.value, UsageError)
    assert isinstance(caught.value, ValueError)


# ---- by name ----


def test_every_listed_retriever_can_be_made():
    vectors = (np.eye(4), np.ones((1, 4)))
    for entry in RETRIEVERS.entries():
        kind = retriever_class(parse_spec(entry.name))
        options = {"vectors": vectors} if "vectors" in options_of(kind) else {}
        options |= {"label": "a"} if entry.name == "balanced" else {}
        made = make(entry.name, DATA, 2, 5, **options)
        assert isinstance(made, Retriever)
        assert [len(each) for each in made.retrieve()] == [0 if entry.name == "zero" else 2]
        assert select(made)(0) == made.retrieve()[0]
        assert made.facts["retriever"] == kind.__name__
        assert entry.target.endswith(f":{kind.__name__}")
        assert type(make(kind.__name__, DATA, 2, **options)) is type(made)


def test_names_and_options_that_do_not_exist():
    with pytest.raises(
        UsageError, match=r"no retriever 'best'. See kshot list retrievers, or write path/to/file.py:Class"
    ):
        make("best", DATA)
    with pytest.raises(UsageError, match=r"no retriever 'bn25'. Did you mean 'bm25'\?"):
        make("bn25", DATA)
    with pytest.raises(UsageError, match=r"'random' has no option 'colums'. Options: columns, count"):
        make("random", DATA, 2, colums="q")
    assert make("fixk", DATA, 2).retrieve() == [[0, 1]]
    assert make("fixk", DATA, 2, fix_id_list=[3]).retrieve() == [[3]]
    with pytest.raises(KshotError, match="the training set has 4 rows"):
        make("fixk", DATA, 9)
    with pytest.raises(UsageError, match="bm25:x: only options can follow its name, not 'x'"):
        make("bm25:x", DATA)
    assert isinstance(make("Zero", DATA), ZeroRetriever)
    assert isinstance(make("SlidingWindow", DATA), retriever_class(parse_spec("window")))


def test_options_are_written_behind_the_name():
    made = make("bm25,k1=1.2,b=0.5,order=nearest_first,columns=q", DATA, 3)
    assert (made.k1, made.b, made.retrieve()) == (1.2, 0.5, BM25Retriever(DATA, **NEAR_OPTIONS).retrieve())
    assert make("random,seed=7", DATA, 2, seed=1).seed == 7  # what is written counts more than what is handed on
    assert make("window,around=yes", DATA, 2).around is True
    assert make("fixk,fix_id_list=3+0", DATA, 1).retrieve() == [[3, 0]]
    assert make("random,max_tokens=none", DATA).max_tokens is None
    with pytest.raises(UsageError, match="'bm25,k3=1' has no option 'k3'"):
        make("bm25,k3=1", DATA)
    with pytest.raises(UsageError, match="the option 'k1' is 'much'; it must be a number"):
        make("bm25,k1=much", DATA)
    with pytest.raises(UsageError, match="the option 'tokenize' is a Callable, which cannot be written as text"):
        make("bm25,tokenize=split", DATA)
    with pytest.raises(UsageError, match="the option 'encoder' is a Callable"):
        make("topk,encoder=mine", DATA)
    with pytest.raises(UsageError, match="the option 'text' is a Callable"):
        make("bm25,text=mine", DATA)


NEAR_OPTIONS = {"ice_num": 3, "k1": 1.2, "b": 0.5, "order": "nearest_first", "columns": "q"}


def test_a_spec_as_config_files_write_it():
    assert as_config("bm25,k1=1.2", 3, 5) == {"type": BM25Retriever, "ice_num": 3, "seed": 5, "k1": 1.2}
    assert as_config("fixk", 2, 5)["fix_id_list"] == [0, 1]
    with pytest.raises(UsageError, match="'zero,k1=1' has no option 'k1'"):
        as_config("zero,k1=1", 0, 5)


OWN = """
from kshot.retrievers import Retriever, ZeroRetriever

def helper():
    return ZeroRetriever

class Every(Retriever):
    \"\"\"Every so many rows.\"\"\"

    def __init__(self, dataset, *positional, step: int = 2, **options):
        super().__init__(dataset, *positional, **options)
        self.step = step

    def ranked(self):
        return [range(0, len(self.train), self.step)[: self.ice_num] for _ in self.test]
"""


def test_a_retriever_in_a_file(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN)
    assert make(str(path), DATA, 2).retrieve() == [[0, 2]]  # the only retriever in the file
    made = make(f"{path}:Every,step=3", DATA, 2, seed=9)
    assert (made.retrieve(), made.seed, made.facts["retriever"]) == ([[0, 3]], 9, "Every")
    assert type(made) is retriever_class(parse_spec(f"{path}:Every"))  # the file is loaded once
    assert as_config(f"{path}:Every,step=3", 2, 9)["step"] == 3
    with pytest.raises(UsageError, match="has no option 'stop'"):
        make(f"{path}:Every,stop=3", DATA)
    with pytest.raises(KshotError, match=r"it is not a retriever class. Subclass kshot.Retriever"):
        make(f"{path}:helper", DATA)
    with pytest.raises(KshotError, match="there is no such file"):
        make(str(tmp_path / "none.py"), DATA)


def test_a_retriever_of_a_package(monkeypatch):
    monkeypatch.setattr(RETRIEVERS, "_entries", dict(RETRIEVERS._entries))
    RETRIEVERS.add(Entry("first", f"{__name__}:First", origin="mine 1.0"))
    assert make("first,order=nearest_last", DATA, 2).retrieve() == [[1, 0]]
    RETRIEVERS.add(Entry("other", "collections:Counter", origin="mine 1.0"))
    with pytest.raises(UsageError, match=r"other: it is not a retriever class. Subclass kshot.Retriever"):
        make("other", DATA)


class First(Retriever):
    def ranked(self):
        return [range(self.ice_num) for _ in self.test]


def test_the_package_exports_what_it_lists():
    import kshot.retrievers

    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        kshot.retrievers.Nothing  # noqa: B018
    assert all(getattr(kshot.retrievers, name) for name in kshot.retrievers.__all__)


def test_a_retriever_of_your_own_needs_one_method():
    class First(Retriever):
        def ranked(self):
            return ([0] for _ in self.test)

    assert First(DATA).retrieve() == [[0]]
    with pytest.raises(NotImplementedError):
        Retriever(DATA).retrieve()
    assert TopkRetriever(DATA, vectors={"train": np.eye(4), "test": np.eye(4)[2:3]}).retrieve() == [[2]]


def test_datasets_of_the_hub_library_are_datasets():
    hub = pytest.importorskip("datasets")
    same = hub.Dataset.from_list(TRAIN)
    for data in (hub.DatasetDict(train=same, test=hub.Dataset.from_list(TRAIN)), same):
        assert RandomRetriever(data, ice_num=3).retrieve() == RandomRetriever(TRAIN, ice_num=3).retrieve()
        assert BM25Retriever(data, ice_num=3).retrieve() == BM25Retriever(TRAIN, ice_num=3).retrieve()
    apart = hub.DatasetDict(train=same, test=hub.Dataset.from_list(TEST))
    assert BM25Retriever(apart, ice_num=3, columns="q").retrieve() == [NEAREST[::-1]]
