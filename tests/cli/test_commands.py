"""The commands as a user sees them."""

import json
import sys
from pathlib import Path

import pytest

import kshot as package
from tests.commands import CAPITALS, kshot, kshot_process

RECORDED = [
    {"prompt": f"The capital of {country} is", "response": f" {city}."}
    for country, city in [("France0", "Paris"), ("Italy0", "Milan"), ("Norway0", "oslo"), ("Peru0", "Lima")]
]  # Cuba is missing


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("capitals.py").write_text(CAPITALS)
    Path("recorded.jsonl").write_text("".join(json.dumps(row) + "\n" for row in RECORDED))
    return tmp_path


CITIES = ("run", "-m", "replay:recorded.jsonl", "-d", "capitals.py:Cities")


def rows(run):
    return [json.loads(line) for line in (Path(run) / "samples.jsonl").read_text().splitlines()]


def test_a_run_leaves_a_folder_with_everything_in_it(here, capsys):
    done = kshot(capsys, *CITIES, "--out", "first")
    assert done.code == 0
    assert "run folder: first" in done.out
    assert "1 failed (not_recorded: recorded.jsonl holds no answer" in done.err
    summary = json.loads(Path("first/summary.json").read_text())
    (row,) = summary["results"]
    assert {k: row[k] for k in ("task", "model", "metric", "value", "n", "failed")} == {
        "task": "cities", "model": "replay:recorded.jsonl", "metric": "EM", "value": 75.0, "n": 4, "failed": 1,
    }  # fmt: skip
    assert row["ci95"][0] < 75 < row["ci95"][1]
    spec = json.loads(Path("first/spec.json").read_text())
    assert spec["identity"]["datasets"] == ["capitals.py:Cities"]
    assert spec["identity"].keys() == {"models", "datasets"}  # every other setting is a default
    assert spec["options"]["seed"] == 2023
    assert spec["versions"]["kshot"] == package.__version__
    assert [(each["role"], each["name"]) for each in spec["models"]] == [("model", "replay:recorded.jsonl")]
    first, *_, last = rows("first")
    assert len(first.pop("question")) == 16
    assert first == {
        "task": "cities", "model": "replay:recorded.jsonl", "id": "0", "prompt": "The capital of France0 is",
        "response": " Paris.", "answer": " Paris.", "target": ["Paris"], "scores": {"EM": 100.0},
    }  # fmt: skip
    assert last["scores"] == {}
    assert last["failed"].startswith("not_recorded")
    assert len(Path("first/journal.jsonl").read_text().splitlines()) == 5


def test_the_same_command_continues_and_asks_again_what_failed(here, capsys):
    kshot(capsys, *CITIES, "--out", "run")
    journal = Path("run/journal.jsonl").read_text()
    kshot(capsys, *CITIES, "--out", "run")
    again = Path("run/journal.jsonl").read_text()
    assert again.startswith(journal)
    assert len(again.splitlines()) == 6  # the failed one was asked once more


def test_without_out_the_folder_is_named_after_the_command(here, capsys):
    first = kshot(capsys, *CITIES).out.splitlines()[-2:]
    second = kshot(capsys, *CITIES).out.splitlines()[-2:]
    other = kshot(capsys, *CITIES, "--limit", "2").out.splitlines()[-2:]
    assert first == second != other
    assert first[0].startswith("run folder: runs/Cities-recorded.jsonl-")
    assert first[1] == f"report: {first[0].removeprefix('run folder: ')}/report.html"


def test_json_output_is_the_summary(here, capsys):
    done = kshot(capsys, *CITIES, "--out", "run", "--json")
    shown = json.loads(done.out)
    assert shown["results"] == json.loads(Path("run/summary.json").read_text())["results"]
    assert shown["run"] == "run"


def test_a_journal_can_be_replayed_and_scored_again_without_a_model(here, capsys):
    kshot(capsys, *CITIES, "--out", "run")
    done = kshot(capsys, "run", "-m", "replay:run", "-d", "capitals.py:Cities", "--out", "copy", "--json")
    assert json.loads(done.out)["results"][0]["value"] == 75.0
    before = {name: Path(f"run/{name}").read_bytes() for name in ("samples.jsonl", "summary.json", "journal.jsonl")}
    Path("recorded.jsonl").unlink()
    Path("run/summary.json").unlink()
    done = kshot(capsys, "score", "run")
    assert done.code == 0
    assert "75.00" in done.out
    assert {name: Path(f"run/{name}").read_bytes() for name in before} == before
    source = Path("capitals.py").read_text()
    Path("capitals.py").write_text(
        source.replace("metrics = [Em()]", "metrics = [Em(), Rouge()]").replace("import Em,", "import Rouge, Em,")
    )
    done = kshot(capsys, "score", "run", "-d", "capitals.py:Cities", "--json")
    assert [row["metric"] for row in json.loads(done.out)["results"]] == ["EM", "ROUGE-1", "ROUGE-2", "ROUGE-L"]


def test_reuse_takes_the_answers_of_another_run(here, capsys):
    kshot(capsys, *CITIES, "--out", "run")
    Path("recorded.jsonl").write_text(Path("recorded.jsonl").read_text())  # the same file: the same fingerprint
    done = kshot(capsys, *CITIES, "--limit", "3", "--reuse", "run", "--out", "part", "--json")
    assert json.loads(done.out)["results"][0]["n"] == 3
    old = Path("run/journal.jsonl").read_text().splitlines()
    assert Path("part/journal.jsonl").read_text().splitlines() == old[:3]


