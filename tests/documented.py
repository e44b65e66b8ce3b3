"""README, docs and CONTRIBUTING: what their blocks run, and a folder and servers as their readers have them."""

import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kshot.core.extras import is_installed
from tests.configs.written import tree
from tests.fake_server import FakeServer, chat, echo
from tests.passages.books import small_book

ROOT = Path(__file__).parents[1]
LIST = ROOT / "docs" / "README.md"
"""Where readers find the other pages; it has no commands."""
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted({*(ROOT / "docs").glob("*.md")} - {LIST})]
SUBMITTED = {"slurm.md", "kubernetes.md", "cloud.md"}
"""Pages whose files are given to a cluster: tests of their own run what is in them."""
RUNNING = [page for page in PAGES if page.name not in SUBMITTED]
"""Pages of which every block runs."""

_BLOCK = re.compile(r"```(bash|python|toml)\n(.*?)```", re.DOTALL)
_RIDDLES = '{"riddle": "What has a neck and no head?", "answers": ["a dog", "a bottle"], "right": 1}\n' * 2
_DEMO = """
from mmengine.config import read_base
from opencompass.models import HuggingFaceCausalLM

with read_base():
    from opencompass.configs.datasets.gsm8k.gsm8k_gen import gsm8k_datasets

datasets = gsm8k_datasets
models = [dict(type=HuggingFaceCausalLM, abbr="tiny", path="model", max_out_len=7)]
"""
_QUIZ = '{"question": "Is water wet?", "a": "yes", "b": "no", "answer": 0}\n'


def write_readers_files(folder: Path, model: Path, patch: pytest.MonkeyPatch) -> None:
    """Work in a folder as a reader of the docs has it: a model, the examples, small datasets, keys."""
    patch.chdir(folder)
    shutil.copytree(model, "model")
    shutil.copytree(ROOT / "examples", "examples")
    Path("quiz").mkdir()
    for split in ("test", "dev"):
        Path(f"quiz/{split}.jsonl").write_text(_QUIZ)
    Path("riddles").mkdir()
    for split in ("test", "train"):
        Path(f"riddles/{split}.jsonl").write_text(_RIDDLES)
    Path("rows").mkdir()
    for split, cities in (("train", ("Paris", "Lima", "Oslo")), ("test", ("Rome", "Kyiv"))):
        lines = (json.dumps({"country": f"land of {city}", "city": city}) for city in cities)
        Path(f"rows/{split}.jsonl").write_text("\n".join(lines) + "\n")
    small_book(folder / "book")
    _write_clone(folder)
    patch.setenv("KSHOT_CACHE", str(folder / "cache"))
    if is_installed("starlette") and is_installed("uvicorn"):
        from kshot.viewer.serving import Viewer

        patch.setattr(Viewer, "serve", Viewer.close)  # it serves until Ctrl-C
    for name in ("MY_KEY", "MY_TOKEN"):
        patch.setenv(name, f"the-{name}-1234")
    for name in ("TRACKIO_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR"):  # else they are in HOME
        patch.setenv(name, str(folder / name.lower()))


def _write_clone(folder: Path) -> None:
    """Write configs of OpenCompass, their data, and a file that evaluates them, as users of that project have them."""
    tree(folder)
    (folder / "eval_demo.py").write_text(_DEMO)
    gsm8k, mmlu = folder / "data" / "gsm8k", folder / "data" / "mmlu"
    gsm8k.mkdir(parents=True)
    for split in ("train", "test"):
        (gsm8k / f"{split}.jsonl").write_text('{"question": "What is 1 + 1?", "answer": "It is 2. #### 2"}\n')
        folder_of_split = mmlu / {"train": "dev"}.get(split, split)
        folder_of_split.mkdir(parents=True)
        for subject in ("anatomy", "virology"):
            rows = "Which one?,this,that,one,none,A\nWhich other?,this,that,one,none,B\n"
            (folder_of_split / f"{subject}_{folder_of_split.name}.csv").write_text(rows)


@contextmanager
def local_servers() -> Iterator[Callable[[str], str]]:
    """Yield what puts the addresses of two servers in the place of localhost:8000 and localhost:8001 in a text."""
    with (
        FakeServer(lambda call: chat("[[7]]") if call.body["model"] == "judge" else echo(call)) as server,
        FakeServer(echo) as second,
    ):
        yield lambda text: text.replace("http://localhost:8000", server.url).replace(
            "http://localhost:8001", second.url
        )


def execute(page: Path, code: str) -> None:
    """Run a Python block."""
    exec(compile(code, page.name, "exec"), {"__name__": "docs"})


def run_blocks(
    page: Path, text: str, kshot: Callable[[str, list[str]], None], execute: Callable[[Path, str], None] = execute
) -> None:
    """Run every block of a page's text, in order; ``kshot`` gets the line of each command and its arguments."""
    blocks = _BLOCK.findall(text)
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
                first = "kshot run -m hf:model -d examples/planets.py:Planets --out runs/first"
                kshot(first, first.split()[1:])
            execute(page, code)
            continue
        for line in re.sub(r"\\\n\s*", "", code).splitlines():
            words = shlex.split(line, comments=True)
            if not words or words[0] in {"make", "pip", "git", "cd", "ssh"}:
                continue  # CI itself is `make test`; installing is what it does first
            assert words[0] == "kshot", f"{page.name}: a test must know how to run {line!r}"
            if words == ["kshot", "run"]:  # the starter suite, which tests/cli/test_lookup.py runs in small
                words += ["-d", "lookup:UR", "-d", "handbook", "--length", "10", "--samples", "3"]
            kshot(line, words[1:])
