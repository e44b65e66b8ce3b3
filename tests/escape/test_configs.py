"""Hostile configs, judged by effect: what is read, what is written, what is left, and whether kshot goes on."""

import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from kshot.configs import ConfigSource, load
from kshot.core.errors import KshotError
from kshot.settings import Settings
from tests.escape.config_attacks import LIMITS, NOT_RUN, READ, ROWS, WRITE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the layers that are tested")

CANARY = "canary-5b1f0c"
HANG_SECONDS = 1.0


class Place:
    """A project, a secret beside it, and what has become of both."""

    def __init__(self, root):
        self.root, self.project, self.secret = root, root / "project", root / "secret"
        self.marker = root / "marker"
        for folder in ("project/sub/.hidden/deep", "project/.git", "project/rows", "project/rows_linked", "secret"):
            (root / folder).mkdir(parents=True)
        row = f'{{"q": "{CANARY}", "a": "b"}}\n'
        texts = {
            **dict.fromkeys(("secret/canary.txt", "project/.env", "project/sub/.env", "project/.git/config"), CANARY),
            **dict.fromkeys(("secret/passwords.py", "project/sub/.hidden/deep/passwords.py"), f"X = {CANARY!r}\n"),
            **dict.fromkeys(("secret/rows.jsonl", "secret/test.jsonl", "project/sub/.hidden/rows.jsonl"), row),
            "project/sub/.hidden/deep/canary.txt": CANARY,
            f"secret/{CANARY}": "",
            f"project/.{CANARY}": "",
            "project/data.txt": "mine",
            "project/rows/train.jsonl": '{"q": "mine", "a": "b"}\n',
            "project/large.txt": "x" * 8_000_000,
        }
        for name, text in texts.items():
            (root / name).write_text(text)
        with (self.project / "huge.txt").open("wb") as file:
            file.truncate(20 << 30)
        links = {
            "link.txt": "../secret/canary.txt",
            "linked": "../secret",
            "chain.txt": "link.txt",
            "shown.txt": ".env",
            "link.py": "../secret/passwords.py",
            "swap": "../secret",
            "rows_link.jsonl": "../secret/rows.jsonl",
            "rows_linked/test.jsonl": "../../secret/rows.jsonl",
        }
        for name, target in links.items():
            (self.project / name).symlink_to(target)
        os.mkfifo(self.project / "fifo")
        self.before = self.state()

    def config(self, text, port=0):
        for word, value in {"SECRET": self.secret, "PROJECT": self.project, "MARKER": self.marker}.items():
            text = text.replace(word, str(value))
        text = text.replace("ROOT", str(self.root)).replace("PID", str(os.getpid())).replace("PORT", str(port))
        path = self.project / "config.py"
        path.write_text(text)
        self.before = self.state()
        return path

    def state(self):
        """Return everything that is there, with the text and mode of every small file."""
        return {
            str(path): (path.lstat().st_mode, path.read_bytes() if 0 < path.lstat().st_size < 9999 else b"")
            for path in self.root.rglob("*")
            if path.is_file() and not path.is_symlink()
        } | {str(path): (path.lstat().st_mode, b"") for path in self.root.rglob("*") if not path.is_file()}


@pytest.fixture
def place(tmp_path, monkeypatch):
    made = Place(tmp_path)
    monkeypatch.chdir(made.project)
    for name in ("OPENAI_API_KEY", "SECRET_TOKEN"):
        monkeypatch.setenv(name, CANARY)
    monkeypatch.setenv("HOME", str(made.secret))
    (tmp_path / "processes").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "processes"))
    return made


def children():
    """Return the processes that this one has started and that still run."""
    found = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # a thread that has ended meanwhile
            found |= set((task / "children").read_text().split())
    return found


def outcome(place, text, *, port=0, **options):
    """Load a config, call what it defines, and return everything that comes out."""
    path, started = place.config(text, port), children()
    try:
        config = load(path, **options)
    except KshotError as exc:
        said = str(exc)
    else:
        said = repr((config.variables, config.registered, config.files, config.frameworks))
        config.close()
    assert children() <= started, "a process is left"
    assert list((place.root / "processes").iterdir()) == [], "files are left"
    return said


def contained(place, said):
    """Judge by effect."""
    assert CANARY not in said
    assert not place.marker.exists()
    assert not list(place.root.glob("marker*"))
    assert place.state() == place.before


