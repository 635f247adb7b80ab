# SPDX-License-Identifier: MIT
"""A client of Elasticsearch, as far as sending documents takes: templates, indices and bulk.

Four kinds of request are all there is, so it needs no library: the maker's own is of one version of
the server, and refuses the kin that speak the same. A request is tried again, after longer and
longer waits, only where that can help: when the server is overloaded (429), shards or a proxy are
unavailable (502, 503, 504), or a connection breaks. A block, as of an index on a full disk, stays
until somebody lifts it, whatever the status is; so it ends the sending at once. The same holds for
single documents of a bulk request. Every error has the reason that the server gave. Documents have
names of their own, so that a document that is sent twice is stored once.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import http.client
import json
import os
import random
import ssl
import time
import urllib.parse
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from linnapp import __version__
from linnapp.errors import LinnappError
from linnapp.files import AnyPath
from linnapp.insight.calls import TABLES, schemas
from linnapp.insight.query import (
    chunks,
    opened,
    recording,
    recordings,
    session_folder,
)

if TYPE_CHECKING:
    import pyarrow as pa


_TIMEOUT_S = 60.0
_FOR_THE_MOMENT = (408, 429, 502, 503, 504)
_TOO_MANY_REQUESTS = 429
_FORBIDDEN = 403
#: Retrying ends then, also where each attempt takes a minute.
_PATIENCE_S = 300.0
_LONGEST_REASON = 300
#: reasons of documents that one message has
_SHOWN = 3
_BAD_REQUEST = 400
_THERE_ALREADY = 409
_TOO_LARGE = 413
#: waits of 0.5 s, 1 s, ... 30 s, two and a half minutes in all, if nobody says otherwise
_ATTEMPTS = 10
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.5, 30.0
#: composable index templates
_OLDEST = (7, 8)


class ElasticsearchError(LinnappError):
    """A server that is not there, refuses, or is another one."""


class _AgainError(Exception):
    """A request that may succeed later; says why it does not now, and how long to wait at least."""

    def __init__(self, why: str, wait_s: float = 0.0) -> None:
        super().__init__(why)
        self.wait_s = wait_s


class _TooLargeError(Exception):
    """In halves it may go through."""


@dataclasses.dataclass
class Sent:
    """What became of documents."""

    created: int = 0
    #: With the same name, and so sent before.
    there_already: int = 0
    #: How many, by the reason that the server gave.
    refused: Counter[str] = dataclasses.field(default_factory=Counter)

    @property
    def total(self) -> int:
        """Documents of which it is known what became of them."""
        return self.created + self.there_already + self.refused.total()


class Server:
    """A server; of one thread at a time.

    Parameters
    ----------
    url : str
        ``http://host:9200`` or ``https://``; with ``user:password@`` if it must be.
    environment : mapping
        ``ELASTIC_API_KEY``, or ``ELASTIC_PASSWORD`` of the user that the URL names (else
        ``elastic``). None of it is ever shown.

    Attributes
    ----------
    name : str
        The URL without a password.
    is_overheard : bool
        Whether a password is sent to another machine as it stands.
    """

    def __init__(self, url: str, environment: Mapping[str, str] = os.environ) -> None:
        try:
            parts = urllib.parse.urlsplit(url)
            port = parts.port
            # A name that no server can have, letters that no request can: a ValueError, too.
            (parts.hostname or "").encode("idna")
            parts.path.encode("ascii")
        except ValueError as error:
            # Not the URL, which may have a password in it.
            raise ElasticsearchError(f"--elasticsearch: no URL: {error}") from error
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise ElasticsearchError(
                "--elasticsearch: http://HOST:PORT or https://HOST:PORT is wanted, with a path if "
                "the server is behind one"
            )
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        is_secure = parts.scheme == "https"
        self._host, self._path = parts.hostname, parts.path.rstrip("/")
        self._port = port or 9200
        self.name = f"{parts.scheme}://{host}:{self._port}{self._path}"
        self._headers = {"User-Agent": f"linnapp/{__version__}"}
        authorization = _authorization(parts, environment)
        if authorization:
            self._headers["Authorization"] = authorization
        self._has_credentials = bool(authorization)
        is_loopback = parts.hostname == "localhost" or parts.hostname.startswith("127.")
        self.is_overheard = bool(authorization) and not (
            is_secure or is_loopback or parts.hostname == "::1"
        )
        # Checks certificate and name; SSL_CERT_FILE names other authorities.
        self._tls = ssl.create_default_context() if is_secure else None
        self._connection: http.client.HTTPConnection | None = None

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def check(self) -> None:
        """Find out whether it is there, lets us in, and is Elasticsearch or its kin."""
        status, headers, body = self._once("GET", "/")
        said = _parsed(body)
        version = said.get("version")
        number = version.get("number") if isinstance(version, dict) else None
        is_product = headers.get("X-Elastic-Product") == "Elasticsearch"
        # Some servers answer everything but this request.
        may_fail = status not in (*_FOR_THE_MOMENT, 500) or not (is_product or "error" in said)
        self._check_status(status, "GET /", body, may_fail=may_fail)
        if not is_product and not isinstance(number, str):
            raise ElasticsearchError(
                f"{self.name}: somebody answers ({status}), but not as Elasticsearch does"
            )
        if isinstance(number, str) and not _is_new_enough(number, version):
            raise ElasticsearchError(
                f"{self.name}: Elasticsearch {number}; {'.'.join(map(str, _OLDEST))} at least is "
                "needed, which has composable index templates"
            )

    def put(self, path: str, body: Any, *, unless: str | None = None, remedy: str = "") -> None:
        """Make or change something.

        `unless` is the error that says that it is there, `remedy` what to do about a request that
        the server does not take as it is.
        """
        status, answer = self._patiently("PUT", path, json.dumps(body).encode())
        if unless is None or _kind_of_error(answer) != unless:
            if status in (_BAD_REQUEST, _THERE_ALREADY) and remedy:
                raise ElasticsearchError(
                    f"{self.name}: PUT {path}: it answers {status}: {_reason_of(answer)}; {remedy}"
                )
            self._check_status(status, f"PUT {path}", answer)

    def refresh(self, path: str) -> None:
        """Have searches find what was sent."""
        status, answer = self._patiently("POST", path, b"")
        self._check_status(status, f"POST {path}", answer)

    def bulk(self, index: str, lines: list[bytes], sent: Sent) -> None:
        """Send documents, two lines each: what to do, and the document.

        `sent` counts what became of each. Those that it does not count when this raises were not
        sent.
        """
        end = time.monotonic() + _PATIENCE_S
        attempt = 0
        while True:
            attempt += 1
            try:
                lines, why = self._bulk_once(index, lines, sent)
                if not lines:
                    return
                least_s = 0.0
            except _AgainError as error:
                why, least_s = str(error), error.wait_s
            except _TooLargeError:
                half = len(lines) // 4 * 2
                self.bulk(index, lines[:half], sent)
                self.bulk(index, lines[half:], sent)
                return
            if attempt == _ATTEMPTS or time.monotonic() > end:
                raise ElasticsearchError(f"{self.name}: tried {attempt} times: {why}")
            self._wait(attempt - 1, least_s)

    def _bulk_once(self, index: str, lines: list[bytes], sent: Sent) -> tuple[list[bytes], str]:
        """Send lines; returns those that are to be sent again, and why."""
        path = f"/{index}/_bulk?filter_path=errors,error,items.*.status,items.*.error"
        body = b"\n".join(lines) + b"\n"
        status, headers, answer = self._once("POST", path, body, "application/x-ndjson")
        if status == _TOO_LARGE:
            if len(lines) > 2:
                raise _TooLargeError
            sent.refused[f"too large for the server ({status}): {_reason_of(answer)}"] += 1
            return [], ""
        if _may_pass(status, _error_of(answer)):
            raise _AgainError(f"{_reason_of(answer)}; it answers {status}", _retry_after_s(headers))
        self._check_status(status, f"POST /{index}/_bulk", answer)
        items = _parsed(answer).get("items")
        if not isinstance(items, list) or len(items) != len(lines) // 2:
            raise ElasticsearchError(
                f"{self.name}: POST /{index}/_bulk: the answer has no result for each document: "
                f"{_reason_of(answer)}"
            )
        again: list[bytes] = []
        reasons: Counter[str] = Counter()
        blocks: Counter[str] = Counter()
        for k, item in enumerate(items):
            done = next(iter(item.values()), None) if isinstance(item, dict) else None
            done = done if isinstance(done, dict) else {}
            item_status, error = done.get("status", 0), done.get("error")
            reason = _reason(error) if error else f"status {item_status}, without a reason"
            if 200 <= item_status < 300:
                sent.created += 1
            elif item_status == _THERE_ALREADY:
                sent.there_already += 1
            elif _is_block(item_status, error):
                blocks[reason] += 1
            elif _may_pass(item_status, error):
                again += lines[2 * k : 2 * k + 2]
                reasons[reason] += 1
            else:
                sent.refused[reason] += 1
        if blocks:
            raise ElasticsearchError(f"{self.name}: {_counted(blocks)}; {_unblocking(blocks)}")
        return again, _counted(reasons)

    def _patiently(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        end = time.monotonic() + _PATIENCE_S
        attempt = 0
        while True:
            attempt += 1
            is_last = attempt == _ATTEMPTS or time.monotonic() > end
            try:
                status, headers, answer = self._once(method, path, body)
                if is_last or not _may_pass(status, _error_of(answer)):
                    return status, answer
                least_s = _retry_after_s(headers)
            except _AgainError as error:
                if is_last:
                    raise ElasticsearchError(f"{self.name}: {error}") from error
                least_s = error.wait_s
            self._wait(attempt - 1, least_s)

    def _wait(self, attempt: int, least_s: float) -> None:
        seconds = max(min(_FIRST_WAIT_S * 2**attempt, _LONGEST_WAIT_S), least_s)
        # Not all of those that were refused at once come back at once.
        time.sleep(seconds * random.uniform(0.75, 1.25))

    def _once(
        self, method: str, path: str, body: bytes | None = None, kind: str = "application/json"
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        headers = dict(self._headers)
        if body:
            headers["Content-Type"] = kind
        is_first = self._connection is None
        try:
            if self._connection is None:
                self._connection = (
                    http.client.HTTPConnection(self._host, self._port, timeout=_TIMEOUT_S)
                    if self._tls is None
                    else http.client.HTTPSConnection(
                        self._host, self._port, timeout=_TIMEOUT_S, context=self._tls
                    )
                )
            self._connection.request(method, self._path + path, body, headers)
            answer = self._connection.getresponse()
            content = answer.read()
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise ElasticsearchError(
                f"{self.name}: its certificate is not to be trusted: {error.verify_message}; "
                "SSL_CERT_FILE=FILE names the authority that has signed it"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            self.close()
            why = _words(error, is_secure=self._tls is not None)
            if is_first and method == "GET":
                raise ElasticsearchError(f"{self.name}: {why}") from error
            raise _AgainError(why) from error

        if 300 <= answer.status < 400:
            raise ElasticsearchError(
                f"{self.name}: {method} {path.partition('?')[0]}: it answers {answer.status} and "
                f"points to {_printable(answer.headers.get('Location') or 'no other URL')}; name "
                "the URL at which Elasticsearch itself answers"
            )
        return answer.status, answer.headers, content

    def _check_status(
        self, status: int, request: str, body: bytes, *, may_fail: bool = False
    ) -> None:
        if status < 300:
            return
        reason = _reason_of(body)
        if status == 401:
            how = (
                "it refuses the key or the password"
                if self._has_credentials
                else "it wants to know who you are"
            )
            said = f"; it says: {reason}" if _error_of(body) else ""
            raise ElasticsearchError(
                f"{self.name}: {how} (401): set ELASTIC_API_KEY, or ELASTIC_PASSWORD and the user "
                f"in the URL{said}"
            )
        if _is_block(status, _error_of(body)):
            raise ElasticsearchError(
                f"{self.name}: {request}: it answers {status}: {reason}; {_unblocking([reason])}"
            )
        if status == _FORBIDDEN:
            raise ElasticsearchError(
                f"{self.name}: {request}: this user may not do that (403): {reason}; it takes the "
                "cluster's privileges monitor and manage_index_templates, and on linnapp-* manage "
                "and create_doc"
            )
        if not may_fail:
            raise ElasticsearchError(f"{self.name}: {request}: it answers {status}: {reason}")


def _is_block(status: int, error: Any) -> bool:
    """Whether an operator's or the disk's block refuses it, which no retry passes.

    A cluster that has just started blocks everything, too: with status 503, for a moment.
    """
    is_block = isinstance(error, dict) and error.get("type") == "cluster_block_exception"
    return is_block and status in (_FORBIDDEN, _TOO_MANY_REQUESTS)


def _may_pass(status: int, error: Any) -> bool:
    """Whether it is refused for the moment."""
    return status in _FOR_THE_MOMENT and not _is_block(status, error)


def _unblocking(reasons: Iterable[str]) -> str:
    if any("disk usage" in reason or "watermark" in reason for reason in reasons):
        return "make room on the disks of its nodes first"
    return "that block has to be removed first"


def _counted(reasons: Counter[str]) -> str:
    """The most frequent reasons, with the number of documents of each."""
    said = [f"{n} documents: {reason}" for reason, n in reasons.most_common(_SHOWN)]
    if len(reasons) > _SHOWN:
        rest = reasons.total() - sum(n for _, n in reasons.most_common(_SHOWN))
        said.append(f"{rest} documents for other reasons")
    return "; ".join(said)


def _authorization(parts: urllib.parse.SplitResult, environment: Mapping[str, str]) -> str | None:
    key = environment.get("ELASTIC_API_KEY")
    if key:
        key = key.strip()
        if not (key.isascii() and key.isprintable()):
            raise ElasticsearchError("ELASTIC_API_KEY: no key: it has characters that none has")
        return f"ApiKey {key}"
    user = urllib.parse.unquote(parts.username or "")
    password = urllib.parse.unquote(parts.password or "") or environment.get("ELASTIC_PASSWORD", "")
    if not (user or password):
        return None
    pair = f"{user or 'elastic'}:{password}"
    return "Basic " + base64.b64encode(pair.encode(errors="surrogateescape")).decode()


def _is_new_enough(number: str, version: Any) -> bool:
    # OpenSearch counts anew from 1, of Elasticsearch 7.10.
    if isinstance(version, dict) and version.get("distribution") == "opensearch":
        return True
    pair = tuple(int(part) for part in number.split(".")[:2] if part.isdigit())
    return pair >= _OLDEST


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _error_of(body: bytes) -> Any:
    return _parsed(body).get("error")


def _kind_of_error(body: bytes) -> str | None:
    error = _error_of(body)
    return error.get("type") if isinstance(error, dict) else None


def _printable(text: str) -> str:
    """A server's words in one line, without control characters."""
    words = " ".join(text.split())
    return "".join(c if c.isprintable() else "?" for c in words)[:_LONGEST_REASON]


