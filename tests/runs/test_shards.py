"""The split of a run: each sample belongs to exactly one shard, and the split is the same wherever it is computed."""

import pytest
from hypothesis import given, strategies as st

from kshot import Prompt, Sample, Task
from kshot.core.errors import UsageError
from kshot.core.settings import Shard
from kshot.core.watcher import PlannedTask
from kshot.methods.generation import generate
from kshot.runs.task_run import Split
from kshot.settings import Settings


def task(name, size, *, finish=None, labels=None):
    samples = [Sample(str(at), {}, None, position=at) for at in range(size)]
    return Task(name, samples, lambda *_: Prompt("x"), generate(), (), finish=finish, labels=labels or {})


def dealt(tasks, of, *, planned=True):
    """Return the positions of each task that each shard takes."""
    plan = [PlannedTask(each.name, total=len(each.samples)) for each in tasks] if planned else None
    found = []
    for number in range(1, of + 1):
        split = Split(Shard(number, of), plan)
        taken = []
        for each in tasks:
            part = split.part(each)
            taken.append([at for at in range(len(each.samples)) if part.take(at)])
        found.append(taken)
    return found


SIZES = st.lists(st.integers(0, 400), min_size=1, max_size=6)


@given(sizes=SIZES, of=st.integers(1, 50), planned=st.booleans(), whole=st.integers(0, 9))
def test_each_sample_belongs_to_exactly_one_shard(sizes, of, planned, whole):
    tasks = [task(f"t{at}", size, finish=list if at == whole else None) for at, size in enumerate(sizes)]
    found = dealt(tasks, of, planned=planned)
    for at, size in enumerate(sizes):
        assert sorted(position for shard in found for position in shard[at]) == list(range(size))


@given(sizes=SIZES, of=st.integers(1, 50))
def test_shards_have_about_the_same_number_of_samples(sizes, of):
    tasks = [task(f"t{at}", size) for at, size in enumerate(sizes)]
    counts = [sum(map(len, shard)) for shard in dealt(tasks, of)]
    piece = max(1, min(32, sum(sizes) // (of * 4)))
    # Pieces are dealt in turn; only the last one of a task may be short.
    assert max(counts) - min(counts) <= piece * (1 + len(sizes))


def test_neighbours_stay_together_and_few_shards_share_a_task():
    mmlu = [task(f"mmlu:{at}", 246) for at in range(57)]
    of_tasks = [[bool(part) for part in shard] for shard in dealt(mmlu, 40)]
    assert sum(map(sum, of_tasks)) < 57 * 10  # beginnings of prompts that are computed; one by one, 57 * 40
    assert max(map(sum, of_tasks)) <= 12


def test_the_tasks_of_a_sweep_are_split_alike_so_that_equal_requests_are_asked_once():
    points = [task(f"cities,k={k}", 100, labels={"swept": "cities"}) for k in (0, 1, 2)]
    for shard in dealt([task("before", 33), *points, task("after", 10)], 7):
        assert shard[1] == shard[2] == shard[3]


def test_a_task_whose_answers_are_finished_together_stays_whole():
    found = dealt([task("before", 3), task("finished", 50, finish=list)], 4)
    assert sorted(len(shard[1]) for shard in found) == [0, 0, 0, 50]


@pytest.mark.parametrize("text", ["", "1", "0/3", "4/3", "1/0", "-1/3", "a/b", "1/3/4", "٣/٤", " 1/2"])
def test_what_is_no_shard_is_refused(text):
    with pytest.raises(UsageError, match="it must be K/N"):
        Settings(shard=text)


@pytest.mark.parametrize("text", ["1/1000000", "1/999999999", "0/9999999", "1/" + "9" * 5000])
def test_too_many_shards_are_refused_by_their_number(text):
    with pytest.raises(UsageError, match="a run has at most 999,999 shards") as refused:
        Settings(shard=text)
    assert len(str(refused.value)) < 200


def test_a_shard_is_no_part_of_the_identity_of_a_plain_run():
    assert "shard" not in Settings().identity()
    assert Settings(shard="1/40").identity() == {"shard": "1/40"}
