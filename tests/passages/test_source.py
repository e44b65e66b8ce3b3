"""Passage benchmarks from end to end: searching, answering from what was found, comparing, re-scoring, exporting."""

import json

import pytest

import kshot
from kshot.core.errors import DataError, KshotError, RunError, UsageError
from kshot.core.records import Generated
from kshot.report.verdicts import systems_tables
from tests.datasets.fakes import Fake, values
from tests.passages.books import CHAPTERS, QUESTIONS, question, small_book

CHUNKS = "headings:50,tokenizer=words"


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("KSHOT_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def book(tmp_path):
    return small_book(tmp_path / "book")


def run(book, model="fts5", dataset="fastbook", **options):
    return kshot.evaluate(model, dataset, data=str(book), **({"chunker": CHUNKS} | options))


def test_a_search_is_scored_by_components_within_the_chapter(book):
    result = run(book)
    found = values(result)["fastbook"]
    # 1.1 first, 1.2 by the second passage, 2.1 has a component without quotes, 2.2 first
    assert found["AC_MRR@10"] == pytest.approx((1 + 1 / 2 + 0 + 1) / 4)
    assert found["AC_Recall@10"] == pytest.approx((1 + 1 + 1 / 2 + 1) / 4)
    assert found["AC_MRR@1"] == pytest.approx(2 / 4)
    assert found["AC_Recall@2000t"] == found["AC_Recall@10"]
    assert {row["task"] for row in result.results} == {"fastbook[1]", "fastbook[2]", "fastbook"}
    for row in result.samples:
        assert all(mark.partition(":")[0] == row["category"] for mark in row["answer"])
        assert [hit["id"] for hit in row["response"]] == list(row["answer"])


def test_the_whole_book_can_be_searched(book):
    result = run(book, within="none")
    assert {mark.partition(":")[0] for row in result.samples for mark in row["answer"]} == {"1", "2"}
    with pytest.raises(UsageError, match="no field 'author'"):
        run(book, within="author")


def test_own_documents_are_all_searched_unless_the_benchmark_says_otherwise(book, tmp_path):
    def documents(**options):
        result = run(book, dataset="passages", **options)
        head = " ".join(str(table.title) for table in systems_tables(result.results))
        (within,) = {row["within"] for row in result.results}
        strange = [mark for row in result.samples for mark in row["answer"] if mark[0] != row["category"]]
        return bool(strange), within, head.partition("cut by headings:50,\n")[2]

    everywhere = (True, "none", "searching all documents")
    at_home = (False, "chapter", "within the question's document")
    assert documents() == everywhere
    assert documents(within="chapter") == at_home
    assert run(book).results[0]["within"] == "chapter"  # fastbook's published figures are within the chapter
    (book / "questions.json").write_text(json.dumps({"within": "chapter", "questions": QUESTIONS}), encoding="utf-8")
    assert documents() == at_home
    assert documents(within="none") == everywhere
    (book / "questions.json").write_text(json.dumps({"within": "page", "questions": QUESTIONS}), encoding="utf-8")
    with pytest.raises(DataError, match="within is 'page'; it must be chapter or none"):
        documents()


def test_searching_everywhere_finds_more_that_is_wrong(tmp_path):
    """Two documents share their words, so the answer's own document is an easier place to search."""
    folder = tmp_path / "twins"
    (folder / "documents").mkdir(parents=True)
    (folder / "documents" / "a.md").write_text("# One\nThe river is long and blue.\n", encoding="utf-8")
    (folder / "documents" / "b.md").write_text("# Two\nThe river is long, the river is wide.\n", encoding="utf-8")
    asked = [question(1, "a", "How long is the river?", [["long and blue"]])]
    (folder / "questions.json").write_text(json.dumps({"questions": asked}), encoding="utf-8")
    found = {
        within: values(run(folder, dataset="passages", within=within))["twins"]["AC_MRR@10"]
        for within in (None, "none", "chapter")
    }
    assert found == {None: 0.5, "none": 0.5, "chapter": 1.0}


def test_a_run_is_scored_again_where_it_searched(book, tmp_path):
    before = run(book, dataset="passages", within="chapter", out=tmp_path / "run")
    spec = json.loads((tmp_path / "run" / "spec.json").read_text())
    spec["identity"].pop("within")
    spec["options"]["within"] = None
    for facts in spec["tasks"]["fts5"].values():  # as runs were before they recorded it
        del facts["within"]
    (tmp_path / "run" / "spec.json").write_text(json.dumps(spec))
    assert values(kshot.score(tmp_path / "run")) == values(before)


TREC = "1.1 Q0 1:0 1 9 t\n1.2 Q0 1:0 1 9 t\n2.1 Q0 2:1 1 9 t\n2.2 Q0 2:0 1 9 t\n"


def recorded(book, path, **options):
    return run(book, model=f"replay:{path}", dataset="passages", **options)


def test_a_recorded_run_says_what_it_lacks(book, tmp_path):
    path = tmp_path / "run.trec"
    path.write_text(TREC)
    whole = recorded(book, path)
    assert whole.notes == recorded(book, path, limit=1).notes == run(book, dataset="passages").notes
    path.write_text("".join(TREC.splitlines(keepends=True)[1:]) + "zz Q0 1:0 1 9 t\n")
    some = recorded(book, path, out=tmp_path / "run")
    lacks = "it has no ranking for 1 of 4 questions, such as 1.1: they count as 0"
    strange = "1 of its topics are no questions here, such as zz: they are left out"
    assert some.notes[-2:] == [f"replay:{path}: {lacks}", f"replay:{path}: {strange}"]
    assert values(some)[book.name]["AC_MRR@10"] == values(whole)[book.name]["AC_MRR@10"] - 1 / 4
    path.unlink()
    assert kshot.score(tmp_path / "run").notes == some.notes


def test_a_recorded_run_that_has_nothing_is_refused(book, tmp_path):
    path = tmp_path / "run.trec"
    for text, message in {
        "": "run.trec: the recording is empty",
        "\n \n": "run.trec: the recording is empty",
        "9.9 Q0 1:0 1 9 t\n": "none of its topics is a question here: one is '9.9'",
    }.items():
        path.write_text(text)
        with pytest.raises(KshotError, match=message):
            recorded(book, path)
    path.write_text(TREC.splitlines()[-1])
    with pytest.raises(
        DataError, match=r"no ranking for any of the 2 questions .*first is '1\.1', while it has '2\.2'"
    ):
        recorded(book, path, limit=2)
    lists = tmp_path / "runs.json"
    lists.write_text(json.dumps({"mine": {"runs": [[], [], [], []]}}))
    with pytest.raises(DataError, match=r"runs\.json#mine: it has no ranking for any of the 4 .*and it is empty"):
        recorded(book, lists)
    lists.write_text(json.dumps({"mine": {"runs": [[0], [], [], [0]]}}))
    assert "no ranking for 2 of 4 questions, such as 1.2, 2.1: they count as 0" in recorded(book, lists).notes[-1]


def test_filters_of_components_change_the_denominator(book):
    found = values(run(book, components="nonempty"))["fastbook"]
    assert found["AC_Recall@10"] == 1.0
    with pytest.raises(UsageError, match="--components 'some' is unknown"):
        run(book, components="some")


def test_chapters_can_be_chosen(book):
    assert [row["id"] for row in run(book, dataset="fastbook:2").samples] == ["2.1", "2.2"]
    with pytest.raises(UsageError, match="no chapter '9'"):
        run(book, dataset="fastbook:9")


def test_queries_from_a_file_are_matched_by_number(book, tmp_path):
    rows = ["chapter,question_number,keywords", "2,2,granite", '2,1,"""ice"""', "1,2,oak fish", "1,1,heron"]
    (tmp_path / "keys.csv").write_text("\n".join(rows), encoding="utf-8")
    asked = [row["prompt"] for row in run(book, queries=str(tmp_path / "keys.csv")).samples]
    assert asked == ["heron", "oak fish", "ice", "granite"]
    (tmp_path / "few.csv").write_text("\n".join(rows[:3]), encoding="utf-8")
    with pytest.raises(DataError, match=r"no query for 2 of 4 questions, the first is 1\.1"):
        run(book, queries=str(tmp_path / "few.csv"))


def test_a_model_may_write_the_queries(book, tmp_path):
    (tmp_path / "writer.py").write_text(
        "from kshot import Generate, Generated\n"
        "class Writer:\n"
        "    name = fingerprint = 'writer'\n"
        "    answers = (Generate,)\n"
        "    def serve(self, queue):\n"
        "        for request in queue:\n"
        "            yield request, Generated('granite\\n ground ' if 'granite' in request.prompt.text else ' ')\n",
        encoding="utf-8",
    )
    result = run(book, rewrite=f"{tmp_path}/writer.py:Writer", out=tmp_path / "run")
    asked = {row["id"]: row["prompt"] for row in result.samples}
    assert asked["2.2"] == "granite ground"
    assert asked["1.1"] == "Where does the heron stand?"  # it wrote nothing, so the question stands
    assert values(kshot.score(tmp_path / "run")) == values(result)


def test_chunkers_are_swept_and_compared_by_tokens_only(book):
    result = run(book, model=["fts5", "bm25"], chunker=[CHUNKS, "whole"], within="none")
    assert {row["task"] for row in result.results if "[" not in row["task"]} == {
        "fastbook@headings:50",
        "fastbook@whole",
    }
    across = [row for row in result.comparisons if row["a"].rpartition("·")[2] != row["b"].rpartition("·")[2]]
    assert {row["metric"] for row in across} == {"AC_Recall@2000t"}
    assert len([row for row in result.comparisons if row["metric"] == "AC_Recall@2000t"]) == 6


def test_measures_can_be_chosen(book):
    assert set(values(run(book, measures=["AC_Recall@3", "AC_Recall@20t"]))["fastbook"]) == {
        "AC_Recall@3",
        "AC_Recall@20t",
    }
    with pytest.raises(UsageError, match="nDCG@10 cannot be measured on answer components"):
        run(book, measures="nDCG@10")
    with pytest.raises(UsageError, match="not known"):
        run(book, measures="Foo@3")


def reader(request):
    assert "[1] " in request.prompt.text
    return Generated(" in the shallows\n" if "heron stand" in request.prompt.text else "who knows")


def test_rag_is_scored_by_its_text_and_by_what_it_read(book, tmp_path):
    model = Fake(reader)
    result = run(book, model=model, method="rag", read=1, max_tokens=9, out=tmp_path / "run")
    found = values(result)["fastbook"]
    assert found["EM"] == 25.0
    assert found["AC_Recall@1"] == pytest.approx((1 + 1 / 2 + 1 / 2 + 1) / 4)
    assert result.samples[0]["answer"]["text"] == "in the shallows"
    assert all(request.max_tokens == 9 for request in model.asked)
    assert "heron stands in the shallows" in model.asked[0].prompt.text
    again = kshot.score(tmp_path / "run")
    assert values(again) == values(result)


def test_rag_takes_an_instruction_and_a_search_engine(book):
    model = Fake(lambda r: Generated("x"))
    run(book, model=model, method="rag", search="bm25", instruction="{passages}||{question}", limit=1)
    assert model.asked[0].prompt.text.endswith("||Where does the heron stand?")
    with pytest.raises(UsageError, match="--search needs --method rag"):
        run(book, search="bm25")


def test_models_and_sources_must_suit_each_other(book):
    with pytest.raises(UsageError, match="fastbook needs search engines, and there are none among: embedded"):
        run(book, model="embedded")
    with pytest.raises(UsageError, match="lookup needs language models"):
        kshot.evaluate("fts5", "lookup", samples=1, length=10)
    mixed = kshot.evaluate(["embedded", "fts5"], ["lookup:UR", "handbook"], samples=2, length=10, limit=2)
    assert {
        (row["model"], row["task"].partition("|")[0].partition("[")[0])
        for row in mixed.results
        if row["metric"] in {"Accuracy", "AC_MRR@10"}
    } >= {("fts5", "handbook")}
    assert not [row for row in mixed.results if row["model"] == "fts5" and "lookup" in row]


def test_the_same_run_goes_on_and_can_be_scored_again(book, tmp_path):
    first = run(book, model=["fts5", "bm25"], out=tmp_path / "run")
    body = (tmp_path / "run" / "summary.json").read_bytes()
    lines = (tmp_path / "run" / "journal.jsonl").read_bytes()
    assert run(book, model=["fts5", "bm25"], out=tmp_path / "run").results == first.results
    assert (tmp_path / "run" / "journal.jsonl").read_bytes() == lines  # nothing was asked again
    assert kshot.score(tmp_path / "run").results == first.results
    assert (tmp_path / "run" / "summary.json").read_bytes() == body
    assert json.loads(body)["comparisons"][0]["a"] == "fts5"


def test_another_text_is_another_corpus(book, tmp_path):
    run(book, out=tmp_path / "run")
    before = (tmp_path / "run" / "journal.jsonl").stat().st_size
    (book / "chapters" / "chapter_2.md").write_text(CHAPTERS["2"].replace("hard", "soft"), encoding="utf-8")
    run(book, out=tmp_path / "run")
    assert (tmp_path / "run" / "journal.jsonl").stat().st_size > before


def test_a_run_is_not_scored_again_on_other_documents(book, tmp_path):
    run(book, out=tmp_path / "run")
    body = (tmp_path / "run" / "summary.json").read_bytes()
    (book / "chapters" / "chapter_2.md").write_text(CHAPTERS["2"].replace("hard", "soft"), encoding="utf-8")
    with pytest.raises(RunError, match="its documents have changed"):
        kshot.score(tmp_path / "run")
    assert (tmp_path / "run" / "summary.json").read_bytes() == body


def test_exported_runs_score_the_same_elsewhere(book, tmp_path):
    ir_measures = pytest.importorskip("ir_measures")
    from kshot.rescoring import export_passages

    run(book, model=["fts5", "bm25"], out=tmp_path / "run")
    names = {path.name for path in export_passages(tmp_path / "run", tmp_path / "out")}
    assert names == {"corpus.jsonl", "queries.jsonl", "test.tsv", "qrels.trec", "fts5.trec", "bm25.trec"}
    folder = tmp_path / "out" / "fastbook"
    qrels = list(ir_measures.read_trec_qrels(str(folder / "qrels.trec")))
    for system in ("fts5", "bm25"):
        mine = kshot.evaluate(system, "beir", data=str(folder), measures=["nDCG@10", "RR@10", "R@5", "AP"])
        measures = [ir_measures.parse_measure(name) for name in ("nDCG@10", "RR@10", "R@5", "AP")]
        # the exported run searched within the chapter, this one everywhere: export it, too
        ranked = [
            ir_measures.ScoredDoc(row["id"], mark, -rank)
            for row in mine.samples
            for rank, mark in enumerate(row["answer"])
        ]
        theirs = ir_measures.calc_aggregate(measures, qrels, ranked)
        ours = values(mine)["beir/fastbook"]
        assert {str(m): v for m, v in theirs.items()} == pytest.approx(ours)
    with pytest.raises(RunError, match="not a run folder"):
        list(export_passages(tmp_path, tmp_path / "x"))


def test_a_replayed_trec_run_scores_as_it_did(book, tmp_path):
    first = run(book, out=tmp_path / "run")
    from kshot.rescoring import export_passages

    list(export_passages(tmp_path / "run", tmp_path / "out"))
    again = run(book, model=f"replay:{tmp_path}/out/fastbook/fts5.trec")
    assert values(again) == values(first)


def test_a_search_engine_of_ones_own(book, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from kshot import Found, IndexSearchEngine\n"
        "class Longest(IndexSearchEngine):\n"
        "    name = fingerprint = 'longest'\n"
        "    def open(self, corpus, store):\n"
        "        self.lengths = [len(p.text) for p in corpus]\n"
        "        return self\n"
        "    def search(self, queries, k, among):\n"
        "        allowed = among if among is not None else range(len(self.lengths))\n"
        "        best = sorted(allowed, key=lambda i: -self.lengths[i])[:k]\n"
        "        return [Found(best, [self.lengths[i] for i in best])] * len(queries)\n",
        encoding="utf-8",
    )
    result = run(book, model=[f"{tmp_path}/mine.py:Longest", "fts5"])
    assert {row["model"] for row in result.results} == {"longest", "fts5"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: (b / "questions.json").unlink(), "no JSON file here holds questions"),
        (
            lambda b: (b / "chapters" / "chapter_2.md").unlink(),
            "there are questions about chapter 2, and it has no document",
        ),
        (lambda b: (b / "chapters" / "02_other.md").write_text("other"), "are both chapter 2, and differ"),
        (lambda b: (b / "chapters" / "chapter_2.md").write_bytes(b"caf\xe9"), "UTF-8"),
        (lambda b: (b / "questions.json").write_text("{"), "no"),
    ],
)
def test_faulty_books_are_refused(book, change, message):
    change(book)
    with pytest.raises(DataError, match=message):
        run(book)


