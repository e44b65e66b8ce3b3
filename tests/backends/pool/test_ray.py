"""Workers on a Ray cluster: machines and actors that are lost and found, and nothing left at the end.

The cluster has three nodes on this machine. Runs are processes of their own, since Ray adds nodes from the main thread.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

import kshot
from kshot.core.errors import DataError, KshotError
from tests.backends.pool.pooled import (
    answered,
    asked_again,
    book_of_lines,
    index_files,
    is_alive,
    lines,
    pids,
    same_files,
    unused_shared_memory,
    wait_until,
    write,
)
from tests.commands import kshot_process

pytestmark = pytest.mark.needs("ray")

HOLDS = '''
from world import Noting, HERE, note, once, until
import os, signal

class Holds(Noting):
    """Every process stops at its third request until it may go on."""
    count = 0
    def at(self, request):
        self.count += 1
        if self.count == 3 and not (HERE / "go").exists():
            note("holding", os.getpid())
            until((HERE / "go").exists)
'''


@pytest.fixture(scope="module")
def cluster():
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ["RAY_AUTH_MODE"] = "disabled"  # a token of this user may lie in ~/.ray
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    found.nodes = [found.add_node(num_cpus=2) for _ in range(2)]
    yield found
    found.shutdown()
    del os.environ["RAY_AUTH_MODE"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "holds.py").write_text(HOLDS)
    return write(tmp_path, monkeypatch)


def started(model, out, *more):
    command = [sys.executable, "-m", "kshot", "run", "-m", model, "-d", "capitals.py:Capitals", "--dataset-path", "120"]
    command += ["--out", out, "--no-report", *map(str, more)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ended(process):
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return said


def test_a_node_is_lost_and_another_joins(cluster, folder):
    (folder / "go").write_text("")
    ended(started("holds.py:Holds", "plain"))
    for name in ("go", "asked", "pids"):
        (folder / name).unlink()
    process = started("holds.py:Holds", "pooled", "--workers", 6, "--ray", cluster.address)
    wait_until(lambda: len(set(lines(folder / "holding"))) == 6, "six actors do not work at once", 240)
    cluster.remove_node(cluster.nodes.pop())
    cluster.nodes.append(cluster.add_node(num_cpus=2))
    (folder / "go").write_text("")
    said = ended(process)
    assert said.count("died and starts again") == 2, said
    assert same_files(folder / "plain", folder / "pooled")
    assert len(answered(folder / "pooled")) == len(set(answered(folder / "pooled"))) == 120
    assert len(lines(folder / "asked")) <= 120 + asked_again(said), "only what the dead had is asked again"
    wait_until(lambda: not [pid for pid in pids(folder) if is_alive(pid)], "an actor is left")


def test_one_of_four_actors_is_killed(cluster, folder):
    (folder / "killed").write_text("")
    ended(started("world.py:DiesOnce", "plain"))
    for name in ("killed", "pids", "asked"):
        (folder / name).unlink()
    process = started("world.py:DiesOnce", "pooled", "--workers", 4, "--ray", cluster.address)
    said = ended(process)
    assert (folder / "killed").exists()
    assert said.count("died and starts again") == 1, said
    assert same_files(folder / "plain", folder / "pooled")
    assert len(answered(folder / "pooled")) == len(set(answered(folder / "pooled"))) == 120
    assert len(lines(folder / "asked")) <= 120 + asked_again(said), "only what the dead had is asked again"
    wait_until(lambda: not [pid for pid in pids(folder) if is_alive(pid)], "an actor is left")


def test_a_request_that_kills_its_actors_fails_alone(cluster, folder):
    process = started("world.py:Killer", "run", "--workers", 2, "--ray", cluster.address)
    process.communicate(timeout=300)
    rows = [json.loads(line) for line in (folder / "run" / "samples.jsonl").read_text().splitlines()]
    assert len(rows) == 120
    assert sum("worker_died" in json.dumps(row) for row in rows) == 1
    assert len(lines(folder / "kills")) == 3


def test_the_run_is_killed_and_its_actors_end(cluster, folder):
    process = started("world.py:Waits", "run", "--workers", 2, "--ray", cluster.address)
    wait_until(lambda: len(set(lines(folder / "computing"))) == 2, "no actor computes", 240)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    wait_until(lambda: not [pid for pid in pids(folder) if is_alive(pid)], "an actor is left", 240)


def test_the_run_is_killed_and_resumed(cluster, folder, monkeypatch):
    ended(started("world.py:Noting", "plain"))
    (folder / "asked").unlink()
    pool = ("--workers", 2, "--ray", cluster.address)
    monkeypatch.setenv("KSHOT_KILL_POINT", "journal.written 30")
    process = started("world.py:Noting", "pooled", *pool)
    process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL
    monkeypatch.delenv("KSHOT_KILL_POINT")
    wait_until(lambda: not [pid for pid in pids(folder) if is_alive(pid)], "an actor is left", 240)
    done = answered(folder / "pooled")
    assert 30 <= len(done) < 120
    (folder / "asked").unlink()
    ended(started("world.py:Noting", "pooled", *pool))
    assert not set(done) & set(lines(folder / "asked")), "what was answered is not asked again"
    assert len(done) + len(lines(folder / "asked")) == 120
    assert same_files(folder / "plain", folder / "pooled")


@pytest.mark.parametrize("end", [None, signal.SIGTERM, signal.SIGKILL], ids=["done", "SIGTERM", "SIGKILL"])
def test_what_a_model_has_started_ends_with_its_actor(cluster, folder, end, default_signals):
    model = "world.py:Parent" if end is None else "world.py:ParentWaits"
    process = started(model, "run", "--workers", 2, "--ray", cluster.address)
    if end is not None:
        wait_until(lambda: len(set(lines(folder / "computing"))) == 2, "no two actors compute", 240)
        process.send_signal(end)
    process.communicate(timeout=300)
    assert process.returncode == {None: 0, signal.SIGTERM: 143, signal.SIGKILL: -9}[end]
    assert len(set(pids(folder))) >= 2, "an actor and its child"
    wait_until(lambda: not [pid for pid in pids(folder) if is_alive(pid)], "a process is left", 60)


def test_a_worker_that_waits_for_a_gpu_says_so(cluster, folder, default_signals):
    process = started("world.py:Noting", "run", "--workers", 1, "--ray", cluster.address, "--gpus-per-worker", 1)
    said = ""
    for line in process.stderr:
        said += line
        if "waits for" in line:
            break
    assert "worker 1 of 1 waits for 1 CPU and 1 GPU; the cluster has" in said, said
    assert "0 GPU (0 free)" in said
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=300)
    assert process.returncode == 130
    assert "Traceback" not in rest


def test_a_worker_that_no_machine_has_room_for_says_so(cluster, folder):
    """Two machines with a GPU each have two GPUs, and no worker that needs two finds them."""
    machines = [cluster.add_node(num_cpus=1, num_gpus=1) for _ in range(2)]
    process = started("world.py:Noting", "run", "--workers", 1, "--ray", cluster.address, "--gpus-per-worker", 2)
    try:
        said = next(line for line in process.stderr if "waits for" in line)
        assert "waits for 1 CPU and 2 GPU; the cluster has 8 CPU (8 free), 2 GPU (2 free), but no machine has" in said
        machines.append(cluster.add_node(num_cpus=1, num_gpus=2))
        ended(process)
    finally:
        process.kill()
        process.communicate()
        for machine in machines:
            cluster.remove_node(machine)


def test_an_index_is_built_by_actors(cluster, tmp_path):
    book = book_of_lines(tmp_path, 17_000)  # three shards
    for name, more in (("plain", ()), ("pooled", ("--workers", "2", "--ray", cluster.address))):
        environment = {**os.environ, "KSHOT_CACHE": str(tmp_path / name / "cache")}
        found = kshot_process(*book, "--out", f"{name}/run", *more, cwd=tmp_path, env=environment)
        assert found.code == 0, found.err
    plain, pooled = (index_files(tmp_path / name / "cache" / "indexes") for name in ("plain", "pooled"))
    assert plain == pooled
    assert same_files(tmp_path / "plain" / "run", tmp_path / "pooled" / "run")


@pytest.fixture
def marked(folder, monkeypatch):
    """Processes that a run has started, and all that these have: they inherit a variable."""
    mark = f"KSHOT_TEST_MARK={folder}"
    monkeypatch.setenv(*mark.split("=", 1))

    def living():
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                environment = (process / "environ").read_bytes().decode("utf-8", "replace")
            except OSError:  # it has ended, or belongs to somebody else
                continue
            if mark in environment.split("\0") and int(process.name) != os.getpid():
                found.append(int(process.name))
        return [pid for pid in found if is_alive(pid)]

    return living


def listeners(pids):
    """The addresses and ports at which processes listen, with the first word of their command, as the kernel has them."""
    found = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                host, port = fields[1].split(":")
                found[f"socket:[{fields[9]}]"] = host, int(port, 16)
    for pid in pids:
        for file in Path(f"/proc/{pid}/fd").glob("*"):
            with suppress(OSError):
                if (name := str(file.readlink())) in found:
                    yield Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode(), *found[name]


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}
"""127.0.0.1 in the tables of the kernel, also as an address of version 6."""


def check_alone(pids):
    """Ray listens on loopback alone, and one who does not know the token of the cluster is refused."""
    listening = list(listeners(pids))
    assert {host for _, host, _ in listening} <= LOOPBACK
    [port] = [port for command, _, port in listening if command.endswith("gcs_server")]
    code = f"import ray; ray.init('127.0.0.1:{port}', log_to_driver=False)"
    environment = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_gcs_rpc_server_reconnect_timeout_s": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    ) as intruder:
        assert any("InvalidAuthToken" in line for line in intruder.stderr)
        intruder.kill()


@pytest.mark.parametrize(
    ("end", "address"),
    [(None, ("local",)), (signal.SIGINT, ("local",)), (signal.SIGKILL, ())],
    ids=["done", "Ctrl-C", "SIGKILL"],
)
def test_a_cluster_that_was_started_for_a_run_is_for_it_alone_and_ends_with_it(
    folder, marked, end, address, default_signals, monkeypatch
):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    sessions = Path("/tmp/ray")
    shared, before = unused_shared_memory(), set(sessions.glob("*"))
    process = started("world.py:Noting" if end is None else "world.py:Waits", "run", "--workers", 2, "--ray", *address)
    if end is None:
        assert "died" not in ended(process)
    else:
        wait_until(lambda: lines(folder / "computing"), "no actor computes", 240)
        if sys.platform == "linux":  # it reads /proc
            check_alone(marked())
        process.send_signal(end)
        said = process.communicate(timeout=300)[1]
        assert process.returncode == (130 if end == signal.SIGINT else -end)
        assert "Traceback" not in said
    wait_until(lambda: not marked(), "Ray is left")
    wait_until(lambda: unused_shared_memory() <= shared, "shared memory is left")
    if end != signal.SIGKILL:
        own = [each for each in set(sessions.glob("session_*")) - before if each.name.endswith(f"_{process.pid}")]
        assert own, "Ray has no folder"
        assert not [path for path in own[0].rglob("*") if path.is_socket()]


@pytest.mark.parametrize("how", ["stopped", "its head is killed"])
def test_a_cluster_that_ends_is_named_as_the_reason(folder, marked, how, monkeypatch, default_signals):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "5")
    monkeypatch.setenv("RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S", "1")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", "--include-dashboard=false"]
    start += ["--node-ip-address=127.0.0.1", f"--port={port}", "--num-cpus=1"]
    try:
        cluster = subprocess.Popen(start, stdout=subprocess.PIPE, text=True)
        assert any("Ray runtime started" in line for line in cluster.stdout)
        process = started("world.py:Waits", "run", "--workers", 1, "--ray", f"127.0.0.1:{port}")
        wait_until(lambda: lines(folder / "computing"), "no actor computes", 240)
        if how == "stopped":
            cluster.terminate()
        else:
            [head] = {pid for pid in marked() if b"gcs_server\0" in Path(f"/proc/{pid}/cmdline").read_bytes()}
            os.kill(head, signal.SIGKILL)
        said = process.communicate(timeout=240)[1]
        assert process.returncode == 2, said
        assert "the Ray cluster has ended" in said, said
        assert "Traceback" not in said
        assert "sys.exit" not in said
    finally:
        for pid in marked():
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not marked(), "Ray is left")


@pytest.mark.parametrize("named", ["option", "RAY_ADDRESS"])
def test_an_address_where_nothing_listens_is_told_at_once(folder, monkeypatch, named):
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        if named == "RAY_ADDRESS":
            monkeypatch.setenv(named, address)
        where = f"--ray {address}" if named == "option" else f"RAY_ADDRESS={address}"
        with pytest.raises(KshotError, match=rf"^{where}: there is no Ray cluster: Connection refused"):
            kshot.evaluate("embedded", "capitals.py:Cities", workers=2, ray=address if named == "option" else "auto")


def test_a_ray_without_tokens_is_refused(folder, monkeypatch):
    import ray._raylet

    monkeypatch.delattr(ray._raylet, "AuthenticationTokenLoader")
    with pytest.raises(KshotError, match=r"^--ray: Ray [\d.]+ has no tokens, .*pip install -U 'kshot\[ray\]'"):
        kshot.evaluate("embedded", "capitals.py:Cities", workers=2, ray="local")


def test_files_travel_to_other_machines(tmp_path, monkeypatch):
    """A copy is opened where the file itself is not, under the same name and fingerprint, with its neighbours."""
    from kshot.backends import open_model
    from kshot.backends.pool.model import TravellingFiles, open_spec

    (here := tmp_path / "here").mkdir()
    (elsewhere := tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("KSHOT_CACHE", str(elsewhere))
    monkeypatch.chdir(here)
    Path("pool_neighbour.py").write_text("SUFFIX = '!'\n")
    Path("pool_talker.py").write_text(
        "from pool_neighbour import SUFFIX\ndef talk(prompt, end: str = ''):\n    return prompt + SUFFIX + end\n"
    )
    spec = "pool_talker.py:talk,end=?"
    job = partial(open_spec, spec, {}, TravellingFiles.of(spec, {}))
    plain = open_model(spec)
    (expected_name, expected) = (plain.name, plain.fingerprint)
    for file in here.glob("*.py"):
        file.unlink()
    opened = job()
    assert (opened.facts.name, opened.facts.fingerprint) == (expected_name, expected)
    assert {path.name for path in elsewhere.glob("plugins/*/*")} == {"pool_neighbour.py", "pool_talker.py"}
    (shut := tmp_path / "shut").write_text("no folder")
    monkeypatch.setenv("KSHOT_CACHE", str(shut))
    with pytest.raises(DataError, match=r"the cache cannot be written: .*Set KSHOT_CACHE"):
        job()


def test_a_device_map_travels_to_other_machines(tmp_path, monkeypatch):
    from kshot.backends.pool.model import TravellingFiles

    (here := tmp_path / "here").mkdir()
    monkeypatch.setenv("KSHOT_CACHE", str(tmp_path / "elsewhere"))
    monkeypatch.chdir(here)
    Path("map.json").write_text('{"": "cpu"}')
    Path("auto").write_text("a file that is not meant")
    for spec, options in (("hf:model", {"device_map": "map.json"}), ("hf:model,device_map=map.json", {})):
        files = TravellingFiles.of(spec, options)
        assert files.placed(spec, options) == (spec, options), "it is here"
        Path("map.json").rename("away")
        placed, changed = files.placed(spec, options)
        found = changed.get("device_map") or placed.partition("device_map=")[2]
        assert Path(found).read_text() == '{"": "cpu"}'
        Path("away").rename("map.json")
    for given in ("auto", {"": 0}):
        assert TravellingFiles.of("hf:model", {"device_map": given}) == TravellingFiles()
        assert TravellingFiles().placed("hf:model", {"device_map": given}) == ("hf:model", {"device_map": given})
