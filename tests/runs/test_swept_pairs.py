"""Which points of a sweep are compared with which."""

from kshot.runs.swept_rows import _neighbours


def pairs(*points):
    found = [(point, name) for name, point in zip("abcdefgh", points, strict=False)]
    return [(option, one + other) for option, one, other in _neighbours(found)]


def test_numbers_are_compared_with_the_next_one():
    assert pairs({"num_shots": 5}, {"num_shots": 0}, {"num_shots": 1}) == [("num_shots", "bc"), ("num_shots", "ca")]


def test_other_values_are_compared_with_each_other():
    assert pairs(*({"retriever": name} for name in ("x", "y", "z"))) == [
        ("retriever", "ab"),
        ("retriever", "ac"),
        ("retriever", "bc"),
    ]


def test_points_differ_by_one_option_and_no_examples_are_the_start_of_every_line():
    points = [{"num_shots": 0}, *({"num_shots": k, "retriever": r} for k in (1, 2) for r in ("x", "y"))]
    assert pairs(*points) == [  # a: 0; b: 1 x; c: 1 y; d: 2 x; e: 2 y
        *(("num_shots", "ab"), ("num_shots", "bd")),
        *(("num_shots", "ac"), ("num_shots", "ce")),
        *(("retriever", "bc"), ("retriever", "de")),
    ]


def test_a_point_alone_has_no_pairs():
    assert pairs({"num_shots": 0}) == []
    assert pairs() == []
