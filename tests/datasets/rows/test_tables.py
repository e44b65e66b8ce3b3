"""Tables without a class: delimiters, forms of answers, options in one cell; and the class that does the same."""

import pytest

import kshot
from kshot.core.errors import DataError, KshotError, UsageError
from kshot.datasets.rows.writing import written_table
from kshot.settings import settings_from
from tests.datasets.rows.tables import FLAGS, HEADER, ONE_COLUMN, ROWS, TABLES, asked, lines, right, samples, written


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.file)
def test_a_table_is_read(table, tmp_path):
    found = samples(written(tmp_path, table), **table.flags)
    assert [right(sample) for sample in found] == table.right
    assert found[0].choices == table.first


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.file)
def test_the_written_class_asks_the_same(table, tmp_path):
    path = written(tmp_path, table)
    made = written_table(str(path), "Made", "made.py", settings_from(table.flags), tmp_path)
    (tmp_path / "made.py").write_text(made.module())
    found = samples(f"{tmp_path}/made.py:Made")
    assert [right(sample) for sample in found] == table.right
    for shots in {0, min(1, len(table.right) - 1)}:
        assert asked(f"{tmp_path}/made.py:Made", num_shots=shots) == asked(path, num_shots=shots, **table.flags)
    compile(made.test(), "test_made.py", "exec")


