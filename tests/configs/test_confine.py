"""What a config file must not be able to do, and what it may."""

import os

import pytest

from kshot.configs import _codec, load
from kshot.core.errors import DataError
from kshot.sandbox.process import LAYERS
from tests.configs.scored import run_entry, scored_entry
from tests.configs.written import OWN, write


def refused(tmp_path, text, message, **more):
    with pytest.raises(DataError, match=message) as caught:
        load(write(tmp_path, text), **more)
    return str(caught.value)


def test_an_endless_loop(tmp_path):
    refused(tmp_path, "while True: pass", r"config.py: it did not end within 0.3 s", load_seconds=0.3)


@pytest.mark.parametrize("text", ["x = [0] * 10**12", "x = 'a' * 10**11", "x = bytearray(3 << 30)"])
def test_a_huge_allocation(tmp_path, text):
    refused(tmp_path, text, r"config.py:1: .*MemoryError: it wants more memory than the 1024 MB")


def test_growing_without_end(tmp_path):
    refused(
        tmp_path,
        "x = ['a' * 10**7]\nwhile True: x.append(x[-1] + 'b')",
        "MemoryError|did not end",
        memory_mb=256,
        load_seconds=8,
    )


def test_too_many_values(tmp_path):
    text = "a = [1] * 1000\nb = [a] * 1000\nc_datasets = [dict(x=[b] * 1000)]"
    refused(tmp_path, text, "more than 3,000,000 values")


def test_values_are_counted_at_every_depth(monkeypatch):
    monkeypatch.setattr(_codec, "MAX_VALUES", 6)
    codec = _codec.Codec()
    assert codec.encode([1, [2, (3,)]]) == [1, [2, {"$tuple": [3]}]]  # as many as allowed, and again
    assert codec.encode({"a": [1, 2, 3]}) == {"a": [1, 2, 3]}
    with pytest.raises(ValueError, match="more than 6 values"):
        codec.encode([1, [2, (3, 4)]])


@pytest.mark.parametrize(
    "act",
    [
        "os.remove({file!r})",
        "os.rename({file!r}, {file!r} + '2')",
        "shutil.rmtree({folder!r})",
        "pathlib.Path({file!r}).unlink()",
        "open({file!r}, 'w')",
        "open({folder!r} + '/new', 'w')",
        "os.mkdir({folder!r} + '/new')",
        "os.truncate({file!r}, 0)",
        "os.symlink({file!r}, {folder!r} + '/new')",
    ],
)
@pytest.mark.parametrize("layers", [LAYERS, ("guard",)], ids=["all", "guard"])
def test_no_file_is_touched(tmp_path, act, layers):
    file = write(tmp_path, "dear", "precious.txt")
    act = act.format(file=str(file), folder=str(tmp_path))
    refused(tmp_path, f"import os, shutil, pathlib\n{act}\n", "not allowed in a config file|Read-only", layers=layers)
    assert file.read_text() == "dear"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["config.py", "precious.txt"]


@pytest.mark.parametrize(
    "text",
    [
        "import socket\nsocket.create_connection(('127.0.0.1', 80))",
        "import urllib.request\nurllib.request.urlopen('http://127.0.0.1/')",
        "import socket\ns = socket.socket()\ns.connect(('127.0.0.1', 80))",
    ],
)
def test_no_network(tmp_path, text):
    refused(tmp_path, text, "not allowed in a config file")


@pytest.mark.parametrize(
    "text",
    [
        "import subprocess\nsubprocess.run(['touch', 'MARK'])",
        "import os\nos.system('touch MARK')",
        "import os\nos.fork()",
        "import os\nos.kill(os.getppid(), 9)",
        "import os\nos.execv('/bin/true', ['true'])",
        "import multiprocessing as m\nm.Process(target=print).start()",
        "import threading\nthreading.Thread(target=print).start()",
        "import ctypes\nctypes.CDLL(None).system(b'touch MARK')",
    ],
)
def test_no_processes(tmp_path, text):
    mark = tmp_path / "was_here"
    refused(tmp_path, text.replace("MARK", str(mark)), "not allowed in a config file")
    assert not mark.exists()