def test_all_failed_is_said_and_has_an_exit_code(here, capsys):
    Path("recorded.jsonl").write_text('{"prompt": "something else", "response": "x"}\n')
    done = kshot(capsys, *CITIES, "--out", "run")
    assert done.code == 1
    assert "5 failed" in done.err
    (row,) = json.loads(Path("run/summary.json").read_text())["results"]
    assert (row["value"], row["n"], row["failed"], row["ci95"]) == (None, 0, 5, None)


def test_several_models_and_datasets_in_one_call(here, capsys, tiny_llama, tiny_chat):
    done = kshot(
        capsys, "run", "-m", f"hf:{tiny_llama}", "-m", f"hf:{tiny_chat}", "-d", "capitals.py:Capitals", "-d", "capitals.py:Cities",
        "--max-tokens", "4", "--out", "grid", "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    rows = [row for row in json.loads(done.out)["results"] if not row.get("detail")]
    got = [(row["model"].rsplit("/", 1)[-1], row["task"], row["metric"]) for row in rows]
    assert got == [(m, *t) for m in ("llama", "chat") for t in (("capitals", "Accuracy"), ("cities", "EM"))]
    table = kshot(
        capsys, "run", "-m", f"hf:{tiny_llama}", "-m", f"hf:{tiny_chat}", "-d", "capitals.py:Capitals", "-d", "capitals.py:Cities",
        "--max-tokens", "4", "--out", "grid",
    ).out  # fmt: skip
    assert max(map(len, table.splitlines()[:-1])) <= 80
    assert "hf:llama" in table
    assert "hf:chat" in table


@pytest.mark.parametrize("ranking", ["ppl_no_option", "ppl", "prob", "generation"])
def test_every_ranking_type_runs_on_a_real_model(here, capsys, tiny_chat, ranking):
    for kind in ("base", "chat"):
        done = kshot(
            capsys, "run", "-m", f"hf:{tiny_chat}", "-d", "capitals.py:Capitals", "--ranking-type", ranking, "-k", "2",
            "--max-tokens", "4", "--model-type", kind, "--out", f"run-{kind}", "--json",
        )  # fmt: skip
        assert done.code == 0, done.err
        (row,) = [row for row in json.loads(done.out)["results"] if not row.get("detail")]
        assert row["n"] == 5
        assert 0 <= row["value"] <= 100


def test_preview_prints_exact_prompts(here, capsys):
    done = kshot(capsys, "preview", "-d", "capitals.py:Capitals", "-k", "1", "--limit", "1", "--ranking-type", "prob")
    assert done.code == 0
    assert "What is the capital of France0? A. Paris\nB. Rome" in done.out
    assert "↳ likelihood of ' A'" in done.out
    shown = kshot(capsys, "preview", "-d", "capitals.py:Cities", "--json").out.splitlines()
    assert len(shown) == 5
    first = json.loads(shown[0])
    assert first["requests"][0]["prompt"] == "The capital of France0 is"
    assert first["requests"][0]["max_tokens"] == 256
    chat = kshot(capsys, "preview", "-d", "capitals.py:Cities", "--model-type", "chat", "--system-prompt", "Be brief.")
    assert "[system]\nBe brief.\n[user]\nThe capital of France0 is" in chat.out
    assert chat.out.count("── cities") == 5  # a pipe gets all; a terminal the first 3


def test_preview_on_a_terminal_shows_a_few(here, capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    done = kshot(capsys, "preview", "-d", "capitals.py:Cities")
    assert done.out.count("── cities") == 3
    assert "the first 3 samples" in done.err


@pytest.mark.parametrize(
    ("what", "name"), [("datasets", "mmlu"), ("metrics", "F1"), ("retrievers", "random"), ("models", "hf:PATH_OR_ID")]
)
def test_list(capsys, what, name):
    plain = kshot(capsys, "list", what)
    assert plain.code == 0
    assert any(line.split()[0] == name and len(line.split()) > 3 for line in plain.out.splitlines())
    entries = json.loads(kshot(capsys, "list", what, "--json").out)
    assert name in {entry["name"] for entry in entries}


def test_help_and_version(capsys):
    assert "examples:" in kshot(capsys).out
    assert kshot(capsys, "--version").out.strip() == f"kshot {package.__version__}"
    helped = kshot(capsys, "run", "--help").out
    for flag in ("--num-shots", "--ranking-type", "--dataset-path", "--sample-num", "--pass-at-k", "--reuse", "--stop"):
        assert flag in helped


def test_as_a_process(here):
    done = kshot_process(*CITIES, "--out", "run", cwd=here)
    assert done.code == 0
    assert "EM" in done.out
    bad = kshot_process("run", "-m", "nothing", "-d", "capitals.py:Cities", cwd=here)
    assert bad.code == 2
    assert bad.err.startswith("kshot: there is no model 'nothing'")


def test_stop_texts_may_be_escaped(here, capsys):
    done = kshot(capsys, "preview", "-d", "capitals.py:Cities", "--json", "--stop", r"\n\n", "--stop", "é")
    assert json.loads(done.out.splitlines()[0])["requests"][0]["stop"] == ["\n\n", "é"]


def test_pandas_reads_a_run_in_one_line(here, capsys):
    pandas = pytest.importorskip("pandas")
    kshot(capsys, *CITIES, "--out", "run")
    frame = pandas.read_json("run/samples.jsonl", lines=True)
    assert list(frame["id"]) == [0, 1, 2, 3, 4]
    assert pandas.DataFrame(json.loads(Path("run/summary.json").read_text())["results"])["value"][0] == 75.0
