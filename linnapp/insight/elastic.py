# SPDX-License-Identifier: MIT
"""Send recorded system calls and block I/Os to Elasticsearch, with its official client.

A row of `calls` or of `ios` becomes a document with the columns as fields. Three fields are added:
``@timestamp`` is `time_ns` as a date with nanoseconds, which Kibana needs; ``recording`` names the
recording, and ``host`` the machine. The document's identifier is made of the recording's name and
the row number, so that a document that is sent twice is stored once.

The client sends one request at a time; retrying is done here. The client's own retries and those of
its bulk helpers depend on the status alone, but a block, for example of an index on a full disk,
has the status of an overload and does not end by itself. Only overload (429), unavailable shards or
proxies (502, 503, 504), a request timeout (408) and broken connections are retried, with growing
pauses. The same holds for each document of a bulk request. Every error shows the server's reason.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import http.client
import itertools
import os
import random
import ssl
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from linnapp import __version__
from linnapp.errors import LinnappError, needs
from linnapp.files import AnyPath
from linnapp.insight.calls import TABLES, schemas
from linnapp.insight.query import chunks, opened, recording, recordings, session_folder

with needs("sending to Elasticsearch needs its Python client", "'linnapp[watch]'"):
    import elasticsearch

if TYPE_CHECKING:
    import pyarrow as pa

_REQUEST_TIMEOUT_S = 60.0
_TEMPORARY_STATUS = (408, 429, 502, 503, 504)
#: Pauses between attempts grow from 0.5 s to 30 s, about two and a half minutes in all.
_ATTEMPTS = 10
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
#: No attempt starts later than this, even if each one runs into the request timeout.
_RETRY_LIMIT_S = 300.0
_MAX_REASON_LENGTH = 300
#: number of different reasons that one message shows
_MAX_REASONS = 3


class ElasticsearchError(LinnappError):
    """The server cannot be reached, refuses a request, or is not a supported Elasticsearch."""


class _TemporaryError(Exception):
    """A failure that a later attempt may not have; `pause_s` is the server's minimum pause."""

    def __init__(self, reason: str, pause_s: float = 0.0) -> None:
        super().__init__(reason)
        self.pause_s = pause_s


class _TooLargeError(Exception):
    """A bulk request that the server may accept in parts."""


@dataclasses.dataclass
class Sent:
    """Counts of documents by result."""

    created: int = 0
    #: documents that an earlier attempt had already stored
    there_already: int = 0
    #: number of refused documents by the server's reason
    refused: Counter[str] = dataclasses.field(default_factory=Counter)

    @property
    def total(self) -> int:
        """Number of documents with a known result."""
        return self.created + self.there_already + self.refused.total()


