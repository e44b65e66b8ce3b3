"""A model behind a server: kshot beside a bare HTTP client and other harnesses, and time and memory by size.

    python benchmarks/server.py [--peers] [--rounds 7] [--sizes 1000,10000,100000]

The server is a separate process that answers every request after 50 ms. Each client sends 2,000 requests, 100 at a
time. "kshot" sends them through the engine and journals every answer; "kshot, whole run" adds prompts, scores,
intervals and files. ``--peers`` also measures lm-eval and inspect_ai, in environments under benchmarks/.peers, which
are made if they are missing; a peer that does not install is reported.

The second table is about two roles on two servers: a run of 1,000 samples with a judge, 64 requests at a time to each
server, beside the same run on each server alone. The third is about many small tasks: 40 tasks of 50 requests beside
one task of 2,000, where every 25th answer takes 20 times as long. The last table is about whole runs against a server
without latency.
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
from peers import python_of  # noqa: E402 - found by the path above

REQUESTS, CONCURRENCY, LATENCY_SECONDS = 2000, 100, 0.05
JUDGED_SAMPLES, ROLE_SECONDS = 1000, (0.2, 0.4)
SMALL_TASKS, SLOW_EVERY, SLOW_TIMES = 40, 25, 20
CHAT = {
    "id": "x", "object": "chat.completion", "created": 0, "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "It is 42 [[7]]."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 30, "completion_tokens": 6, "total_tokens": 36},
}  # fmt: skip
TEXT = {
    "id": "x", "object": "text_completion", "created": 0, "model": "m",
    "choices": [{"index": 0, "text": "It is 42.", "finish_reason": "stop", "logprobs": None}],
    "usage": {"prompt_tokens": 30, "completion_tokens": 6, "total_tokens": 36},
}  # fmt: skip


# ---- the server ----


def _http_reply(body: dict) -> bytes:
    data = json.dumps(body).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(data) + data


class ServerProtocol(asyncio.Protocol):
    """Reads requests from a connection, and answers each after the latency."""

    latency, slow_every, number = LATENCY_SECONDS, 0, 0
    replies = (_http_reply(TEXT), _http_reply(CHAT))

    def connection_made(self, transport):
        """Start with an empty buffer."""
        self._transport, self._received, self._loop = transport, b"", asyncio.get_running_loop()

    def data_received(self, data):
        """Answer every complete request."""
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = self._received[:end].lower()
            at = head.find(b"content-length:")
            size = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._received) < end + 4 + size:
                return
            self._received = self._received[end + 4 + size :]
            reply = self.replies[b"/chat/" in head.split(b"\r\n", 1)[0]]
            ServerProtocol.number += 1
            slow = self.slow_every and self.number % self.slow_every == 0
            if self.latency:
                self._loop.call_later(self.latency * (SLOW_TIMES if slow else 1), self._transport.write, reply)
            else:
                self._transport.write(reply)


async def serve(latency: float, slow_every: int) -> None:
    """Print the port, then answer until the process is killed."""
    ServerProtocol.latency, ServerProtocol.slow_every = latency, slow_every
    server = await asyncio.get_running_loop().create_server(ServerProtocol, "127.0.0.1", 0, backlog=2000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class Server:
    """The server as a process that runs until the block ends."""

    def __init__(self, latency: float, slow_every: int = 0) -> None:
        self._numbers = [str(latency), str(slow_every)]

    def __enter__(self) -> str:
        """Start the process, and return the server's URL."""
        command = [sys.executable, __file__, "--serve", *self._numbers]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        return f"http://127.0.0.1:{self._process.stdout.readline().strip()}/v1"

    def __exit__(self, *exc: object) -> None:
        """Stop the process."""
        self._process.kill()
        self._process.wait()


# ---- the clients, each in a separate process ----


async def _bare_client(url: str, count: int) -> None:
    import aiohttp

    numbers = iter(range(count))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CONCURRENCY)) as session:

        async def worker():
            for i in numbers:
                body = {"model": "m", "messages": [{"role": "user", "content": question(i)}], "max_tokens": 256}
                async with session.post(f"{url}/chat/completions", json=body) as reply:
                    assert json.loads(await reply.read())["choices"]

        await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))


def bare_client(url: str, count: int) -> None:
    """Send the requests with the HTTP library that kshot uses, and nothing else."""
    asyncio.run(_bare_client(url, count))


def one_role(url: str, count: int) -> None:
    """Send the requests in a whole run at kshot's own concurrency."""
    whole_run(url, count, concurrency=None)