def test_the_environment_is_not_shown(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    refused(tmp_path, "import os\nx = os.environ['OPENAI_API_KEY']", "KeyError: 'OPENAI_API_KEY'")
    text = "import os\nfound = [v for v in os.environ.values() if 'sk-' in v]\n"
    assert load(write(tmp_path, text)).variables["found"] == []
    message = refused(tmp_path, f"x = open('/proc/{os.getpid()}/environ').read()", "PermissionError|FileNotFoundError")
    assert "sk-secret" not in message


def test_files_outside_its_tree_are_not_read(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    secret = write(tmp_path, "sk-secret", "secret.txt")
    refused(folder, f"x = open({str(secret)!r}).read()", "not allowed in a config file: reading")
    refused(folder, "x = open('/etc/passwd').read()", "not allowed in a config file: reading /etc/passwd")
    refused(folder, f"import os\nx = os.listdir({str(tmp_path)!r})", "not allowed in a config file: reading")
    # where the hook is got around, the kernel still refuses
    text = f"import os\nx = os.read(os.open({str(secret)!r}, os.O_RDONLY), 99)"
    refused(folder, text, "Permission denied|No such file", layers=("namespaces", "landlock", "seccomp"))
    write(folder, "sk-secret", ".env")
    refused(folder, f"x = open({str(folder / '.env')!r}).read()", "not allowed in a config file: reading")


def test_replacing_builtins_affects_no_other_code(tmp_path):
    text = "import builtins, json, os\nbuiltins.len = None\nbuiltins.isinstance = lambda *a: True\njson.dumps = None\nos.remove('/')\n"
    refused(tmp_path, text, "config.py")
    write(tmp_path, "dear", "precious.txt")
    text = f"import builtins\nbuiltins.isinstance = lambda *a: False\nbuiltins.hasattr = lambda *a: False\nopen({str(tmp_path / 'precious.txt')!r}, 'w')\n"
    refused(tmp_path, text, "config.py")
    assert (tmp_path / "precious.txt").read_text() == "dear"
    assert len([1]) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import os\nos._exit(3)", r"its process ended before it was done \(exit code 3\)"),
        ("import sys\nsys.exit()", "SystemExit"),
        ("def f(): f()\nf()", "RecursionError"),
        ("class E(Exception):\n    def __str__(self): raise SystemExit\nraise E", "the config fails: E"),
        (
            "import os\nfor i in range(3, 30):\n    try: os.write(i, b'nonsense\\n')\n    except OSError: pass",
            "cannot be read",
        ),
    ],
)
def test_leaving_in_odd_ways(tmp_path, text, message):
    refused(tmp_path, text, message)


def test_a_flood_on_the_pipe_does_not_fill_memory(tmp_path):
    text = "import os\nwhile True:\n    for i in range(3, 30):\n        try: os.write(i, b'x' * 999 + b'\\n')\n        except OSError: pass"
    refused(tmp_path, text, "cannot be read")


def test_a_forged_answer_is_only_data(tmp_path):
    lie = '{"id": 1, "result": {"variables": {"x_datasets": 3, "$own": [[]]}, "files": 7}}'
    text = (
        f"import os\nfor i in range(3, 30):\n    try: os.write(i, {lie!r}.encode() + b'\\n')\n    except OSError: pass"
    )
    refused(tmp_path, text, "cannot be read")


def test_numbers_without_end(tmp_path):
    refused(tmp_path, "x = 10 ** 9999", "config.py: the config fails: ValueError")


def test_functions_are_called_under_the_same_confinement(tmp_path, monkeypatch):
    config = load(write(tmp_path, OWN))
    (entry,) = config.datasets["own_datasets"]
    loops, writes, turned = entry.eval_cfg["extra"]
    shout = config.registered["shout"]
    assert turned("abc") == "cba"
    assert shout("the cat, maybe") == "CAT!"
    monkeypatch.setattr(config._process, "_call_seconds", 0.3)
    with pytest.raises(DataError, match=r"loops.*did not end within 0.3 s"):
        loops("x")
    monkeypatch.undo()
    assert shout("the cat", mark="?") == "CAT?"  # a new process, the same function
    with pytest.raises(DataError, match="not allowed in a config file"):
        writes("x")
    assert not (tmp_path / "was_here").exists()
    assert turned("abc") == "cba"
    with pytest.raises(DataError, match=r"config.py:\d+: .*TypeError"):
        turned(3)
    config.close()
    assert turned("ab") == "ba"
    config.close()


@pytest.mark.parametrize("reply", ["lambda: 4", "(x for x in '4')", "[object()]", "{1: lambda: 4}"])
@pytest.mark.parametrize("made", ["eval(text)", "str(eval(text))"])
def test_a_clean_up_that_gives_an_object_fails_its_sample(tmp_path, reply, made):
    text = "@TEXT_POSTPROCESSORS.register_module('own')\ndef own(text):\n    return " + made
    config = load(write(tmp_path, f"from opencompass.registry import TEXT_POSTPROCESSORS\n{text}\nx_datasets = []"))
    clean = {"pred_postprocessor": {"type": config.registered["own"]}}
    made, rows = scored_entry({"type": "AccEvaluator"}, ["4", "4"], eval_cfg=clean)
    result = run_entry(made, rows, lambda number, _: reply if number else "4")
    assert [sample["answer"] for sample in result.samples] in ([4, None], ["4", None])
    assert result.samples[1]["failed"] == "clean_up: it gives an object, which has no text of its own"
    config.close()


def test_nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t"))
    (tmp_path / "t").mkdir()
    config = load(write(tmp_path, OWN))
    config.close()
    load(write(tmp_path, "x_datasets = []"))  # needs no process any more
    assert list((tmp_path / "t").iterdir()) == []
