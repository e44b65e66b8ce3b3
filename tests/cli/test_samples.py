"""``kshot samples``: which samples are shown, how each kind looks, and what is said when nothing can be shown."""

import json
import re
import shutil
from pathlib import Path

import pytest
from rich.cells import cell_len

import kshot as package
from tests.commands import kshot
from tests.screens import assert_screen
from tests.terminal import on_terminal

EARLY = Path(__file__).parents[1] / "data" / "runs_0_1"

KINDS = """
from kshot import F1, Em, GenerationDataset, GPTEval, MultipleChoiceDataset, Perplexity

PLANETS = ["Mercury", "Venus", "Mars", "Jupiter"]
ROWS = [
    ("Which planet is nearest to the sun?", 0, "inner"),
    ("Which planet is the largest?", 3, "outer"),
    ("Which planet is called red?", 2, "inner"),
    ("Which planet has the great red spot?", 3, "outer"),
]
EXAMPLES = [("Which planet turns backwards?", 1, "inner"), ("Which planet has the highest volcano?", 2, "inner")]


class Choice(MultipleChoiceDataset):
    instruction = "{{question}}{{'\\\\n' + options if options}}\\nAnswer:"
    category_column = "kind"

    def load_raw_dataset(self, dataset_path, subset_name, evaluation_set, example_set):
        self.evaluation_data = [dict(question=q, answer=a, kind=k) for q, a, k in ROWS]
        self.example_data = [dict(question=q, answer=a, kind=k) for q, a, k in EXAMPLES]

    def format_instance(self, row):
        return dict(question=row["question"], options=PLANETS, target_idx=row["answer"])


class Contexts(Choice):
    instruction = "{source}"

    def format_instance(self, row):
        return dict(source=["Ann fell because Ann", "Ann fell because Bo"], target="slipped.", source_idx=0)


class Names(GenerationDataset):
    instruction, category_column = "{question}\\nAnswer:", "kind"
    metrics = [Em(), F1()]
    load_raw_dataset = Choice.load_raw_dataset

    def format_instance(self, row):
        return dict(question=row["question"], target=PLANETS[row["answer"]])


class Likely(Names):
    metrics = [Perplexity()]


class Bare(Choice):  # the prompt does not list the options
    instruction = "{question}"


class Judged(Names):
    metrics = [GPTEval()]


class Turns(Names):
    instruction, multi_turn, metrics = "{{source[turn_idx]}}", True, [GPTEval(multi_turn=True)]

    def format_instance(self, row):
        return dict(source=[row["question"], "Is it red?"], target=[PLANETS[row["answer"]], "no"])
"""

TALK = """
from kshot import Failed, Generate, Generated

LONG = "I think about every planet in turn, and none of them is nearer. " * 30


class Talk:
    name, answers, fingerprint = "talk", (Generate,), "talk"

    def __init__(self, knows: str = "largest") -> None:
        self.knows = knows

    def serve(self, queue):
        for request in queue:
            text = request.prompt.text
            asked = text[text.rindex("Which"):] if "Which" in text else text
            if "[[6]]" in text:
                yield request, Generated("It is fine. Rating: [[7]]")
            elif "called red" in asked:
                yield request, Failed("timeout", "the server gave no reply within 600 s", True)
            elif self.knows in asked:
                yield request, Generated("The answer is (D) Jupiter.", reasoning="Let me think.")
            elif "nearest" in asked:
                yield request, Generated(LONG + "The answer is B.", stop_reason="length")
            else:
                yield request, Generated("I do not know")


class Spells:
    name, answers, fingerprint = "spells", (Generate,), "spells"

    def serve(self, queue):
        for request in queue:
            tokens = (("The", -0.1), (" planet", -0.25), (" is", -0.012), ("\\n\\n", -3.5), ("J", -0.5), ("upiter", 0.0))
            tokens += ((".", -1.0), (" 日", -12.345)) * (3 if request.replica else 1)
            yield request, Generated("".join(text for text, _ in tokens), token_logprobs=tokens)
"""

