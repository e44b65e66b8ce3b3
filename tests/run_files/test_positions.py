"""Every key and item of a TOML text has its place."""

import pytest
from hypothesis import given, strategies as st

from kshot.run_files.reading import Position, loads, nearest, positions

TEXT = '''\
# a comment with [brackets] and = signs
models = ["a # no comment", 'b]']  # a comment
[settings]
instruction = """
one = 1
[two]
"""
"quoted key".inner = {x = 1, y = [1, {z = 2}]}
stop = [
  "a",  # [
  """b
""",
]

[[datasets]]
name = "one"
  [[datasets.more]]
  at = 1979-05-27 07:32:00
[[datasets]]
name = "two"
[[datasets.more]]
[[datasets.more]]
[datasets.more.last]
done = true
'''


def paths_of(value, path=()):
    """All paths in a parsed value, the inner ones included."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield (*path, key)
        yield from paths_of(inner, (*path, key))


def test_every_path_has_a_place():
    assert set(positions(TEXT)) == set(paths_of(loads(TEXT)))


@pytest.mark.parametrize("text", [TEXT, TEXT.replace("\n", "\r\n")])
def test_places(text):
    found = positions(text)
    assert found["models",] == (2, 1)
    assert found["models", 1] == (2, 29)
    assert found["settings", "instruction"] == (4, 1)
    assert found["settings", "quoted key", "inner", "y", 1, "z"] == (8, 39)
    assert found["settings", "stop", 1] == (11, 3)
    assert found["datasets", 1] == (19, 1)
    assert found["datasets", 0, "more", 0, "at"] == (18, 3)
    assert found["datasets", 1, "more", 1, "last", "done"] == (24, 1)


def test_of_a_key_with_endless_parts_the_first_have_places():
    found = positions(".".join(["a"] * 20_000) + " = 1\nb = 2\n")
    assert found["a",].line == 1
    assert found["b",].line == 2
    assert len(found) < 1000


def test_the_place_of_something_that_is_missing_is_that_of_what_should_have_it():
    found = positions("\n[settings]\nlimit = 1\n")
    assert nearest(found, ("settings", "seed")) == Position(2, 1)
    assert nearest(found, ("models",)) == Position(1, 1)


scalars = st.one_of(
    st.integers(-9, 9).map(str),
    st.sampled_from(["true", "1.5e3", "1979-05-27 07:32:00", "''", '""', '"\\""', "'#'", '"""\n"]\n"""', "'''a''b'''"]),
    st.sampled_from(['""""two quotes at the end"""""', "'''''both ends'''''", '"[[x]]"', '"\\\\"']),
)
keys = st.sampled_from(["a", "b-c", "_", "1", '"q u"', "'l.i'", '"\\u0041"'])
blanks = st.sampled_from(["", " ", "\t"])
gaps = st.sampled_from(["", " ", "\n", " # ]}\n"])


def arrays(inner):
    items = st.lists(st.tuples(gaps, inner, gaps).map("".join), max_size=3)
    return st.tuples(items, gaps).map(lambda found: f"[{','.join(found[0])}{found[1]}]")


def tables(inner):
    pairs = st.dictionaries(keys, inner, max_size=3)
    return pairs.map(lambda found: "{" + ", ".join(f"{key} = {value}" for key, value in found.items()) + "}")


values = st.recursive(scalars, lambda inner: arrays(inner) | tables(inner), max_leaves=6)
pairs = st.lists(
    st.tuples(keys, blanks, values), max_size=4, unique_by=lambda pair: loads(f"{pair[0]} = 0").popitem()[0]
)
headers = st.sampled_from(["[x]", "[[y]]", "[[y.z]]", "[y.w]", "[ 'v' . \"w\" ]"])
texts = st.lists(st.tuples(st.none() | headers, pairs), max_size=6)


@given(texts)
def test_the_paths_are_those_that_the_parser_finds(blocks):
    text = ""
    for header, found in blocks:
        lines = [f"{key}{blank}={blank}{value}" for key, blank, value in found]
        text += "\n".join([*([header] if header else []), *lines]) + "\n"
    try:
        parsed = loads(text)
    except ValueError:
        return  # a key that is given twice
    found = positions(text)
    assert set(found) == set(paths_of(parsed))
    lines = text.split("\n")
    assert all(
        1 <= place.line <= len(lines) and 1 <= place.column <= len(lines[place.line - 1]) for place in found.values()
    )
