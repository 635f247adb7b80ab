# SPDX-License-Identifier: MIT
"""Client latency of RocksDB, and the calls of its threads at the same time.

This repeats a use case of DIO's paper (Esteves et al., 2023, Fig. 6 and 7) with Debian's db_bench:
eight clients write at a constant rate while one thread flushes and seven compact. db_bench reports
the 99th percentile of its clients' latencies in each short repeat of the benchmark. The recording
of `linnapp watch` says which threads made calls in the same time. All flushes and compactions
together are limited to a bandwidth, so that they compete for it, whatever the drive of this machine
can do.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from scipy.stats import spearmanr

from eval.bench import OUT, BenchError, write
from eval.bench.watching import check_watching, machine
from linnapp.figures import save
from linnapp.insight.query import query
from linnapp.stats import quantile_interval

#: Repeats of the benchmark, and the length of each.
REPEATS, REPEAT_S = 60, 1

#: Bytes a second that all clients write, and that all flushes and compactions may move.
CLIENT_BYTES_S, BACKGROUND_BYTES_S = 16_000_000, 16_000_000

_STORE = (
    *("db_bench", f"--benchmarks=fillrandom[X{REPEATS}]", f"--duration={REPEAT_S}"),
    *("--num=10000000", "--value_size=1000", "--compression_type=none", "--threads=8"),
    *("--max_background_flushes=1", "--max_background_compactions=7", "--seed=1"),
    *(f"--benchmark_write_rate_limit={CLIENT_BYTES_S}", "--ops_between_duration_checks=20"),
    *(f"--rate_limiter_bytes_per_sec={BACKGROUND_BYTES_S}", "--histogram=1"),
    *("--write_buffer_size=4194304", "--target_file_size_base=4194304"),
    *("--max_bytes_for_level_base=16777216", "--level0_file_num_compaction_trigger=4"),
)

#: Prefixes each line with the time at which it was printed.
_TIMES = "import sys, time\nfor line in sys.stdin: print(time.time_ns(), line, end='', flush=True)"

#: The threads that make calls in some ns, by their task.
_CALLS = """
select count(*) filter (process = 'db_bench') as clients,
  count(*) filter (starts_with(process, 'rocksdb:high')) as flushes,
  count(*) filter (starts_with(process, 'rocksdb:low')) as compactions,
  count(distinct tid) filter (starts_with(process, 'rocksdb:low')) as compacting
from calls where time_ns + duration_ns > {begin} and time_ns < {end}
"""


def repeats(report: str) -> list[tuple[int, int, float]]:
    """Return begin, end and p99 in us of each repeat that db_bench reports, with times in ns."""
    found = []
    for time_ns, line in (line.split(" ", 1) for line in report.splitlines()):
        if match := re.match(r"fillrandom +:.* ([\d.]+) seconds", line):
            end = int(time_ns)
            begin = end - round(float(match[1]) * 1e9)
        elif match := re.search(r"^Percentiles: .*P99: ([\d.]+)", line):
            found.append((begin, end, float(match[1])))
    return found


def by_threads(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the number of repeats and their median p99 by the number of compacting threads."""
    found: dict[int, list[float]] = {}
    for row in rows:
        found.setdefault(row["compacting"], []).append(row["p99_us"])
    return [
        {"compacting": n, "repeats": len(values), "p99_us": quantile_interval(values).to_json()}
        for n, values in sorted(found.items())
    ]


def draw(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw calls by thread and the clients' p99 over time, as Fig. 6 and 7 of the paper."""
    seconds = [(row["begin_ns"] - rows[0]["begin_ns"]) / 1e9 for row in rows]
    length_s = [(row["end_ns"] - row["begin_ns"]) / 1e9 for row in rows]
    drawn = Figure(figsize=(9, 7))
    panels = drawn.subplots(3, 1, sharex=True)
    for name in ("clients", "flushes", "compactions"):
        rate = [row[name] / seconds for row, seconds in zip(rows, length_s, strict=True)]
        panels[0].step(seconds, rate, where="post", label=name)
    panels[0].set_yscale("symlog", linthresh=10)
    panels[0].legend(loc="upper right")
    panels[1].step(seconds, [row["compacting"] for row in rows], where="post")
    panels[2].step(seconds, [row["p99_us"] / 1000 for row in rows], where="post")
    panels[2].set_yscale("log")
    for axes, title in zip(
        panels, ("calls a second", "compacting threads", "p99 of clients, ms"), strict=True
    ):
        axes.set_ylabel(title)
    panels[2].set_xlabel("seconds")
    drawn.tight_layout()
    save(drawn, path)


def store_pauses() -> None:
    """Client latency of RocksDB while its threads flush and compact."""
    check_watching("apps.txt", "db_bench", "stdbuf")
    with tempfile.TemporaryDirectory(prefix="linnapp-bench-") as name:
        folder = Path(name)
        store = " ".join(("stdbuf", "-oL", *_STORE, f"--db={folder / 'store'}"))
        script = f'{store} 2>/dev/null | {sys.executable} -S -E -c "$1" >{folder / "report"}'
        watch = [sys.executable, "-m", "linnapp", "watch", "-o", str(folder / "seen"), "--json"]
        watch += ["--path", str(folder / "store"), "--", "sh", "-c", script, "sh", _TIMES]
        done = subprocess.run(watch, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BenchError(f"linnapp watch: {done.stderr.strip()}")
        lost = json.loads(done.stdout)["lost_calls"]
        rows = []
        for begin, end, p99_us in repeats((folder / "report").read_text()):
            columns, answer = query(folder / "seen", _CALLS.format(begin=begin, end=end))
            [row] = answer
            rows.append({"begin_ns": begin, "end_ns": end, "p99_us": p99_us,
                         **dict(zip(columns, row, strict=True))})  # fmt: skip
    if len(rows) != REPEATS:
        raise BenchError(f"db_bench reported {len(rows)} repeats, not {REPEATS}")
    draw(rows, OUT / "watch-rocksdb.png")
    groups = by_threads(rows)
    for group in groups:
        print(
            f"{group['compacting']} threads compacting: {group['repeats']} repeats, the median of "
            f"p99 is {group['p99_us'][0] / 1000:.1f} ms"
        )
    of_clients = [row["p99_us"] for row in rows]
    correlations = {
        name: float(spearmanr(of_clients, [row[name] for row in rows]).statistic)
        for name in ("compacting", "clients")
    }
    print(
        f"rank correlation of p99 with compacting threads {correlations['compacting']:.2f}, with "
        f"the clients' calls {correlations['clients']:.2f}; {lost} calls lost"
    )
    write(
        "watch-rocksdb",
        {"rows": rows, "by_threads": groups, "correlations": correlations, "lost_calls": lost,
         **machine()},
    )  # fmt: skip
