"""An HTTP server for tests, in a thread of this process: a function answers, and replies may be broken or late."""

import asyncio
import inspect
import json
import math
import re
import threading
import time
from dataclasses import dataclass, field


@dataclass
class Call:
    """One request as the server received it."""

    path: str
    body: dict
    headers: dict
    number: int
    at: float = field(default_factory=time.monotonic)

    @property
    def prompt(self):
        """The text of the prompt, or the last message of the conversation."""
        return self.body["messages"][-1]["content"] if "messages" in self.body else self.body["prompt"]


@dataclass
class Reply:
    """What the server sends, after ``delay`` seconds.

    ``cut_after`` closes the connection after this many bytes of the body (0: before anything is sent).
    """

    body: object
    status: int = 200
    headers: dict = field(default_factory=dict)
    cut_after: int | None = None
    delay: float | None = None


class FakeServer:
    """Serves until the block ends; ``calls`` are all requests, ``max_running`` the most that ran at one time.

    ``answer`` returns a reply, or a coroutine that does, for a server that waits for something.
    """

    def __init__(self, answer, latency=0.0):
        self.answer, self.latency = answer, latency
        self.calls = []
        self._writers = set()
        self.running = self.max_running = 0

    def __enter__(self):
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._listen(0))
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc):
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()

    async def _listen(self, port):
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", port, backlog=1000)

    def die(self):
        """Close the port and drop every connection; call this in an answer, which is then never sent."""
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    def revive(self):
        """Listen at the same port again; any thread may call this."""
        asyncio.run_coroutine_threadsafe(self._listen(self.port), self._loop)

    def call_soon(self, callback):
        """Call something in the server's own thread, such as setting an event for which an answer waits."""
        self._loop.call_soon_threadsafe(callback)

    async def _end(self):
        self._server.close()
        connections = asyncio.all_tasks() - {asyncio.current_task()}
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await asyncio.sleep(0)  # transports close in the next iteration

    def accepted(self):
        """The sockets of the connections that are open now."""
        return [writer.get_extra_info("socket") for writer in list(self._writers)]

    async def _connection(self, reader, writer):
        self._writers.add(writer)
        try:
            while await self._one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _one(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        path = head[0].split()[1]
        headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in head[1:] if line)}
        body = json.loads(await reader.readexactly(int(headers.get("content-length", 0))) or b"{}")
        call = Call(path, body, headers, len(self.calls))
        self.calls.append(call)
        self.running += 1
        self.max_running = max(self.max_running, self.running)
        reply = self.answer(call)
        if inspect.isawaitable(reply):
            reply = await reply
        reply = reply if isinstance(reply, Reply) else Reply(reply)
        await asyncio.sleep(self.latency if reply.delay is None else reply.delay)
        self.running -= 1
        return await self._send(reply, writer)

    async def _send(self, reply, writer):
        if reply.cut_after == 0:
            return False
        data = reply.body.encode() if isinstance(reply.body, str) else reply.body
        data = data if isinstance(data, bytes) else json.dumps(data).encode()
        lines = [f"HTTP/1.1 {reply.status} X", f"content-length: {len(data)}", "content-type: application/json"]
        lines += [f"{k}: {v}" for k, v in reply.headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + data[: reply.cut_after])
        await writer.drain()
        return reply.cut_after is None


# ---- answers in OpenAI's form ----


def chat(text, stop_reason="stop", usage=(10, 2), **message):
    """Return a chat reply."""
    message = {"role": "assistant", "content": text, **message}
    counts = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return {"choices": [{"index": 0, "message": message, "finish_reason": stop_reason}], "usage": counts}


def completion(text, stop_reason="stop", usage=(10, 2), **choice):
    """Return a completions reply."""
    counts = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    return {"choices": [{"index": 0, "text": text, "finish_reason": stop_reason, **choice}], "usage": counts}


def error(status, message, headers=None, **more):
    """Return an error in OpenAI's form."""
    return Reply({"error": {"message": message, **more}}, status, headers or {})


def echo(call):
    """Answer with the prompt itself."""
    text = f"<{call.prompt}>"
    return chat(text) if "messages" in call.body else completion(text)


# ---- a toy model with log-probabilities ----


def tokenised(text):
    """Split a text into words with the space before them, and single other characters."""
    return re.findall(r" ?\w+|\s|[^\w\s]", text)


def logprob(token, position):
    """Return any number that is the same every time."""
    return -0.1 - (sum(map(ord, token)) % 17) / 7 - position / 100


def likeliest(token):
    """Whether the toy model would write this token itself."""
    return len(token) % 2 == 0


def top_lists(tokens, values):
    """Return the lists of likely tokens that some servers give with ``echo``: the token, and a likelier one."""
    pairs = zip(tokens, values, strict=True)
    return {"top_logprobs": [None if p is None else {t: p} if likeliest(t) else {t: p, "x": p / 2} for t, p in pairs]}


def with_logprobs(
    *, apis=("echo", "prompt_logprobs", "top"), zero=True, bos=False, eos=False, tops=None, ranked=False, window=10**6
):
    """Return an answer function with log-probabilities.

    ``apis`` are those that the server offers; ``zero``: it accepts ``max_tokens=0``; ``tops``: its likeliest tokens;
    ``ranked``: it says which tokens of a prompt are the likeliest; ``window``: the most tokens of a prompt.
    """
    listed = tops or {" A": -0.5, "B": -1.5, " C": -2.5}

    def ranks(token):
        return {"rank": 1 if likeliest(token) else 2} if ranked else {}

    def answer(call):
        body = call.body
        if body.get("max_tokens") == 0 and not zero:
            return error(400, "max_tokens must be at least 1")
        if "messages" in body:
            if body.get("logprobs") and "top" in apis:
                shown = [{"token": t, "logprob": p} for t, p in listed.items()]
                reply = chat("A", "length")
                reply["choices"][0]["logprobs"] = {"content": [{"token": "A", "top_logprobs": shown}]}
                return reply
            return chat("The answer is B.")
        own = (["<s>"] if bos else []) + tokenised(body["prompt"]) + (["</s>"] if eos else [])
        if len(own) > window:
            return error(400, f"This model's maximum context length is {window} tokens")
        logprobs = [None, *(logprob(t, i) for i, t in enumerate(own) if i)]
        more = [" yes"] * (body.get("max_tokens") or 0)
        if body.get("echo") and "echo" in apis:
            tokens = own + more
            values = logprobs + [-0.3] * len(more)
            given = {"tokens": tokens, "token_logprobs": values} | (top_lists(tokens, values) if ranked else {})
            return completion("".join(tokens), logprobs=given)
        if "prompt_logprobs" in body and "prompt_logprobs" in apis:
            entries = [
                None if p is None else {str(i): {"logprob": p, "decoded_token": t} | ranks(t)}
                for i, (t, p) in enumerate(zip(own, logprobs, strict=True))
            ]
            return completion(" yes", prompt_logprobs=entries)
        if body.get("logprobs") and not body.get("echo") and "top" in apis:
            return completion(" A", logprobs={"tokens": [" A"], "token_logprobs": [-0.5], "top_logprobs": [listed]})
        return completion(" B")

    return answer


def expected(prompt, continuation, *, bos=False):
    """Return the log-probability that the toy model gives a continuation, and its number of tokens."""
    tokens = (["<s>"] if bos else []) + tokenised(prompt + continuation)
    characters_left, found = len(continuation), []
    for index in range(len(tokens) - 1, -1, -1):
        if characters_left <= 0:
            break
        characters_left -= len(tokens[index])
        if index:
            found.append(logprob(tokens[index], index))
    return math.fsum(found), len(found)
