"""A server that sends any bytes: each connection gets one raw reply, which may never end."""

import json
import socket
import threading
from contextlib import suppress

GOOD = "good"


class LyingServer:
    """Answers the prompt ``good`` well, and every other one with ``reply``: bytes, or a function that yields bytes."""

    def __init__(self, reply):
        self.reply, self.requests, self._open = reply, [], set()

    def __enter__(self):
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._thread.join(60)

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        self._open.add(connection)
        with suppress(OSError), connection:
            head, body = _request(connection)
            self.requests.append((head, body))
            prompt = body["messages"][-1]["content"] if "messages" in body else body["prompt"]
            reply = http(answer("fine")) if prompt == GOOD else self.reply
            for part in reply() if callable(reply) else [reply]:
                connection.sendall(part)
        self._open.discard(connection)


def _request(connection):
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536) or _gone()
    head, _, rest = received.partition(b"\r\n\r\n")
    size = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
    while len(rest) < size:
        rest += connection.recv(65536) or _gone()
    return head.decode(), json.loads(rest)


def _gone():
    raise OSError("the client is gone")


def head(status=200, *headers):
    """Return the head of a reply."""
    return "\r\n".join([f"HTTP/1.1 {status} X", *headers, "", ""]).encode()


def http(body, status=200, *headers):
    """Return a whole reply, after which the connection closes."""
    data = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    return head(status, f"content-length: {len(data)}", "connection: close", *headers) + data


def answer(content="lie", **more):
    """Return a chat reply in OpenAI's form."""
    usage = {"prompt_tokens": 3, "completion_tokens": 1}
    return {"choices": [{"message": {"content": content}, "finish_reason": "stop"}], "usage": usage} | more
