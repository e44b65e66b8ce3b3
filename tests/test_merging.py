"""``merge``: the shards of a run give exactly the files of one run, and whatever is wrong with them is named."""

import json
import shutil
from pathlib import Path

import pytest

import kshot
from kshot.api import evaluate
from kshot.core.errors import KshotError
from kshot.core.records import Generated
from kshot.core.serialization import decoded_line, encoded_line
from kshot.merging import merge
from kshot.runs.folder import read_spec
from kshot.runs.spec_file import recorded_versions
from tests.chaos.scenarios import DATA
from tests.commands import kshot as command
from tests.finished_runs import Item, Replies, Right, task

MODEL = '''
import hashlib
from kshot import Failed, Generate, Generated, Likelihood, Loglik, Scored, Usage
from kshot.core.serialization import digest

CITIES = ("Paris", "Rome", "Oslo", "Lima", "Havana")

class Hashing:
    """Answers by the digest of the request; one in four fails, if it should."""

    answers = (Generate, Loglik)

    def __init__(self, name: str = "hashing", fails: bool = False) -> None:
        self.name = self.fingerprint = name
        self.fails = fails

    def serve(self, queue):
        for request in queue:
            mark = hashlib.sha256(digest(request).encode()).digest()
            if self.fails and mark[1] % 4 == 0:
                yield request, Failed("refused", f"not {mark[0]}")
            elif isinstance(request, Loglik):
                yield request, Scored(tuple(Likelihood(-float(mark[i]), 1 + mark[i] % 3) for i, _ in enumerate(request.continuations)))
            else:
                rated = f" I see. Rating: [[{mark[0] % 10 + 1}]]" if request.role == "judge" else ""
                yield request, Generated(CITIES[mark[0] % 5] + rated, usage=Usage(mark[2], 2))
'''
BLEU = '''
from kshot import Bleu
from data import Cities

class Translated(Cities):
    """Scored by a figure over all samples."""

    metrics = [Bleu()]
'''
COUNTING = '''
from kshot import Abilities
from model import Hashing

class Counting(Hashing):
    """It can count tokens."""

    abilities = Abilities(count_tokens=lambda text: len(text.split()))
'''


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, code in (("model", MODEL), ("data", DATA), ("translated", BLEU), ("counting", COUNTING)):
        Path(f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def shards(of, models, datasets, folder="shards", **options):
    found = []
    for number in range(1, of + 1):
        found.append(f"{folder}/{number}")
        evaluate(models, datasets, out=found[-1], shard=f"{number}/{of}", report=False, **options)
    return found


def files(run):
    """Return the files that must be the same to the byte."""
    kept = [path for path in Path(run).rglob("*") if path.is_file()]
    others = {"journal.jsonl", "spec.json", "report.html"}
    return {str(path.relative_to(run)): path.read_bytes() for path in kept if path.name not in others}


def described(run):
    spec = read_spec(run)
    return {name: spec.get(name) for name in ("identity", "options", "models", "tasks", "data", "code", "notes")}


def check_same(merged, plain):
    assert files(merged) == files(plain)
    assert {"samples.jsonl", "summary.json"} <= set(files(merged))
    assert described(merged) == described(plain)
    keys = [
        {json.loads(line)["key"] for line in Path(run, "journal.jsonl").read_text().splitlines()}
        for run in (merged, plain)
    ]
    assert keys[0] == keys[1]


TWO = ["model.py:Hashing", "model.py:Hashing,name=other,fails=yes"]
RUNS = {
    "several models and datasets, failures": (TWO, ["data.py:Cities", "data.py:Choices"], {"dataset_path": "23", "num_shots": 2}),
    "votes": (TWO, ["data.py:Cities"], {"dataset_path": "9", "sample_num": 3, "temperature": 1.0}),
    "a judge": (TWO[:1], ["data.py:Judged"], {"dataset_path": "11", "judge": TWO[1]}),
    "turns and a judge": (TWO[:1], ["data.py:Talks"], {"dataset_path": "9", "judge": TWO[0]}),
    "a judge without work": (TWO[:1], ["data.py:Cities"], {"dataset_path": "5", "judge": TWO[0]}),
    "a sweep": (TWO[:1], ["data.py:Cities"], {"dataset_path": "10", "num_shots": [0, 1, 2]}),
    "draws": (TWO[:1], ["data.py:Choices"], {"dataset_path": "10", "num_shots": 2, "retriever_seeds": "0..2"}),
    "examples that do not fit": (["counting.py:Counting"], ["data.py:Cities"], {"dataset_path": "13", "num_shots": 8, "retriever": "bm25", "max_example_tokens": 60}),
    "examples that nobody counts": (TWO[:1], ["data.py:Cities"], {"dataset_path": "5", "num_shots": 3, "max_example_tokens": 60}),
    "a figure over all samples": (TWO[:1], ["translated.py:Translated"], {"dataset_path": "20"}),
    "token lookup": (["embedded"], ["lookup:UR,UL"], {"length": (10, 20), "samples": 12}),
    "search engines, alone and in rag": (["fts5", "bm25"], ["handbook"], {"limit": 12}),
    "retrieval before replies": (TWO[:1], ["handbook"], {"limit": 9, "method": "rag", "search": "fts5"}),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_merged_shards_are_one_run(name):
    models, datasets, options = RUNS[name]
    evaluate(models, datasets, out="plain", report=False, **options)
    folders = shards(4, models, datasets, **options)
    merged = merge(list(reversed(folders)), "merged")
    check_same("merged", "plain")
    assert merged.results == kshot.load("plain").results
    assert merged.results


def test_categories_failures_and_comparisons_of_tasks_in_memory():
    items = {str(at): Item(None if at % 5 == 3 else at % 2, category="abc"[at % 3]) for at in range(29)}
    made = task("mine", items, Right())
    models = [Replies("one"), Replies("two")]
    evaluate(models, made, out="plain", report=False)
    merged = merge(shards(4, models, made), "merged", made)
    check_same("merged", "plain")
    assert {row["task"] for row in merged.results} == {"mine", "mine[a]", "mine[b]", "mine[c]"}
    assert merged.comparisons
    assert merged.results[0]["failed"]


def test_more_shards_than_samples_and_a_repeated_merge():
    options = {"dataset_path": "3"}
    evaluate(TWO[0], "data.py:Cities", out="plain", report=False, **options)
    folders = shards(7, TWO[0], "data.py:Cities", **options)
    merge(folders, "merged")
    merge(folders, "merged")
    check_same("merged", "plain")


def test_a_sample_that_failed_and_is_asked_again_in_its_shard_counts_when_merged_again():
    evaluate(TWO[1], "data.py:Cities", out="plain", report=False, dataset_path="40")
    folders = shards(2, TWO[1], "data.py:Cities", dataset_path="40")
    merge(folders, "merged")
    failed = [row["id"] for row in kshot.load("merged").samples if "failed" in row]
    assert failed == [row["id"] for row in kshot.load("plain").samples if "failed" in row]
    assert failed
    Path("model.py").write_text(MODEL.replace("self.fails and", "False and"))
    shards(2, TWO[1], "data.py:Cities", dataset_path="40")
    merge(folders, "merged", trust="model.py")
    assert not [row for row in kshot.load("merged").samples if "failed" in row]


def rewritten(run, lines):
    """Write the answers of a journal anew: ``lines`` gives the texts of the lines that follow, for each text."""
    journal = Path(run, "journal.jsonl")
    written = []
    for line in journal.read_bytes().splitlines(keepends=True):
        record = decoded_line(line, early=False)
        written += [encoded_line(record.key, record.asked, Generated(text)) for text in lines(record.response.text)]
    journal.write_bytes(b"".join(written))


def replies(run):
    return {row["id"]: row["response"] for row in kshot.load(run).samples}


def test_a_shard_that_was_run_anew_replaces_the_answers_of_an_earlier_merge():
    folders = shards(2, TWO[0], "data.py:Cities", dataset_path="12")
    merge(folders, "merged")
    before, own = replies("merged"), {row["id"] for row in kshot.load(folders[1]).samples}
    rewritten(folders[1], lambda text: [f"not {text}"])
    merge(folders, "merged")
    assert replies("merged") == {each: f"not {text}" if each in own else text for each, text in before.items()}
    size = Path("merged/journal.jsonl").stat().st_size
    merge(folders, "merged")
    assert Path("merged/journal.jsonl").stat().st_size == size  # nothing is added a second time


def test_of_two_answers_in_a_shard_the_last_counts_as_in_the_shard_itself():
    folders = shards(2, TWO[0], "data.py:Cities", dataset_path="12")
    rewritten(folders[0], lambda text: ["nonsense", text])
    merge(folders, "merged")
    evaluate(TWO[0], "data.py:Cities", dataset_path="12", out="plain", report=False)
    assert replies("merged") == replies("plain")


def test_a_shard_shows_no_figures(capsys):
    done = command(capsys, "run", "-m", TWO[0], "-d", "data.py:Cities", "--dataset-path", "20", "--shard", "2/3")
    assert (done.code, "samples of the run" in done.out, "Em" in done.out) == (0, True, False)
    (folder,) = Path("runs").glob("*-shards/2-of-3")
    assert not (folder / "report.html").exists()
    summary = json.loads((folder / "summary.json").read_text())
    assert (summary["results"], summary["shard"]) == ([], "2/3")
    assert any("shard 2/3" in note for note in summary["notes"])
    assert "shard 2/3" in command(capsys, "show", folder).out
    assert "shard 2/3" in command(capsys, "runs", "runs").out
    assert "one shard of a run" in command(capsys, "score", folder).err
    done = command(capsys, "run", "-m", TWO[0], "-d", "data.py:Cities", "--shard", "2/3", "--fail-under", "EM=3")
    assert (done.code, "kshot merge" in done.err) == (2, True)


def test_the_folder_of_a_shard_continues_only_that_shard(capsys):
    run = ("run", "-m", TWO[0], "-d", "data.py:Cities", "--dataset-path", "20", "--out", "here")
    assert command(capsys, *run, "--shard", "1/2").code == 0
    done = command(capsys, *run, "--shard", "2/2")
    assert (done.code, 'shard was "1/2", is "2/2"' in done.err) == (2, True)


def test_a_shard_needs_a_folder():
    with pytest.raises(KshotError, match="shard needs out"):
        evaluate(TWO[0], "data.py:Cities", dataset_path="2", shard="1/2")


# ---- what is wrong with shards ----


@pytest.fixture
def three(here):
    return shards(3, TWO[0], "data.py:Cities", dataset_path="12")


def refused(folders, **options):
    with pytest.raises(KshotError) as caught:
        merge(folders, "merged", **options)
    assert not Path("merged").exists()
    return str(caught.value)


def test_missing_shards_are_named(three):
    assert "there is no shard to merge" in refused([])
    assert "shard 2 of 3 is missing" in refused([three[0], three[2]])
    assert "shards 2–3 of 3 are missing" in refused(three[:1])


def recorded_as(folder, shard):
    """Return a copy of a shard whose ``spec.json`` has another number."""
    copy = Path(f"as-{shard.replace('/', '-')[:20]}")
    shutil.copytree(folder, copy)
    spec = json.loads((copy / "spec.json").read_text())
    spec["identity"]["shard"] = shard
    (copy / "spec.json").write_text(json.dumps(spec))
    return copy


@pytest.mark.parametrize("shard", ["1/999999999", "1/" + "9" * 5000])
def test_a_shard_of_too_many_is_refused_by_their_number(three, shard):
    said = refused([recorded_as(three[0], shard), *three[1:]])
    assert "spec.json: the shard is '1/9999" in said
    assert "a run has at most 999,999 shards" in said
    assert "must be K/N" not in said
    assert len(said) < 400


def test_many_missing_shards_are_named_in_one_short_line(three):
    assert "shards 2–999999 of 999999 are missing" in refused([recorded_as(three[0], "1/999999")])
    every_other = [recorded_as(three[0], f"{number}/40") for number in range(2, 41, 2)]
    assert "shards 1, 3, 5, 7, 9, … and 15 more gaps of 40 are missing" in refused(every_other)


def test_a_shard_that_is_there_twice_is_named(three):
    shutil.copytree(three[0], "copy")
    said = refused([*three, "copy"])
    assert "shard 1/3 is there twice" in said
    assert "copy" in said
    assert merge([*three, three[0]], "merged").results  # the same folder


def test_a_plain_run_and_a_folder_without_a_run_are_named(three):
    evaluate(TWO[0], "data.py:Cities", dataset_path="12", out="plain", report=False)
    assert "plain: this run is no shard" in refused([*three, "plain"])
    assert "nowhere: this is not a run folder" in refused([*three, "nowhere"])


@pytest.mark.parametrize(
    ("difference", "said"),
    [
        ({"num_shots": 1}, "num_shots was 0 (default), is 1"),
        ({"model": "model.py:Hashing,name=other"}, "models was"),
        ({"shard": "3/4"}, "one of 4 shards is not one of 3"),
        ({"price_in": 2.0}, "the option price_in was None, is 2.0"),
    ],
)
def test_another_run_is_refused_with_the_difference(three, difference, said):
    given = {"model": TWO[0], "shard": "3/3", "dataset_path": "12", **difference}
    evaluate(given.pop("model"), "data.py:Cities", out="other", report=False, **given)
    text = refused([*three[:2], "other"])
    assert text.startswith("other: it is no part of the same run as shard 1/3")
    assert said in text


def changed_spec(folder, change):
    path = Path(folder, "spec.json")
    spec = json.loads(path.read_text())
    change(spec)
    path.write_text(json.dumps(spec))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda spec: spec["versions"].update(kshot="9.9"), "the version of kshot was"),
        (lambda spec: spec["models"][0].update(fingerprint="x"), "the model hashing (model) was hashing, is x"),
        (lambda spec: spec["data"]["cities"].update(digest="x"), "the data of cities was 12 samples"),
        (lambda spec: next(iter(spec["tasks"].values()))["cities"].update(within="x"), "the recorded facts of cities on"),
        (lambda spec: spec["code"].update(dict.fromkeys(spec["code"], "x")), "the digest of"),
        (lambda spec: spec.update(planned_samples=13), "the number of planned samples was 12, is 13"),
    ],
)  # fmt: skip
def test_other_models_data_code_and_versions_are_refused(three, change, said):
    changed_spec(three[1], change)
    assert said in refused(three)


