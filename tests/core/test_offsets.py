"""The offset table agrees with a dict, also where keys collide."""

from hypothesis import given, strategies as st

from kshot.core.memo import Offsets, address

KEYS = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 40), st.integers(0, 40).map(lambda k: k * 4096))


@given(st.lists(st.tuples(KEYS, st.integers(0, 2**40)), max_size=300), st.lists(KEYS, max_size=50))
def test_it_is_a_map(pairs, others):
    table, plain = Offsets(room=8), {}
    for key, offset in pairs:
        table[key] = offset
        plain[key] = offset
    assert len(table) == len(plain)
    for key in [*plain, *others]:
        assert table.get(key) == plain.get(key)
        assert (key in table) == (key in plain)


def test_an_address_is_the_first_64_bits():
    assert address("ff" * 16) == 2**64 - 1
    assert address("0" * 15 + "1" + "f" * 16) == 1
