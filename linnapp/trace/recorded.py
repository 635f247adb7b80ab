# SPDX-License-Identifier: MIT
"""Opens a recording of any kind that says how long I/Os took: blktrace, or a log with latencies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from linnapp.errors import TraceError
from linnapp.files import AnyPath
from linnapp.trace import conversion
from linnapp.trace.blktrace import BlktraceReader, is_blktrace
from linnapp.trace.latency_log import LatencyLogReader
from linnapp.trace.text_trace import TextFormat

#: Ends of names that say what kind of file it is, and nothing of the drive.
_SUFFIXES = (".trace", ".csv", ".log", ".txt")

Reader = BlktraceReader | LatencyLogReader


def open_recording(
    trace: AnyPath, *, text_format: TextFormat | None = None, history: int = 4, **options: Any
) -> Reader:
    """A reader of a recording's I/Os with their features and latencies.

    Parameters
    ----------
    trace : path
        A blktrace recording, see :func:`~linnapp.trace.blktrace.trace_files`, or a text trace in a
        format with latencies.
    text_format : TextFormat, optional
        What the trace is, if it is text; found out when not given.
    history : int
        Past reads in the features.
    **options
        Those of :class:`~linnapp.trace.blktrace.BlktraceReader`; for a log only `chunk_ios` means
        something, and `device` must not be given.

    Raises
    ------
    TraceError
        If there is no such trace, or its format has no latencies.
    """
    trace = Path(trace)
    text_format = text_format or _log_format(trace)
    if text_format is None:
        return BlktraceReader(trace, history=history, **options)
    if options.get("device"):
        raise TraceError(f"{trace}: --dev is for blktrace recordings; a log holds one drive")
    chunk = {name: options[name] for name in ("chunk_ios",) if name in options}
    return LatencyLogReader(trace, text_format, history=history, **chunk)


def drive_of(name: str) -> str:
    """A trace's drive: its file name without ``.blk``, ``.blktrace.N`` or the like."""
    name = name.split(".blktrace.")[0].removesuffix(".blk")
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def _log_format(trace: Path) -> TextFormat | None:
    """The format of a text trace; None for what is none, which BlktraceReader reports."""
    if is_blktrace(trace) or not trace.is_file():
        return None
    try:
        name = conversion.detect_format(trace)
    except TraceError:
        return None
    text_format = conversion.TEXT_FORMATS.get(name)
    if text_format is None or not text_format.has_latency:
        raise TraceError(
            f"{trace}: a {name} trace, which does not say how long I/Os took; record the drive "
            "with `linnapp trace`, or replay it (`linnapp convert`, `replayer`) under blktrace"
        )
    return text_format