def _reason(error: Any) -> str:
    """Why, in a line: the innermost cause that is told."""
    if not isinstance(error, dict):
        return _printable(str(error or "no reason was given"))
    cause = error
    while isinstance(cause.get("caused_by"), dict):
        cause = cause["caused_by"]
    said = [str(each.get("reason")) for each in (error, cause) if each.get("reason")]
    return _printable(": ".join(dict.fromkeys(said)) or str(error.get("type")))


def _reason_of(body: bytes) -> str:
    error = _error_of(body)
    if error:
        return _reason(error)
    return _printable(body[:_LONGEST_REASON].decode(errors="replace")) or "no reason was given"


def _retry_after_s(headers: http.client.HTTPMessage) -> float:
    said = headers.get("Retry-After", "")
    return min(float(said), 2 * _LONGEST_WAIT_S) if said.isdigit() else 0.0


def _words(error: Exception, *, is_secure: bool) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused: nothing listens there"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError):
        return f"no TLS: {error.reason or error}"
    why = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
    if not is_secure and isinstance(error, ConnectionResetError | http.client.BadStatusLine):
        return f"{why}; if this server speaks TLS, as it does unless told otherwise, name https://"
    return why


INDICES = {table: f"linnapp-{table}" for table in TABLES}
#: documents of one bulk request: half a MiB, about
BATCH = 1000

