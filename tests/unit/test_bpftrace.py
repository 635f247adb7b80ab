# SPDX-License-Identifier: MIT
"""bpftrace accepts the one-liners of docs/monitoring.md, with the fields of the trace events.

This machine's kernel need not have the events: bpftrace reads their formats from files, which are
made from kernel/linnos/include/trace/events/linnos.h here, in a mount namespace.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "monitoring.md"
EVENTS = ROOT / "kernel" / "linnos" / "include" / "trace" / "events" / "linnos.h"
SIZES = {"dev_t": 4, "u64": 8, "s64": 8, "u32": 4, "u8": 1}


def one_liners() -> list[str]:
    """Return the programs, without the command around them."""
    section = PAGE.read_text().split("\n## One-liners for bpftrace\n")[1]
    lines = re.findall(r"^(bpftrace .*)$", section, re.M)
    words = [shlex.split(line) for line in lines]
    assert all(line[:2] == ["bpftrace", "-e"] and len(line) == 3 for line in words)
    return [line[2] for line in words]


def test_documentation_has_five_scripts() -> None:
    assert len(one_liners()) == 5


def formats() -> dict[str, str]:
    """Return the kernel's file `format` of each event."""
    found = {}
    for number, event in enumerate(EVENTS.read_text().split("\nTRACE_EVENT(")[1:], 1):
        name = event[: event.index(",")]
        lines = [f"name: {name}", f"ID: {1000 + number}", "format:"]
        offset = 0

        def field(kind: str, declared: str, size: int, lines: list[str] = lines) -> None:
            nonlocal offset
            offset += -offset % min(size, 8)
            signed = int(kind in ("s64", "int"))
            lines.append(
                f"\tfield:{kind} {declared};\toffset:{offset};\tsize:{size};\tsigned:{signed};"
            )
            offset += size

        for kind, common in (
            ("unsigned short", "type"), ("unsigned char", "flags"),
            ("unsigned char", "preempt_count"), ("int", "pid"),
        ):  # fmt: skip
            field(kind, f"common_{common}", {"short": 2, "char": 1, "int": 4}[kind.split()[-1]])
        lines.append("")
        for kind, declared, many in re.findall(
            r"__(?:field|array)\((\w+),\s*(\w+)(?:,\s*(\w+))?\)", event[: event.index("TP_fast")]
        ):
            if many:
                field(kind, f"{declared}[4]", 4 * SIZES[kind])
            else:
                field(kind, declared, SIZES[kind])
        found[name] = "\n".join([*lines, "", 'print fmt: ""', ""])
    assert {"linnos_decision", "linnos_expected"} <= set(found)
    return found


@pytest.fixture(scope="module")
def tracefs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder with the events' files, as in tracefs."""
    root = tmp_path_factory.mktemp("tracefs")
    for name, text in formats().items():
        folder = root / "events" / "linnos" / name
        folder.mkdir(parents=True)
        (folder / "format").write_text(text)
        (folder / "id").write_text(re.findall(r"ID: (\d+)", text)[0])
    (root / "available_events").write_text("".join(f"linnos:{name}\n" for name in formats()))
    (root / "available_filter_functions").touch()
    return root


def parsed(program: str, tracefs: Path) -> subprocess.CompletedProcess[str]:
    """Run bpftrace -d, which compiles the program and attaches nothing."""
    script = (
        "mount -t tmpfs none /sys/kernel/debug && mkdir /sys/kernel/debug/tracing &&"
        ' for at in /sys/kernel/debug/tracing /sys/kernel/tracing; do mount --bind "$1" $at; done;'
        ' exec bpftrace -d -e "$2"'
    )
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", tracefs, program],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def _usable() -> bool:
    """Later versions require a stage after -d."""
    if shutil.which("bpftrace") is None or os.geteuid() != 0:
        return False
    said = subprocess.run(["bpftrace", "--version"], capture_output=True, text=True, check=False)
    version = re.search(r"v0\.(\d+)", said.stdout)
    return version is not None and int(version[1]) < 21


needs_bpftrace = pytest.mark.skipif(
    not _usable(), reason="no bpftrace (Debian 12's, before 0.21), or this is not root"
)


@needs_bpftrace
@pytest.mark.parametrize("program", one_liners(), ids=range(len(one_liners())))
def test_bpftrace_accepts_the_script(program: str, tracefs: Path) -> None:
    ran = parsed(program, tracefs)
    assert ran.returncode == 0, ran.stderr[-2000:]


@needs_bpftrace
def test_bpftrace_refuses_unknown_fields(tracefs: Path) -> None:
    ran = parsed("tracepoint:linnos:linnos_decision { @ = count(args->nothing); }", tracefs)
    assert ran.returncode != 0
    ran = parsed("tracepoint:linnos:linnos_expected { @ = sum(args->revoked); }", tracefs)
    assert ran.returncode != 0 and "revoked" in ran.stderr
