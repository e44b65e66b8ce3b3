"""Token lookup through the command line."""

import hashlib
import json
from pathlib import Path

import pytest

import kshot as package
from kshot.lookup.generate import generate
from tests.commands import kshot

SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "lookup"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(capsys, *arguments):
    done = kshot(capsys, "run", *arguments, "--out", "run", "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)["results"]


def test_the_embedded_model_on_two_tasks(capsys):
    rows = run(capsys, "-d", "lookup:UR,UL", "--length", "10,20", "--variant", "sep|small|bare", "--samples", "10")
    accuracy = {(row["lookup"], row["length"]): row for row in rows if row["metric"] == "Accuracy"}
    assert set(accuracy) == {(task, length) for task in ("UR", "UL") for length in (10, 20)}
    assert all(
        row["value"] >= 90 and row["n"] == 10 and row["variant"] == "sep|small|bare" for row in accuracy.values()
    )
    assert all(0 < row["chance"] < 30 for row in accuracy.values())
    errors = [
        row for row in rows if row["metric"].startswith("error: ") and (row["lookup"], row["length"]) == ("UR", 10)
    ]
    assert len(errors) == 6
    assert sum(row["value"] for row in errors) == pytest.approx(100 - accuracy["UR", 10]["value"])
    gaps = [row for row in rows if row["metric"] == "gap: right - left"]
    assert [(row["lookup"], row["length"], row["n"]) for row in gaps] == [("UR-UL", 10, 10), ("UR-UL", 20, 10)]
    assert all(
        row["value"] == accuracy["UR", row["length"]]["value"] - accuracy["UL", row["length"]]["value"] for row in gaps
    )


def test_result_files_have_the_published_place_and_fields(capsys):
    run(capsys, "-d", "lookup:NLLast", "--length", "20", "--samples", "5", "--seed", "7")
    path = Path("run/results/nonunique/NLLast/embedded/sepsmallsimple_rule/sample_5_len_20_seed_7.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    data = generate("nonunique", 20, 5, 7)
    assert [line["input"] for line in lines] == [record["input_with_space"] for record in data]
    assert [line["target"] for line in lines] == [record["NLLast"] for record in data]
    for line in lines:
        assert set(line) == {"prediction", "full_output", "input", "target", "prompt", "correct", "error"}
        assert line["correct"] == (line["prediction"] == line["target"]) == (line["error"] is None)
    shown = kshot(capsys, "preview", "-d", "lookup:NLLast", "--length", "20", "--samples", "5", "--seed", "7", "--json")
    prompts = [json.loads(line)["requests"][0]["prompt"] for line in shown.out.splitlines()]
    assert prompts == [line["prompt"] for line in lines]


def test_the_whole_grid_of_variants(capsys):
    rows = run(capsys, "-d", "lookup:UR,NRLast", "--length", "10", "--variant", "all", "--samples", "2")
    cells = [row for row in rows if row["metric"] == "Accuracy"]
    assert len({row["variant"] for row in cells}) == 20
    assert len(cells) == 40


def test_instruct_models_are_asked_for_tags_and_read_by_both_rules(capsys, tiny_chat):
    rows = run(
        capsys, "-d", "lookup:UL,NRFirst", "-m", f"hf:{tiny_chat}", "--model-type", "chat", "--length", "10", "--samples", "2",
        "--variant", "all", "--max-tokens", "4",
    )  # fmt: skip
    assert {row["metric"] for row in rows} >= {"Accuracy", "Accuracy:tolerant"}
    assert len({row["variant"] for row in rows}) == 20
    shown = kshot(
        capsys, "preview", "-d", "lookup:UL", "--length", "10", "--limit", "1", "--model-type", "chat", "--json"
    )
    request = json.loads(shown.out.splitlines()[0])["requests"][0]
    assert [message["role"] for message in request["messages"]] == ["system", "user"]
    assert "<target>" in request["messages"][1]["content"]
    assert request["max_tokens"] >= 20
    assert "stop" not in request or not request["stop"]


def test_completion_settings_are_the_published_ones(capsys):
    shown = kshot(capsys, "preview", "-d", "lookup:UR", "--length", "10", "--samples", "1", "--json")
    request = json.loads(shown.out)["requests"][0]
    assert (request["max_tokens"], request["temperature"], request["stop"]) == (6, 0.0, ["\n"])


def test_generated_files_are_read_back(capsys):
    done = kshot(
        capsys,
        "lookup",
        "generate",
        "--group",
        "nonunique",
        "--length",
        "10",
        "30",
        "--samples",
        "4",
        "--seed",
        "20",
        "--out",
        "data",
    )
    assert done.out.split() == [f"data/nonunique/sample_4_len_{n}_seed_20.jsonl" for n in (10, 30)]
    rows = run(capsys, "-d", "lookup:NRLast", "--data", "data/nonunique/sample_4_len_30_seed_20.jsonl")
    assert {row["length"] for row in rows} == {30}
    assert Path("run/results/nonunique/NRLast/embedded/sepsmallsimple_rule/sample_4_len_30_seed_20.jsonl").exists()


def test_lengths_may_be_given_in_either_way(capsys):
    done = kshot(
        capsys, "lookup", "generate", "--group", "unique", "--length", "10,12", "14", "--samples", "2", "--out", "data"
    )
    assert done.out.split() == [f"data/unique/sample_2_len_{n}_seed_2025.jsonl" for n in (10, 12, 14)]


def test_a_prompt_does_not_depend_on_what_else_runs(capsys):
    def prompts(*arguments):
        shown = kshot(capsys, "preview", *arguments, "--samples", "4", "--json").out.splitlines()
        return {(row["task"], row["id"]): row["requests"] for row in map(json.loads, shown)}

    whole = prompts(
        "-d",
        "lookup",
        "--length",
        "10,20",
        "--variant",
        "sep|same|bare",
        "--variant",
        "nosep|small|math_rule_explained",
    )
    part = prompts("-d", "lookup:NRLast,UL", "--length", "20", "--variant", "sep|same|bare")
    assert len(whole) == 6 * 2 * 2 * 4
    assert part
    assert all(whole[key] == requests for key, requests in part.items())


BAD = {
    "nonunique length 5": (["--length", "5", "-d", "lookup:NLLast"], "nonunique records of length 5"),
    "unique length 3": (["--length", "3", "-d", "lookup:UL"], "length 3"),
    "unknown task": (["-d", "lookup:UX"], "there is no lookup task 'UX'. Choose from UL"),
    "unknown variant": (["-d", "lookup:UL", "--variant", "sep|tiny|bare"], "there is no variant 'sep|tiny|bare'"),
    "too many shots": (["-d", "lookup:UL", "--shots", "300"], "the example pool holds 200 records"),
    "no such data": (["-d", "lookup:UL", "--data", "nowhere.jsonl"], "nowhere.jsonl"),
    "no such templates": (["-d", "lookup:UL", "--templates", "nowhere.json"], "nowhere.json"),
    "chat on the embedded model": (["-d", "lookup:UL", "--model-type", "chat"], "embedded: it has no chat template"),
}


@pytest.mark.parametrize("kind", BAD)
def test_impossible_settings(capsys, kind):
    arguments, message = BAD[kind]
    done = kshot(capsys, "run", *arguments, "--out", "run")
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err


def test_impossible_data(capsys):
    kshot(capsys, "lookup", "generate", "--group", "unique", "--length", "10", "--samples", "3", "--out", ".")
    file = Path("unique/sample_3_len_10_seed_2025.jsonl")
    done = kshot(capsys, "run", "-d", "lookup:NLLast", "--data", file, "--out", "run")
    assert (done.code, "it holds no nonunique records" in done.err) == (2, True)
    lines = file.read_text().splitlines()
    wrong = json.loads(lines[1]) | {"UL": "?"}
    file.write_text("\n".join([lines[0], json.dumps(wrong), lines[2]]) + "\n")
    done = kshot(capsys, "run", "-d", "lookup:UL", "--data", file, "--out", "run")
    assert done.code == 2
    assert f"{file}, line 2" in done.err
    for arguments in (["--length", "5"], ["--length", "20", "--vocab", ""], ["--length", "20", "--divisor", "2"]):
        done = kshot(capsys, "lookup", "generate", "--group", "nonunique", *arguments)
        assert done.code == 2, arguments


def test_the_starter_suite_in_small(capsys, monkeypatch):
    small = {"length": (10, 120), "variant": ("sep|small|bare",), "samples": 12}
    monkeypatch.setattr("kshot.cli.run.STARTER", small)
    done = kshot(capsys, "run")
    assert done.code == 0
    assert "embedded: accuracy in % by length" in done.out
    assert "NLFirst" in done.out
    assert "run folder: runs/lookup-embedded-" in done.out
    assert max(map(len, done.out.split("Look: ")[0].splitlines()[:8])) <= 80
    again = kshot(capsys, "score", done.out.split("run folder: ")[1].splitlines()[0])
    assert again.out.splitlines()[:8] == done.out.splitlines()[:8]


# ---- recordings and the published procedure ----


@pytest.mark.skipif(not SHARED.exists(), reason="the recorded completions are not on this machine")
@pytest.mark.parametrize(
    "name", ["gemma3_27B", "llama3_70B_instruct", "llama3_8B", "qwen2.5_32B", "qwen2.5_7B_instruct"]
)
def test_recorded_completions_score_as_published(capsys, name):
    rows = run(capsys, "-d", "lookup", "-m", f"replay:{SHARED / 'replay' / name}.jsonl")
    instruct = name.endswith("instruct")
    metric = "Accuracy" if instruct else "Accuracy:first word"  # the oldest files took the first word
    got = {(r["lookup"], r["variant"].replace("|", ""), r["length"]): r for r in rows if r["metric"] == metric}
    cells = [c for c in json.loads((SHARED / "replay" / "summary.json").read_text())["cells"] if c["model"] == name]
    assert cells
    for cell in cells:
        row = got[cell["task"], cell["variant"], cell["length"]]
        assert row["value"] == pytest.approx(100 * cell["acc_prediction"], abs=1e-9)
        assert (row["n"], row["failed"]) == (cell["n"], 0)
    if instruct:
        assert any(row["metric"] == "Accuracy:tolerant" for row in rows)


@pytest.mark.skipif(not SHARED.exists(), reason="the paper's templates are not on this machine")
def test_reference_prompts_through_the_command_line(capsys):
    golden = json.loads((SHARED / "golden_prompts.json").read_text())
    sequence = golden["sequences"][0]
    assert sequence
    kshot(
        capsys,
        "lookup",
        "generate",
        "--group",
        "unique",
        "--length",
        "10",
        "--samples",
        "1500",
        "--seed",
        "2025",
        "--out",
        ".",
    )
    file = Path("unique/sample_1500_len_10_seed_2025.jsonl")
    paper = SHARED / "paper_templates.json"
    shown = kshot(
        capsys, "preview", "-d", "lookup:UL", "--data", file, "--reference", "--templates", paper,
        "--variant", "sep|small|simple_rule", "--json",
    ).out.splitlines()  # fmt: skip
    got = [json.loads(line)["requests"][0]["prompt"] for line in shown]
    want = package.lookup.prompts(
        file, None, task="UL", variant="sep|small|simple_rule", templates=paper, reference=True
    )
    assert len(got) == 1500
    assert hashlib.sha256("\x1e".join(got).encode()).digest() == hashlib.sha256("\x1e".join(want).encode()).digest()
