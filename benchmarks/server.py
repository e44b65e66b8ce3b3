"""A model behind a server: what kshot adds to a bare client, beside other harnesses; and how cost grows.

    python benchmarks/server.py [--peers] [--sizes 1000,10000,100000]

The server is a process of its own that answers every request after 50 ms; all clients ask it 2,000 things, 100 at a
time. "kshot" is the asking, every answer journalled; "all of it" a whole run: prompts, scores, intervals, files too.
``--peers`` also measures lm-eval and inspect_ai, in environments under benchmarks/.peers (made when missing; one that
does not install is reported). The second table asks a server without latency through the whole pipeline.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from peers import python_of  # noqa: E402

REQUESTS, TOGETHER, LATENCY = 2000, 100, 0.05
CHAT = {
    "id": "x", "object": "chat.completion", "created": 0, "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "It is 42."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 30, "completion_tokens": 6, "total_tokens": 36},
}  # fmt: skip
TEXT = {
    "id": "x", "object": "text_completion", "created": 0, "model": "m",
    "choices": [{"index": 0, "text": "It is 42.", "finish_reason": "stop", "logprobs": None}],
    "usage": {"prompt_tokens": 30, "completion_tokens": 6, "total_tokens": 36},
}  # fmt: skip


# ---- the server ----


def _http(body: dict) -> bytes:
    data = json.dumps(body).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(data) + data


class Answering(asyncio.Protocol):
    """Reads requests off a connection and answers each after the latency."""

    latency = LATENCY
    replies = (_http(TEXT), _http(CHAT))

    def connection_made(self, transport):
        """Keep the way back."""
        self._transport, self._read, self._loop = transport, b"", asyncio.get_running_loop()

    def data_received(self, data):
        """Answer every whole request."""
        self._read += data
        while (end := self._read.find(b"\r\n\r\n")) >= 0:
            head = self._read[:end].lower()
            at = head.find(b"content-length:")
            size = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._read) < end + 4 + size:
                return
            self._read = self._read[end + 4 + size :]
            reply = self.replies[b"/chat/" in head.split(b"\r\n", 1)[0]]
            if self.latency:
                self._loop.call_later(self.latency, self._transport.write, reply)
            else:
                self._transport.write(reply)


async def serve(latency: float) -> None:
    """Print the port, then answer until killed."""
    Answering.latency = latency
    server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0, backlog=2000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class Server:
    """The server as a process, for as long as the block lasts."""

    def __init__(self, latency: float) -> None:
        self._latency = latency

    def __enter__(self) -> str:
        """Start it and give its address."""
        command = [sys.executable, __file__, "--serve", str(self._latency)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        return f"http://127.0.0.1:{self._process.stdout.readline().strip()}/v1"

    def __exit__(self, *exc: object) -> None:
        """Stop it."""
        self._process.kill()
        self._process.wait()


# ---- the clients, each in a process of its own ----


async def _bare(url: str, count: int) -> None:
    import aiohttp

    numbers = iter(range(count))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=TOGETHER)) as session:

        async def work():
            for i in numbers:
                body = {"model": "m", "messages": [{"role": "user", "content": question(i)}], "max_tokens": 256}
                async with session.post(f"{url}/chat/completions", json=body) as reply:
                    assert json.loads(await reply.read())["choices"]

        await asyncio.gather(*(work() for _ in range(TOGETHER)))


def bare(url: str, count: int) -> None:
    """Ask with the HTTP library that kshot uses, and nothing around it."""
    asyncio.run(_bare(url, count))


def kshot(url: str, count: int) -> None:
    """Ask through the whole pipeline: dataset, engine, journal, scores, files."""
    import kshot as package

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "echo.py").write_text(DATASET)
        found = package.evaluate(
            "openai:m",
            f"{folder}/echo.py:Echo",
            dataset_path=str(count),
            model_type="chat",
            base_url=url,
            max_concurrency=TOGETHER,
            out=f"{folder}/run",
        )
        kept = sum(1 for _ in (Path(folder) / "run" / "journal.jsonl").open())
    assert found.results[0]["n"] == kept == count, found.results


def asking(url: str, count: int) -> None:
    """Ask through the engine, every answer journalled: the part that other harnesses' figures here are of, too."""
    from kshot.backends import open_backend
    from kshot.core.engine import drive
    from kshot.core.records import Generate, Message, Prompt, ask
    from kshot.runs import Journal

    def job(i):
        (reply,) = yield from ask(Generate(Prompt(messages=(Message("user", question(i)),))))
        return reply.text

    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder) / "journal.jsonl")
        backend = open_backend("openai:m", {"base_url": url, "max_concurrency": TOGETHER})
        jobs = ((i, job(i)) for i in range(count))
        assert sum(not outcome.failed for outcome in drive(jobs, {"model": backend}, journal)) == len(journal) == count
        journal.close()


def question(i: int) -> str:
    """Something to ask."""
    return f"Question: what is the number {i} in words and digits?\nAnswer:"


DATASET = (HERE / "engine.py").read_text().split('DATASET = """')[1].split('"""')[0].replace("\\\\n", "\\n")

