# SPDX-License-Identifier: MIT
"""The kernel decides on the same inputs that linnapp derives from the blktrace file."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from linnapp.learn.examples import digits
from linnapp.model import Model
from linnapp.model.engine import infer
from linnapp.trace.blktrace import MERGED, REVOKED, SPLIT, BlktraceReader, IoChunk

pytestmark = pytest.mark.lab

EVENT = re.compile(
    r"linnos_decision: dev=(?P<dev>\S+) sector=(?P<sector>\d+) nr_sector=(?P<nr>\d+) "
    r"pending=(?P<pending>\d+) hist_pending=(?P<hist_pending>[\d,{}x]+) "
    r"hist_latency_us=(?P<hist_latency_us>[\d,{}x]+) "
    r"out_fast=(?P<fast>-?\d+) out_slow=(?P<slow>-?\d+) revoked=(?P<revoked>\d) "
    r"reason=(?P<reason>\S+)"
)

RECORD = """
linnapp generate demo -o /run/tmp/w --drives 3 --duration 4 --seed 7
for d in flash0 flash1 flash2; do
    linnapp upload --model {model} --device /dev/$d --mode {mode}
    # Compare the network's own decisions, without probes.
    echo 1000000000 >/sys/block/$d/linnos/probe_after_us
    echo 1000000000 >/sys/block/$d/linnos/probe_after_revokes
done
cd /sys/kernel/debug/tracing
echo 65536 >buffer_size_kb
echo 1 >events/linnos/linnos_decision/enable
linnapp trace $(echo $LINNOS_DRIVES | tr , ' ') -o $OUT -- replayer --devices $LINNOS_DRIVES \
    --trace /run/tmp/w/flash0.iolog,/run/tmp/w/flash1.iolog,/run/tmp/w/flash2.iolog \
    --policy linnos --prefill none --fit --json $OUT/run.json \
    --force $LINNOS_DRIVES  # do not inspect their contents, which would be recorded
cat trace >$OUT/events.txt
cat per_cpu/cpu0/stats >$OUT/events.stats
for d in flash0 flash1 flash2; do cat /sys/block/$d/dev; done >$OUT/devs
"""


def _numbers(text: str) -> list[int]:
    return [int(number, 0) for number in re.findall(r"0x[0-9a-f]+|\d+", text)]


def _reads(blk: Path) -> IoChunk:
    chunks = [chunk.take(chunk.is_read) for chunk in BlktraceReader(blk)]
    assert len(chunks) == 1, "the test expects a trace of one chunk"
    return chunks[0]


@pytest.mark.parametrize("mode", ["observe", "enforce"])
def test_kernel_and_blktrace_see_the_same(
    boot, tmp_path: Path, queue_model: Path, mode: str
) -> None:
    boot(RECORD.format(model=queue_model, mode=mode))
    assert "overrun: 0\n" in (tmp_path / "events.stats").read_text()
    model = Model.load(queue_model)
    events: dict[str, list[re.Match[str]]] = {}
    for line in (tmp_path / "events.txt").read_text().splitlines():
        if "linnos_decision:" in line:
            match = EVENT.search(line)
            assert match, line
            events.setdefault(match["dev"].replace(",", ":"), []).append(match)

    compared = met = 0
    for k, dev in enumerate((tmp_path / "devs").read_text().split()):
        reads = _reads(tmp_path / f"flash{k}.blk")
        # The last try of a read carries no hint and so leaves no event; what
        # remains must agree one by one, in order.
        seen = events[dev]
        by_key: dict[tuple[int, int], list[int]] = {}
        for row, (sector, size) in enumerate(zip(reads.sector, reads.size_bytes, strict=True)):
            by_key.setdefault((int(sector), int(size)), []).append(row)
        rows = []
        for event in seen:
            candidates = by_key[int(event["sector"]), int(event["nr"]) * 512]
            # Reads of the same block are in the order of their arrival.
            rows.append(
                candidates.pop(0) if mode == "observe" else _closest(candidates, event, reads)
            )
        row = np.array(rows)
        pending = np.array([int(e["pending"]) for e in seen], np.uint32)
        hist_pending = np.array([_numbers(e["hist_pending"]) for e in seen], np.uint32)
        hist_latency = np.array([_numbers(e["hist_latency_us"]) for e in seen], np.uint32)
        np.testing.assert_array_equal(pending, reads.pending[row])
        np.testing.assert_array_equal(hist_pending, reads.hist_pending[row])
        np.testing.assert_array_equal(hist_latency, reads.hist_latency_us[row])

        out = infer(model, digits(pending, hist_pending, hist_latency), engine="numpy")
        kernel_out = np.array([[int(e["fast"]), int(e["slow"])] for e in seen], np.int64)
        np.testing.assert_array_equal(kernel_out, out)
        slow = out[:, 1] > out[:, 0]
        assert slow.any() and not slow.all()
        revoked = np.array([e["revoked"] == "1" for e in seen])
        np.testing.assert_array_equal(revoked, slow if mode == "enforce" else False)
        np.testing.assert_array_equal(revoked, reads.flags[row] & REVOKED != 0)
        compared += len(seen)
        met |= int(np.bitwise_or.reduce(reads.flags))
    assert compared > 5000
    # Requests are counted, and a read may have several.
    assert met & (MERGED | SPLIT)


def _closest(candidates: list[int], event: re.Match[str], reads: IoChunk) -> int:
    """Return the first read of this block with this outcome; only hinted reads are revoked."""
    for index, row in enumerate(candidates):
        if bool(reads.flags[row] & REVOKED) == (event["revoked"] == "1") and int(
            reads.pending[row]
        ) == int(event["pending"]):
            return candidates.pop(index)
    raise AssertionError(f"no read in the trace for {event[0]}")