_KINDS = {"int64": "long", "uint32": "long", "string": "keyword", "bool": "boolean"}
#: A longer one is kept, but not searched for: Lucene takes 32,766 bytes, four a letter at most.
_LONGEST_WORD = 8191

_LINES = """
select string_agg(
  '{{"create":{{"_id":"' || $recording || '-{table}-' || ($first_row + row) || '"}}}}' || chr(10) ||
  to_json(struct_pack("@timestamp" := {timestamp}, recording := $recording, host := $host,
    {columns})),
  chr(10) order by row)
from (select *, row_number() over () - 1 as row from rows)
group by row // {batch} order by row // {batch}
"""
_TIMESTAMP = (
    "strftime(make_timestamp(time_ns // 1000), '%Y-%m-%dT%H:%M:%S.') || "
    "printf('%09d', time_ns % 1000000000) || 'Z'"
)


def _mapping(schema: pa.Schema) -> dict[str, Any]:
    def kind(name: str) -> dict[str, Any]:
        kind = _KINDS[str(schema.field(name).type)]
        return {"type": kind, **({"ignore_above": _LONGEST_WORD} if kind == "keyword" else {})}

    return {
        "@timestamp": {"type": "date_nanos"},
        "recording": {"type": "keyword"},
        "host": {"type": "keyword"},
        **{name: kind(name) for name in schema.names},
    }