def test_a_chapter_may_be_there_twice_in_the_same_words(book):
    (book / "chapters" / "02_stones.txt").write_text(CHAPTERS["2"], encoding="utf-8")
    assert values(run(book)) == values(run(book))


def test_odd_queries_and_documents(tmp_path):
    book = small_book(tmp_path / "book")
    odd = [
        '" OR NEAR(a, b) * "',
        "AND",
        "((((",
        "\x00",
        "'; DROP TABLE passages; --",
        "x" * 100_000,
        "🦩 Reiher",
        "^$*",
    ]
    rows = [*QUESTIONS, *(question(100 + i, 1, text, [["heron"]]) for i, text in enumerate(odd))]
    (book / "questions.json").write_text(json.dumps({"questions": rows}), encoding="utf-8")
    (book / "chapters" / "3.txt").write_text("", encoding="utf-8")
    (book / "chapters" / "4.txt").write_text("word " * 200_000, encoding="utf-8")
    for engine in ("fts5", "bm25"):
        result = run(book, model=engine, within="none")
        assert not result.first_failures
        assert {row["n"] for row in result.results if row["task"] == "fastbook"} == {len(rows)}


def test_a_line_of_ten_megabytes(tmp_path):
    book = small_book(tmp_path / "book")
    (book / "chapters" / "4.txt").write_text("wading " * 1_500_000 + "needle", encoding="utf-8")
    rows = [*QUESTIONS, question(9, 4, "Where is the needle?", [["needle"]])]
    (book / "questions.json").write_text(json.dumps({"questions": rows}), encoding="utf-8")
    result = run(book, chunker="tokens:500/0")
    assert values(result)["fastbook[4]"]["AC_MRR@10"] == 1.0