def whole_run(url: str, count: int, concurrency: int | None = CONCURRENCY) -> None:
    """Send the requests in a whole run: dataset, engine, journal, scores, files."""
    import kshot

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "echo.py").write_text(DATASET)
        result = kshot.evaluate(
            "openai:m",
            f"{folder}/echo.py:Echo",
            dataset_path=str(count),
            model_type="chat",
            base_url=url,
            max_concurrency=concurrency,
            out=f"{folder}/run",
        )
        journalled = sum(1 for _ in (Path(folder) / "run" / "journal.jsonl").open())
    assert result.results[0]["n"] == journalled == count, result.results


def judged_run(url: str, count: int) -> None:
    """Send the requests in a whole run with a judge, whose URL follows that of the model after a comma."""
    import kshot

    model, judge = url.split(",")
    with tempfile.TemporaryDirectory() as folder:
        dataset = DATASET.replace("Em()", "GPTEval()").replace("import Em", "import GPTEval")
        (Path(folder) / "echo.py").write_text(dataset)
        result = kshot.evaluate(
            "openai:m",
            f"{folder}/echo.py:Echo",
            judge=f"openai:judge@{judge}",
            dataset_path=str(count),
            model_type="chat",
            base_url=model,
            out=f"{folder}/run",
        )
    assert (result.results[0]["n"], result.results[0]["value"]) == (count, 7.0), result.results


def small_tasks(url: str, count: int, tasks: int = SMALL_TASKS) -> None:
    """Send the requests in a whole run of several tasks."""
    import kshot
    from kshot.core.records import Answers, Generate, Message, Prompt, Sample, ask
    from kshot.core.task import Task
    from kshot.metrics.exact import ExactMatch

    def method(_, prompt):
        (reply,) = yield from ask(Generate(prompt))
        return reply.text

    def prompt(sample, _):
        return Prompt(messages=(Message("user", question(int(sample.id))),))

    each, metrics = max(1, count // tasks), (ExactMatch(),)
    parts = [range(first, first + each) for first in range(0, count, each)]
    made = [
        Task(f"part{at}", [Sample(str(i), {}, Answers(("It is 42 [[7]].",))) for i in part], prompt, method, metrics)
        for at, part in enumerate(parts)
    ]
    with tempfile.TemporaryDirectory() as folder:
        options = {"base_url": url, "max_concurrency": CONCURRENCY, "out": f"{folder}/run"}
        result = kshot.evaluate("openai:m", made, **options)
    assert sum(row["n"] for row in result.results) == count


def one_large_task(url: str, count: int) -> None:
    """Send the requests in a whole run of one task."""
    small_tasks(url, count, 1)


def engine_and_journal(url: str, count: int) -> None:
    """Send the requests through the engine, and journal every answer: the part that is measured of other harnesses."""
    from kshot.backends import open_model
    from kshot.core.engine import drive
    from kshot.core.records import Generate, Message, Prompt, ask
    from kshot.runs import Journal

    def method(i):
        (reply,) = yield from ask(Generate(Prompt(messages=(Message("user", question(i)),))))
        return reply.text

    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder) / "journal.jsonl")
        backend = open_model("openai:m", {"base_url": url, "max_concurrency": CONCURRENCY})
        jobs = ((i, method(i)) for i in range(count))
        assert sum(not outcome.failed for outcome in drive(jobs, {"model": backend}, journal)) == len(journal) == count
        journal.close()


def question(i: int) -> str:
    """Return the text of one prompt."""
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
options = {"until": [], "max_gen_toks": 64}
requests = [
    Instance("generate_until", {}, (f"Question: what is the number {i} in words?", options), i) for i in range(count)
]
began, before = time.perf_counter(), time.process_time()
assert len(model.generate_until(requests)) == count
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


def measured_peer(name: str, url: str, count: int) -> list[float] | str:
    """Measure another harness, or return why that is impossible."""
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


def measured_client(kind: str, url: str, count: int) -> list[float]:
    """Measure one of our clients in a new process."""
    command = [sys.executable, __file__, "--client", kind, url, str(count)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


CLIENTS = {"bare aiohttp": bare_client, "kshot": engine_and_journal, "kshot, whole run": whole_run}
ROLES = {"one role": one_role, "with a judge": judged_run}
PARTS = {"one task": one_large_task, "many tasks": small_tasks}


def run_client(kind: str, url: str, count: int) -> None:
    """Print seconds, CPU seconds and peak MiB, after a few requests that import everything."""
    client = {**CLIENTS, **ROLES, **PARTS}[kind]
    client(url, 20)
    began, before = time.perf_counter(), time.process_time()
    client(url, count)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([time.perf_counter() - began, time.process_time() - before, peak]))


# ---- the tables ----