def mappings() -> dict[str, dict[str, Any]]:
    """Of each table the fields of its documents, and their types."""
    return {table: _mapping(schema) for table, schema in schemas().items()}


def index_template(table: str) -> dict[str, Any]:
    """How an index of a table's documents is made; a field that is unknown is refused."""
    return {
        "index_patterns": [f"{INDICES[table]}*"],
        # Templates for all indices, of the usual priority 0, give way to it.
        "priority": 200,
        "template": {
            "settings": {
                "index": {
                    "number_of_shards": 1,
                    "auto_expand_replicas": "0-1",
                    "codec": "best_compression",
                    "refresh_interval": "5s",
                }
            },
            "mappings": {"dynamic": "strict", "properties": mappings()[table]},
        },
        "_meta": {"description": "System calls and block I/Os that linnapp watch has recorded"},
    }


def bulk_lines(
    table: str, rows: pa.Table, first_row: int, recording: str, host: str | None
) -> Iterator[str]:
    """Bulk requests of up to `BATCH` rows of a recording, numbered from `first_row`."""
    import duckdb

    columns = ", ".join(f'"{name}" := "{name}"' for name in rows.schema.names)
    with duckdb.connect(":memory:", config={"threads": 1}) as database:
        database.execute("set timezone = 'UTC'")
        database.register("rows", rows)
        result = database.execute(
            _LINES.format(table=table, columns=columns, timestamp=_TIMESTAMP, batch=BATCH),
            {"first_row": first_row, "recording": recording, "host": host},
        )
        while row := result.fetchone():
            yield row[0]