def test_data_must_be_named(book, tmp_path):
    with pytest.raises(UsageError, match="fastbook needs its questions and documents"):
        kshot.evaluate("fts5", "fastbook")
    moved = book / "questions.json"
    moved = moved.rename(tmp_path / "elsewhere.json")
    with pytest.raises(UsageError, match="comes without its documents"):
        kshot.evaluate("fts5", "fastbook", data=[f"questions={moved}"])
    both = kshot.evaluate(
        "fts5", "fastbook", data=[f"questions={moved}", f"documents={book / 'chapters'}"], chunker=CHUNKS
    )
    assert both.results[-1]["n"] == 4


def test_search_engines_cannot_generate(book):
    with pytest.raises(UsageError, match="language models"):
        run(book, model="fts5", method="rag")


@pytest.mark.parametrize("method", [None, "rag"])
@pytest.mark.parametrize(("name", "value"), [("metric", "em"), ("cleanup", "first-capital")])
def test_options_of_scoring_that_would_have_no_effect_are_refused(book, name, value, method):
    model = "fts5" if method is None else Fake(lambda request: Generated("x"))
    with pytest.raises(UsageError, match=rf"--{name} has no effect on a passage benchmark.*-d NAME,{name}="):
        run(book, model, method=method, **{name: value})
