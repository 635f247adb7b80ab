# SPDX-License-Identifier: MIT
"""A small configuration of Fig. 8 is replayed with each view; the view's effect is printed."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval import small_cell
from linnapp.trace import replay_log

pytestmark = pytest.mark.lab

#: Under this policy the kernel decides about each read.
POLICY = "linnos"
#: These values are counts of both replays, which no view may change.
COUNTS = ("reads", "writes", "hedged", "extra_ios", "data_errors", "io_errors")
#: From the first pause to the last read, a replay takes at most 15 s.
LONG_ENOUGH_S = 20

#: Ten requests per second; Prometheus sends four per minute.
SCRAPED = """
python3 -c 'import fcntl, socket, struct
up_running = struct.pack("16sH14x", b"lo", 1 | 64)
fcntl.ioctl(socket.socket(), 0x8914, up_running)  # SIOCSIFFLAGS'
linnapp exporter >/dev/null 2>$LINNOS_OUT/exporter.txt &
view=$!
python3 -c 'import time, urllib.request
while True:
    time.sleep(0.1)
    try:
        text = urllib.request.urlopen("http://127.0.0.1:9870/metrics").read()
    except OSError:
        continue  # it has not started
    with open("scrapes.txt", "ab") as scrapes:
        scrapes.write(text)
' &
scraper=$!
until [ -s scrapes.txt ]; do sleep 0.1; done
"""


@dataclass(frozen=True)
class View:
    """A view: its start before the replay, its end, and how far it may shift latencies.

    Attributes
    ----------
    start, end : str
        Shell commands.
    mean_off_by : float
        Allowed relative change of the mean; 0 if nothing may change.
    """

    start: str
    end: str
    mean_off_by: float = 0.0


VIEWS = {
    "top": View(
        "linnapp top --json --interval 0.1 >top.txt & view=$!\n"
        "until [ -s top.txt ]; do sleep 0.1; done",
        "kill $view; wait $view || :",
        0.0005,
    ),
    "exporter": View(SCRAPED, "kill $scraper $view; wait $scraper $view || :", 0.002),
    "explain": View(
        f"linnapp explain flash0 --duration {LONG_ENOUGH_S} --slow --json >explain.txt & view=$!",
        "wait $view",
    ),
    "blktrace": View(
        f"linnapp trace $(echo $LINNOS_DRIVES | tr , ' ') -o trace --duration {LONG_ENOUGH_S} & "
        "view=$!",
        "wait $view; linnapp layers --json trace/flash0.blk >layers.txt",
        # blktrace itself changes nothing. The command that waits for it can delay an I/O by two
        # ticks of the clock: 1 of 16,723.
        0.000001,
    ),
}


def _seen(view: str, folder: Path) -> str:
    """Check that the view saw the replay; return a description."""
    if view == "top":
        looks = [json.loads(line)["drives"] for line in (folder / "top.txt").open()]
        busy = [rows for rows in looks if sum(row["reads_per_s"] for row in rows) > 1000]
        assert len(busy) >= 15
        return f"{len(busy)} looks at busy drives"
    if view == "exporter":
        text = (folder / "scrapes.txt").read_text()
        counts = re.findall(r'^linnos_disk_reads_total\{drive="flash0"\} (.*)', text, re.M)
        n = len(set(counts))
        assert n >= 15
        return f"{n} scrapes of busy drives"
    if view == "explain":
        explained = json.loads((folder / "explain.txt").read_text())
        assert len(explained["decisions"]) == 10
        assert explained["decisions_seen"] > 1000
        return f"{explained['decisions_seen']} decisions of one drive"
    (recorded,) = json.loads((folder / "layers.txt").read_text())["recordings"]
    served = json.loads((folder / f"{POLICY}.json").read_text())["reads_served_by"][0]
    # The replayer also does a few reads that it does not measure.
    assert served <= recorded["ios"] < 1.1 * served
    return f"{recorded['ios']} reads of one drive"


def _log(folder: Path) -> np.ndarray[Any, Any]:
    records = replay_log.read(folder / f"{POLICY}.log")
    return records[np.lexsort((records["offset_bytes"], records["home"], records["due_ns"]))]


@pytest.fixture(scope="module")
def committed() -> dict[str, Any]:
    """Return the committed numbers of the replay."""
    runs = json.loads((small_cell.FOLDER / "numbers.json").read_text())["runs"]
    return dict(runs[POLICY])


@pytest.fixture(scope="module")
def bare(
    tmp_path_factory: pytest.TempPathFactory, committed: dict[str, Any]
) -> np.ndarray[Any, Any]:
    """Return the log of a replay without a view; its numbers are the committed ones."""
    folder = tmp_path_factory.mktemp("bare")
    assert small_cell.replay(POLICY, folder) == committed
    return _log(folder)


@pytest.mark.parametrize("view", VIEWS)
def test_views_do_not_change_the_system(
    view: str, bare: np.ndarray[Any, Any], committed: dict[str, Any], tmp_path: Path
) -> None:
    viewed = small_cell.replay(POLICY, tmp_path, prepare=VIEWS[view].start, finish=VIEWS[view].end)
    viewed_log = _log(tmp_path)
    shift_us = (viewed_log["latency_ns"].astype(int) - bare["latency_ns"].astype(int)) / 1e3
    differ = {name: (viewed[name], was) for name, was in committed.items() if viewed[name] != was}
    print(
        f"\n{view}: {_seen(view, tmp_path)}; {np.count_nonzero(shift_us)} of "
        f"{len(shift_us)} I/Os took from {shift_us.min():+.1f} to {shift_us.max():+.1f} us longer; "
        + ("all numbers are those committed" if not differ else "with it and without: ")
        + ", ".join(f"{name} {now:.6g}, {was:.6g}" for name, (now, was) in differ.items())
    )
    allowed = VIEWS[view].mean_off_by
    if not allowed:
        assert viewed == committed
        assert not shift_us.any()
        return
    for name in COUNTS:
        assert viewed[name] == committed[name], name
    assert viewed["revoked"] == pytest.approx(committed["revoked"], rel=allowed * 10)
    assert viewed["mean_us"] == pytest.approx(committed["mean_us"], rel=allowed)
    assert math.isclose(viewed["p99_us"], committed["p99_us"], rel_tol=0.01)