def prepare(server: Server) -> None:
    """Have it know the fields before the first document comes."""
    server.check()
    for table, index in INDICES.items():
        template = index_template(table)
        try:
            server.put(
                f"/_index_template/{index}",
                template,
                remedy=f"it gives the fields of {index} their types: change what it collides with",
            )
        except ElasticsearchError as error:
            if "serverless" not in str(error):
                raise
            del template["template"]["settings"]  # a serverless project has its own
            server.put(f"/_index_template/{index}", template)
        server.put(
            f"/{index}",
            {},
            unless="resource_already_exists_exception",
            remedy=f"documents go to an index of the name {index}: rename what else has this name",
        )


@dataclasses.dataclass
class Outcome:
    """What sending came to."""

    sent: Sent
    #: Rows that were not sent.
    left: int = 0
    #: Why not.
    why: str | None = None

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        sent = {**dataclasses.asdict(self.sent), "refused": dict(self.sent.refused)}
        return {**sent, "left": self.left, "why": self.why}


def send(folder: AnyPath, server: Server, session: str | None = None) -> Outcome:
    """Send what a folder has, or one session of it; ctrl-C ends it."""
    if session is not None:
        folder = session_folder(folder, session)
    with opened(folder):
        folders = recordings(folder)
    said = [(found["recording"], found.get("host")) for found in map(recording, folders)]
    outcome = Outcome(Sent())
    total = 0
    for each, names in zip(folders, said, strict=True):
        for table, first_row, n, read in chunks(each):
            total += n
            if outcome.why is None:
                with _told(outcome):
                    for text in bulk_lines(table, read(), first_row, *names):
                        server.bulk(INDICES[table], text.encode().split(b"\n"), outcome.sent)
    outcome.left = total - outcome.sent.total
    if outcome.why is None:
        with _told(outcome):
            server.refresh(f"/{','.join(INDICES.values())}/_refresh")
    return outcome


@contextlib.contextmanager
def _told(outcome: Outcome) -> Iterator[None]:
    """Have what ends the sending said, instead of raised."""
    try:
        yield
    except (LinnappError, KeyboardInterrupt) as error:
        outcome.why = str(error) or "interrupted"
