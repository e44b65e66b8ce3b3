"""``kshot passages``, and passage benchmarks on the command line."""

import json
from pathlib import Path

import pytest

from tests.commands import kshot
from tests.passages.books import FASTBOOK, needs_fastbook, small_book

CHUNKS = ("--chunker", "headings:50,tokenizer=words")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KSHOT_CACHE", str(tmp_path / "cache"))
    return small_book(tmp_path / "book")


def test_systems_stand_side_by_side_with_a_verdict(capsys):
    done = kshot(capsys, "run", "-d", "fastbook", "--data", "book", "-m", "fts5", "-m", "bm25", *CHUNKS)
    assert done.code == 0, done.err
    assert "fastbook: 4 questions, 4 passages" in done.out
    assert "AC_MRR@10" in done.out
    assert "cannot be told from" in done.out.replace("\n", " ")
    assert max(len(line) for line in done.out.splitlines() if not line.startswith("run folder")) <= 80


def test_json_has_the_comparisons(capsys):
    done = kshot(capsys, "run", "-d", "fastbook", "--data", "book", "-m", "fts5", "-m", "bm25", "--json", *CHUNKS)
    body = json.loads(done.out)
    assert {row["metric"] for row in body["comparisons"]} >= {"AC_MRR@10", "AC_Recall@2000t"}


def test_the_box_runs_without_data_or_model(capsys):
    done = kshot(capsys, "run", "-d", "handbook", "--limit", "5")
    assert done.code == 0, done.err
    assert "fts5" in done.out


def test_a_data_card(capsys):
    done = kshot(capsys, "passages", "check", "book", "--json")
    card = json.loads(done.out)
    assert card["total"] | {"per question": None} == {
        "chapter": "Total",
        "questions": 4,
        "components": 6,
        "per question": None,
        "empty context": 1,
        "implicit": 1,
        "extraneous": 0,
    }
    assert [row["chapter"] for row in card["chapters"]] == ["1", "2"]
    assert "components" in kshot(capsys, "passages", "check", "handbook").out


def test_a_quote_that_is_not_in_the_documents_is_an_oddity(capsys):
    def oddities(file):
        done = kshot(capsys, "passages", "check", file, "--json")
        assert done.code == 0, done.err
        return json.loads(done.out)["oddities"], done.err

    found, said = oddities("handbook")
    assert ("contexts that are not in the documents" in found, said) == (False, "")
    body = json.loads(Path("book/questions.json").read_text())
    contexts = body["questions"][0]["answer_context"][0]["context"]
    contexts += ["in the deep water", "slowly under the ground"]  # the second one is in another chapter
    Path("book/questions.json").write_text(json.dumps(body))
    assert oddities("book")[0]["contexts that are not in the documents"] == 1
    Path("book/questions.json").write_text(json.dumps({**body, "within": "chapter"}))
    assert oddities("book")[0]["contexts that are not in the documents"] == 2
    Path("alone").mkdir()
    Path("alone/questions.json").write_text(json.dumps(body))
    found, said = oddities("alone/questions.json")
    assert "contexts that are not in the documents" not in found
    assert "quotes are not looked for in documents" in said
    assert "comes without its documents" in said


def test_an_unknown_field_to_search_within_names_the_option(capsys):
    done = kshot(capsys, "run", "-d", "passages", "--data", "book", "-m", "fts5", "--within", "document", *CHUNKS)
    assert done.code == 2
    assert "--within document: questions have no field 'document'. Use chapter" in done.err


def test_the_ceiling_and_what_is_out_of_reach(capsys):
    done = kshot(capsys, "passages", "ceiling", "--data", "book", "--json", *CHUNKS)
    card = json.loads(done.out)
    assert card["ceiling"]["AC_MRR@10"] == pytest.approx((1 + 1 / 2 + 0 + 1) / 4)
    assert card["ceiling"]["AC_Recall@10"] == pytest.approx((1 + 1 + 1 / 2 + 1) / 4)
    assert (card["empty"], card["unreachable"]) == (1, [])
    torn = kshot(capsys, "passages", "ceiling", "--data", "book", "--chunker", "tokens:2/0", "--json")
    assert {row["why"] for row in json.loads(torn.out)["unreachable"]} == {"straddles a border"}
    assert "straddles a border" in kshot(capsys, "passages", "ceiling", "--data", "book", "--chunker", "tokens:2/0").out


def test_one_question_with_all_there_is_to_it(capsys):
    done = kshot(capsys, "passages", "question", "1.2", "--data", "book", "--json", *CHUNKS)
    card = json.loads(done.out)
    assert [part["passages"] for part in card["components"]] == [["1:1"], ["1:0"]]
    shown = kshot(capsys, "passages", "question", "2.1", "--data", "book", *CHUNKS).out
    assert "no quote shows it" in shown
    assert "the text on the question: Ice floats." in shown
    assert kshot(capsys, "passages", "question", "9.9", "--data", "book", *CHUNKS).code == 2


