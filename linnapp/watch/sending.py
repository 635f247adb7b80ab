# SPDX-License-Identifier: MIT
"""Sends what was watched to Elasticsearch: when it is recorded, the recording is not held up."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from linnapp.errors import LinnappError
from linnapp.files import AnyPath
from linnapp.watch.documents import INDICES, bulk_lines, index_template
from linnapp.watch.elasticsearch import ElasticsearchError, Sent, Server
from linnapp.watch.watched import (
    chunks,
    opened,
    recording,
    recordings,
    session_folder,
)


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
