"""Which Ray cluster an address means, and whose clusters are not joined."""

import os
import re
import socket
import subprocess
import sys

import pytest

from kshot.backends.pool.ray_cluster import RayAddress
from kshot.core.errors import BackendError, UsageError


@pytest.mark.parametrize("given", ["local", "auto"])
def test_without_an_address_the_cluster_is_the_run_s_own(given, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert RayAddress.given(given) is None


@pytest.mark.parametrize("value", ["local", "", " "])
def test_a_variable_may_say_local(value, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", value)
    assert RayAddress.given("auto") is None


def test_a_variable_is_used_where_no_address_is_given(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    found = RayAddress.given("auto")
    assert (found.text, found.where) == ("head:6379", "RAY_ADDRESS=head:6379")
    assert RayAddress.given("local") is None
    assert RayAddress.given("other:1").text == "other:1"


@pytest.mark.parametrize(
    ("given", "text", "host", "owner"),
    [
        ("10.0.0.1:6379", "10.0.0.1:6379", "10.0.0.1", ""),
        ("[::1]:6379", "[::1]:6379", "::1", ""),
        ("ray://head:6379", "ray://head:6379", "head", ""),
        ("ann@head:6379", "head:6379", "head", "ann"),
        ("ann@ray://head:6379", "ray://head:6379", "head", "ann"),
        ("1000@head:6379", "head:6379", "head", "1000"),
    ],
)
def test_forms(given, text, host, owner):
    found = RayAddress.given(given)
    assert (found.text, found.host, found.port, found.owner) == (text, host, 6379, owner)


@pytest.mark.parametrize(
    "given",
    [
        *("head", "head:", ":6379", "head:port", "head:65536", "head:123456", "http://head:1", "a b:1", "@head:1"),
        *("a@b@c:1", "head:\u0663", "head:1\n2", "ray://", "/tmp/ray", "Local", "head:-1"),
    ],
)
def test_what_is_no_address_is_refused(given, monkeypatch):
    with pytest.raises(UsageError, match=r"^--ray .*: this is not the address of a Ray cluster\. Write HOST:PORT"):
        RayAddress.given(given)
    monkeypatch.setenv("RAY_ADDRESS", given)
    with pytest.raises(UsageError, match=r"^RAY_ADDRESS=.*: this is not the address of a Ray cluster"):
        RayAddress.given("auto")


def test_nothing_listens():
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(BackendError, match=f"^--ray {address}: there is no Ray cluster: Connection refused. Start"):
            RayAddress.given(address).check()


@pytest.mark.parametrize("host", ["nowhere.invalid", "\u00df" * 70])
def test_a_host_that_does_not_exist(host):
    with pytest.raises(BackendError, match="there is no Ray cluster"):
        RayAddress.given(f"{host}:1").check()


@pytest.fixture(params=["127.0.0.1", "0.0.0.0", "::1", "::"])
def own_listener(request):
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    try:
        listening = socket.create_server((request.param, 0), family=family)
    except OSError:
        pytest.skip(f"no socket can listen at {request.param} here")
    with listening:
        yield "[::1]" if family == socket.AF_INET6 else "127.0.0.1", listening.getsockname()[1]


@pytest.mark.skipif(sys.platform != "linux", reason="who listens is known on Linux alone")
def test_a_cluster_of_this_user_is_joined(own_listener):
    host, port = own_listener
    RayAddress.given(f"{host}:{port}").check()


LISTENS = """
import os, socket, sys
os.setgid(65534); os.setuid(65534)
with socket.create_server((sys.argv[1], 0)) as listening:
    print(listening.getsockname()[1], flush=True)
    sys.stdin.read()
"""


@pytest.fixture(params=["127.0.0.1", "0.0.0.0"])
def foreign_port(request):
    """The port of a server of the user nobody."""
    if not hasattr(os, "getuid") or os.getuid() != 0 or sys.platform != "linux":
        pytest.skip("only root can start a process of another user, and only Linux says who listens")
    process = subprocess.Popen(
        [sys.executable, "-c", LISTENS, request.param], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        yield int(process.stdout.readline())
        process.stdin.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2", "own name"])
def test_a_cluster_of_another_user_is_refused_unless_its_owner_is_named(foreign_port, host):
    host = socket.gethostname() if host == "own name" else host
    address = f"{host}:{foreign_port}"
    try:
        socket.create_connection((host, foreign_port)).close()
    except OSError:
        pytest.skip("this server does not listen there")
    said = "the Ray cluster belongs to nobody, who can run code as you if you join it"
    with pytest.raises(BackendError, match=re.escape(said)):
        RayAddress.given(address).check()
    with pytest.raises(BackendError, match=re.escape(said)):
        RayAddress.given(f"root@{address}").check()
    RayAddress.given(f"nobody@{address}").check()


def test_a_user_without_a_name_is_named_by_its_number(monkeypatch):
    import pwd

    if os.getuid() != 0 or sys.platform != "linux":
        pytest.skip("only root can start a process of another user, and only Linux says who listens")
    process = subprocess.Popen(
        [sys.executable, "-c", LISTENS.replace("65534", "54321"), "127.0.0.1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with pytest.raises(KeyError):
        pwd.getpwuid(54321)
    with process:
        address = f"127.0.0.1:{int(process.stdout.readline())}"
        with pytest.raises(BackendError, match="belongs to 54321, who"):
            RayAddress.given(address).check()
        RayAddress.given(f"54321@{address}").check()
        process.stdin.close()


def test_where_nobody_says_who_listens_the_user_has_to(own_listener, monkeypatch):
    from kshot.backends.pool import ray_cluster

    host, port = own_listener
    monkeypatch.setattr(ray_cluster, "_TABLES", ())
    with pytest.raises(BackendError, match="belongs to an unknown user"):
        RayAddress.given(f"{host}:{port}").check()
    RayAddress.given(f"ann@{host}:{port}").check()
