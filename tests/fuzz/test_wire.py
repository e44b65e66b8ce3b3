"""Plain data between processes: the configs' codec and that of programs and their judge."""

import json
import math

from hypothesis import strategies as st

from kshot.configs._codec import Codec
from kshot.sandbox._wire import Decoder, Encoder, Garbled
from tests.fuzz.harness import any_text, fuzz, grafted, json_values

leaves = st.one_of(st.none(), st.booleans(), st.integers(-(2**200), 2**200), st.floats(allow_nan=False), any_text)
hashable = st.one_of(leaves, st.tuples(leaves, leaves))
values = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(hashable | st.sampled_from(["$dict", "$own", "$"]), inner, max_size=3),
        st.sets(hashable, max_size=3),
    ),
    max_leaves=8,
)


def same(one, other):
    """Whether two values are equal and of the same types: True is 1 for Python."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return len(one) == len(other) and all(
            same(a, b) and same(one[a], other[b]) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@fuzz(values, examples=40)
def test_values_of_a_config_come_back(value):
    sent = json.loads(json.dumps(Codec().encode(value)))
    assert same(Codec().decode(sent), value)


FORMS = {
    "a": [
        {"$tuple": [1]},
        {"$set": [2]},
        {"$dict": [[1, 2]]},
        {"$name": ["x", "y"]},
        {"$own": [0, "f", "class"]},
        {"$opaque": "z"},
    ]
}


@fuzz(grafted(FORMS) | json_values())
def test_forged_values_of_a_config_are_read_or_refused(plain):
    try:
        Codec().decode(plain)
    except (RecursionError, TypeError, ValueError, LookupError):  # ``ConfigProcess`` names these
        return


# ---- programs and their judge ----

program_values = st.recursive(
    leaves
    | st.just(math.inf)
    | st.complex_numbers(allow_nan=False)
    | st.binary(max_size=5)
    | st.integers(0, 9).map(range),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(hashable, inner, max_size=3),
        st.sets(hashable, max_size=3),
        st.frozensets(hashable, max_size=3),
    ),
    max_leaves=8,
)


def no_objects(*_):
    """Stand for what exports objects of programs: there are none."""
    raise Garbled("an object")


@fuzz(program_values, examples=40)
def test_values_of_a_program_come_back(value):
    encoder = Encoder(no_objects)
    form = encoder.value(value)
    table, form = json.loads(json.dumps([encoder.table(), form], allow_nan=False))
    assert same(Decoder(table, no_objects).value(form), value)


def test_what_is_shared_or_holds_itself_stays_so():
    inner = [1]
    value = [inner, inner]
    value.append(value)
    encoder = Encoder(no_objects)
    form = encoder.value(value)
    found = Decoder(json.loads(json.dumps(encoder.table())), no_objects).value(form)
    assert found[0] is found[1]
    assert found[2] is found


TABLE = [["l", [[1], 2]], ["t", ["x"]], ["d", [["a", [0]]]], ["i", "0xff"], ["f", "0x1p0"], ["b", "00"], ["r", 0, 9, 1], ["z", [1]], ["y", "len"], ["n", "fractions.Fraction", "1/2"], ["a", 0], ["array", "<f8", [1], [1.0]], ["g", "<i8", 1]]  # fmt: skip


@fuzz(grafted(TABLE, odds=12) | json_values(), json_values(depth=2), examples=40)
def test_forged_messages_of_a_program_are_read_or_garbled(table, form):
    try:
        decoder = Decoder(table, no_objects)
        decoder.value(form)
    except Garbled:
        return
