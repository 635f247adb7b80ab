# SPDX-License-Identifier: MIT
"""Sends what was watched to Elasticsearch: when it is recorded, the recording is not held up."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from linnapp.errors import LinnappError
from linnapp.files import AnyPath
from linnapp.watch.documents import INDICES, bulk_lines, index_template
from linnapp.watch.elasticsearch import Sent, Server
from linnapp.watch.watched import (
    chunks,
    opened,
    recording,
    recordings,
    session_folder,
)

if TYPE_CHECKING:
    import pyarrow as pa

#: a recording's name, and its machine
Recorded = tuple[str, str | None]


def prepare(server: Server) -> None:
    """Have it know the fields before the first document comes."""
    server.check()
    for table, index in INDICES.items():
        server.put(f"/_index_template/{index}", index_template(table))
        server.put(f"/{index}", {}, unless="resource_already_exists_exception")


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
    for each, names in zip(folders, said, strict=True):
        for table, first_row, n, read in chunks(each):
            if outcome.why is None:
                with _told(outcome):
                    outcome.sent.add(_send_rows(server, table, read(), first_row, names))
            if outcome.why is not None:
                outcome.left += n
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


def _send_rows(server: Server, table: str, rows: pa.Table, first_row: int, said: Recorded) -> Sent:
    """Send a chunk, all of it or with an error; what is sent anew after that is there already."""
    sent = Sent()
    for text in bulk_lines(table, rows, first_row, *said):
        sent.add(server.bulk(INDICES[table], text.encode().split(b"\n")))
    return sent
