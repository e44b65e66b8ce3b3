"""What is at fault in commands, files, models and folders: the exit code and the message."""

import shlex
import shutil
from pathlib import Path

from tests.cli import bad_files, test_bad_input
from tests.e2e import test_bad_input as bad_rows
from tests.frozen.cases import Cases
from tests.frozen.commands import Caller, streams


def make(cases: Cases) -> None:
    """Add the cases."""
    with streams() as printed:
        caller = Caller(cases, printed)
        _bad_commands(caller)
        _bad_classes(caller)


def _bad_commands(caller: Caller) -> None:
    for name, content in bad_files.FILES.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    for name, command in {case.id: case.values[0] for case in test_bad_input.table()}.items():
        words = shlex.split(command)
        if words[0] == "run" and "--out" not in words:
            words += ["--out", "out"]
        caller.screen(f"command/{name}", *words)
        shutil.rmtree("out", ignore_errors=True)


def _bad_classes(caller: Caller) -> None:
    Path("echo.py").write_text(bad_rows.BACKEND)
    run = ("run", "-m", "echo.py:Echo", "--out", "run", "--ranking-type", "generation")
    more = {"no examples": ["-k", "3"], "unsupported cot": ["--cot", "least"]}
    for kind, (changes, _) in bad_rows.ROWS.items():
        Path("bad.py").write_text(bad_rows.written(**changes))
        caller.screen(f"class/{kind}", *run, "-d", "bad.py:Mine", *more.get(kind, []))
        shutil.rmtree("run", ignore_errors=True)
    for kind, (name, text, _) in bad_rows.FILES.items():
        path = Path("row files") / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        caller.screen(f"file/{kind}", *run, "-d", "boolq", "--dataset-path", str(path))
