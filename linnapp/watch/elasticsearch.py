# SPDX-License-Identifier: MIT
"""A client of Elasticsearch, as far as sending documents takes: templates, indices and bulk.

Four kinds of request are all there is, so it needs no library: the maker's own is of one version of
the server, and refuses the kin that speak the same. What a server refuses for the moment (429, 503,
a connection that breaks) is tried again, later and later; whole requests as well as the documents
of a bulk request that were refused alone. Documents have names of their own, so that what is sent
twice is there once.
"""

from __future__ import annotations

import base64
import dataclasses
import http.client
import json
import os
import random
import ssl
import time
import urllib.parse
from collections import Counter
from collections.abc import Mapping
from typing import Any

from linnapp import __version__
from linnapp.errors import LinnappError

_TIMEOUT_S = 60.0
_FOR_THE_MOMENT = (408, 429, 502, 503, 504)
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
    """It may go through later; says why not now, and how long to wait at least."""

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

    def add(self, other: Sent) -> None:
        """Count what became of others, too."""
        self.created += other.created
        self.there_already += other.there_already
        self.refused.update(other.refused)


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
        self._check_status(status, body, may_fail=True)
        version = said.get("version")
        number = version.get("number") if isinstance(version, dict) else None
        # Some servers of it answer everything but this one.
        if headers.get("X-Elastic-Product") != "Elasticsearch" and not isinstance(number, str):
            raise ElasticsearchError(
                f"{self.name}: somebody answers ({status}), but not as Elasticsearch does"
            )
        if isinstance(number, str) and not _is_new_enough(number, version):
            raise ElasticsearchError(
                f"{self.name}: Elasticsearch {number}; {'.'.join(map(str, _OLDEST))} at least is "
                "needed, which has composable index templates"
            )

    def put(self, path: str, body: Any, *, unless: str | None = None) -> None:
        """Make or change something; `unless` is the error that says that it is there."""
        status, answer = self._patiently("PUT", path, json.dumps(body).encode())
        if unless is None or _kind_of_error(answer) != unless:
            self._check_status(status, answer)

    def refresh(self, path: str) -> None:
        """Have searches find what was sent."""
        status, answer = self._patiently("POST", path, b"")
        self._check_status(status, answer)

    def bulk(self, index: str, lines: list[bytes]) -> Sent:
        """Send documents, of each two lines, what to do and the document; what became of each."""
        sent = Sent()
        why = "the server is busy"
        for attempt in range(_ATTEMPTS):
            least_s = 0.0
            try:
                lines = self._bulk_once(index, lines, sent)
                if not lines:
                    return sent
            except _AgainError as error:
                why, least_s = str(error), error.wait_s
            except _TooLargeError:
                half = len(lines) // 4 * 2
                for part in (lines[:half], lines[half:]):
                    sent.add(self.bulk(index, part))
                return sent
            if attempt < _ATTEMPTS - 1:
                self._wait(attempt, least_s)
        raise ElasticsearchError(f"{self.name}: tried {_ATTEMPTS} times: {why}")

    def _bulk_once(self, index: str, lines: list[bytes], sent: Sent) -> list[bytes]:
        """Send lines; those are returned that are to be sent again."""
        path = f"/{index}/_bulk?filter_path=errors,items.*.status,items.*.error"
        body = b"\n".join(lines) + b"\n"
        status, headers, answer = self._once("POST", path, body, "application/x-ndjson")
        if status == _TOO_LARGE and len(lines) > 2:
            raise _TooLargeError
        if status in _FOR_THE_MOMENT:
            raise _AgainError(f"it answers {status}", _retry_after_s(headers))
        self._check_status(status, answer)
        said = _parsed(answer)
        n = len(lines) // 2
        items = said.get("items")
        if not isinstance(items, list) or len(items) != n:
            raise ElasticsearchError(f"{self.name}: an answer to a bulk request that is none")
        again: list[bytes] = []
        for k, item in enumerate(items):
            [done] = item.values()
            item_status = done.get("status", 0)
            if 200 <= item_status < 300:
                sent.created += 1
            elif item_status == _THERE_ALREADY:
                sent.there_already += 1
            elif item_status in _FOR_THE_MOMENT:
                again += lines[2 * k : 2 * k + 2]
            else:
                sent.refused[_reason(done.get("error"))] += 1
        return again

    def _patiently(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        for attempt in range(_ATTEMPTS):
            try:
                status, headers, answer = self._once(method, path, body)
                if status not in _FOR_THE_MOMENT or attempt == _ATTEMPTS - 1:
                    return status, answer
                least_s = _retry_after_s(headers)
            except _AgainError as error:
                if attempt == _ATTEMPTS - 1:
                    raise ElasticsearchError(f"{self.name}: {error}") from error
                least_s = error.wait_s
            self._wait(attempt, least_s)
        raise AssertionError

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
            return answer.status, answer.headers, answer.read()
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise ElasticsearchError(
                f"{self.name}: its certificate is not to be trusted: {error.verify_message}; "
                "SSL_CERT_FILE=FILE names the authority that has signed it"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            self.close()
            why = _words(error)
            if is_first and method == "GET":
                raise ElasticsearchError(f"{self.name}: {why}") from error
            raise _AgainError(why) from error

    def _check_status(self, status: int, body: bytes, *, may_fail: bool = False) -> None:
        if status < 300:
            return
        if status == 401:
            how = (
                "it refuses the key or the password"
                if self._has_credentials
                else "it wants to know who you are"
            )
            raise ElasticsearchError(
                f"{self.name}: {how} (401): set ELASTIC_API_KEY, or ELASTIC_PASSWORD and the user "
                "in the URL"
            )
        if status == 403:
            raise ElasticsearchError(
                f"{self.name}: this user may not do that (403): {_reason_of(body)}; it takes the "
                "cluster's privileges monitor and manage_index_templates, and on linnapp-* manage "
                "and create_doc"
            )
        if not may_fail:
            raise ElasticsearchError(f"{self.name}: it answers {status}: {_reason_of(body)}")


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


def _kind_of_error(body: bytes) -> str | None:
    error = _parsed(body).get("error")
    return error.get("type") if isinstance(error, dict) else None


def _reason(error: Any) -> str:
    """Why, in a line: the innermost cause that is told."""
    if not isinstance(error, dict):
        return str(error or "no reason was given")[:300]
    cause = error
    while isinstance(cause.get("caused_by"), dict):
        cause = cause["caused_by"]
    said = [str(each.get("reason")) for each in (error, cause) if each.get("reason")]
    return ": ".join(dict.fromkeys(said))[:300] or str(error.get("type"))


def _reason_of(body: bytes) -> str:
    error = _parsed(body).get("error")
    return _reason(error) if error else body[:200].decode(errors="replace").strip() or "nothing"


def _retry_after_s(headers: http.client.HTTPMessage) -> float:
    said = headers.get("Retry-After", "")
    return min(float(said), 2 * _LONGEST_WAIT_S) if said.isdigit() else 0.0


def _words(error: Exception) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused: nothing listens there"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError):
        return f"no TLS: {error.reason or error}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
