# SPDX-License-Identifier: MIT
"""Send recorded rows to Elasticsearch while the program runs.

All rows pass through files on the disk, the spool. The recording thread writes a file for each set
of rows, and a thread sends the files in order and removes each one when the server has stored its
documents. So memory holds one file's rows at most, however long the server is slow, away or refuses
to store documents, and the recording never waits for it. A file that is sent at once is removed
before the kernel writes it to the drive.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from linnapp.files import AnyPath, os_errors
from linnapp.insight.documents import REPORTS, deliver_rows, refresh, report
from linnapp.insight.elastic import Outcome, Retries, Server

if TYPE_CHECKING:
    import pyarrow as pa

#: time between two reports of dropped data
_REPORT_EVERY_S = 10.0
#: Delays are counted in classes of this width, up to ten minutes.
_DELAY_MS, _DELAY_CLASSES = 5, 120_000


class Live:
    """Context manager that sends tables in a thread. The spool is removed at its end.

    Parameters
    ----------
    server : Server
        A prepared server. Only the thread uses it.
    place : path
        Folder in which the spool is created.
    identity : dict
        The `recording`'s name and the `host`.
    session : str, optional
        Name of the session, for reports.
    notify : callable
        Called with a sentence when the server begins or ceases to fail.
    """

    def __init__(
        self,
        server: Server,
        place: AnyPath,
        identity: Mapping[str, str],
        session: str | None,
        notify: Callable[[str], object],
    ) -> None:
        self._server, self._identity, self._session = server, identity, session
        self._place = Path(place)
        self._rows: Counter[str] = Counter()
        self._outcome = Outcome()
        self._reported_s = float("-inf")
        self._is_recording = threading.Event()
        self._retries = Retries(self._is_recording, notify)
        self._n_files = 0
        #: written files; None ends the thread
        self._files: queue.Queue[Path | None] = queue.Queue()
        self._delays = np.zeros(_DELAY_CLASSES, np.int64)
        self._thread = threading.Thread(target=self._send_files, daemon=True)

    def __enter__(self) -> Live:
        self._spool = Path(tempfile.mkdtemp(prefix=".linnapp-spool-", dir=self._place))
        self._is_recording.set()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_recording.clear()
        with contextlib.suppress(queue.Empty):
            while True:
                self._files.get_nowait()  # Files that are left after an interrupt are not sent.
        self._files.put(None)
        shutil.rmtree(self._spool, ignore_errors=True)

    def put(self, table: str, rows: pa.Table) -> None:
        """Write the next rows of a table to the spool."""
        import pyarrow as pa

        about = {"table": table, "first_row": str(self._rows[table])}
        self._rows[table] += rows.num_rows
        rows = rows.replace_schema_metadata(about)
        path = self._path(self._n_files)
        try:
            options = pa.ipc.IpcWriteOptions(compression="zstd")
            with pa.ipc.new_file(path, rows.schema, options=options) as writer:
                writer.write_table(rows)
        except OSError as error:
            # The Parquet tables still have these rows, so they are counted as not sent.
            path.unlink(missing_ok=True)
            reason = os.strerror(error.errno) if error.errno else str(error)
            self._outcome.why = f"{self._place}: the spool: {reason}"
            return
        self._n_files += 1
        self._files.put(path)

    def report(self, counts: Mapping[str, int], *, at_once: bool = False) -> None:
        """Send what was recorded and dropped until now, unless that was done just before."""
        if at_once or time.monotonic() >= self._reported_s + _REPORT_EVERY_S:
            self._reported_s = time.monotonic()
            if not self._rows[REPORTS]:
                self._rows[REPORTS] = 1  # number 0 is that of `linnapp query --elasticsearch`
            self._count_left()
            self.put(REPORTS, report(self._session, self._rows, self._outcome, counts))

    def finish(self, counts: Mapping[str, int]) -> Outcome:
        """Send the rest, until done, interrupted or the server has failed for too long."""
        self._is_recording.clear()
        with self._outcome.failures():
            self._wait_until_sent()
            self._count_left()
            self.report(counts, at_once=True)
            self._wait_until_sent()
            if self._thread.is_alive():
                refresh(self._server)  # The thread is idle.
        self._count_left()
        if n := int(self._delays.sum()):
            below = np.cumsum(self._delays)
            for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
                at = int(np.searchsorted(below, np.ceil(share * n)))
                self._outcome.delay_ms[name] = float(_DELAY_MS * (at + 1))
        return self._outcome

    def _count_left(self) -> None:
        rows = sum(n for table, n in self._rows.items() if table != REPORTS)
        self._outcome.left = rows - self._outcome.known

    def _path(self, number: int) -> Path:
        return self._spool / f"{number}.arrow"

    def _wait_until_sent(self) -> None:
        # Queue.join() would delay ctrl-C.
        while self._files.unfinished_tasks and self._thread.is_alive():
            self._thread.join(0.05)

    def _send_files(self) -> None:
        with self._outcome.failures(), os_errors(self._spool):
            while (path := self._files.get()) is not None:
                self._send(path)
                self._files.task_done()

    def _send(self, path: Path) -> None:
        import pyarrow as pa

        with pa.ipc.open_file(path) as file:
            rows = file.read_all()
        about = {key.decode(): value.decode() for key, value in rows.schema.metadata.items()}
        table, first_row = about["table"], int(about["first_row"])
        sent = self._outcome if table != REPORTS else Outcome()
        for part in deliver_rows(
            self._server, table, rows, first_row, self._identity, sent, self._retries
        ):
            if table == "calls":
                self._count_delays(part)
        path.unlink()

    def _count_delays(self, calls: pa.Table) -> None:
        ends_ns = calls["time_ns"].to_numpy() + calls["duration_ns"].to_numpy()
        classes = (time.time_ns() - ends_ns) // (_DELAY_MS * 1_000_000)
        classes = np.clip(classes, 0, _DELAY_CLASSES - 1)
        self._delays += np.bincount(classes, minlength=_DELAY_CLASSES)
