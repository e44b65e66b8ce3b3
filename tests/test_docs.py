"""Every command and every Python block of README, docs and CONTRIBUTING runs."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kshot.core.extras import is_installed
from tests.cases import ALL
from tests.commands import kshot
from tests.configs.written import tree
from tests.fake_server import FakeServer, chat, echo
from tests.passages.books import small_book

ROOT = Path(__file__).parents[1]
LIST = ROOT / "docs" / "README.md"
"""Where readers find the other pages; it has no commands."""
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted({*(ROOT / "docs").glob("*.md")} - {LIST})]
SUBMITTED = {"slurm.md", "kubernetes.md", "cloud.md"}
"""Pages whose files are given to a cluster: tests of their own run what is in them."""
BLOCK = re.compile(r"```(bash|python|toml)\n(.*?)```", re.DOTALL)
RIDDLES = '{"riddle": "What has a neck and no head?", "answers": ["a dog", "a bottle"], "right": 1}\n' * 2
DEMO = """
from mmengine.config import read_base
from opencompass.models import HuggingFaceCausalLM

with read_base():
    from opencompass.configs.datasets.gsm8k.gsm8k_gen import gsm8k_datasets

datasets = gsm8k_datasets
models = [dict(type=HuggingFaceCausalLM, abbr="tiny", path="model", max_out_len=7)]
"""
QUIZ = '{"question": "Is water wet?", "a": "yes", "b": "no", "answer": 0}\n'


@pytest.fixture
def user(tmp_path, monkeypatch, tiny_llama):
    """A folder as a reader of the docs has it: a model, the examples, a small dataset."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(tiny_llama, "model")
    shutil.copytree(ROOT / "examples", "examples")
    Path("quiz").mkdir()
    for split in ("test", "dev"):
        Path(f"quiz/{split}.jsonl").write_text(QUIZ)
    Path("riddles").mkdir()
    for split in ("test", "train"):
        Path(f"riddles/{split}.jsonl").write_text(RIDDLES)
    Path("rows").mkdir()
    for split, cities in (("train", ("Paris", "Lima", "Oslo")), ("test", ("Rome", "Kyiv"))):
        lines = (json.dumps({"country": f"land of {city}", "city": city}) for city in cities)
        Path(f"rows/{split}.jsonl").write_text("\n".join(lines) + "\n")
    small_book(tmp_path / "book")
    clone(tmp_path)
    monkeypatch.setenv("KSHOT_CACHE", str(tmp_path / "cache"))
    if is_installed("starlette") and is_installed("uvicorn"):
        from kshot.viewer.serving import Viewer

        monkeypatch.setattr(Viewer, "serve", Viewer.close)  # it serves until Ctrl-C
    for name in ("MY_KEY", "MY_TOKEN"):
        monkeypatch.setenv(name, f"the-{name}-1234")
    for name in ("TRACKIO_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR"):  # else they are in HOME
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    return tmp_path


def clone(folder):
    """Write configs of OpenCompass, their data, and a file that evaluates them, as users of that project have them."""
    tree(folder)
    (folder / "eval_demo.py").write_text(DEMO)
    gsm8k, mmlu = folder / "data" / "gsm8k", folder / "data" / "mmlu"
    gsm8k.mkdir(parents=True)
    for split in ("train", "test"):
        (gsm8k / f"{split}.jsonl").write_text('{"question": "What is 1 + 1?", "answer": "It is 2. #### 2"}\n')
        folder_of_split = mmlu / {"train": "dev"}.get(split, split)
        folder_of_split.mkdir(parents=True)
        for subject in ("anatomy", "virology"):
            rows = "Which one?,this,that,one,none,A\nWhich other?,this,that,one,none,B\n"
            (folder_of_split / f"{subject}_{folder_of_split.name}.csv").write_text(rows)


def quick(text):
    """Return a page whose longest run is short, and whose workers need no torch."""
    text = text.replace("--samples 50 --shots", "--samples 4 --shots")
    return re.sub(r"hf:model(.* --workers)", r"embedded\1", text)


@pytest.fixture
def local():
    """The servers that the docs call localhost:8000 and localhost:8001, wherever they are."""
    with (
        FakeServer(lambda call: chat("[[7]]") if call.body["model"] == "judge" else echo(call)) as server,
        FakeServer(echo) as second,
    ):
        yield lambda text: text.replace("http://localhost:8000", server.url).replace(
            "http://localhost:8001", second.url
        )


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in SUBMITTED], ids=lambda page: page.name)
def test_every_block_runs(page, user, local, capsys):
    text = page.read_text()
    blocks = BLOCK.findall(local(text if ALL else quick(text)))
    assert blocks, f"{page.name} shows nothing to run"
    for kind, code in blocks:
        if kind == "toml":
            if named := re.match(r"# (\w+\.toml)\n", code):  # a run file; others are parts of pyproject.toml
                Path(named[1]).write_text(code)
            continue
        if kind == "python":
            named = re.match(r"# (\w+\.py)\n", code)
            if named:
                Path(named[1]).write_text(code)
            if page.name == "runs.md":
                kshot(capsys, "run", "-m", "hf:model", "-d", "examples/planets.py:Planets", "--out", "runs/first")
            exec(compile(code, f"{page.name}", "exec"), {"__name__": "docs"})
            continue
        for line in re.sub(r"\\\n\s*", "", code).splitlines():
            words = shlex.split(line, comments=True)
            if not words or words[0] in {"make", "pip", "git", "cd", "ssh"}:
                continue  # CI itself is `make test`; installing is what it does first
            assert words[0] == "kshot", f"{page.name}: a test must know how to run {line!r}"
            if words == ["kshot", "run"]:  # the starter suite, which tests/cli/test_lookup.py runs in small
                words += ["-d", "lookup:UR", "-d", "handbook", "--length", "10", "--samples", "3"]
            said = re.search(r"# exit code (\d+)$", line)  # of a gate that stops a build
            done = kshot(capsys, *words[1:])
            assert done.code == (int(said[1]) if said else 0), f"{page.name}: {line}\n{done.err}"
            assert "has no effect" not in done.err, f"{page.name}: {line}\n{done.err}"


