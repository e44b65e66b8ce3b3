"""A server with the batch APIs of OpenAI and Anthropic, and the plain ones, in a thread: a test says when batches end."""

import json
import re
import threading
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class BatchServer:
    """``answer(path, body)`` gives the reply to a request, in a batch or alone.

    ``batches`` are by id; ``lines`` of a batch are the submitted requests. ``broken``: how many calls that make a batch
    still do so without a reply.
    """

    def __init__(self, answer):
        self.answer = answer
        self.files, self.batches, self.calls, self.broken = {}, {}, [], 0
        self.lock = threading.Lock()

    def __enter__(self):
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # a reply is sent whole: in two parts, the second waits 40 ms until the first is acknowledged

            def do_GET(self):
                self.reply(*outer.get(self.path, dict(self.headers)))

            def do_POST(self):
                raw = self.rfile.read(int(self.headers["Content-Length"]))
                with outer.lock:
                    status, body = outer.post(self.path, raw, dict(self.headers))
                if status is None:
                    self.close_connection = True
                    self.connection.close()
                else:
                    self.reply(status, body)

            def reply(self, status, body):
                data = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)

    # ---- what a test does ----

    @property
    def submitted(self):
        """The ids of all submitted requests, without the mark of their batch."""
        return [line["custom_id"].rpartition("-")[0] for batch in self.batches.values() for line in batch["lines"]]

    @property
    def open(self):
        return [batch for batch in self.batches.values() if not batch["ended"]]

    def end(self, become=lambda number, body: None, state=None):
        """End all batches. ``become(number, body)`` says what a request becomes instead of an answer.

        A number is the status of an error, with the text of the error; "missing" leaves no trace of it; another text is
        how it ended without being processed.
        """
        for batch in self.open:
            batch["ended"], batch["state"] = True, state or "completed"
            for number, line in enumerate(batch["lines"]):
                body = line.get("body") or line["params"]
                instead = become(number, body)
                reply = self.answer(batch["path"], body) if instead is None else None
                batch["results"].append((line["custom_id"], instead, reply))

    def refuse(self, *errors):
        """Let OpenAI's validation refuse all batches."""
        for batch in self.open:
            batch |= {"ended": True, "state": "failed", "errors": {"object": "list", "data": list(errors)}}

    # ---- HTTP ----

    def post(self, path, raw, headers):
        self.calls.append((path, headers))
        if path == "/v1/files":
            content = re.search(rb'name="file".*?\r\n\r\n(.*)\r\n--', raw, re.DOTALL)[1]
            assert b'name="purpose"\r\n\r\nbatch' in raw
            name = f"file-{len(self.files)}"
            self.files[name] = content
            return 200, {"id": name, "object": "file", "purpose": "batch"}
        body = json.loads(raw)
        if path == "/v1/batches":
            lines = [json.loads(line) for line in self.files[body["input_file_id"]].splitlines()]
            assert {line["url"] for line in lines} == {body["endpoint"]}
            assert {line["method"] for line in lines} == {"POST"}
            assert body["completion_window"] == "24h"
            return self.make("openai", body["endpoint"].removeprefix("/v1"), lines, body["metadata"])
        if path == "/v1/messages/batches":
            return self.make("anthropic", "/messages", body["requests"], {})
        return 200, self.answer(path.removeprefix("/v1"), body)

    def make(self, kind, path, lines, metadata):
        ids = [line["custom_id"] for line in lines]
        assert len(set(ids)) == len(ids)
        assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", each) for each in ids)
        name = f"batch_{len(self.batches)}"
        self.batches[name] = {
            "id": name,
            "kind": kind,
            "path": path,
            "lines": lines,
            "metadata": metadata,
            "results": [],
            "ended": False,
            "state": "in_progress",
            "errors": None,
            "made": datetime.now(timezone.utc),
        }
        if self.broken:
            self.broken -= 1
            return None, None
        return 200, self.shown(name)

    def get(self, path, headers):
        self.calls.append((path, headers))
        place = urlsplit(path)
        parts = place.path.removeprefix("/v1/").split("/")
        if parts[0] == "files":
            return 200, self.openai_file(parts[1])
        if parts[-1] == "batches":
            names = [each for each in reversed(self.batches) if self.batches[each]["kind"] in self.kind(parts)]
            query = parse_qs(place.query)
            after = (query.get("after") or query.get("after_id") or [None])[0]
            names = names[names.index(after) + 1 :] if after else names
            page = names[:2]  # small, so that there are several
            return 200, {"data": [self.shown(each) for each in page], "has_more": len(names) > len(page)}
        if parts[-1] == "results":
            return 200, self.anthropic_results(parts[-2])
        return (
            (200, self.shown(parts[-1]))
            if parts[-1] in self.batches
            else (404, {"error": {"message": "no such batch"}})
        )

    @staticmethod
    def kind(parts):
        return "anthropic" if parts[0] == "messages" else "openai"

    def shown(self, name):
        batch = self.batches[name]
        counts = len(batch["lines"])
        if batch["kind"] == "anthropic":
            key = "succeeded" if batch["ended"] else "processing"
            return {
                "id": name, "type": "message_batch", "processing_status": "ended" if batch["ended"] else "in_progress",
                "created_at": batch["made"].isoformat(), "results_url": "http://elsewhere.example/results",
                "request_counts": {"processing": 0, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0, key: counts},
            }  # fmt: skip
        has = {kind: any(self.is_error(each) == kind for each in batch["results"]) for kind in (False, True)}
        return {
            "id": name,
            "object": "batch",
            "status": batch["state"],
            "errors": batch["errors"],
            "created_at": int(batch["made"].timestamp()),
            "metadata": batch["metadata"],
            "output_file_id": f"out-{name}" if batch["ended"] and has[False] else None,
            "error_file_id": f"err-{name}" if batch["ended"] and has[True] else None,
            "request_counts": {"total": counts, "completed": 0, "failed": 0},
        }

    @staticmethod
    def is_error(result):
        return result[1] is not None

    def openai_file(self, file):
        kind, _, name = file.partition("-")
        lines = []
        for custom_id, instead, reply in self.batches[name]["results"]:
            if self.is_error((custom_id, instead)) != (kind == "err") or instead == "missing":
                continue
            line = {"id": "x", "custom_id": custom_id, "response": None, "error": None}
            if instead is None:
                line["response"] = {"status_code": 200, "request_id": "r", "body": reply}
            elif isinstance(instead, tuple):
                line["response"] = {"status_code": instead[0], "body": {"error": instead[1]}}
            else:
                line["error"] = {"code": instead, "message": f"it is {instead}"}
            lines.append(json.dumps(line))
        return ("\n".join(lines) + "\n").encode()

    def anthropic_results(self, name):
        kinds = {400: "invalid_request_error", 401: "authentication_error", 500: "api_error", 529: "overloaded_error"}
        lines = []
        for custom_id, instead, reply in self.batches[name]["results"]:
            if instead == "missing":
                continue
            if instead is None:
                result = {"type": "succeeded", "message": reply}
            elif isinstance(instead, tuple):
                error = {"type": kinds[instead[0]], **instead[1]}
                result = {"type": "errored", "error": {"type": "error", "error": error}}
            else:
                result = {"type": instead}
            lines.append(json.dumps({"custom_id": custom_id, "result": result}))
        return ("\n".join(lines) + "\n").encode()
