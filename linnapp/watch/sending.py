# SPDX-License-Identifier: MIT
"""Sends what is watched to Elasticsearch, while it is recorded and afterwards.

Recording comes first. Rows are handed over to a thread, and those that find too many waiting are
left out: they are in the tables, and sent from there when the recording has ended. The thread keeps
the interpreter from the recording as little as can be: the documents' text is made by DuckDB, and
the rest of its time it waits for the server.
"""

from __future__ import annotations

import contextlib
import dataclasses
import queue
import threading
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linnapp.errors import LinnappError
from linnapp.files import AnyPath
from linnapp.watch import documents as watch_documents
from linnapp.watch.elasticsearch import GivenUpError, Sent, Server
from linnapp.watch.watched import (
    chunks,
    opened,
    recording,
    recording_name,
    recordings,
    session_folder,
    this_host,
)

if TYPE_CHECKING:
    import pyarrow as pa

#: chunks of up to 65,536 rows, some 20 MiB each
_WAITING = 4
_INTERRUPTED = "interrupted"


def prepare(server: Server) -> None:
    """Have it know the fields before the first document comes."""
    server.check()
    for table, index in watch_documents.INDICES.items():
        template = watch_documents.index_template(table)
        server.put(f"/_index_template/{index}", template)
        if not server.put(f"/{index}", {}, unless="resource_already_exists_exception"):
            # One of an earlier version learns the fields that are new.
            fields = template["template"]["mappings"]["properties"]
            server.put(f"/{index}/_mapping", {"properties": fields})


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


class Sending:
    """Sends rows while they are recorded; a context, which ends it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._queue: queue.Queue[tuple[str, str, int, pa.Table] | None] = queue.Queue(_WAITING)
        self._sent = Sent()
        self._done: set[tuple[str, int]] = set()
        self._host = this_host()
        self._thread = threading.Thread(target=self._send, name="elasticsearch", daemon=True)

    def __enter__(self) -> Sending:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.given_up.set()
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(None)

    def offer(self, recording: str, table: str, first_row: int, rows: pa.Table) -> None:
        """Send rows if there is time for it; never waits. See `linnapp.watch.watched.OnRows`."""
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait((recording, table, first_row, rows))

    def finish(self, folder: AnyPath) -> Outcome:
        """Send what is left of the recording, which is now in a folder; ctrl-C ends it."""
        why = None
        try:
            self._queue.put(None)
            self._thread.join()
        except KeyboardInterrupt:
            why = _INTERRUPTED
        return _sent_from([Path(folder)], self._server, self._sent, self._done, why)

    def _send(self) -> None:
        is_heard = True
        while (offered := self._queue.get()) is not None:
            name, table, first_row, rows = offered
            if not is_heard:
                continue
            try:
                self._sent.add(_send_rows(self._server, table, rows, first_row, name, self._host))
                self._done.add((table, first_row))
            except Exception:
                # Whatever it is, the queue goes on being emptied. It is tried once more when the
                # recording has ended, which says why.
                is_heard = False


def send(folder: AnyPath, server: Server, session: str | None = None) -> Outcome:
    """Send what a folder has, or one session of it."""
    if session is not None:
        folder = session_folder(folder, session)
    with opened(folder):
        folders = recordings(folder)
    for each in folders:
        recording(each)
    return _sent_from(folders, server, Sent(), ())


def _send_rows(
    server: Server,
    table: str,
    rows: pa.Table,
    first_row: int,
    name: str,
    host: str | None,
) -> Sent:
    """Send a chunk, all of it or with an error; what is sent anew after that is there already."""
    sent = Sent()
    for text in watch_documents.bulk_lines(table, rows, first_row, name, host):
        sent.add(server.bulk(watch_documents.INDICES[table], text.encode().split(b"\n")))
    return sent


def _sent_from(
    folders: list[Path],
    server: Server,
    sent: Sent,
    done: Collection[tuple[str, int]],
    why: str | None = None,
) -> Outcome:
    """Send the rows of recordings but those that are done, by table and number of the first.

    With a reason why not, they are only counted.
    """
    outcome = Outcome(sent, why=why)
    for folder in folders:
        name, host = recording_name(folder), recording(folder).get("host")
        for table, first_row, n, read in chunks(folder):
            if (table, first_row) in done:
                continue
            try:
                if outcome.why is None:
                    sent.add(_send_rows(server, table, read(), first_row, name, host))
            except (LinnappError, GivenUpError, KeyboardInterrupt) as error:
                outcome.why = str(error) or _INTERRUPTED
            if outcome.why is not None:
                outcome.left += n
    if outcome.why is None:
        try:
            server.refresh(f"/{','.join(watch_documents.INDICES.values())}/_refresh")
        except (LinnappError, GivenUpError, KeyboardInterrupt) as error:
            outcome.why = str(error) or _INTERRUPTED
    return outcome
