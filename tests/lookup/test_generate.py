import errno
import os
import random
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from kshot.core.errors import RunError, UsageError
from kshot.lookup.generate import LOOKUP_TASKS, TASKS, VOCAB, answers, dumps, file_name, generate, group_of, write


@settings(max_examples=60)
@given(group=st.sampled_from(sorted(TASKS)), length=st.integers(7, 140), seed=st.integers(0, 10**6))
def test_records_obey_their_group(group, length, seed):
    for record in generate(group, length, 3, seed):
        text = record["input_no_space"]
        context, query = text[:-1], text[-1]
        places = [i for i, c in enumerate(context) if c == query]
        assert len(text) == length
        assert record["input_with_space"] == f"{context}|{query}"
        assert set(record) - {"input_no_space", "input_with_space"} == set(TASKS[group])
        if group == "unique":
            assert len(places) == 1
            assert (record["UL"], record["UR"]) == (context[places[0] - 1], context[places[0] + 1])
        else:
            assert 2 <= len(places) <= max(2, (length - 1) // 5)
            assert all(b - a > 1 for a, b in pairwise(places))
            assert record["NLFirst"] == context[places[0] - 1]
            assert record["NRLast"] == context[places[-1] + 1]


def naive(length, samples, seed, divisor=5):
    rng, size = random.Random(seed), length - 1
    for _ in range(samples):
        query = rng.choice(VOCAB)
        count = rng.randint(2, max(2, size // divisor))
        while True:
            places = sorted(rng.sample(range(2, size - 1), count))
            if all(b - a > 1 for a, b in pairwise(places)):
                break
        characters = [rng.choice(VOCAB.replace(query, "")) for _ in range(size)]
        for place in places:
            characters[place] = query
        yield "".join(characters) + query


@pytest.mark.parametrize(("length", "divisor"), [(7, 5), (50, 5), (100, 5), (130, 5), (76, 4)])
def test_the_published_procedure_to_the_letter(length, divisor):
    made = generate("nonunique", length, 20, 3, divisor=divisor)
    assert [record["input_no_space"] for record in made] == list(naive(length, 20, 3, divisor))


def test_few_draws_are_thrown_away_and_long_records_can_be_made(monkeypatch):
    draws = []

    class Counting(random.Random):
        def sample(self, population, k):
            draws.append(k)
            return super().sample(population, k)

    monkeypatch.setattr("kshot.lookup.generate.random.Random", Counting)
    generate("nonunique", 50, 1500, 1)
    assert 1500 <= len(draws) < 20_000
    draws.clear()
    for group in TASKS:
        (record,) = generate(group, 5000, 1, 1)
        assert len(record["input_no_space"]) == 5000
    assert len(draws) == 1  # repeated draws would never end at this length


def test_the_tasks_are_described_as_data():
    context, query = "abQcxdQez", "Q"
    for task in LOOKUP_TASKS.values():
        if task.group == "nonunique":
            position = context.rfind(query) if task.occurrence == "last" else context.find(query)
            neighbour = context[position + (1 if task.side == "right" else -1)]
            assert answers(context, query)[task.name] == neighbour
    assert TASKS == {"unique": ("UL", "UR"), "nonunique": ("NLFirst", "NRFirst", "NLLast", "NRLast")}


def test_hard_records_keep_to_the_first_half():
    for record in generate("nonunique", 40, 50, 20, hard=True):
        assert record["input_no_space"][:-1].rfind(record["input_no_space"][-1]) < 39 // 2


def test_length_seven_is_a_trap():
    records = generate("nonunique", 7, 200, 1)
    assert all(record["NRFirst"] == record["NLLast"] for record in records)
    assert any(record["NRFirst"] != record["NLLast"] for record in generate("nonunique", 10, 20, 1))


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (("nonunique", 5, 10, 1), {}, "length 5"),
        (("nonunique", 6, 10, 1), {}, "length 6"),
        (("nonunique", 0, 10, 1), {}, "length 0"),
        (("unique", 3, 10, 1), {}, "length 3"),
        (("unique", 10, 10, 1), {"vocab": ""}, "too small"),
        (("unique", 10, 10, 1), {"vocab": "a"}, "too small"),
        (("unique", 10, 10, 1), {"vocab": "aab"}, "'a'"),
        (("unique", 10, 10, 1), {"vocab": "ab|"}, r"'\|'"),
        (("unique", 10, 0, 1), {}, "0 records"),
        (("unique", 10, 1, 1), {"hard": True}, "hard"),
        (("nonunique", 13, 1, 1), {"hard": True, "divisor": 4}, "divisor 4"),
        (("nonunique", 30, 1, 1), {"divisor": 2}, "divisor 2"),
        (("nonunique", 30, 1, 1), {"divisor": 0}, "divisor"),
        (("both", 30, 1, 1), {}, "group"),
    ],
)
def test_impossible_settings_are_refused(arguments, options, words):
    with pytest.raises(UsageError, match=words):
        generate(*arguments, **options)


def test_small_vocabulary_works():
    (record,) = generate("unique", 8, 1, 1, vocab="ab")
    assert set(record["input_no_space"]) == {"a", "b"}


def test_files_carry_the_published_names(tmp_path):
    path = write(tmp_path, "nonunique", 20, 4, 20, hard=True)
    assert path == tmp_path / "nonunique" / "hard_sample_4_len_20_seed_20.jsonl"
    assert path.read_text() == dumps(generate("nonunique", 20, 4, 20, hard=True))
    assert file_name(100, 6, 2025) == "sample_100_len_6_seed_2025.jsonl"


def test_a_disk_that_is_full_leaves_no_part_of_a_file(tmp_path, monkeypatch):
    write(tmp_path, "unique", 10, 3, 2025)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    for length in (10, 20):
        with pytest.raises(RunError, match=f"len_{length}_.*it cannot be written: No space left on device"):
            write(tmp_path, "unique", length, 3, 2025)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_tasks_know_their_group():
    assert (group_of("UL"), group_of("NRLast")) == ("unique", "nonunique")
    with pytest.raises(UsageError, match="NRMiddle"):
        group_of("NRMiddle")
