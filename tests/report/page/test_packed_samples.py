"""The samples within a report: which are taken, that they fit, and that a script finds them again."""

import gzip
import json
import random

import pytest

from kshot.report.page.packed_samples import Counted, cut_card, packed_run, read_run_samples
from kshot.report.page.page_run import PageRun
from kshot.runs.record import RunRecord


def figure(task="t", **more):
    row = {"task": task, "model": "m", "metric": "EM", "value": 50.0, "n": 2, "failed": 0, "ci95": None}
    return {**row, "bounds": [0, 100], **more}


def sample(at, score, task="t", text="", **more):
    row = {"task": task, "model": "m", "id": f"id{at}", "prompt": f"question {at} {text}", "response": "a reply"}
    outcome = {"failed": "timeout"} if score is None else {"scores": {"EM": score}}
    return {**row, "answer": "a reply", "target": ["x"], **outcome, **more}


def read(samples, *figures):
    run = PageRun("k", "k", RunRecord(list(figures) or [figure()], [], _samples=samples))
    return read_run_samples(run)


def opened(packed, name):
    return json.loads(gzip.decompress(packed.files[f"data/runs/k/{name}"]))


def test_failed_flipped_and_wrong_samples_come_first():
    scores = [100.0, 0.0, None, 50.0, 100.0, 100.0]
    found = packed_run(read([sample(at, score) for at, score in enumerate(scores)]), {4}, 10**6)
    assert found.numbers == [2, 4, 1, 3, 0, 5]
    assert found.counts == {
        "failed": Counted(1, 1),
        "flipped": Counted(1, 1),
        "wrong": Counted(2, 2),
        "other": Counted(2, 2),
    }


def test_tasks_take_turns_within_a_kind():
    samples = [sample(at, 0.0, task="t" if at < 5 else "u") for at in range(8)]
    found = packed_run(read(samples, figure(), figure("u")), set(), 10**6)
    assert found.numbers == [0, 5, 1, 6, 2, 7, 3, 4]


def test_a_failed_sample_that_flipped_is_counted_once():
    found = packed_run(read([sample(0, None), sample(1, 0.0)]), {0, 1}, 10**6)
    assert found.counts == {"failed": Counted(1, 1), "flipped": Counted(1, 1)}


def test_columns_and_blocks_are_in_one_order():
    samples = [sample(at, 100.0 if at % 3 else 0.0, category=f"c{at % 2}") for at in range(120)]
    found = packed_run(read(samples), set(), 10**6)
    columns = opened(found, "columns.json")
    cards = [card for block in range(3) for card in opened(found, f"block-{block}.json")]
    assert [card["n"] for card in cards] == columns["columns"]["n"] == found.numbers
    assert [card["id"] for card in cards] == columns["columns"]["id"]
    assert columns["total"] == 120
    assert columns["blocks"] == 50
    assert columns["columns"]["verdict"]["headline"] == "w" * 40 + "r" * 80
    assert columns["columns"]["score"]["EM"] == [0.0] * 40 + [100.0] * 80
    assert [columns["names"]["category"][at] for at in columns["columns"]["category"]] == [
        card["category"] for card in cards
    ]


@pytest.mark.parametrize("room", [400, 5_000, 40_000])
def test_no_more_than_the_room_is_taken(room):
    rng = random.Random(1)
    words = [" ".join(f"{rng.random():.9f}" for _ in range(rng.choice((3, 300)))) for _ in range(300)]
    found = packed_run(read([sample(at, 0.0, text=each) for at, each in enumerate(words)]), set(), room)
    assert found.size <= room + 300  # an empty table of columns takes its part
    assert room < 40_000 or found.size > 0.9 * room
    assert found.counts["wrong"].all == 300
    assert found.counts["wrong"].here == len(found.numbers) < 300
    assert room == 400 or found.numbers


def test_the_same_samples_are_the_same_bytes():
    samples = [sample(at, 0.0) for at in range(60)]
    assert packed_run(read(samples), set(), 10**5).files == packed_run(read(samples), set(), 10**5).files


def test_one_huge_sample_does_not_push_out_the_others():
    rng = random.Random(2)
    huge = "".join(chr(rng.randrange(0x4E00, 0x9FFF)) for _ in range(1_000_000))
    samples = [sample(0, 0.0, text=huge), *(sample(at, 0.0) for at in range(1, 40))]
    found = packed_run(read(samples), set(), 200_000)
    assert found.numbers == list(range(40))
    assert found.cut == 1
    (card,) = [card for card in opened(found, "block-0.json") if card["n"] == 0]
    assert "characters are not in this report" in card["prompt"]["messages"][0]["content"]


# ---- cutting ----


def test_places_within_a_cut_text_move_with_it():
    text = "a" * 30_000 + "QUESTION" + "b" * 12_000
    prompt = {"messages": [{"role": "", "content": text}], "asks": 0, "asks_at": 30_000}
    passage = {"text": "c" * 60_000 + "EVIDENCE", "marks": [[60_000, 60_008, 0], [30_000, 30_010, 1]]}
    written, cut = cut_card({"prompt": prompt, "passages": [passage]}, 50_000)
    assert cut
    found = json.loads(written)
    moved = found["prompt"]
    assert moved["messages"][0]["content"][moved["asks_at"] :].startswith("QUESTION")
    (mark,) = found["passages"][0]["marks"]  # the other one was in the middle
    assert found["passages"][0]["text"][mark[0] : mark[1]] == "EVIDENCE"


def test_places_are_counted_as_scripts_count_them():
    text = "\U0001f600" * 30_000 + "QUESTION" + "b" * 12_000
    prompt = {"messages": [{"role": "", "content": text}], "asks": 0, "asks_at": 60_000}
    moved = json.loads(cut_card({"prompt": prompt}, 30_000)[0])["prompt"]
    units = moved["messages"][0]["content"].encode("utf-16-le")
    assert units[2 * moved["asks_at"] :].decode("utf-16-le").startswith("QUESTION")


def test_tokens_of_a_cut_reply_are_left_out():
    reply = {"text": "x" * 50_000, "tokens": [["x", -0.1]] * 50_000}
    found = json.loads(cut_card({"replies": [reply]}, 60_000)[0])
    assert found["replies"][0]["tokens"] is None
    assert json.loads(cut_card({"replies": [reply]}, 10**7)[0])["replies"] == [reply]


def test_a_card_of_a_million_parts_is_cut_too():
    written, cut = cut_card({"passages": [{"id": str(at), "text": "y" * 300} for at in range(20_000)]}, 100_000)
    assert cut
    assert len(written) < 100_000