def side_by_side(rounds: int, *, peers: bool) -> None:
    """Print the medians of a few rounds; the clients take turns in each round."""
    found: dict[str, list[list[float]]] = {name: [] for name in CLIENTS}
    with Server(LATENCY_SECONDS) as url:
        for _ in range(rounds):
            for name in CLIENTS:
                found[name].append(measured_client(name, url, REQUESTS))
        print(
            f"{REQUESTS} requests, {CONCURRENCY} at a time, {LATENCY_SECONDS * 1000:.0f} ms each (median of {rounds})"
        )
        print(f"{'client':<16} {'requests/s':>10} {'CPU ms each':>12}")
        for name, times in found.items():
            wall, cpu = (statistics.median(each[i] for each in times) for i in (0, 1))
            print(f"{name:<16} {REQUESTS / wall:>10.0f} {cpu / REQUESTS * 1e3:>12.3f}")
        for name in SCRIPTS if peers else ():
            got = measured_peer(name, url, REQUESTS)
            shown = got if isinstance(got, str) else f"{REQUESTS / got[0]:>10.0f} {got[1] / REQUESTS * 1e3:>12.3f}"
            print(f"{name:<16} {shown}", flush=True)
    bare, engine, whole = (statistics.median(each[0] for each in times) for times in found.values())
    print(f"kshot reaches {bare / engine:.0%} of the bare client, a whole run {bare / whole:.0%}\n")


def two_roles(rounds: int) -> None:
    """Print how long a run with a judge takes beside each of the two roles alone."""
    quick, slow = ROLE_SECONDS
    print(f"{JUDGED_SAMPLES} samples on two servers, seconds (median of {rounds})")
    print(f"{'model':>8} {'judge':>8} {'model alone':>12} {'judge alone':>12} {'both':>7} {'both / slower':>14}")
    for model_seconds, judge_seconds in ((quick, quick), (quick, slow), (slow, quick)):
        found: list[list[float]] = []
        with Server(model_seconds) as model, Server(judge_seconds) as judge:
            for _ in range(rounds):
                runs = (("one role", model), ("one role", judge), ("with a judge", f"{model},{judge}"))
                found.append([measured_client(kind, url, JUDGED_SAMPLES)[0] for kind, url in runs])
        alone, of_judge, both = (statistics.median(each[i] for each in found) for i in range(3))
        latencies = f"{model_seconds * 1000:>5.0f} ms {judge_seconds * 1000:>5.0f} ms"
        print(
            f"{latencies} {alone:>12.2f} {of_judge:>12.2f} {both:>7.2f} {both / max(alone, of_judge):>12.2f} ×",
            flush=True,
        )
    print()


def many_tasks(rounds: int) -> None:
    """Print how long many small tasks take beside one large one, on a server that answers some requests late."""
    with Server(LATENCY_SECONDS, SLOW_EVERY) as url:
        times = [[measured_client(kind, url, REQUESTS)[0] for kind in PARTS] for _ in range(rounds)]
    large, small = (statistics.median(each[i] for each in times) for i in range(2))
    print(f"{REQUESTS} requests, every {SLOW_EVERY}th takes {SLOW_TIMES} times as long (median of {rounds})")
    print(f"one task {large:.2f} s, {SMALL_TASKS} tasks {small:.2f} s: {small / large:.2f} ×\n", flush=True)


def growth(sizes: list[int]) -> None:
    """Print time and memory by the number of samples, against a server without latency, and charts of both."""
    print(f"{'samples':>10} {'ms each':>9} {'CPU ms':>8} {'MiB':>6}")
    points = []
    with Server(0.0) as url:
        for size in sizes:
            wall, cpu, peak = measured_client("kshot, whole run", url, size)
            points.append((size, wall / size * 1e3, peak))
            print(f"{size:>10} {wall / size * 1e3:>9.3f} {cpu / size * 1e3:>8.3f} {peak:>6.0f}", flush=True)
    for title, column in (("ms per sample", 1), ("peak MiB", 2)):
        largest = max(point[column] for point in points)
        print(f"\n{title}")
        for point in points:
            print(f"{point[0]:>10} {'█' * round(40 * point[column] / largest):<40} {point[column]:.2f}")


def main() -> None:
    """Print the tables, or run the server or one client in this process."""
    if sys.argv[1:2] == ["--serve"]:
        asyncio.run(serve(float(sys.argv[2]), int(sys.argv[3])))
    elif sys.argv[1:2] == ["--client"]:
        run_client(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--peers", action="store_true")
        parser.add_argument("--rounds", type=int, default=7)
        parser.add_argument("--sizes", default="1000,10000,100000")
        given = parser.parse_args()
        side_by_side(given.rounds, peers=given.peers)
        two_roles(min(given.rounds, 3))
        many_tasks(min(given.rounds, 3))
        sizes = [int(size) for size in given.sizes.split(",") if size]
        if sizes:
            growth(sizes)


if __name__ == "__main__":
    main()