def test_a_merged_run_says_what_its_shards_used(three):
    for folder, torch in zip(three, ("2.12", "2.13", "2.12"), strict=True):
        changed_spec(folder, lambda spec, torch=torch: spec["sessions"][-1]["versions"].update(torch=torch))
    merge(three, "merged")
    assert recorded_versions(json.loads(Path("merged/spec.json").read_text()))["torch"] == "2.12, 2.13"


def test_unfinished_shards_are_named(three):
    changed_spec(three[0], lambda spec: spec["sessions"][-1].update(state="running"))
    changed_spec(three[2], lambda spec: spec["sessions"][-1].update(state="stopped"))
    said = refused(three)
    assert "2 shards have not come to the end" in said
    assert "shard 1/3 (shards/1): killed" in said
    assert "shard 3/3 (shards/3): stopped" in said


def test_damaged_shards_are_named_all_at_once(three):
    journal = Path(three[0], "journal.jsonl")
    journal.write_bytes(journal.read_bytes().replace(b"Paris", b"Pfris").replace(b"Rome", b"Rqme"))
    Path(three[1], "spec.json").write_text("{")
    Path(three[2], "journal.jsonl").unlink()
    said = refused(three)
    assert "the journal of shard 1/3 is damaged" in said
    assert "shards/2: spec.json is damaged" in said
    assert "shards/3: shard 3/3 has no journal" in said


