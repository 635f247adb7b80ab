# SPDX-License-Identifier: MIT
"""``linnapp status``: show the state and counters of each drive."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from linnapp.option_types import FiniteRange

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_TITLES = (
    *("drive", "mode", "model", "kind", "threshold", "p99", "refused", "reads", "hinted"),
    *("admitted", "revoked", "probes", "slow", "slow admitted", "ns per inference"),
)
_N_TEXT = 4

#: columns of the terminal for the titles, and for each drive next to them
_LABEL_WIDTH = 21
_CELL_WIDTH = 23

#: counters shown as rates since the last snapshot
_RATES = ("reads", "latency_critical", "admitted", "revoked", "probes")

#: shown if a drive is queried for reads without a hint, for example by md; includes hinted reads
_ASKED_TITLES = ("asked",)
_ASKED_RATES = ("inferences",)


@click.command()
@click.argument("devices", nargs=-1, metavar="[DEV...]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option(
    "--watch",
    is_flag=True,
    help="Look again and again, until ctrl-C; into a file, one look below the other.",
)
@click.option(
    "--interval",
    type=FiniteRange(0.1, 1e6),
    default=1.0,
    show_default=True,
    help="Seconds between looks of --watch.",
)
def status(devices: tuple[str, ...], as_json: bool, watch: bool, interval: float) -> None:
    """Show mode, model, counters and rates of the drives, or of all that have LinnOS.

    Rates are those since the last look, of this command or of --watch; p99 is of all reads that the
    policy has timed, within 12 %, refused the share of the hinted reads. Slow are reads above the
    threshold, slow admitted those of them that were predicted fast (stats/false_submits). A point
    below the median read makes half of a healthy drive's reads slow: compare the two shares.

    Disks that are no drives (null_blk, loop, ram, zram), or have no medium, are shown if they are
    named, have a model, or a mode other than off. Below are md arrays that ask: whether they choose
    by what is predicted, or stay with md's own choice since that is not worth it, and what it is
    worth (md/linnos_guard). Then drives and arrays that `linnapp keep` has switched back, and why.
    """
    from linnapp.drive.sysfs import check_has_drives

    if not devices:
        check_has_drives()
    if as_json and not watch:
        click.echo(json.dumps(_to_json(devices), indent=1))
    elif as_json:
        while True:
            click.echo(json.dumps(_to_json(devices)))
            time.sleep(interval)
    elif not watch or not sys.stdout.isatty():
        from rich.console import Console

        # The output is not a terminal, so it need not fit its width.
        console = (
            Console() if sys.stdout.isatty() or "COLUMNS" in os.environ else Console(width=200)
        )
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                console.print(_show(_looks(devices), console))
                if not watch:
                    return
                sys.stdout.flush()
                time.sleep(interval)
    else:
        from rich.live import Live

        with contextlib.suppress(KeyboardInterrupt), Live(auto_refresh=False) as live:
            while True:
                live.update(_show(_looks(devices), live.console), refresh=True)
                time.sleep(interval)


def _looks(devices: Sequence[str]) -> list[dict[str, Any]]:
    """Return a snapshot of these drives or of all; a drive that is being removed hides no other."""
    from linnapp.drive.sysfs import Drive, drives
    from linnapp.errors import DeviceError

    if devices:
        return [_look(Drive(name)) for name in devices]
    found = []
    errors = {}
    for name in drives():
        try:
            found.append(_look(Drive(name)))
        except DeviceError as error:
            errors[name] = error
    for name, reason in errors.items():
        if not found:
            raise reason
        click.echo(f"linnapp: warning: {name} is left out: {reason}", err=True)
    return found


def _to_json(devices: Sequence[str]) -> dict[str, Any]:
    from linnapp.drive import switches
    from linnapp.drive.md import guards

    back = {
        each.current_name: {"time_s": each.time_s, "why": each.why}
        for each in switches.current_resets()
    }
    return {
        "drives": _looks(devices),
        "arrays": [dataclasses.asdict(each) for each in guards()],
        "switched_back": back,
    }


def _look(drive: Any) -> dict[str, Any]:
    from linnapp.drive import state
    from linnapp.drive.latencies import percentile_us
    from linnapp.errors import LinnappError

    stats = drive.stats
    now = time.time()
    since_s, rates = _since_last(stats, now, state.load_json(drive.name, "status"))
    with contextlib.suppress(LinnappError):
        state.save_json(drive.name, "status", {"time": now, "stats": stats})
    inferences = stats.get("inferences", 0)
    return {
        "drive": drive.name,
        "mode": drive.mode,
        "model_id": drive.model_id,
        "model_kind": drive.model_kind,
        "model_usage": drive.model_usage,
        "threshold_us": drive.threshold_us,
        **drive.probes,
        "p99_us": percentile_us(drive.latency_counts or [], 99),
        "refused_share": _share(stats.get("revoked", 0), stats.get("latency_critical", 0)),
        "failover_us": drive.failover_us,
        "inference_ns_mean": stats.get("inference_ns", 0) / inferences if inferences else None,
        "stats": stats,
        "since_s": since_s,
        "per_second": rates,
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole > 0 else None


def _since_last(
    stats: dict[str, int], now: float, last: dict[str, Any]
) -> tuple[float | None, dict[str, float] | None]:
    """Return the time since the last snapshot and the counters' increases; None if not known."""
    then, before = last.get("time"), last.get("stats")
    # The snapshot comes from a file, which may have any content.
    if not isinstance(then, int | float) or not isinstance(before, dict):
        return None, None
    moved = {}
    for name in _RATES + _ASKED_RATES:
        was = before.get(name, 0)
        # Counters that decreased mean a reboot or another disk of that name.
        if not isinstance(was, int) or stats.get(name, 0) < was:
            return None, None
        if name in stats:
            moved[name] = stats[name] - was
    since_s = now - then
    if not since_s > 0:
        return None, None
    return since_s, {name: count / since_s for name, count in moved.items()}