@pytest.mark.needs("pyarrow")
def test_parquet(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet

    table = pa.table({"q": ["a", "b"], "o": [["x", "y"], ["u", "v"]], "k": [0, 1]})
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet")
    assert [right(sample) for sample in samples(tmp_path / "rows.parquet", **ONE_COLUMN)] == [0, 1]


def test_free_text(tmp_path):
    (tmp_path / "free.jsonl").write_text(lines({"q": "a", "t": ["b", "c"]}, {"q": "d", "t": 5}))
    first, second = samples(tmp_path / "free.jsonl", question="q", target="t")
    assert first.target.texts == ("b", "c")
    assert second.target.texts == ("5",)
    (request,), _ = asked(tmp_path / "free.jsonl", question="q", target="t")
    assert (request.prompt.text, request.stop) == ("Question: a\nAnswer:", ("\n",))


def test_a_target_of_several_lines_ends_at_a_blank_line(tmp_path):
    (tmp_path / "free.csv").write_text('q,t\na,"one\ntwo"\n')
    ((request,),) = asked(tmp_path / "free.csv", question="q", target="t")
    assert request.stop == ("\n\n",)
    ((request,),) = asked(tmp_path / "free.csv", question="q", target="t", model_type="chat")
    assert not request.stop


def test_an_instruction_shows_columns(tmp_path):
    (tmp_path / "rows.csv").write_text("the question,hint,A,B,k\nwhy?,because,x,y,A\n")
    flags = {"options": ["A", "B"], "answer": "k"}
    (requests,) = asked(tmp_path / "rows.csv", instruction="{the question} ({hint})\\n=", **flags)
    assert requests[0].prompt.text == "why? (because)\n="
    (requests,) = asked(tmp_path / "rows.csv", instruction="{{ row['the question'] }} {{ hint }}", **flags)
    assert requests[0].prompt.text == "why? because"


def test_options_after_the_name(tmp_path):
    (tmp_path / "rows.csv").write_text(HEADER + ROWS)
    spec = f"{tmp_path}/rows.csv,question=Q,options=A+B+C+D,answer=key,num_shots=1"
    assert asked(spec) == asked(tmp_path / "rows.csv", num_shots=1, **FLAGS)


def test_results_have_the_name_of_the_file(tmp_path):
    (tmp_path / "quiz.csv").write_text(HEADER + ROWS)
    spec = f"{tmp_path}/quiz.csv,question=Q,options=A+B+C+D,answer=key,limit=1"
    result = kshot.evaluate(lambda prompt: "A", spec, ranking_type="generation")
    assert [(row["task"], row["value"]) for row in result.results] == [("quiz,limit=1", 100.0)]


def test_two_tables_of_one_name_are_refused(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "quiz.csv").write_text(HEADER + ROWS)
    specs = [str(tmp_path / folder / "quiz.csv") for folder in ("one", "two")]
    with pytest.raises(UsageError, match="two datasets of the run are called 'quiz'"):
        kshot.evaluate(lambda prompt: "A", specs, ranking_type="generation", **FLAGS)


# ---- examples ----


def test_a_row_is_never_its_own_example(tmp_path):
    names = [f"row{number}?" for number in range(6)]
    (tmp_path / "rows.csv").write_text("Q,A,B,key\n" + "".join(f"{name},x,y,A\n" for name in names))
    flags = {"question": "Q", "options": ["A", "B"], "answer": "key"}
    for shots in (1, 3, 5):
        for name, requests in zip(names, asked(tmp_path / "rows.csv", num_shots=shots, **flags), strict=True):
            prompt = requests[0].prompt.text
            assert prompt.count("?") == shots + 1
            assert prompt.count(name) == 1
            assert prompt.rstrip().endswith(f"{name}\nAnswer:")


def test_examples_are_shared_by_the_rows_that_are_none_of_them(tmp_path):
    (tmp_path / "rows.csv").write_text("Q,A,B,key\n" + "".join(f"row{number}?,x,y,A\n" for number in range(20)))
    prompts = [
        requests[0].prompt.text.rpartition("\n\n")[0]
        for requests in asked(tmp_path / "rows.csv", question="Q", options=["A", "B"], answer="key", num_shots=2)
    ]
    assert sum(prompt == max(prompts, key=prompts.count) for prompt in prompts) == 18


def test_examples_come_from_another_split_or_file(tmp_path):
    for name, question in (("test", "asked?"), ("train", "shown?"), ("more", "other?")):
        (tmp_path / f"{name}.csv").write_text(f"Q,A,B,key\n{question},x,y,B\n")
    flags = {"question": "Q", "options": ["A", "B"], "answer": "key", "num_shots": 1}
    text = "Question: {}\nAnswer: y\n\nQuestion: asked?\nAnswer:"
    for place, more, shown in (
        (tmp_path, {}, "shown?"),
        (tmp_path / "{split}.csv", {}, "shown?"),
        (tmp_path / "test.csv", {"example_set": f"{tmp_path}/more.csv"}, "other?"),
        (tmp_path, {"example_set": f"{tmp_path}/more.csv[:1]"}, "other?"),
    ):
        (requests,) = asked(place, **flags, **more)
        assert requests[0].prompt.text == text.format(shown)


def test_slices_of_one_file(tmp_path):
    (tmp_path / "rows.csv").write_text(HEADER + ROWS)
    (requests,) = asked(tmp_path / "rows.csv", evaluation_set="all[1:]", example_set="all[:1]", num_shots=1, **FLAGS)
    assert requests[0].prompt.text == "Question: cap?\nAnswer: Paris\n\nQuestion: sum?\nAnswer:"


@pytest.mark.parametrize("option", ["evaluation_set", "example_set"])
@pytest.mark.parametrize("split", ["validation", "test[1:]", "nonsense"])
def test_a_table_without_splits_has_no_split_of_that_name(tmp_path, option, split):
    (tmp_path / "rows.csv").write_text(HEADER + ROWS)
    name = split.partition("[")[0]
    with pytest.raises(DataError, match=rf"rows\.csv: it has no splits, so there is no '{name}'.* all\[5:\]"):
        asked(tmp_path / "rows.csv", **{option: split}, num_shots=1, **FLAGS)


# ---- what the user is told ----


def notes(path, **flags):
    settings = settings_from(flags)
    from kshot.sources import source_of

    return [note for task in source_of(str(path), settings).tasks(settings) for note in task.notes]


@pytest.mark.parametrize(
    ("content", "flags", "note"),
    [
        (HEADER + "a,w,x,y,z,1\nb,w,x,y,z,2\n", FLAGS, "read as indices of options, which count from 0; they could also be numbers"),
        (HEADER + "a,3,4,5,6,4\nb,1,2,3,4,2\n", FLAGS, "read as texts of options; they could also be numbers"),
        (HEADER + ROWS + "x,1,2,3,,A\n", FLAGS, "1 of 3 rows have fewer than 4 options"),
        ("q,o,k\na,x|y,A\n", ONE_COLUMN, "the options in column 'o' are separated by '|'"),
        ("id,q,o,k\n1,a,x|y,A\n1,b,x|y,A\n", ONE_COLUMN, "the values of column 'id' do not tell the rows apart"),
    ],
)  # fmt: skip
def test_what_could_be_meant_otherwise_is_noted(tmp_path, content, flags, note):
    (tmp_path / "rows.csv").write_text(content)
    assert any(note in each for each in notes(tmp_path / "rows.csv", **flags))


def test_a_clear_table_needs_no_note(tmp_path):
    (tmp_path / "rows.csv").write_text(HEADER + ROWS)
    assert notes(tmp_path / "rows.csv", ranking_type="prob", **FLAGS) == []


def test_letters_that_are_also_other_texts_are_not_guessed(tmp_path):
    (tmp_path / "rows.csv").write_text("q,one,two,k\na,B,A,A\n")
    flags = {"question": "q", "options": ["one", "two"], "answer": "k"}
    with pytest.raises(DataError, match=r"rows\.csv, column 'k': .*--answer-as letter or --answer-as text"):
        samples(tmp_path / "rows.csv", **flags)
    assert right(samples(tmp_path / "rows.csv", answer_as="text", **flags)[0]) == 1
    assert right(samples(tmp_path / "rows.csv", answer_as="letter", **flags)[0]) == 0


def test_columns_without_flags_are_suggested(tmp_path):
    (tmp_path / "rows.csv").write_text("Question,option_a,option_b,Answer\nwhy?,x,y,A\n")
    with pytest.raises(UsageError) as caught:
        samples(tmp_path / "rows.csv")
    assert "Perhaps: --question Question --options option_a,option_b --answer Answer." in str(caught.value)


def test_flags_have_no_effect_on_a_class(tmp_path):
    (tmp_path / "quiz.py").write_text(
        "from kshot import MultipleChoiceDataset\nclass Quiz(MultipleChoiceDataset):\n    instruction = '{question}'\n"
        "    def load_raw_dataset(self, *places):\n        self.evaluation_data = [{'question': 'a'}]\n"
        "    def format_instance(self, row):\n        return dict(row, options=['x', 'y'], target_idx=0)\n"
    )
    result = kshot.evaluate(lambda prompt: "A", f"{tmp_path}/quiz.py:Quiz", ranking_type="generation", question="Q")
    assert any("--question has no effect" in note for note in result.notes)


# ---- the hub ----


def test_a_dataset_of_the_hub(monkeypatch):
    loaded = []

    def load(name, subset, split, where, more=None):
        loaded.append((name, subset, split))
        return [{"q": split, "o": ["x", "y"], "k": 1}, {"q": split, "o": ["x", "y"], "k": 0}]

    monkeypatch.setattr("kshot.datasets.rows.classes.load_from_hub", load)
    monkeypatch.setattr("kshot.datasets.rows.classes.hub_splits", lambda *_: ["train", "validation"])
    found = samples("someone/quiz:easy", num_shots=1, **ONE_COLUMN)
    assert [right(sample) for sample in found] == [1, 0]
    assert loaded == [("someone/quiz", "easy", "validation"), ("someone/quiz", "easy", "train")]


def test_a_fault_of_a_row_of_the_hub_has_its_number(monkeypatch):
    rows = [{"q": "a", "o": ["x", "y"], "k": 1}, {"q": "", "o": ["x", "y"], "k": 0}]
    monkeypatch.setattr("kshot.datasets.rows.classes.load_from_hub", lambda *_: rows)
    monkeypatch.setattr("kshot.datasets.rows.classes.hub_splits", lambda *_: ["test"])
    with pytest.raises(KshotError, match="someone/quiz, row 1, column 'q': the question is empty"):
        samples("someone/quiz", **ONE_COLUMN)
