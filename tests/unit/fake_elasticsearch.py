# SPDX-License-Identifier: MIT
"""A fake Elasticsearch that fails in ways that a real one does not on request."""

from __future__ import annotations

import contextlib
import http.server
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from linnapp.insight import elastic


class FakeServer(http.server.ThreadingHTTPServer):
    """Fake Elasticsearch. Each bulk request consumes one of `faults`, if any is left."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.documents: dict[str, Any] = {}
        #: reports of recordings, in the order in which they came
        self.reports: list[Any] = []
        self.faults: list[Any] = []
        self.seen: list[tuple[str, str]] = []
        self.authorization: set[str | None] = set()
        self.is_elasticsearch = True
        self.root: tuple[int, Any] = (200, {"version": {"number": "8.19.4"}})
        self.largest = 1 << 30
        #: answers to PUT requests by the start of the path
        self.puts: dict[str, list[tuple[int, Any]]] = {}
        #: result of every document of a bulk request
        self.of_each: tuple[int, Any] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeServer

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, content: Any, **headers: str) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        if self.server.is_elasticsearch:
            self.send_header("X-Elastic-Product", "Elasticsearch")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def break_off(self) -> None:
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def read(self) -> bytes:
        self.server.seen.append((self.command, self.path.split("?")[0]))
        self.server.authorization.add(self.headers.get("Authorization"))
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_GET(self) -> None:
        self.read()
        self.answer(*self.server.root)

    def do_PUT(self) -> None:
        body = self.read()
        if self.path.split("?")[0].endswith("_bulk"):
            self.store(body)
            return
        json.loads(body or b"{}")
        for path, answers in self.server.puts.items():
            if self.path.startswith(path) and answers:
                status, content = answers.pop(0)
                self.answer(
                    status, content, **({"Location": "https://x/"} if status == 301 else {})
                )
                return
        self.answer(200, {"acknowledged": True})

    def do_POST(self) -> None:
        self.read()
        self.answer(200, {})

    def store(self, body: bytes) -> None:
        if len(body) > self.server.largest:
            self.answer(413, {})
            return
        if self.path.startswith("/linnapp-recordings/"):
            self.server.reports.append(json.loads(body.split(b"\n")[1]))
            self.answer(200, {"errors": False, "items": [{"create": {"status": 201}}]})
            return
        fault = self.server.faults.pop(0) if self.server.faults else None
        if fault == "break off":
            self.break_off()
            return
        if isinstance(fault, int):
            self.answer(fault, {"error": "busy"}, Retry_After="0")
            return
        lines = body.decode().split("\n")
        assert lines.pop() == ""
        items = []
        for k, (head, document) in enumerate(zip(lines[::2], lines[1::2], strict=True)):
            name = json.loads(head)["create"]["_id"]
            status = 409 if name in self.server.documents else 201
            if isinstance(fault, list) and k in fault:
                status = 429
            if fault == "refuse one" and not k:
                status = 400
            if self.server.of_each is not None:
                refusal, why = self.server.of_each
                items.append({"create": {"status": refusal, "error": why}})
                continue
            if status == 201:
                self.server.documents[name] = json.loads(document)
            error = {"type": "x", "reason": "no", "caused_by": {"reason": "field is a word"}}
            items.append(
                {"create": {"status": status, **({} if status == 201 else {"error": error})}}
            )
        # The client receives no answer and sends the documents again.
        if fault == "break off late":
            self.break_off()
            return
        self.answer(200, {"errors": True, "items": items})


@contextlib.contextmanager
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    """Run a server on loopback, with short pauses between the attempts to reach it."""
    monkeypatch.setattr(elastic, "_FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(elastic, "_LONGEST_PAUSE_S", 0.05)
    for name in ("ELASTIC_API_KEY", "ELASTIC_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    with FakeServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()