def _cells(row: dict[str, Any], between: str, asked: bool) -> list[str]:
    """Return a drive's values in the order of the titles; rates follow their counter."""
    from linnapp.model.latency_model import NOT_ALWAYS

    rates = row["per_second"] or {}
    mean_ns = row["inference_ns_mean"]
    p99_us, refused, stats = row["p99_us"], row["refused_share"], row["stats"]
    completed = stats.get("reads", 0) - stats.get("revoked", 0)
    said = NOT_ALWAYS.get(row["model_usage"] or "")
    cells = [
        row["drive"],
        row["mode"],
        row["model_id"] or "none",
        ", ".join(filter(None, (row["model_kind"] or "-", said))),
        f"{row['threshold_us']} us" if row["model_id"] else "-",
        f"{p99_us:.0f} us" if p99_us is not None else "-",
        f"{refused:.1%}" if refused is not None else "-",
        *(_count(row, rates, name, between) for name in _RATES),
        _part(stats, "slow", completed, f"{between}{{:.1%}} of reads"),
        _part(stats, "false_submits", stats.get("admitted", 0), f"{between}{{:.1%}} of admitted"),
        f"{mean_ns:.0f}" if mean_ns is not None else "-",
    ]
    if asked:
        cells += [_count(row, rates, name, between) for name in _ASKED_RATES]
    return cells


def _count(row: dict[str, Any], rates: dict[str, float], name: str, between: str) -> str:
    rate = f"{between}{rates[name]:.1f}/s" if name in rates else ""
    return f"{row['stats'].get(name, 0)}{rate}"


def _part(stats: dict[str, int], name: str, whole: int, words: str) -> str:
    """Return a counter and its share of `whole` as text."""
    share = _share(stats.get(name, 0), whole)
    return f"{stats.get(name, 0)}{'' if share is None else words.format(share)}"


def _show(rows: list[dict[str, Any]], console: Console) -> RenderableType:
    """Return a line per drive if that fits, otherwise a column per drive, in rows that fit."""
    from rich.console import Group
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    from linnapp.drive import switches
    from linnapp.drive.md import guards

    since = max((row["since_s"] or 0 for row in rows), default=0)
    asked = any(
        row["stats"].get("inferences", 0) > row["stats"].get("latency_critical", 0) for row in rows
    )
    titles = _TITLES + (_ASKED_TITLES if asked else ())
    table = Table()
    for number, title in enumerate(titles):
        table.add_column(title, justify="left" if number < _N_TEXT else "right", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row, "\n", asked))
    parts: list[RenderableType] = [table]
    unlimited = console.options.update(max_width=1000)
    if Measurement.get(console, unlimited, table).maximum > console.width:
        beside = max(1, (console.width - _LABEL_WIDTH) // _CELL_WIDTH)
        parts = []
        for start in range(0, len(rows), beside):
            table = Table(show_header=False)
            columns = [_cells(row, "  ", asked) for row in rows[start : start + beside]]
            table.add_column()
            for _ in columns:
                table.add_column(justify="right", no_wrap=True)
            for number, title in enumerate(titles):
                table.add_row(title, *(column[number] for column in columns))
            parts.append(table)
    if since:
        parts.append(Text(f"/s: over the last {since:.1f} s"))
    parts += [Text(each.words) for each in guards() if each.state != "off"]
    parts += [Text(back.describe()) for back in switches.current_resets()]
    return Group(*parts)