BEIR = {
    "corpus.jsonl": [
        '{"_id": "d1", "title": "Mars", "text": "the red planet"}',
        '{"_id": "d2", "title": "Jupiter", "text": "it has a red spot"}',
        '{"_id": "d3", "title": "Venus", "text": "it is hot"}',
    ],
    "queries.jsonl": ['{"_id": "q1", "text": "red planet"}', '{"_id": "q2", "text": "rings"}'],
    "qrels/test.tsv": ["query-id\tcorpus-id\tscore", "q1\td1\t2", "q1\td2\t0", "q1\td3\t1", "q2\td3\t1"],
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Small runs of every kind; what a deterministic model replies is the same each time."""
    folder = tmp_path_factory.mktemp("samples")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("kinds.py").write_text(KINDS)
        Path("talk.py").write_text(TALK)
        run = package.evaluate
        run("talk.py:Talk", "kinds.py:Choice", ranking_type="generation", num_shots=2, out="generated")
        run("talk.py:Talk,knows=spot", "kinds.py:Choice", ranking_type="generation", out="other")
        run("talk.py:Talk", "kinds.py:Choice", ranking_type="generation", sample_num=3, out="votes")
        run("talk.py:Talk", "kinds.py:Choice", ranking_type="generation", num_shots=2, model_type="chat", out="chat")
        run("talk.py:Talk", ["kinds.py:Names", "kinds.py:Choice,ranking_type=generation"], out="names")
        run("talk.py:Talk", "kinds.py:Judged", judge="talk.py:Talk", out="judged")
        run("talk.py:Talk", "kinds.py:Turns", judge="talk.py:Talk", out="turns")
        run("talk.py:Talk", "kinds.py:Bare", ranking_type="generation", out="bare")
        run("embedded", "kinds.py:Choice", num_shots=2, limit=2, out="likeliest")
        run("embedded", "kinds.py:Choice", ranking_type="prob", limit=1, out="letters")
        run("embedded", "kinds.py:Contexts", limit=1, out="contexts")
        run("embedded", "kinds.py:Likely", limit=1, out="likely")
        run("embedded", "kinds.py:Choice", limit=1, out="tokens", token_logprobs=True)
        run("embedded", "kinds.py:Likely", limit=1, out="likely_tokens", token_logprobs=True)
        run("talk.py:Spells", "kinds.py:Names", limit=1, sample_num=2, out="spelled", token_logprobs=True)
        run("embedded", "lookup:UR", length=(10,), samples=1, out="lookup")
        run("fts5", "handbook", limit=2, out="search")
        (folder / "beir" / "qrels").mkdir(parents=True)
        for name, lines in BEIR.items():
            (folder / "beir" / name).write_text("\n".join(lines) + "\n")
        run("fts5", "beir", data="beir", out="graded")
        yield folder


@pytest.fixture
def samples(runs, monkeypatch, capsys):
    """Call ``kshot samples`` beside the runs."""
    monkeypatch.chdir(runs)
    monkeypatch.setenv("COLUMNS", "80")
    return lambda *arguments: kshot(capsys, "samples", *arguments)


def heads(done):
    """The ids of the samples that are shown, in their order."""
    assert done.code == 0, done.err
    return [line.split(" · ")[1].split(" ──")[0] for line in done.out.splitlines() if line.startswith("── ")]


# ---- which samples ----


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ([], ["0", "1", "2", "3"]),
        (["--wrong"], ["0", "3"]),
        (["--right"], ["1"]),
        (["--failed"], ["2"]),
        (["--wrong", "--failed"], ["0", "2", "3"]),
        (["--category", "outer"], ["1", "3"]),
        (["--category", "OUT", "--wrong"], ["3"]),
        (["--category", "inner", "--category", "outer"], ["0", "1", "2", "3"]),
        (["--id", "3", "--id", "1"], ["1", "3"]),
        (["--id", "3", "--right"], []),
        (["--contains", "JUPITER."], ["1"]),
        (["--contains", "600 s"], ["2"]),
        (["--contains", "great red spot", "--right"], []),
        (["--task", "choice", "--model", "talk", "--wrong"], ["0", "3"]),
        (["--above", "50"], ["1"]),
        (["--below", "50"], ["0", "3"]),
        (["--sort", "score"], ["0", "3", "1", "2"]),
        (["--sort", "score", "--reverse"], ["1", "0", "3", "2"]),
        (["--sort", "reply"], ["2", "3", "1", "0"]),
        (["--sort", "category"], ["0", "2", "1", "3"]),
        (["--sort", "id", "--reverse", "--limit", "2"], ["3", "2"]),
        (["--reverse"], ["3", "2", "1", "0"]),
        (["--sort", "score", "--wrong", "--limit", "1"], ["0"]),
    ],
)
def test_options_choose_and_order(samples, options, ids):
    assert heads(samples("generated", *options)) == ids


def test_the_metric_that_judges_can_be_chosen(samples):
    by_em, by_f1 = samples("names", "--task", "names", "--wrong"), samples("names", "--task", "names", "--metric", "F1")
    assert "✗ wrong · EM 0" in by_em.out
    assert "~ partly right · F1 40" in by_f1.out
    assert heads(samples("names", "--metric", "F1", "--above", "10")) == ["1"]


def test_the_answer_is_that_of_the_metric(samples):
    row = json.loads(Path("likeliest/samples.jsonl").read_text().splitlines()[0])
    assert row["answers"]["acc_norm"] != row["answer"]
    assert "answer   Mercury   by acc_norm (not by acc, acc_token)" in samples("likeliest", "--metric", "acc_norm").out
    assert "answer   Mars   by acc_token (not by acc_norm, acc_bytes)" in samples("likeliest").out


def test_a_task_is_named_by_its_beginning_its_dataset_or_its_subset(samples):
    assert len(heads(samples("names"))) == 8
    assert len(heads(samples("names", "--task", "na"))) == 4
    assert len(heads(samples("lookup", "--task", "lookup"))) == 1
    assert len(heads(samples("lookup", "--task", "lookup:UR"))) == 1
    assert (
        len(heads(samples(EARLY / "seeds", "--task", "planets")))
        > len(heads(samples(EARLY / "seeds", "--task", "planets@1")))
        > 0
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--id", "17"], "this run has no id '17'. Its ids: 0, 1, 2, 3."),
        (["--category", "outermost"], "this run has no category 'outermost'. Its categories: inner, outer."),
        (["--task", "chess"], "this run has no task 'chess'. Its tasks: choice."),
        (["--model", "gpt"], "this run has no model 'gpt'. Its models: talk."),
        (["--metric", "BLEU"], "this run has no metric 'BLEU'. It has: Accuracy."),
        (["--limit", "0"], "--limit is 0; it must be 1 or more"),
        (["--contains", ""], "contains is empty. Name a text, or leave it out."),
        (["--below", "nan"], "below is nan; it must be a number"),
    ],
)
def test_what_the_run_does_not_have_is_told(samples, options, said):
    done = samples("generated", *options)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_a_beginning_that_fits_several_names_is_told(samples, tmp_path):
    done = samples("names", "--task", "")
    assert done.code == 2
    run = shutil.copytree("names", tmp_path / "names")
    rows = (run / "samples.jsonl").read_text().replace('"task": "choice', '"task": "named')
    (run / "samples.jsonl").write_text(rows)
    done = samples(run, "--task", "name")
    assert (done.code, "'name' is the beginning of 2 tasks" in done.err) == (2, True)


def test_nothing_that_matches_is_no_error(samples):
    done = samples("generated", "--contains", "Neptune")
    assert (done.code, done.out.strip()) == (0, "none of the 4 samples matches")
    done = samples("likely", "--wrong")
    assert done.code == 0
    assert "of 1, PPL says neither right nor wrong" in done.out


def test_help_fits_the_terminal_and_keeps_the_lines_of_its_examples(samples):
    text = samples("--help").out
    assert max(map(len, text.splitlines())) <= 80
    assert "\n  kshot samples runs/first --wrong\n  kshot samples runs/first --failed\n" in text


def test_rows_hold_the_options_that_the_response_does_not_show(samples):
    def rows(name):
        return [json.loads(line) for line in Path(name, "samples.jsonl").read_text().splitlines()]

    planets = ["Mercury", "Venus", "Mars", "Jupiter"]
    for name in ("generated", "votes", "chat", "letters"):
        assert {tuple(row["options"]) for row in rows(name)} == {tuple(planets)}, name
    for name in ("likeliest", "likely", "lookup", "search"):
        assert not any("options" in row for row in rows(name)), name


def test_options_are_shown_where_the_prompt_does_not_list_them(samples):
    shown = samples("letters", "--limit", "1").out
    assert re.search(r"options +A\. Mercury +-\d+\.\d\d", shown)
    rows = [json.loads(line) for line in Path("bare/samples.jsonl").read_text().splitlines()]
    assert "Mercury" not in rows[0]["prompt"]
    told = samples("bare", "--id", "0").out
    assert re.search(r"options +A\. Mercury +✓ right\n +B\. Venus +chosen ✗\n +C\. Mars\n +D\. Jupiter\n", told)
    assert "answer   B. Venus" in told
    assert heads(samples("bare", "--contains", "mercury")) == ["0", "1", "2", "3"]


def test_json_is_the_rows_as_they_are(samples):
    rows = [json.loads(line) for line in Path("generated/samples.jsonl").read_text().splitlines()]
    assert [json.loads(line) for line in samples("generated", "--json").out.splitlines()] == rows
    assert [json.loads(line) for line in samples("generated", "--json", "--wrong").out.splitlines()] == [
        rows[0],
        rows[3],
    ]
    assert samples("generated", "--json", "--contains", "Neptune").out == ""


def test_the_last_line_counts_and_tells_how_to_see_more(samples):
    assert samples("likeliest").out.splitlines()[-1] == "2 samples; --full shows all of each"
    line = samples("generated", "--wrong", "--limit", "1").out.splitlines()[-1]
    assert line == "2 of 4 samples match, 1 is shown; --limit 2 shows all, --full shows all of it"


def test_it_says_why_samples_failed_and_what_to_do(samples):
    lines = samples("generated", "--failed").out.splitlines()
    assert "failed   timeout: the server gave no reply within 600 s" in [line.rstrip() for line in lines]
    assert lines[-1] == "the command that made the run, given again, asks the failed samples again"
    assert "asks the failed" not in samples("generated", "--wrong").out


def test_a_terminal_gets_ten_and_a_pipe_all(samples, tmp_path, capsys):
    run = shutil.copytree("generated", tmp_path / "run")
    row = json.loads((run / "samples.jsonl").read_text().splitlines()[1])
    (run / "samples.jsonl").write_text("".join(json.dumps(row | {"id": str(i)}) + "\n" for i in range(12)))
    assert len(heads(samples(run))) == 12
    code, seen = on_terminal("samples", run, columns=80)
    assert (code, seen.count("── ") // 2) == (0, 10)
    assert "12 samples, 10 are shown; --limit 12 shows all" in seen
    assert "\x1b[1;32m✓ right" in seen  # green, with a sign and a word


# ---- two runs ----


def test_flipped_samples_show_both_replies(samples):
    done = samples("generated", "--flipped", "other")
    assert heads(done) == ["1", "3"]
    assert "after 2 examples" in done.out
    assert heads(samples("generated", "--flipped", "other", "--right")) == ["1"]
    assert heads(samples("other", "--flipped", "generated", "--right")) == ["3"]
    assert heads(samples("generated", "--flipped", "chat")) == []
    rows = samples("generated", "--flipped", "other", "--json").out.splitlines()
    assert [json.loads(row)["id"] for row in rows] == ["1", "3"]


def test_flips_are_those_that_compare_finds(samples):
    found = {each["id"] for each in package.compare("other", "generated").flips()}
    assert set(heads(samples("generated", "--flipped", "other"))) == found


def test_runs_of_other_questions_are_refused(samples):
    done = samples("generated", "--flipped", "search")
    assert (done.code, done.out) == (2, "")
    assert "in common" in done.err
    done = samples("contexts", "--flipped", EARLY / "planets")
    assert (done.code, "kshot score" in done.err) == (2, True)


# ---- how they look ----


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", ["generated", "votes", "chat", "judged", "turns"])
def test_screens(samples, monkeypatch, name, width):
    monkeypatch.setenv("COLUMNS", str(width))
    done = samples(name, "--limit", "3")
    assert all(cell_len(line) <= width for line in done.out.splitlines())
    assert_screen(f"samples_{name}_{width}", done.out)


@pytest.mark.parametrize("width", [80, 120])
def test_screens_of_two_runs_and_of_whole_samples(samples, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    assert_screen(f"samples_flipped_{width}", samples("generated", "--flipped", "other").out)
    assert_screen(f"samples_full_{width}", samples("judged", "--id", "1", "--full").out)


@pytest.mark.parametrize("width", [80, 120])
def test_screens_of_tokens(samples, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    done = samples("spelled", "--full")
    assert all(cell_len(line) <= width for line in done.out.splitlines())
    assert_screen(f"samples_tokens_{width}", done.out)
    assert "tokens" not in samples("spelled").out


@pytest.mark.parametrize("name", ["tokens", "likely_tokens"])
def test_screens_of_the_tokens_of_what_is_measured(samples, name):
    assert_screen(f"samples_measured_{name}_80", without_figures(samples(name, "--full").out))


def without_figures(text):
    """The figures of the embedded model differ in their last digits from machine to machine."""
    return re.sub(r"-?\d+\.\d+(e[+-]\d+)? *", "# ", text)


@pytest.mark.parametrize("name", ["likeliest", "contexts", "likely", "lookup", "search", "graded"])
def test_screens_of_what_is_measured_and_found(samples, name):
    assert_screen(f"samples_{name}_80", without_figures(samples(name).out))


def test_a_long_prompt_is_cut_in_its_middle_and_whole_with_full(samples, tmp_path):
    run = shutil.copytree("generated", tmp_path / "run")
    row = json.loads((run / "samples.jsonl").read_text().splitlines()[1])
    text = "FIRST " + "word " * 2000 + "LAST"
    (run / "samples.jsonl").write_text(json.dumps(row | {"prompt": text, "response": text}) + "\n")
    done = samples(run)
    assert done.out.count("FIRST") == done.out.count("LAST") == 2
    left_out = [int(found.replace(",", "")) for found in re.findall(r"… ([\d,]+) characters left out", done.out)]
    assert [9000 < count < len(text) for count in left_out] == [True, True]
    assert samples(run, "--full").out.count("word") == 4000


def test_wide_and_hostile_texts_stay_within_the_screen(samples, tmp_path):
    run = shutil.copytree("generated", tmp_path / "run")
    row = json.loads((run / "samples.jsonl").read_text().splitlines()[1])
    odd = {
        "id": "\x1b[31m[red]火星" * 9,
        "prompt": "哪颗行星离太阳最近？" * 30,
        "response": "\x1b]0;x\x07 [bold]no[/bold] :smile: \u202e",
    }
    (run / "samples.jsonl").write_text(json.dumps(row | odd) + "\n")
    done = samples(run)
    assert done.code == 0
    assert not {"\x1b", "\u202e"} & set(done.out)
    assert "[bold]no[/bold] :smile:" in done.out
    assert all(cell_len(line) <= 80 for line in done.out.splitlines())


VALUES = [
    *(True, -1, 10**400, float("nan"), "", [], [[]], {}, {"nll": 10**400}, {"text": 3}, ["a", 1, None, {"b": []}]),
    *([{"text": "a", "logprob": 10**400}], [{"id": "d", "score": float("nan")}], [{"role": None, "content": 3}]),
    *([{"role": ["x"], "content": "x"}], [{"text": "a", "logprob": 1, "prompt": {}}, {"text": "a", "logprob": 1}]),
]
HOSTILE = (
    "prompt",
    "response",
    "answer",
    "target",
    "scores",
    "rule",
    "answers",
    "failed",
    "judge",
    "stop_reason",
    "id",
)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("generated", ["--full"]),
        ("likeliest", ["--limit", "999"]),
        ("search", ["--wrong", "--failed", "--full"]),
        ("generated", ["--json", "--sort", "score"]),
        ("likeliest", ["--json", "--sort", "id", "--reverse", "--contains", "x"]),
    ],
)
def test_rows_that_kshot_did_not_write_end_in_no_traceback(samples, tmp_path, name, options):
    run = shutil.copytree(name, tmp_path / "run")
    row = json.loads((run / "samples.jsonl").read_text().splitlines()[0])
    rows = [row | {key: value} for key in HOSTILE for value in VALUES]
    (run / "samples.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    done = samples(run, *options)
    assert (done.code, done.err) == (0, "")


def test_damaged_lines_and_unfinished_runs_are_told(samples, tmp_path):
    run = shutil.copytree("generated", tmp_path / "run")
    with (run / "samples.jsonl").open("a") as file:
        file.write("{")
    done = samples(run, "--contains", "Neptune")
    assert (done.code, "samples.jsonl:5: this line is damaged" in done.err) == (2, True)
    (run / "summary.json").unlink()
    done = samples(run)
    assert (done.code, "this run has not come to its end" in done.err) == (2, True)
    done = samples(tmp_path)
    assert (done.code, "this is not a run folder" in done.err) == (2, True)


@pytest.mark.parametrize("name", ["planets", "rag", "search", "seeds"])
def test_folders_of_version_0_1_are_shown(samples, name):
    done = samples(EARLY / name, "--limit", "2")
    assert len(heads(done)) == 2
    assert "✗ wrong" in done.out