class Server:
    """Connection to one Elasticsearch server; not safe for concurrent use.

    Parameters
    ----------
    url : str
        ``http://HOST:PORT`` or ``https://HOST:PORT``, optionally with ``USER:PASSWORD@``.
    environment : mapping
        ``ELASTIC_API_KEY``, or ``ELASTIC_PASSWORD`` of the URL's user (default ``elastic``).

    Attributes
    ----------
    name : str
        The URL without user and password, for messages.
    sends_plain_password : bool
        Whether credentials are sent to another machine without encryption.
    """

    def __init__(self, url: str, environment: Mapping[str, str] = os.environ) -> None:
        try:
            parts = urllib.parse.urlsplit(url)
            port = parts.port or 9200
            # Both raise a ValueError for a host or path that cannot be sent.
            (parts.hostname or "").encode("idna")
            parts.path.encode("ascii")
        except ValueError as error:
            # The URL may contain a password, so it is not shown.
            raise ElasticsearchError(f"--elasticsearch: not a URL: {error}") from error
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise ElasticsearchError(
                "--elasticsearch: must be http://HOST:PORT or https://HOST:PORT, followed by the "
                "path if the server is behind a proxy"
            )
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self._is_secure = parts.scheme == "https"
        self.name = f"{parts.scheme}://{host}:{port}{parts.path.rstrip('/')}"
        headers = {"user-agent": f"linnapp/{__version__}"}
        authorization = _authorization(parts, environment)
        if authorization:
            headers["authorization"] = authorization
        self._has_credentials = bool(authorization)
        is_loopback = parts.hostname in ("localhost", "::1") or parts.hostname.startswith("127.")
        self.sends_plain_password = not (self._is_secure or is_loopback) and bool(authorization)
        self._client = elasticsearch.Elasticsearch(
            self.name,
            headers=headers,
            # The default context also honours SSL_CERT_FILE.
            ssl_context=ssl.create_default_context() if self._is_secure else None,
            request_timeout=_REQUEST_TIMEOUT_S,
            max_retries=0,
        )

    def check(self) -> None:
        """Raise if the server cannot be reached, refuses the credentials or is not supported."""
        try:
            self._request("GET /", self._client.info)
        except _TemporaryError as error:
            raise ElasticsearchError(f"{self.name}: {error}") from error
        except ElasticsearchError as error:
            # Elasticsearch without its default modules has no GET /.
            if not _is_missing_endpoint(error.__cause__):
                raise

    def put_index_template(self, index: str, template: dict[str, Any]) -> None:
        """Create or replace the template of an index."""
        self._until_done(
            lambda: self._request(
                f"PUT /_index_template/{index}",
                lambda: self._client.indices.put_index_template(name=index, **template),
                f"the template defines the field types of {index}: change what it conflicts with",
            )
        )

    def create_index(self, index: str) -> None:
        """Create an index unless it exists."""
        self._until_done(
            lambda: self._request(
                f"PUT /{index}",
                lambda: self._client.indices.create(index=index),
                f"documents are stored in an index named {index}: rename the conflicting object",
                ignored_error="resource_already_exists_exception",
            )
        )

    def refresh(self, indices: Iterable[str]) -> None:
        """Make the sent documents visible to searches."""
        names = ",".join(indices)
        self._until_done(
            lambda: self._request(
                f"POST /{names}/_refresh", lambda: self._client.indices.refresh(index=names)
            )
        )

    def bulk(self, index: str, lines: list[bytes], sent: Sent) -> None:
        """Send documents given as two lines each, the action and the document.

        `sent` counts the result of each document, also if this raises. Documents without a result
        then were not stored.
        """

        def attempt() -> None:
            nonlocal lines
            try:
                answer = self._request(
                    f"PUT /{index}/_bulk",
                    lambda: self._client.bulk(
                        index=index,
                        # Serialized lines are sent as they are.
                        operations=lines,  # type: ignore[arg-type]
                        filter_path="errors,error,items.*.status,items.*.error",
                    ),
                )
            except _TooLargeError as error:
                if len(lines) == 2:
                    sent.refused[str(error)] += 1
                    return
                half = len(lines) // 4 * 2
                first, lines = lines[:half], lines[half:]
                self.bulk(index, first, sent)
                attempt()
                return
            lines, reasons = self._count_results(index, lines, answer, sent)
            if lines:
                raise _TemporaryError(_summary(reasons))

        self._until_done(attempt)

    def _count_results(
        self, index: str, lines: list[bytes], answer: Any, sent: Sent
    ) -> tuple[list[bytes], Counter[str]]:
        """Count final results. Return the lines to send again and the reasons for that."""
        items = answer.get("items") if isinstance(answer, dict) else None
        if not isinstance(items, list) or len(items) != len(lines) // 2:
            raise ElasticsearchError(
                f"{self.name}: PUT /{index}/_bulk: the answer has no result for each document: "
                f"{_reason(answer)}"
            )
        again: list[bytes] = []
        reasons: Counter[str] = Counter()
        blocks: Counter[str] = Counter()
        for k, item in enumerate(items):
            result = next(iter(item.values()), None) if isinstance(item, dict) else None
            result = result if isinstance(result, dict) else {}
            status, error = result.get("status", 0), result.get("error")
            reason = _reason(result) if error else f"status {status} without a reason"
            if 200 <= status < 300:
                sent.created += 1
            elif status == 409:
                sent.there_already += 1
            elif _is_block(status, error):
                blocks[reason] += 1
            elif status in _TEMPORARY_STATUS:
                again += lines[2 * k : 2 * k + 2]
                reasons[reason] += 1
            else:
                sent.refused[reason] += 1
        if blocks:
            raise ElasticsearchError(f"{self.name}: {_summary(blocks)}; {_unblocking(blocks)}")
        return again, reasons

    def _until_done(self, attempt: Callable[[], object]) -> None:
        """Repeat an attempt with growing pauses while it fails temporarily."""
        end = time.monotonic() + _RETRY_LIMIT_S
        for n in itertools.count(1):
            try:
                attempt()
                return
            except _TemporaryError as error:
                if n == _ATTEMPTS or time.monotonic() > end:
                    raise ElasticsearchError(f"{self.name}: tried {n} times: {error}") from error
                pause_s = max(min(_FIRST_PAUSE_S * 2 ** (n - 1), _LONGEST_PAUSE_S), error.pause_s)
            # Clients that were refused at the same time do not all return at the same time.
            time.sleep(pause_s * random.uniform(0.75, 1.25))

    def _request(
        self,
        request: str,
        send: Callable[[], Any],
        remedy: str = "",
        ignored_error: str | None = None,
    ) -> Any:
        """Send a request once and return the body of the answer.

        `request` names it in messages. `remedy` is shown if the server finds fault with the
        request itself.
        """
        try:
            return send().body
        except elasticsearch.UnsupportedProductError as error:
            raise ElasticsearchError(
                f"{self.name}: the server ({error.meta.status}) is not Elasticsearch 8 or later"
            ) from error
        except elasticsearch.ApiError as error:
            details = _details(error.body)
            kind = details.get("type") if isinstance(details, dict) else None
            if ignored_error is not None and kind == ignored_error:
                return error.body
            raise self._explained(request, error, remedy) from error
        except (elasticsearch.ConnectionError, elasticsearch.ConnectionTimeout) as error:
            cause = _innermost(error)
            if isinstance(cause, ssl.SSLCertVerificationError):
                raise ElasticsearchError(
                    f"{self.name}: its certificate cannot be trusted: {cause.verify_message}; "
                    "SSL_CERT_FILE=FILE names the authority that signed it"
                ) from error
            raise _TemporaryError(self._connection_reason(cause)) from error
        except elasticsearch.TransportError as error:
            raise ElasticsearchError(f"{self.name}: {request}: {_printable(str(error))}") from error

    def _connection_reason(self, cause: BaseException) -> str:
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused: nothing listens there"
        if isinstance(cause, TimeoutError):
            return "no answer in time"
        if isinstance(cause, ssl.SSLError):
            return f"no TLS: {cause.reason or cause}"
        reason = (isinstance(cause, OSError) and cause.strerror) or str(cause)
        if not self._is_secure and isinstance(
            cause, (ConnectionResetError, http.client.HTTPException)
        ):
            return f"{reason}; if this server uses TLS, which is its default, name https://"
        return _printable(reason or type(cause).__name__)

    def _explained(self, request: str, error: elasticsearch.ApiError, remedy: str) -> Exception:
        """The exception for a refused request: temporary, or with the reason and the remedy."""
        status, details, reason = error.meta.status, _details(error.body), _reason(error.body)
        prefix = f"{self.name}: {request}"
        if _is_block(status, details):
            return ElasticsearchError(
                f"{prefix}: status {status}: {reason}; {_unblocking([reason])}"
            )
        if status in _TEMPORARY_STATUS:
            wait = error.meta.headers.get("retry-after") or ""
            pause_s = min(float(wait), 2 * _LONGEST_PAUSE_S) if wait.isdigit() else 0.0
            return _TemporaryError(f"status {status}: {reason}", pause_s)
        if status == 413:
            return _TooLargeError(f"too large for the server ({status}): {reason}")
        if status == 401:
            fault = "refuses the key or the password" if self._has_credentials else "needs a user"
            said = f": {reason}" if details else ""
            return ElasticsearchError(
                f"{self.name}: the server {fault} (401){said}; set ELASTIC_API_KEY, or "
                "ELASTIC_PASSWORD and the user in the URL"
            )
        if status == 403:
            return ElasticsearchError(
                f"{prefix}: this user may not do that (403): {reason}; the user needs the "
                "cluster privileges monitor and manage_index_templates, and manage and "
                "create_doc on linnapp-*"
            )
        if 300 <= status < 400:
            target = _printable(error.meta.headers.get("location") or "no other URL")
            return ElasticsearchError(
                f"{prefix}: status {status} redirects to {target}; name the URL at which "
                "Elasticsearch itself answers"
            )
        ending = f"; {remedy}" if remedy and status in (400, 409) else ""
        return ElasticsearchError(f"{prefix}: status {status}: {reason}{ending}")