LM_EVAL = """
import sys, time, resource, json, tempfile, pathlib
url, count = sys.argv[1], int(sys.argv[2])
import lm_eval
from lm_eval.api.task import ConfigurableTask
from lm_eval.models.openai_completions import LocalCompletionsAPI
from lm_eval.api.instance import Instance
model = LocalCompletionsAPI(model="m", base_url=url + "/completions", num_concurrent=100, max_retries=3,
                            tokenizer_backend=None, tokenized_requests=False, batch_size=1)
said = {"until": [], "max_gen_toks": 64}
asked = [Instance("generate_until", {}, (f"Question: what is the number {i} in words?", said), i) for i in range(count)]
began, before = time.perf_counter(), time.process_time()
assert len(model.generate_until(asked)) == count
print(json.dumps([time.perf_counter() - began, time.process_time() - before, 0]))
"""
INSPECT = """
import sys, time, json, os
url, count = sys.argv[1], int(sys.argv[2])
os.environ["OPENAI_API_KEY"] = "none"
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.model import get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate
model = get_model("openai-api/local/m", base_url=url, api_key="none")
task = Task([Sample(f"what is the number {i}?", target="42") for i in range(count)], solver=generate(), scorer=match())
began, before = time.perf_counter(), time.process_time()
(log,) = eval(task, model=model, max_connections=100, display="none", log_dir=sys.argv[3])
assert log.status == "success", log.error
print(json.dumps([time.perf_counter() - began, time.process_time() - before, 0]))
"""
SCRIPTS = {"lm-eval": LM_EVAL, "inspect_ai": INSPECT}


def peer(name: str, url: str, count: int) -> list[float] | str:
    """Measure another harness, or say why not."""
    python = python_of(name)
    if python is None:
        return "does not install"
    with tempfile.TemporaryDirectory() as folder:
        command = [python, "-c", SCRIPTS[name], url, str(count), folder]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder, check=False)
        except subprocess.TimeoutExpired:
            return "took more than 300 s"
    if done.returncode:
        return f"fails: {(done.stderr.strip().splitlines() or ['?'])[-1][:80]}"
    return json.loads(done.stdout.strip().splitlines()[-1])


def own(kind: str, url: str, count: int) -> list[float]:
    """Measure one of ours in a fresh process, after a few requests that load everything."""
    command = [sys.executable, __file__, "--one", kind, url, str(count)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def one(kind: str, url: str, count: int) -> None:
    """Print seconds, CPU seconds and peak MiB."""
    ask = {"bare": bare, "asking": asking, "kshot": kshot}[kind]
    ask(url, 20)
    began, before = time.perf_counter(), time.process_time()
    ask(url, count)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([time.perf_counter() - began, time.process_time() - before, peak]))


# ---- the tables ----


def side_by_side(rounds: int, *, peers: bool) -> None:
    """2,000 requests, 100 at a time, 50 ms each: the median of a few rounds, taken in turn."""
    kinds = {"bare aiohttp": "bare", "kshot": "asking", "kshot, all of it": "kshot"}
    found: dict[str, list[list[float]]] = {name: [] for name in kinds}
    with Server(LATENCY) as url:
        for _ in range(rounds):
            for name, kind in kinds.items():
                found[name].append(own(kind, url, REQUESTS))
        print(f"{REQUESTS} requests, {TOGETHER} at a time, {LATENCY * 1000:.0f} ms each (median of {rounds})")
        print(f"{'client':<16} {'requests/s':>10} {'CPU ms each':>12}")
        for name, times in found.items():
            wall, cpu = (statistics.median(each[i] for each in times) for i in (0, 1))
            print(f"{name:<16} {REQUESTS / wall:>10.0f} {cpu / REQUESTS * 1e3:>12.3f}")
        for name in SCRIPTS if peers else ():
            got = peer(name, url, REQUESTS)
            shown = got if isinstance(got, str) else f"{REQUESTS / got[0]:>10.0f} {got[1] / REQUESTS * 1e3:>12.3f}"
            print(f"{name:<16} {shown}", flush=True)
    bare, asked, whole = (statistics.median(each[0] for each in times) for times in found.values())
    print(f"kshot reaches {bare / asked:.0%} of the bare client, its whole run {bare / whole:.0%}\n")


def growth(sizes: list[int]) -> None:
    """Time and memory by the number of samples, against a server without latency, and a chart of both."""
    print(f"{'samples':>10} {'ms each':>9} {'CPU ms':>8} {'MiB':>6}")
    points = []
    with Server(0.0) as url:
        for size in sizes:
            wall, cpu, peak = own("kshot", url, size)
            points.append((size, wall / size * 1e3, peak))
            print(f"{size:>10} {wall / size * 1e3:>9.3f} {cpu / size * 1e3:>8.3f} {peak:>6.0f}", flush=True)
    for title, column in (("ms a sample", 1), ("peak MiB", 2)):
        most = max(point[column] for point in points)
        print(f"\n{title}")
        for point in points:
            print(f"{point[0]:>10} {'█' * round(40 * point[column] / most):<40} {point[column]:.2f}")


def main() -> None:
    """Measure."""
    if sys.argv[1:2] == ["--serve"]:
        asyncio.run(serve(float(sys.argv[2])))
    elif sys.argv[1:2] == ["--one"]:
        one(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--peers", action="store_true")
        parser.add_argument("--rounds", type=int, default=7)
        parser.add_argument("--sizes", default="1000,10000,100000")
        given = parser.parse_args()
        side_by_side(given.rounds, peers=given.peers)
        sizes = [int(size) for size in given.sizes.split(",") if size]
        if sizes:
            growth(sizes)


if __name__ == "__main__":
    main()
