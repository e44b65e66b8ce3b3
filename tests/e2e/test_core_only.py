"""kshot's core in an empty environment: no extra is there, and README's first commands do what README says."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kshot.core.extras import PACKAGES
from tests.cases import ALL
from tests.fake_server import FakeServer, chat
from tests.pythons import installed

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
FIRST = README[: re.search(r"\bextras?\b|kshot\[", README, re.IGNORECASE).start()]
"""README up to the first mention of an extra."""

BLOCK = re.compile(r"```(bash|python|text)\n(.*?)```", re.DOTALL)
OF_THE_CORE_TOO = {"lxml", "pyyaml"}
"""Packages of an extra that something brings which the core needs (sacrebleu, tokenizers)."""


class Environment:
    """An empty environment with the core alone, in a folder of its own."""

    def __init__(self, python, wheel, folder):
        self.folder = folder
        self._variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        self._variables["KSHOT_CACHE"] = str(folder / "cache")
        made = self._call(python, "-m", "venv", "--without-pip", folder / "environment")
        assert made.returncode == 0, made.stderr
        done = self.pip("install", "-q", "--no-compile", wheel)
        if done.returncode and self.pip("install", "-q", "--dry-run", "--no-deps", "rich").returncode:
            pytest.skip("the package index cannot be reached")
        assert done.returncode == 0, done.stderr

    def run(self, program, *words):
        """Run a program of the environment."""
        return self._call(self.folder / "environment" / "bin" / program, *words)

    def pip(self, *words):
        """Run this environment's pip on the other: to install one there takes longer than all of the core."""
        return self._call(sys.executable, "-m", "pip", "--python", self.folder / "environment", *words)

    def _call(self, *words):
        command = [str(word) for word in words]
        return subprocess.run(
            command, cwd=self.folder, env=self._variables, capture_output=True, text=True, check=False
        )


def write_files(folder):
    """Write what README's first part tells its reader to write: a class, and rows."""
    for code in (code for kind, code in BLOCK.findall(FIRST) if kind == "python"):
        (folder / re.match(r"# (\w+\.py)\n", code)[1]).write_text(code)
    (row,) = re.findall(r'`(\{"question".*?\})`', FIRST)
    for file in re.findall(r"`(\S+\.jsonl)`", FIRST.partition(row)[2]):
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(row + "\n")


def commands():
    """Return README's first commands, each with the lines that README shows below it."""
    found = []
    for kind, code in BLOCK.findall(FIRST):
        if kind == "bash":
            found += [(line, []) for line in code.splitlines()]
        elif kind == "text":
            found[-1][1].extend(line for line in squeezed(code) if line != "…")
    return found


def squeezed(text):
    """Return the lines of an output without the white space that only lays out a table."""
    return [" ".join(line.split()) for line in text.splitlines()]


def takes_long(words):
    """Whether a command asks the built-in model hundreds of questions; ``tests/cli/test_lookup.py`` does so in small."""
    return words == ["run"] or "0,1,2,5" in words


@pytest.mark.parametrize("age", ["oldest", "newest"] if ALL else ["oldest"])
def test_readme_s_first_commands(age, wheel, tmp_path):
    pythons = installed()
    version = list(pythons)[0 if age == "oldest" else -1]
    if age == "newest" and len(pythons) == 1:
        pytest.skip(f"Python {version} is also the oldest here")
    core = Environment(pythons[version], wheel, tmp_path)

    listed = json.loads(core.pip("list", "--format", "json").stdout)
    names = {re.sub("[-_.]+", "-", each["name"]).lower() for each in listed}
    assert "kshot" in names
    assert names & {package.lower() for package in PACKAGES} <= OF_THE_CORE_TOO
    assert core.run("python", "-c", "import kshot; print(kshot.__file__)").stdout.startswith(str(tmp_path))

    write_files(tmp_path)
    assert len(commands()) >= 4
    for line, shown in commands():
        program, *words = shlex.split(line, comments=True)
        assert program == "kshot", f"a test must know how to run {line!r}"
        if takes_long(words) and not ALL:
            continue
        done = core.run(program, *words)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        printed = squeezed(done.stdout)
        assert [said for said in shown if said not in printed] == [], f"{line} prints:\n{done.stdout}"

    done = core.run("kshot", "run", "-d", "handbook", "-m", "hybrid")
    assert done.returncode == 2
    assert "pip install 'kshot[search,dense]'" in done.stderr
    check_table_with_a_server(core, wheel)


def check_table_with_a_server(core, wheel):
    """A table with letters runs with one command, without torch, as soon as the package for servers is there."""
    (core.folder / "quiz.csv").write_text("Q,A,B,key\nIs water wet?,yes,no,A\nIs ice hot?,yes,no,B\n")
    table = ("-d", "quiz.csv", "--question", "Q", "--options", "A,B", "--answer", "key")
    with FakeServer(lambda call: chat("The answer is A.")) as server:
        command = ("run", "-m", "openai:x", "--base-url", f"{server.url}/v1", "--model-type", "chat", *table)
        lacking = core.run("kshot", *command)
        assert (lacking.returncode, "pip install 'kshot[api]'" in lacking.stderr) == (2, True)
        added = core.pip("install", "-q", "--no-compile", f"{wheel}[api]")
        assert added.returncode == 0, added.stderr
        done = core.run("kshot", *command, "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["results"]
    assert (row["task"], row["n"], row["value"]) == ("quiz", 2, 50.0)
