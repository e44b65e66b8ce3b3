"""Every command and every Python block of README, docs and CONTRIBUTING runs."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from tests.cases import ALL
from tests.commands import kshot
from tests.documented import LIST, PAGES, ROOT, RUNNING, local_servers, run_blocks, write_readers_files


@pytest.fixture
def user(tmp_path, monkeypatch, tiny_llama):
    """A folder as a reader of the docs has it."""
    write_readers_files(tmp_path, tiny_llama, monkeypatch)


def quick(text):
    """Return a page whose longest run is short, and whose workers need no torch."""
    text = text.replace("--samples 50 --shots", "--samples 4 --shots")
    return re.sub(r"hf:model(.* --workers)", r"embedded\1", text)


@pytest.mark.parametrize("page", RUNNING, ids=lambda page: page.name)
def test_every_block_runs(page, user, capsys):
    def called(line, arguments):
        done = kshot(capsys, *arguments)
        said = re.search(r"# exit code (\d+)$", line)  # of a gate that stops a build
        assert done.code == (int(said[1]) if said else 0), f"{page.name}: {line}\n{done.err}"
        assert "has no effect" not in done.err, f"{page.name}: {line}\n{done.err}"

    with local_servers() as local:
        text = page.read_text()
        run_blocks(page, local(text if ALL else quick(text)), called)


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
