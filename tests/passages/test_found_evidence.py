"""What people see of a search: the texts of found passages, and which component of the answer stands in which."""

import json

import pytest

import kshot
from kshot.core.records import Generated
from kshot.runs.samples_file import MOST_RANKS, PassageTexts
from tests.datasets.fakes import Fake
from tests.finished_runs import Item, Right, finished, task
from tests.passages.books import small_book


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A book, the folder of a run of two search engines on it, and its rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KSHOT_CACHE", str(tmp_path_factory.mktemp("cache")))
        book, folder = small_book(tmp_path_factory.mktemp("book") / "book"), tmp_path_factory.mktemp("runs") / "run"
        result = searched(book, ["fts5", "bm25"], out=folder)
        yield book, folder, result.samples


def searched(book, models="fts5", **options):
    usual = {"data": str(book), "chunker": "headings:12,tokenizer=words", "within": "none", "fsync": "never"}
    return kshot.evaluate(models, "fastbook", **(usual | options))


def lines(folder):
    return [json.loads(line) for line in (folder / "passages.jsonl").read_text().splitlines()]


def test_the_passages_of_the_first_ranks_have_their_texts_once(made):
    _, folder, samples = made
    found = lines(folder)
    wanted = {hit["id"] for row in samples for hit in row["response"][:MOST_RANKS]}
    assert [line["id"] for line in found] == list(dict.fromkeys(line["id"] for line in found))
    assert {line["id"] for line in found} == wanted
    assert {line["task"] for line in found} == {"fastbook"}


def test_passages_below_the_first_ranks_have_no_text(made, tmp_path, monkeypatch):
    from kshot.runs import samples_file

    monkeypatch.setattr(samples_file, "MOST_RANKS", 1)
    result = searched(made[0], out=tmp_path / "run")
    assert {line["id"] for line in lines(tmp_path / "run")} == {row["response"][0]["id"] for row in result.samples}


def test_ranks_of_components_are_those_by_which_the_measures_count(made):
    """AC_MRR and AC_Recall follow from the ranks alone."""
    _, _, samples = made
    missing = 0
    for row in samples:
        firsts = [min(ranks, default=None) for ranks in row["evidence"]]
        assert len(firsts) == len(row["target"])
        within = [first is not None and first <= 10 for first in firsts]
        assert row["scores"]["AC_Recall@10"] == pytest.approx(sum(within) / len(within))
        assert row["scores"]["AC_MRR@10"] == pytest.approx(1 / max(firsts) if all(within) else 0)
        missing += not all(within)
    assert missing


def test_every_rank_names_a_passage_with_a_quote(made):
    _, folder, samples = made
    texts = PassageTexts(folder)
    for row in samples:
        of_row = texts.of(row)
        for quotes, ranks in zip(row["target"], row["evidence"], strict=True):
            for rank, hit in enumerate(row["response"][:MOST_RANKS], start=1):
                assert (rank in ranks) == any(quote in of_row[hit["id"]] for quote in quotes)


def test_scoring_again_writes_both_again(made):
    _, folder, _ = made
    before = {name: (folder / name).read_bytes() for name in ("passages.jsonl", "samples.jsonl")}
    (folder / "passages.jsonl").unlink()
    (folder / "samples.jsonl").write_text("")
    kshot.score(folder)
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_a_killed_write_leaves_the_old_file_and_no_draft(made, monkeypatch):
    from kshot.core import kill_points

    class KilledError(Exception):
        pass

    def die(name, _):
        if name == "export.written":
            raise KilledError

    _, folder, _ = made
    before = (folder / "passages.jsonl").read_bytes()
    kill_points.watch(die)
    try:
        with pytest.raises(KilledError):
            kshot.score(folder)
    finally:
        kill_points.watch(None)
    assert (folder / "passages.jsonl").read_bytes() == before
    assert not list(folder.glob(".passages*"))


def test_rag_has_them_too(made, tmp_path, monkeypatch):
    book, _, _ = made
    monkeypatch.setenv("KSHOT_CACHE", str(tmp_path / "cache"))
    model = Fake(lambda request: Generated("who knows"))
    result = searched(book, model, method="rag", read=2, max_tokens=9, out=tmp_path / "run")
    (row, *_) = result.samples
    assert row["answer"]["text"] == "who knows"
    assert row["evidence"] == [[1]]
    texts = PassageTexts(tmp_path / "run").of(row)
    assert set(texts) == set(row["answer"]["passages"])
    assert row["target"][0][0] in texts[row["answer"]["passages"][0]]


def test_other_tasks_have_neither(tmp_path):
    folder = finished(tmp_path / "run", task("quiz", {"a": Item(100)}, Right()))
    assert not (folder / "passages.jsonl").exists()
    (row,) = kshot.load(folder).samples
    assert "evidence" not in row
    assert PassageTexts(folder).of(row) == {}


# ---- files of strangers ----


@pytest.fixture
def copied(made, tmp_path):
    _, folder, samples = made
    (tmp_path / "passages.jsonl").write_bytes((folder / "passages.jsonl").read_bytes())
    return tmp_path, next(row for row in samples if row["response"])


def test_a_damaged_line_leaves_its_passage_without_text(copied):
    folder, row = copied
    first, second = row["response"][0]["id"], row["response"][1]["id"]
    kept = [line for line in lines(folder) if line["id"] == second]
    strange = [
        "{",
        '["x"]',
        json.dumps({"task": "fastbook", "id": first, "text": 7}),
        "\ud800".encode("utf-8", "replace").decode(),
    ]
    (folder / "passages.jsonl").write_text("\n".join([*strange, *map(json.dumps, kept)]) + "\n")
    assert set(PassageTexts(folder).of(row)) == {second}


def test_a_file_that_changes_is_read_again(copied):
    folder, row = copied
    texts = PassageTexts(folder)
    name = row["response"][0]["id"]
    assert texts.of(row)[name]
    (folder / "passages.jsonl").write_text(json.dumps({"task": "fastbook", "id": name, "text": "another"}) + "\n")
    assert texts.of(row) == {name: "another"}


def test_a_link_out_of_the_folder_is_refused(copied, tmp_path_factory):
    folder, row = copied
    other = tmp_path_factory.mktemp("other") / "secret"
    (folder / "passages.jsonl").rename(other)
    (folder / "passages.jsonl").symlink_to(other)
    with pytest.raises(kshot.KshotError):
        PassageTexts(folder).of(row)
