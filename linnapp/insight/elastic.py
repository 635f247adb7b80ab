# SPDX-License-Identifier: MIT
"""Send documents to Elasticsearch, with its official client, until each has a result.

The lines of a request are sent as DuckDB has written them. The client's own
``helpers.streaming_bulk`` handles each document in Python, which takes 7.8 us of CPU time per
document instead of 1.7 us. It also decides by the status alone whether to retry, but a block, for
example of an index on a full disk, has the status of an overload and does not end by itself.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import http.client
import logging
import os
import random
import ssl
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from linnapp import __version__
from linnapp.errors import LinnappError, needs

# Its warnings about each failed request would repeat ours.
logging.getLogger("elastic_transport").setLevel(logging.ERROR)
with needs("sending to Elasticsearch needs its Python client", "'linnapp[watch]'"):
    import elasticsearch

_REQUEST_TIMEOUT_S = 30.0
_TEMPORARY_STATUS = (408, 429, 502, 503, 504)
#: Pauses between attempts double up to the longest pause. No attempt starts after the limit.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 5.0
_RETRY_LIMIT_S = 180.0
_MAX_REASON_LENGTH = 300
#: number of different reasons that one message shows
_MAX_REASONS = 3


class ElasticsearchError(LinnappError):
    """The server cannot be reached, refuses a request, or is not a supported Elasticsearch.

    A later attempt may succeed if `is_temporary`, at the earliest after `pause_s`. A request that
    `is_too_large` may be accepted in parts.
    """

    def __init__(
        self,
        message: str,
        *,
        is_temporary: bool = False,
        is_too_large: bool = False,
        pause_s: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.is_temporary = is_temporary
        self.is_too_large = is_too_large
        self.pause_s = pause_s


@dataclasses.dataclass
class Outcome:
    """Counts of documents by result, and what ended the sending."""

    created: int = 0
    #: documents that an earlier attempt had already stored
    there_already: int = 0
    #: number of refused documents by the server's reason
    refused: Counter[str] = dataclasses.field(default_factory=Counter)
    #: `left`, `why`: number of rows that were not sent, and the reason; None if all were sent
    left: int = 0
    why: str | None = None
    #: percentiles of the time from a call's end until the answer to the request with its document,
    #: in ms, of documents that were sent while they were recorded
    delay_ms: dict[str, float] = dataclasses.field(default_factory=dict)

    @property
    def known(self) -> int:
        """Number of documents with a known result."""
        return self.created + self.there_already + self.refused.total()

    def to_json(self) -> dict[str, Any]:
        """Return all values by name."""
        return {**dataclasses.asdict(self), "refused": dict(self.refused)}

    @contextlib.contextmanager
    def failures(self) -> Iterator[None]:
        """Store what ends the sending instead of raising it."""
        try:
            yield
        except (LinnappError, KeyboardInterrupt) as error:
            self.why = str(error) or "interrupted"


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
        True if credentials are sent to another machine without encryption.
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
        authorization = _authorization(parts, environment)
        is_loopback = parts.hostname in ("localhost", "::1") or parts.hostname.startswith("127.")
        self._has_credentials = bool(authorization)
        self.sends_plain_password = not (self._is_secure or is_loopback) and bool(authorization)
        self.client = elasticsearch.Elasticsearch(
            self.name,
            headers={
                "user-agent": f"linnapp/{__version__}",
                **({"authorization": authorization} if authorization else {}),
            },
            # The default context also honours SSL_CERT_FILE.
            ssl_context=ssl.create_default_context() if self._is_secure else None,
            request_timeout=_REQUEST_TIMEOUT_S,
            max_retries=0,
        )

    def request(
        self,
        request: str,
        send: Callable[[], Any],
        remedy: str = "",
        accepted: tuple[int, str | None] | None = None,
    ) -> Any:
        """Send a request once and return the body of the answer.

        `request` names it in messages. `remedy` is shown if the server finds fault with the
        request itself. Return None if the answer has the status and the type of error in
        `accepted`; None as type stands for any.
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
            is_product = error.meta.headers.get("x-elastic-product") == "Elasticsearch"
            if is_product and accepted in ((error.meta.status, kind), (error.meta.status, None)):
                return None
            raise self._explained(request, error, remedy) from error
        except (elasticsearch.ConnectionError, elasticsearch.ConnectionTimeout) as error:
            cause = _innermost(error)
            if isinstance(cause, ssl.SSLCertVerificationError):
                raise ElasticsearchError(
                    f"{self.name}: its certificate cannot be trusted: {cause.verify_message}; "
                    "SSL_CERT_FILE=FILE names the authority that signed it"
                ) from error
            raise ElasticsearchError(
                f"{self.name}: {self._connection_reason(cause)}", is_temporary=True
            ) from error
        except elasticsearch.TransportError as error:
            raise ElasticsearchError(f"{self.name}: {request}: {_printable(str(error))}") from error

    def check(self) -> None:
        """Raise if the server cannot be reached, refuses the credentials or is not supported."""
        # Elasticsearch without its default modules has no GET /, and answers with 405.
        answer = self.request("GET /", self.client.info, accepted=(405, None)) or {}
        version = str(answer.get("version", {}).get("number", ""))
        major = version.split(".")[0]
        if major.isdigit() and int(major) < 8:
            raise ElasticsearchError(
                f"{self.name}: is Elasticsearch {version}; version 8 or later is needed"
            )

    def bulk(
        self, index: str, lines: bytes, sent: Outcome
    ) -> tuple[bytes, ElasticsearchError | None]:
        """Send documents once, given as two lines each: the action and the document.

        `sent` counts those with a final result. Return the lines of the others, and why they have
        none.
        """
        request = f"PUT /{index}/_bulk"
        answer = self.request(
            request,
            lambda: self.client.bulk(
                index=index,
                operations=lines,  # type: ignore[arg-type]
                filter_path="errors,error,items.*.status,items.*.error",
            ),
        )
        items = answer.get("items") if isinstance(answer, dict) else None
        n = (lines.count(b"\n") + 1) // 2
        if not isinstance(items, list) or len(items) != n:
            raise ElasticsearchError(
                f"{self.name}: {request}: the answer has no result for each document: "
                f"{_reason(answer)}"
            )
        if answer.get("errors") is False:
            sent.created += n
            return b"", None
        split = lines.split(b"\n")
        again: list[bytes] = []
        reasons: Counter[str] = Counter()
        is_blocked = is_temporary = False
        for k, item in enumerate(items):
            result = next(iter(item.values()), None) if isinstance(item, dict) else None
            result = result if isinstance(result, dict) else {}
            status, error = result.get("status", 0), result.get("error")
            reason = _reason(result) if error else f"status {status} without a reason"
            if 200 <= status < 300:
                sent.created += 1
            elif status == 409:
                sent.there_already += 1
            elif status == 400:
                # Only these are faults of the document itself.
                sent.refused[reason] += 1
            else:
                again += split[2 * k : 2 * k + 2]
                reasons[reason] += 1
                is_blocked |= _is_block(status, error)
                is_temporary |= status in _TEMPORARY_STATUS
        if not again:
            return b"", None
        ending = f"; {_unblocking(reasons)}" if is_blocked else ""
        return b"\n".join(again), ElasticsearchError(
            f"{self.name}: {_summary(reasons)}{ending}",
            is_temporary=is_temporary and not is_blocked,
        )

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

    def _explained(
        self, request: str, error: elasticsearch.ApiError, remedy: str
    ) -> ElasticsearchError:
        """Return the error for a refused request, with the server's reason and the remedy."""
        status, details, reason = error.meta.status, _details(error.body), _reason(error.body)
        prefix = f"{self.name}: {request}: status {status}"
        if isinstance(details, dict) and details.get("type") == "media_type_header_exception":
            return ElasticsearchError(f"{self.name}: the server is older than Elasticsearch 8")
        if _is_block(status, details):
            return ElasticsearchError(f"{prefix}: {reason}; {_unblocking([reason])}")
        if status in _TEMPORARY_STATUS:
            wait = error.meta.headers.get("retry-after") or ""
            pause_s = min(float(wait), 2 * _LONGEST_PAUSE_S) if wait.isdigit() else 0.0
            return ElasticsearchError(f"{prefix}: {reason}", is_temporary=True, pause_s=pause_s)
        if status == 413:
            return ElasticsearchError(
                f"too large for the server ({status}): {reason}", is_too_large=True
            )
        if status == 401:
            fault = "refuses the key or the password" if self._has_credentials else "needs a user"
            detail = f": {reason}" if details else ""
            return ElasticsearchError(
                f"{self.name}: the server {fault} (401){detail}; set ELASTIC_API_KEY, or "
                "ELASTIC_PASSWORD and the user in the URL"
            )
        if status == 403:
            return ElasticsearchError(
                f"{self.name}: {request}: this user may not do that (403): {reason}; the user "
                "needs the cluster privileges monitor and manage_index_templates, and manage and "
                "create_doc on linnapp-*"
            )
        if 300 <= status < 400:
            target = _printable(error.meta.headers.get("location") or "no other URL")
            return ElasticsearchError(
                f"{prefix} redirects to {target}; name the URL at which Elasticsearch itself "
                "answers"
            )
        ending = f"; {remedy}" if remedy and status in (400, 409) else ""
        return ElasticsearchError(f"{prefix}: {reason}{ending}")


