"""Examples that share a label with the row."""

import pytest

from kshot.core.errors import BadValue
from kshot.retrievers import XiezhiRetriever

TRAIN = [{"q": f"t{i}", "labels": labels} for i, labels in enumerate((["a"], ["b", "c"], ["c"], ["a", "c"]))]


def chosen(*labels, ice_num=3, **options):
    dataset = {"train": TRAIN, "test": [{"q": "x", "labels": list(labels)}]}
    return XiezhiRetriever(dataset, ice_num=ice_num, **options).retrieve()[0]


def test_rows_of_the_first_label_come_first():
    assert chosen("c", "a", ice_num=2) == [1, 2]
    assert chosen("b", "a") == [1, 0, 3]
    assert chosen() == []


def test_a_row_with_two_labels_is_shown_twice_in_compat():
    assert chosen("a", "c", ice_num=4, strict=False) == [0, 3, 1, 2]
    assert chosen("b", "c", ice_num=4, strict=False) == [1, 1, 2, 3]
    assert chosen("b", "c", ice_num=4) == [1, 2, 3]


def test_labels_that_no_training_row_has():
    assert chosen("z", "b") == [1]
    with pytest.raises(BadValue, match="no training row has the label 'z' of test row 0"):
        chosen("z", "b", strict=False)


def test_the_row_itself_is_not_shown_in_strict():
    assert XiezhiRetriever({"train": TRAIN, "test": TRAIN}, ice_num=2).retrieve()[0] == [3]
    assert XiezhiRetriever({"train": TRAIN, "test": TRAIN}, ice_num=2, strict=False).retrieve()[0] == [0, 3]


def test_rows_without_labels():
    with pytest.raises(BadValue, match="training row 0 has no list of labels in the column 'topics'"):
        chosen("a", labels_column="topics")