def test_a_shard_that_has_lost_answers_is_named_and_the_plain_command_asks_for_them(three):
    journal = Path(three[1], "journal.jsonl")
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(KshotError, match=r"shard 2/3 .* does not have all answers to sample") as caught:
        merge(three, "merged")
    assert "--out merged" in str(caught.value)
    assert not Path("merged/summary.json").exists()
    evaluate(TWO[0], "data.py:Cities", dataset_path="12", out="plain", report=False)
    evaluate(TWO[0], "data.py:Cities", dataset_path="12", out="merged", report=False)
    assert files("merged") == files("plain")


def test_a_folder_that_holds_another_run_is_not_merged_into(three):
    evaluate(TWO[0], "data.py:Cities", dataset_path="12", out="plain", report=False)
    before = files("plain")
    with pytest.raises(KshotError, match="a run that was not merged"):
        merge(three, "plain")
    with pytest.raises(KshotError, match="lies in the run folder of a shard"):
        merge(three, f"{three[0]}/merged")
    assert files("plain") == before


def test_shards_cannot_choose_code_that_runs(three, monkeypatch, tmp_path):
    monkeypatch.setenv("KSHOT_CACHE", str(tmp_path / "another machine"))
    assert "kshot does not run this file: you have not used" in refused(three)
    assert merge(three, "merged", "data.py:Cities", trust="model.py").results


def test_a_link_in_a_shard_is_not_followed(three):
    journal = Path(three[0], "journal.jsonl")
    journal.replace("elsewhere.jsonl")
    journal.symlink_to(Path("elsewhere.jsonl").absolute())
    assert "link to elsewhere" in refused(three)
