"""Plug-ins of all eight kinds: in files, and in an installed package."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tests" / "plugin_package"
KINDS = {
    "datasets": "riddles",
    "retrievers": "shortest",
    "models": "echo",
    "search-engines": "longest",
    "metrics": "contains",
    "chunkers": "halves",
    "cleanups": "last-word",
    "loggers": "lines",
}
RIDDLES = [
    {"riddle": "What has a neck and no head?", "answers": ["a bottle", "a dog"], "right": 0},
    {"riddle": "What gets wetter as it dries?", "answers": ["the sun", "a towel"], "right": 1},
]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the package as pip installs it."""
    target = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*pip, "--target", str(target), str(PACKAGE)], check=True, capture_output=True)
    return target


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "rows").mkdir()
    for split in ("train", "test"):
        (tmp_path / "rows" / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in RIDDLES))
    (tmp_path / "cities.py").write_text(
        "from kshot import Em, GenerationDataset\n"
        "class Cities(GenerationDataset):\n"
        "    instruction = 'Repeat: {city}'\n"
        "    evaluation_set = 'test'\n"
        "    metrics = [Em()]\n"
        "    def load_raw_dataset(self, *_):\n"
        "        self.evaluation_data, self.example_data = [{'city': 'in Oslo.'}, {'city': 'In Rome'}], []\n"
        "    def format_instance(self, row):\n"
        "        return {'city': row['city'], 'target': row['city'].split()[-1].strip('.')}\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments, path=None, **more):
    env = {**os.environ, "KSHOT_CACHE": "cache"}
    if path is not None:
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(path), env.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "kshot", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env, **more)


def values(done):
    assert done.returncode == 0, done.stderr
    rows = [row for row in json.loads(done.stdout)["results"] if not row.get("detail")]
    return {(row["task"], row["model"], row["metric"]): row["value"] for row in rows}


def file_of(name):
    return PACKAGE / "kshot_samples" / f"{name}.py"


@pytest.mark.parametrize("kind", KINDS)
def test_the_package_is_listed_with_its_origin(kind, installed):
    entries = json.loads(run("list", kind, "--json", path=installed).stdout)
    (own,) = [entry for entry in entries if entry["name"] == KINDS[kind]]
    assert own["from"] == "kshot-samples 1.0"
    assert own["text"]
    assert {entry["from"] for entry in entries} == {"kshot", "kshot-samples 1.0"}
    assert "[kshot-samples 1.0]" in run("list", kind, path=installed).stdout


def test_datasets_and_retrievers_of_a_package_and_of_files(here, installed):
    common = ["-m", "embedded", "--dataset-path", "rows", "-k", "1", "--json"]
    named = run("run", "-d", "riddles", *common, "--retriever", "shortest", "--out", "a", path=installed)
    (value,) = values(named).values()
    riddles, shortest = f"{file_of('riddles')}:Riddles", f"{file_of('shortest')}:Shortest"
    filed = run("run", "-d", riddles, *common, "--retriever", f"{shortest},order=nearest_last", "--out", "b")
    assert list(values(filed).values()) == [value]
    shown = run(
        "preview", "-d", "riddles", "--dataset-path", "rows", "-k", "1", "--retriever", "shortest", path=installed
    )
    assert shown.stdout.count("Answer:") == 2 * len(RIDDLES)  # each with one example


def test_models_metrics_and_cleanups_of_a_package_and_of_files(here, installed):
    common = ["-d", "cities.py:Cities", "--json"]
    named = run(
        "run",
        "-m",
        "echo",
        *common,
        "--metric",
        "em,contains,brevity",
        "--cleanup",
        "last-word",
        "--out",
        "a",
        path=installed,
    )
    assert values(named) == {("cities", "echo", name): 100.0 for name in ("EM", "Contains", "brevity")}
    more = [
        "--metric",
        f"{file_of('contains')}:Contains,ignore_case=no",
        "--cleanup",
        f"{file_of('last_word')}:last_word,strip=x",
    ]
    filed = run("run", "-m", f"{file_of('echo')}:Echo,words=2", *common, *more, "--out", "b")
    assert values(filed) == {("cities", "echo,words=2", "Contains"): 100.0}
    assert run("score", "b").returncode == 0


def test_search_engines_and_chunkers_of_a_package_and_of_files(here, installed):
    common = ["-d", "handbook", "--limit", "4", "--measures", "AC_Recall@10", "--json"]
    named = run("run", "-m", "longest", *common, "--chunker", "halves,parts=3", "--out", "a", path=installed)
    assert ("handbook", "longest", "AC_Recall@10") in values(named)
    row = json.loads(named.stdout)["results"][-1]
    assert row["chunks"] == "halves,parts=3"
    filed = run(
        "run",
        "-m",
        f"{file_of('longest')}:Longest",
        *common,
        "--chunker",
        f"{file_of('halves')}:Halves,parts=3",
        "--out",
        "b",
    )
    assert list(values(filed).values()) == list(values(named).values())
    pytest.importorskip("bm25s")
    mixed = run("run", "-m", "hybrid:bm25+longest", *common, "--out", "c", path=installed)
    assert ("handbook", "hybrid:bm25+longest", "AC_Recall@10") in values(mixed)


def test_loggers_of_a_package_and_of_files(here, installed):
    common = ["-m", "embedded", "-d", "cities.py:Cities", "--out", "run"]
    named = run("run", *common, "--log", "lines,file=a.txt", path=installed)
    filed = run("score", "run", "--log", f"{file_of('lines')}:Lines,file=b.txt")
    assert (named.returncode, filed.returncode) == (0, 0), named.stderr + filed.stderr
    assert Path("a.txt").read_text() == Path("b.txt").read_text()
    assert Path("a.txt").read_text().startswith("cities EM ")