def _details(body: Any) -> Any:
    return body.get("error") if isinstance(body, dict) else None


def _is_block(status: int, error: Any) -> bool:
    """Return whether an operator's or a full disk's block refuses the request.

    A cluster that has just started also blocks everything, but with status 503 and temporarily.
    """
    is_block = isinstance(error, dict) and error.get("type") == "cluster_block_exception"
    return is_block and status in (403, 429)


def _is_missing_endpoint(error: BaseException | None) -> bool:
    return (
        isinstance(error, elasticsearch.ApiError)
        and error.meta.status == 405
        and error.meta.headers.get("x-elastic-product") == "Elasticsearch"
    )


def _unblocking(reasons: Iterable[str]) -> str:
    if any("disk usage" in reason or "watermark" in reason for reason in reasons):
        return "free space on the disks of its nodes first"
    return "remove that block first"


def _summary(reasons: Counter[str]) -> str:
    """The most frequent reasons, each with its number of documents."""
    shown = reasons.most_common(_MAX_REASONS)
    texts = [f"{n} documents: {reason}" for reason, n in shown]
    if rest := reasons.total() - sum(n for _, n in shown):
        texts.append(f"{rest} documents for other reasons")
    return "; ".join(texts)


def _authorization(parts: urllib.parse.SplitResult, environment: Mapping[str, str]) -> str | None:
    key = environment.get("ELASTIC_API_KEY", "").strip()
    if key:
        if not (key.isascii() and key.isprintable()):
            raise ElasticsearchError("ELASTIC_API_KEY: contains characters that no key has")
        return f"ApiKey {key}"
    user = urllib.parse.unquote(parts.username or "")
    password = urllib.parse.unquote(parts.password or "") or environment.get("ELASTIC_PASSWORD", "")
    if not (user or password):
        return None
    # The client's own basic_auth cannot encode bytes that are not UTF-8.
    pair = f"{user or 'elastic'}:{password}".encode(errors="surrogateescape")
    return "Basic " + base64.b64encode(pair).decode()