def test_what_may_be_read_does_come_out(place):
    """The judge sees what is read: else no attack could fail."""
    assert "mine" in outcome(place, "x = open('data.txt').read()")
    assert "mine" in outcome(place, "x = open('data.txt', 'rb').read()\nx = repr(x)")
    assert "mine" in outcome(place, "import pathlib\nx = (pathlib.Path(__file__).parent / 'data.txt').read_text()")
    assert "data.txt" in outcome(place, "import glob, os\nx = glob.glob('*.txt') + os.listdir('.')")
    assert "True, False" in outcome(place, "import os\nx = (os.path.exists('data.txt'), os.path.exists('none'))")


@pytest.mark.parametrize("aim", READ)
def test_nothing_outside_is_read(place, aim):
    contained(place, outcome(place, f"{READ[aim]}\nx = repr(x)"))  # bytes would not come out


@pytest.mark.parametrize("aim", WRITE)
def test_nothing_is_written_started_or_reached(place, aim):
    ended = []
    before = signal.signal(signal.SIGTERM, lambda *_: ended.append("signalled"))
    try:
        with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
            port = server.getsockname()[1]
            datagrams.bind(("127.0.0.1", port))
            said = outcome(place, WRITE[aim], port=port)
            for reached in (server.accept, lambda: datagrams.recv(9)):
                server.setblocking(False)
                datagrams.setblocking(False)
                with pytest.raises(BlockingIOError):
                    reached()
    finally:
        signal.signal(signal.SIGTERM, before)
    contained(place, said)
    assert not ended
    assert not Path("/dev/shm/kshot-marker").exists()


@pytest.mark.parametrize("aim", LIMITS)
def test_kshot_goes_on(place, aim):
    said = outcome(place, LIMITS[aim], load_seconds=HANG_SECONDS, memory_mb=512)
    contained(place, said)
    assert len(said) < 17_000_000


@pytest.mark.parametrize("aim", NOT_RUN)
def test_the_restricted_reader_runs_nothing(place, aim):
    contained(place, outcome(place, NOT_RUN[aim], layers=("guard",), load_seconds=HANG_SECONDS * 5))


def test_the_kernel_alone_holds(place):
    """One config tries everything that does not cut it off, where no audit hook watches."""
    # Some break the pipe, take long, or break what follows.
    unsuitable = ("range(3", "/proc/%d", "setattr(builtins", "_getframe", "thread")
    tried = [text for text in (*READ.values(), *WRITE.values()) if not any(word in text for word in unsuitable)]
    text = (
        f"found, said = [], []\nfor text in {tried!r}:\n    space = {{**globals(), 'x': None}}\n"
        "    try: exec(text, space)\n    except BaseException as e: said.append(repr(e))\n"
        "    found.append(repr(space.get('x')))\nx = [found, said]\ndel space, text, found, said\n"
    )
    said = outcome(place, text, layers=("landlock", "seccomp"), load_seconds=60)
    assert said.count("PermissionError") > len(tried) / 3  # it did try
    contained(place, said)


@pytest.mark.parametrize("aim", ROWS)
def test_rows_of_others_do_not_reach_a_prompt(place, aim):
    reader = "" if "reader_cfg" in ROWS[aim] else "reader_cfg=dict(input_columns=['q'], output_column='a'), "
    text = (
        f"x_datasets = [dict({ROWS[aim]}, {reader}infer_cfg=dict("
        "prompt_template=dict(type='PromptTemplate', template='{q}'), retriever=dict(type='ZeroRetriever'), "
        "inferencer=dict(type='GenInferencer')))]"
    )
    source = ConfigSource(place.config(text))
    with pytest.raises(KshotError) as caught:
        repr([sample for task in source.previews(Settings()) for sample in task.samples])
    contained(place, str(caught.value))


def test_a_folder_that_becomes_a_link_while_it_is_read(place, monkeypatch):
    """The file that was opened is looked at, not only the path before."""
    from kshot.configs import project

    folder = place.project / "turns"
    folder.mkdir()
    (folder / "canary.txt").write_text("mine")
    real_open = os.open

    def swapping(path, flags, *rest):
        if str(path).endswith("turns/canary.txt"):
            folder.rename(place.project / "was")
            folder.symlink_to(place.secret)
        return real_open(path, flags, *rest)

    monkeypatch.setattr(project.os, "open", swapping)
    with pytest.raises(project.NotAllowed, match="replaced by a link"):
        project.Project(place.project / "config.py").read(str(folder / "canary.txt"))


def test_there_are_enough():
    assert len(READ) + len(WRITE) + len(LIMITS) + len(NOT_RUN) + len(ROWS) >= 90