def test_the_readme_shows_what_a_comparison_prints(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    section = (ROOT / "README.md").read_text().partition("## After the number")[2]
    commands, shown = re.search(r"```bash\n(.*?)```\n\n```text\n(.*?)```", section, re.DOTALL).groups()
    for line in commands.splitlines():
        done = kshot(capsys, *shlex.split(line)[1:])
    assert [line.rstrip() for line in done.out.splitlines()] == shown.splitlines()


def test_pages_name_only_options_that_exist(capsys):
    known = set(
        re.findall(r"--[a-z][a-z-]+", "".join(kshot(capsys, *c, "--help").out for c in ((), ("run",), ("preview",))))
    )
    for page in PAGES:
        for line in re.findall(r"kshot (?:run|preview) [^`\n]*", page.read_text()):
            assert set(re.findall(r"--[a-z][a-z-]+", line)) <= known, f"{page.name}: {line}"


def named_block(page, file):
    """The file of a page that has this name in a comment."""
    blocks = re.findall(r"```\w+\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)
    (found,) = (block for block in blocks if re.search(rf"^# {re.escape(file)}$", block, re.MULTILINE))
    return found


def small(script, folder):
    """A script of the docs, with a model and a dataset that are here, and three shards."""
    changes = {
        "hf:meta-llama/Llama-3.1-8B": "embedded",
        "mmlu -k 5": f"{ROOT}/examples/planets.py:Planets",
        "/40": "/3",
        "/shared/": f"{folder}/",
        "/results/": f"{folder}/",
    }
    for written, instead in changes.items():
        script = script.replace(written, instead)
    return script


def slurm_scripts():
    merging = re.search(r"&& (kshot merge .*)", (ROOT / "docs" / "slurm.md").read_text())
    return named_block("slurm.md", "shards.sbatch"), merging[1], "SLURM_ARRAY_TASK_ID", 1


def kubernetes_scripts():
    yaml = pytest.importorskip("yaml")
    assert yaml.safe_load(named_block("kubernetes.md", "raycluster.yaml"))["kind"] == "RayCluster"
    scripts = []
    for file in ("shards.yaml", "merge.yaml"):
        job = yaml.safe_load(named_block("kubernetes.md", file))["spec"]
        (container,) = job["template"]["spec"]["containers"]
        assert container["command"] == ["bash", "-c"]
        scripts += container["args"]
    return *scripts, "JOB_COMPLETION_INDEX", 0


@pytest.mark.skipif(shutil.which("bash") is None, reason="this machine has no bash")
@pytest.mark.parametrize(
    ("source", "merged"), [(slurm_scripts, "runs/mmlu"), (kubernetes_scripts, "all")], ids=["slurm", "kubernetes"]
)
def test_the_scripts_of_clusters_make_one_run_of_their_shards(source, merged, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    script, merging, number, first = source()
    assert "/40" in script
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "kshot"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kshot "$@"\n')
    command.chmod(0o700)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    for text, at in ((script, 0), (script, 1), (script, 2), (merging, 0)):
        environment = {**os.environ, "PATH": path, number: str(first + at)}
        bash = ["bash", "-c", small(text, tmp_path)]
        done = subprocess.run(bash, env=environment, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, done.stderr
    plain = kshot(capsys, "run", "-m", "embedded", "-d", f"{ROOT}/examples/planets.py:Planets", "--out", "plain")
    assert plain.code == 0, plain.err
    for name in ("samples.jsonl", "summary.json"):
        assert (tmp_path / merged / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()


@pytest.mark.needs("ray")
def test_ray_accepts_the_cluster_of_the_docs():
    import yaml
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = yaml.safe_load(named_block("cloud.md", "cluster.yaml"))
    validate_config(prepare_config(config))
    with pytest.raises(Exception, match="available_node_typez"):  # it is checked, and not only read
        validate_config(prepare_config({**config, "available_node_typez": {}}))


def test_the_readme_lists_every_extra():
    tomllib = pytest.importorskip("tomllib")  # Python 3.11
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]) - {
        "dev",
        "test",
    }
    table = (ROOT / "README.md").read_text().partition("| extra | what it adds |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == extras


def test_every_page_is_in_the_list_of_pages():
    listed = set(re.findall(r"\]\(([\w-]+\.md)\)", LIST.read_text()))
    assert listed == {page.name for page in PAGES if page.parent == LIST.parent}