def test_a_function_is_a_language_model(here):
    (here / "plain.py").write_text("def shout(prompt):\n    return prompt.split()[-1].strip('.')\n")
    done = run("run", "-m", "plain.py:shout", "-d", "cities.py:Cities", "--json", "--out", "run")
    assert values(done) == {("cities", "plain.py:shout", "EM"): 100.0}


def test_options_of_a_function_reach_it_and_unknown_ones_are_refused(here):
    (here / "plain.py").write_text(
        "def last(prompt, words: int = 1):\n    return ' '.join(prompt.split()[-words:]).strip('.')\n"
    )
    done = run("run", "-m", "plain.py:last,words=1", "-d", "cities.py:Cities", "--json", "--out", "run")
    assert values(done) == {("cities", "plain.py:last,words=1", "EM"): 100.0}
    wrong = run("run", "-m", "plain.py:last,nonsense=4", "-d", "cities.py:Cities", "--out", "other")
    assert wrong.returncode == 2
    assert "there is no option 'nonsense'. It knows: words" in wrong.stderr


def test_a_plug_in_keeps_its_own_defaults(here):
    (here / "slow.py").write_text(
        "from kshot import Generate, Generated\n"
        "class Slow:\n"
        "    name, answers = 'slow', (Generate,)\n"
        "    def __init__(self, timeout: float = 5.0, batch_size: int = 2):\n"
        "        self.fingerprint = f'{timeout} {batch_size}'\n"
        "    def serve(self, queue):\n"
        "        for request in queue:\n"
        "            yield request, Generated(self.fingerprint)\n"
    )
    common = ["-m", "slow.py:Slow", "-d", "cities.py:Cities"]
    run("run", *common, "--out", "a")
    run("run", *common, "--batch-size", "7", "--out", "b")
    assert json.loads(Path("a/spec.json").read_text())["models"][0]["fingerprint"] == "5.0 2"
    assert json.loads(Path("b/spec.json").read_text())["models"][0]["fingerprint"] == "5.0 7"


def test_a_config_file_with_settings_of_its_own_is_never_imported(here):
    (here / "config.py").write_text("open('marker', 'w').close()\ndatasets = []\n")
    for arguments in (["-d", "config.py,limit=3"], ["config.py,limit=3"]):
        done = run("run", *arguments, "-m", "embedded", "--out", "run")
        assert (done.returncode, Path("marker").exists()) == (2, False)
        assert "config.py" in done.stderr


def test_search_engines_with_different_options_have_different_names(here):
    code = (
        file_of("longest").read_text().replace("class Longest(IndexSearchEngine):", "class Ranked(IndexSearchEngine):")
    )
    (here / "ranked.py").write_text(
        code + "\n    def __init__(self, sign: int = 1):\n        self.fingerprint = f'ranked {sign}'\n"
    )
    common = ["-d", "handbook", "--limit", "3", "--measures", "AC_Recall@10", "--json"]
    done = run("run", "-m", "ranked.py:Ranked,sign=1", "-m", "ranked.py:Ranked,sign=2", *common, "--out", "run")
    assert {model for _, model, _ in values(done)} == {"longest,sign=1", "longest,sign=2"}
    (here / "other.py").write_text(code)
    clash = run("run", "-m", "ranked.py:Ranked", "-m", "other.py:Ranked", *common, "--out", "clash")
    assert clash.returncode == 2
    assert "two models are called 'longest'. Give each a name of its own." in clash.stderr


def test_a_model_that_suits_no_dataset_is_refused(here):
    done = run("run", "-m", f"{file_of('longest')}:Longest", "-d", "cities.py:Cities", "--out", "run")
    assert done.returncode == 2
    assert "longest is a search engine, and the datasets of this run need language models" in done.stderr


def test_two_packages_that_claim_one_name_are_both_named(here, installed, tmp_path):
    other = tmp_path / "site2" / "other_samples-2.0.dist-info"
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other-samples\nVersion: 2.0\n")
    (other / "entry_points.txt").write_text("[kshot.models]\necho = other:Echo\nhf = other:Model\n")
    both = f"{installed}{os.pathsep}{other.parent}"
    done = run("run", "-m", "echo", "-d", "cities.py:Cities", "--out", "run", path=both)
    assert done.returncode == 2
    assert "two models are called 'echo': " in done.stderr
    assert "kshot_samples.echo:Echo (kshot-samples 1.0)" in done.stderr
    assert "other:Echo (other-samples 2.0)" in done.stderr
    built_in = run("run", "-m", "hf:x", "-d", "cities.py:Cities", "--out", "run", path=both)
    assert "kshot.backends.hf.model:Transformers (kshot) and other:Model (other-samples 2.0)" in built_in.stderr
    assert run("run", "-m", "embedded", "-d", "cities.py:Cities", "--out", "run", path=both).returncode == 0


def test_contributing_shows_each_kind_in_at_most_15_lines():
    """The page shows the code of the package, so that what it says is what the tests above run."""
    blocks = re.findall(r"```python\n# (\w+)\.py\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    shown = {name: code.strip() for name, code in blocks}
    assert sorted(shown) == sorted(path.stem for path in (PACKAGE / "kshot_samples").glob("[!_]*.py"))
    for name, code in shown.items():
        assert code == file_of(name).read_text().strip()
        assert len(code.splitlines()) <= 15