class Retries:
    """Wait between attempts; raise the error if no further attempt is to be made.

    While `is_live` is set, a program is being recorded: each error is followed by another attempt,
    because the remedy may come meanwhile. Otherwise an error is raised if it is not temporary or
    has lasted for too long. `notify` receives the first error of a series, and its end.
    """

    def __init__(
        self,
        is_live: threading.Event | None = None,
        notify: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._is_live = is_live or threading.Event()
        self._notify = notify
        self._n = 0
        self._since_s = 0.0
        self._has_reported = False

    def wait(self, error: ElasticsearchError) -> None:
        """Wait until the time for another attempt."""
        now_s = time.monotonic()
        self._n += 1
        if self._is_live.is_set():
            # The limit counts from the end of the recording.
            self._since_s = now_s
            if not self._has_reported:
                self._notify(f"{error}; recorded rows wait on the disk")
                self._has_reported = True
        else:
            self._since_s = self._since_s or now_s
            if not error.is_temporary or now_s >= self._since_s + _RETRY_LIMIT_S:
                tried = f"; tried {self._n} times" if self._n > 1 else ""
                raise ElasticsearchError(f"{error}{tried}") from error
        pause_s = max(
            min(_FIRST_PAUSE_S * 2 ** min(self._n - 1, 10), _LONGEST_PAUSE_S), error.pause_s
        )
        # Clients that were refused at the same time do not all return at the same time.
        time.sleep(pause_s * random.uniform(0.75, 1.25))

    def succeeded(self, name: str) -> None:
        """End a series of errors."""
        if self._has_reported:
            self._notify(f"{name}: stores documents again")
        self._n, self._since_s, self._has_reported = 0, 0.0, False


def deliver(server: Server, index: str, lines: bytes, sent: Outcome, retries: Retries) -> None:
    """Send documents until all have a result. If this raises, the others were not stored."""
    while lines:
        try:
            lines, error = server.bulk(index, lines, sent)
        except ElasticsearchError as refusal:
            if refusal.is_too_large:
                split = lines.split(b"\n")
                if len(split) == 2:
                    sent.refused[str(refusal)] += 1
                    return
                half = len(split) // 4 * 2
                deliver(server, index, b"\n".join(split[:half]), sent, retries)
                lines = b"\n".join(split[half:])
                continue
            error = refusal
        if error is None:
            retries.succeeded(server.name)
        else:
            retries.wait(error)


def _details(body: Any) -> Any:
    return body.get("error") if isinstance(body, dict) else None


def _is_block(status: int, error: Any) -> bool:
    """Return true if the request was refused because of a block.

    An operator can set a block, and a full disk causes one. A cluster that has just started also
    blocks all requests, but only temporarily, and with status 503.
    """
    is_block = isinstance(error, dict) and error.get("type") == "cluster_block_exception"
    return is_block and status in (403, 429)


def _unblocking(reasons: Iterable[str]) -> str:
    if any("disk usage" in reason or "watermark" in reason for reason in reasons):
        return "free space on the disks of its nodes first"
    return "remove that block first"


def _summary(reasons: Counter[str]) -> str:
    """Return the most frequent reasons, each with its number of documents."""
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
    """Return a text of the server on one line, without control characters."""
    words = " ".join(text.split())
    return "".join(c if c.isprintable() else "?" for c in words)[:_MAX_REASON_LENGTH]


def _reason(body: Any) -> str:
    """Return the reason of an error and its innermost cause, on one line."""
    error = _details(body)
    if not isinstance(error, dict):
        return _printable(str(error or body or "no reason was given"))
    cause = error
    while isinstance(cause.get("caused_by"), dict):
        cause = cause["caused_by"]
    reasons = [str(each.get("reason")) for each in (error, cause) if each.get("reason")]
    return _printable(": ".join(dict.fromkeys(reasons)) or str(error.get("type")))


def _innermost(error: BaseException) -> BaseException:
    """Return the error of the system that the client's libraries have wrapped."""
    found: BaseException | None = error
    while found is not None:
        error = found
        errors = getattr(error, "errors", ())
        found = errors[0] if errors else error.__cause__ or error.__context__
    return error