def test_chunks_are_printed(capsys):
    done = kshot(capsys, "passages", "chunks", "--data", "book", "--json", *CHUNKS)
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["id"] for row in rows] == ["1:0", "1:1", "2:0", "2:1"]
    assert "oak may live" in kshot(capsys, "passages", "chunks", "--data", "book", *CHUNKS).out


def test_a_run_is_exported(capsys):
    kshot(capsys, "run", "-d", "fastbook", "--data", "book", "-m", "fts5", "--out", "r", *CHUNKS)
    done = kshot(capsys, "passages", "export", "r", "out")
    assert done.code == 0, done.err
    assert "out/fastbook/fts5.trec" in done.out
    assert kshot(capsys, "passages", "export", "book", "out").code == 2


def test_a_search_is_previewed(capsys):
    done = kshot(capsys, "preview", "-d", "fastbook", "--data", "book", "--limit", "1", *CHUNKS)
    assert "Where does the heron stand?" in done.out
    assert "search the best" in done.out
    assert "within the question's chapter, 1" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "-d", "fastbook", "-m", "fts5"), "needs its questions and documents"),
        (("run", "-d", "fastbook", "--data", "nowhere", "-m", "fts5"), "no such file"),
        (("run", "-d", "fastbook", "--data", "book", "-m", "ftx5"), "there is no model 'ftx5'"),
        (("run", "-d", "fastbook", "--data", "book", "-m", "fts5", "--chunker", "tokens:0"), "holds nothing"),
        (("run", "-d", "fastbook", "--data", "book", "-m", "fts5", "--chunker", "shred:5"), "no chunker 'shred'"),
        (("run", "-d", "fastbook", "--data", "book", "-m", "hybrid:bm25+magic"), "magic"),
        (("run", "-d", "fastbook", "--data", "book", "-m", "bm25,k9=1"), "no option 'k9'"),
        (("run", "-d", "beir", "--data", "book", "-m", "fts5"), "not a BEIR folder"),
        (("run", "-d", "trec", "-m", "fts5"), "trec needs three files"),
        (("run", "-d", "fastbook", "--data", "http://127.0.0.1:9/x", "-m", "fts5"), "cannot be fetched"),
        (("passages", "check", "nowhere"), "no such file"),
        (("passages", "ceiling", "-d", "arc"), "no passage benchmark 'arc'"),
    ],
)
def test_mistakes_are_one_line(capsys, arguments, message):
    done = kshot(capsys, *arguments)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err


def test_what_there_is_can_be_listed(capsys):
    assert "hybrid" in kshot(capsys, "list", "search-engines").out
    assert "headings" in kshot(capsys, "list", "chunkers").out
    assert "handbook" in kshot(capsys, "list", "datasets").out


@needs_fastbook
def test_the_published_table_comes_out_to_six_digits(capsys):
    pytest.importorskip("llama_index.core")
    runs = FASTBOOK / "published_runs.json"
    systems = ("single_vector_500", "colbertv2_500", "answerai_colbert_500")
    models = [word for name in systems for word in ("-m", f"replay:{runs}#{name}")]
    queries = ("--queries", FASTBOOK / "fts_keywords.csv")
    done = kshot(capsys, "run", "-d", "fastbook", "--data", FASTBOOK, "-m", "fts5", *models, *queries, "--json")
    rows = {
        (r["model"].rpartition("#")[2], r["metric"]): r
        for r in json.loads(done.out)["results"]
        if r["task"] == "fastbook"
    }
    published = {
        "fts5": (0.505464, 0.858333),
        "single_vector_500": (0.436333, 0.808290),
        "colbertv2_500": (0.563095, 0.873211),
        "answerai_colbert_500": (0.572904, 0.865881),
    }
    for system, (mrr, recall) in published.items():
        assert round(rows[system, "AC_MRR@10"]["value"], 6) == mrr
        assert round(rows[system, "AC_Recall@10"]["value"], 6) == recall
        assert rows[system, "AC_MRR@10"]["passages"] == 271
    card = json.loads(kshot(capsys, "passages", "ceiling", "--data", FASTBOOK, "--json").out)
    assert round(card["ceiling"]["AC_MRR@10"], 4) == 0.7487
    assert round(card["ceiling"]["AC_Recall@10"], 4) == 0.9111
    assert list(card["by chapter"].values()) == [57, 38, 52, 23, 46, 25, 30]
    assert (card["empty"], len(card["unreachable"])) == (25, 19)
    assert (card["contexts that straddle a border"], card["contexts not in the text"]) == (16, 8)