def _printable(text: str) -> str:
    """The server's text on one line without control characters."""
    words = " ".join(text.split())
    return "".join(c if c.isprintable() else "?" for c in words)[:_MAX_REASON_LENGTH]


def _reason(body: Any) -> str:
    """The error's reason and the innermost cause, on one line."""
    error = _details(body)
    if not isinstance(error, dict):
        return _printable(str(error or body or "no reason was given"))
    cause = error
    while isinstance(cause.get("caused_by"), dict):
        cause = cause["caused_by"]
    reasons = [str(each.get("reason")) for each in (error, cause) if each.get("reason")]
    return _printable(": ".join(dict.fromkeys(reasons)) or str(error.get("type")))


def _innermost(error: BaseException) -> BaseException:
    """The system's error that the client's libraries have wrapped."""
    found: BaseException | None = error
    while found is not None:
        error = found
        errors = getattr(error, "errors", ())
        found = errors[0] if errors else error.__cause__ or error.__context__
    return error


INDICES = {table: f"linnapp-{table}" for table in TABLES}
#: documents of one bulk request, about half a MiB
BATCH = 1000

_FIELD_TYPES = {"int64": "long", "uint32": "long", "string": "keyword", "bool": "boolean"}
#: Longer strings are stored but not indexed: Lucene takes 32,766 bytes, up to four per character.
_MAX_INDEXED_LENGTH = 8191

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
    def field(name: str) -> dict[str, Any]:
        kind = _FIELD_TYPES[str(schema.field(name).type)]
        return {
            "type": kind,
            **({"ignore_above": _MAX_INDEXED_LENGTH} if kind == "keyword" else {}),
        }

    return {
        "@timestamp": {"type": "date_nanos"},
        "recording": {"type": "keyword"},
        "host": {"type": "keyword"},
        **{name: field(name) for name in schema.names},
    }


def mappings() -> dict[str, dict[str, Any]]:
    """Return the field types of each table's documents."""
    return {table: _mapping(schema) for table, schema in schemas().items()}


def index_template(table: str) -> dict[str, Any]:
    """Return the index template of a table. Its index refuses documents with other fields."""
    return {
        "index_patterns": [f"{INDICES[table]}*"],
        # Higher than the default 0 of templates for all indices.
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
    """Yield bulk requests of up to `BATCH` rows. The first row has the number `first_row`."""
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
    """Define the indices and their fields, so that the first document finds them."""
    server.check()
    for table, index in INDICES.items():
        template = index_template(table)
        try:
            server.put_index_template(index, template)
        except ElasticsearchError as error:
            if "serverless" not in str(error):
                raise
            # A serverless project does not allow settings of its own.
            del template["template"]["settings"]
            server.put_index_template(index, template)
        server.create_index(index)


@dataclasses.dataclass
class Outcome:
    """Result of sending a folder."""

    sent: Sent
    #: number of rows that were not sent
    left: int = 0
    #: the reason, None if all were sent
    why: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return all counts by name."""
        sent = {**dataclasses.asdict(self.sent), "refused": dict(self.sent.refused)}
        return {**sent, "left": self.left, "why": self.why}


def send(folder: AnyPath, server: Server, session: str | None = None) -> Outcome:
    """Send the recordings of a folder, or one session of it, until done or interrupted."""
    if session is not None:
        folder = session_folder(folder, session)
    with opened(folder):
        folders = recordings(folder)
    names = [(found["recording"], found.get("host")) for found in map(recording, folders)]
    outcome = Outcome(Sent())
    total = 0
    for each, (name, host) in zip(folders, names, strict=True):
        for table, first_row, n, read in chunks(each):
            total += n
            if outcome.why is None:
                with _failure_recorded(outcome):
                    for text in bulk_lines(table, read(), first_row, name, host):
                        server.bulk(INDICES[table], text.encode().split(b"\n"), outcome.sent)
    outcome.left = total - outcome.sent.total
    if outcome.why is None:
        with _failure_recorded(outcome):
            server.refresh(INDICES.values())
    return outcome


@contextlib.contextmanager
def _failure_recorded(outcome: Outcome) -> Iterator[None]:
    """Store what ends the sending in `outcome` instead of raising it."""
    try:
        yield
    except (LinnappError, KeyboardInterrupt) as error:
        outcome.why = str(error) or "interrupted"
