# SPDX-License-Identifier: MIT
"""What ``linnapp layers --functions`` prints."""

from __future__ import annotations

from typing import Any

import click

from linnapp.layers.function_graph import Call, FunctionTimes, Overhead
from linnapp.layers.function_groups import GROUPS

_WORDS = 52


def said(times: FunctionTimes, overhead: Overhead) -> dict[str, Any]:
    """Everything, for ``--json``."""
    return {
        "calls": [call.to_json(overhead) for call in times.calls],
        "outside_us": times.outside_us,
        "traced_functions": times.events,
        "overhead": {
            "function_ns": overhead.function_ns,
            "inside_ns": overhead.inside_ns,
            "outside_ns": overhead.outside_ns,
        },
        "lost": {"times": times.missed, "calls": times.cut},
    }


def show(times: FunctionTimes, overhead: Overhead) -> None:
    """Print a table for each kind of system call."""
    for call in times.calls:
        _show_call(call, overhead)
    if not times.calls:
        click.echo("linnapp: the command made no system call that reads, writes or syncs", err=True)
    click.echo(
        f"tracing a function takes {overhead.function_ns:.0f} ns here, {overhead.inside_ns:.0f} of "
        f"them in its own time; {times.events} were traced"
    )
    if times.outside_us:
        click.echo(f"outside of these system calls: {times.outside_us:.1f} us")
    if times.missed:
        click.echo(
            f"linnapp: warning: events were lost {times.missed} times, the buffer being full; "
            f"{times.cut} calls that may lack a part are left out",
            err=True,
        )


def _show_call(call: Call, overhead: Overhead) -> None:
    groups = call.groups(overhead)
    us = sum(group.us for group in groups.values())
    taken = 1 - us / call.measured_us if call.measured_us else 0.0
    click.echo(
        f"{call.name}: {call.calls} calls, {us / call.calls:.1f} us each; as recorded "
        f"{call.measured_us / call.calls:.1f}, of which tracing took {taken:.1%}"
    )
    click.echo(
        f"  {'':{_WORDS}}{'us a call':>12}{'share':>8}{'recorded':>10}{'functions':>11}  longest"
    )
    for name, group in groups.items():
        function = max(
            (f for f in call.functions if f.group == name), key=lambda f: f.own_ns(overhead)
        )
        click.echo(
            f"  {GROUPS[name][0]:{_WORDS}}{group.us / call.calls:>12.2f}{group.share:>8.1%}"
            f"{group.measured_share:>10.1%}{group.calls / call.calls:>11.1f}  {function.name}"
        )
