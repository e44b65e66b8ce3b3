"""Every label as often as the others."""

from collections import Counter

import pytest

from kshot.core.errors import BadValue
from kshot.retrievers import BalancedRetriever


def dataset(labels, test=50, **more):
    return {
        "train": [{"text": f"t{i}", "label": label} for i, label in enumerate(labels)],
        "test": [{"text": f"o{i}", "label": "a"} for i in range(test)],
        **more,
    }


def labels_of(data, chosen):
    return Counter(data["train"][i]["label"] for i in chosen)


@pytest.mark.parametrize("k", [0, 1, 2, 3, 6, 7, 11])
def test_counts_differ_by_at_most_one(k):
    data = dataset("a" * 90 + "b" * 6 + "c" * 4)
    for chosen in BalancedRetriever(data, ice_num=k).retrieve():
        assert len(set(chosen)) == k
        counts = labels_of(data, chosen)
        assert max((counts[c] for c in "abc"), default=0) - min(counts[c] for c in "abc") <= 1


def test_a_label_that_runs_out_leaves_its_places_to_the_others():
    data = dataset("a" * 5 + "b" + "c" * 2)
    assert all(
        labels_of(data, each) == {"a": 4, "b": 1, "c": 2} for each in BalancedRetriever(data, ice_num=7).retrieve()
    )
    assert all(sorted(each) == list(range(8)) for each in BalancedRetriever(data, ice_num=8).retrieve())
    with pytest.raises(BadValue, match="ice_num is 9; the training set has 8 rows"):
        BalancedRetriever(data, ice_num=9).retrieve()


def test_no_label_and_no_row_is_favoured():
    data = dataset("a" * 10 + "b" * 5, test=4000)
    drawn = BalancedRetriever(data, ice_num=1).retrieve()
    counts = Counter(i for (i,) in drawn)
    expected = [200] * 10 + [400] * 5
    assert sum((counts[i] - e) ** 2 / e for i, e in enumerate(expected)) < 36.1  # 99.9 % point at 14


def test_labels_take_turns_unless_the_order_is_random():
    data = dataset("a" * 10 + "b" * 10)
    for chosen in BalancedRetriever(data, ice_num=4, order="nearest_first").retrieve():
        shown = [data["train"][i]["label"] for i in chosen]
        assert shown[0] != shown[1]
        assert shown[:2] == shown[2:]
    patterns = {
        "".join(data["train"][i]["label"] for i in each) for each in BalancedRetriever(data, ice_num=4).retrieve()
    }
    assert patterns == {"aabb", "abab", "abba", "baab", "baba", "bbaa"}


def test_rows_do_not_depend_on_each_other():
    data = dataset("aabbcc" * 3)
    expected = BalancedRetriever(data, ice_num=5, seed=8).retrieve()
    assert BalancedRetriever({**data, "test": data["test"][:7]}, ice_num=5, seed=8).retrieve() == expected[:7]
    assert BalancedRetriever(data, ice_num=5, seed=9).retrieve() != expected


def test_the_row_itself_does_not_count():
    rows = dataset("a" * 3 + "b" * 3)["train"]
    for row, chosen in enumerate(BalancedRetriever(rows, ice_num=4).retrieve()):
        assert row not in chosen
        assert labels_of({"train": rows}, chosen) == {"a": 2, "b": 2}


def test_which_column_is_the_label():
    assert BalancedRetriever(dataset("ab")).label == "label"
    assert BalancedRetriever(dataset("ab", output_column="text")).label == "text"
    assert BalancedRetriever(dataset("ab"), label="text").label == "text"
    with pytest.raises(BadValue, match="the column that holds the label is not known"):
        BalancedRetriever({"train": [{"x": 1}], "test": []})
    with pytest.raises(BadValue, match="row 0 of the training set has no label column 'kind'"):
        BalancedRetriever(dataset("ab"), label="kind")
