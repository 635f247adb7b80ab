# SPDX-License-Identifier: MIT
"""`linnapp lab run`: output, exit status, files, virtual time and errors."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.lab


def lab_run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "linnapp", "lab", "run", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        timeout=3600,
    )


def test_output_and_exit_status_pass_through() -> None:
    result = lab_run(
        "--drives", "0", "--", "sh", "-c", "echo out; seq 100000; echo err >&2; exit 7"
    )
    assert (result.returncode, result.stderr) == (7, "err\n")
    assert result.stdout == "out\n" + "".join(f"{n}\n" for n in range(1, 100001))


def test_only_the_output_folder_is_writable_whatever_its_name(tmp_path: Path) -> None:
    out, other = tmp_path / "a folder, 'quoted' = $odd", tmp_path / "other"
    out.mkdir()
    other.mkdir()
    script = (
        'echo kept >"$LINNOS_OUT/file" && cat "$LINNOS_OUT/file" && echo here >relative'
        f" && echo lost >{other}/file"
    )
    result = lab_run("--drives", "0", "--out", ".", "--", "sh", "-c", script, cwd=out)
    assert (
        result.returncode != 0
        and result.stdout == "kept\n"
        and "Read-only file system" in result.stderr
    )
    assert (out / "file").read_text() == "kept\n" and (out / "relative").read_text() == "here\n"
    assert not (other / "file").exists()


def test_guest_has_its_drives_and_sleeps_without_delay() -> None:
    script = (
        "test -b /dev/flash0 && test -b /dev/flash1 && echo $LINNOS_DRIVES; sleep 1000; uptime -p"
    )
    result = lab_run("--drives", "2", "--size-mb", "64", "--", "sh", "-c", script)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[0] == "/dev/flash0,/dev/flash1"
    assert "16 minutes" in result.stdout


def test_guest_sees_nothing_of_the_host_except_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_SECRET", "of-the-caller")
    monkeypatch.chdir(tmp_path)
    script = (
        "env; cat /proc/1/environ /proc/cmdline; hostname; ! grep ^host /proc/cpuinfo; date +%s"
    )
    result = lab_run("--drives", "0", "--", "sh", "-ec", script)
    assert result.returncode == 0, result.stderr
    assert "A_SECRET" not in result.stdout and "linnos_control" not in result.stdout
    # The caller's working folder is named only in PWD.
    assert result.stdout.count(str(tmp_path)) == result.stdout.count(f"PWD={tmp_path}") == 1
    assert "linnos\n1600000000\n" in result.stdout
    assert {"HOME=/run/home", f"PATH={_path(result.stdout)}"} <= set(result.stdout.splitlines())


def _path(output: str) -> str:
    """Return PATH from the output of env. It contains the caller's PATH, with its tools."""
    (path,) = (line for line in output.splitlines() if line.startswith("PATH="))
    assert os.environ["PATH"] in path
    return path.removeprefix("PATH=")


SMALL = ("--size-mb", "64", "--")


def in_a_terminal(*arguments: str, keys: bytes, after: bytes) -> str:
    """Return the output of `linnapp ARGUMENTS` in a terminal of 31 rows and 97 columns.

    `keys` are pressed as soon as `after` has appeared.
    """
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 31, 97, 0, 0))
    before = termios.tcgetattr(slave)
    process = subprocess.Popen(
        [sys.executable, "-m", "linnapp", *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**os.environ, "TERM": "xterm"},
    )
    shown, unsent = b"", keys
    while process.poll() is None or select.select([master], [], [], 0)[0]:
        if select.select([master], [], [], 0.1)[0]:
            shown += os.read(master, 65536)
        if unsent and after in shown:
            os.write(master, unsent)
            unsent = b""
    assert process.returncode == 0, shown.decode(errors="replace")
    assert termios.tcgetattr(slave) == before
    os.close(master)
    os.close(slave)
    return shown.decode()


def test_a_terminal_is_one_in_the_guest() -> None:
    """It has the size of the caller's terminal, and input is read."""
    script = "tty <&0 >/dev/null && stty size && echo ready && read -r line && echo got $line"
    shown = in_a_terminal(
        "lab", "run", *SMALL, "sh", "-ec", script, keys=b"a line\n", after=b"ready"
    )
    assert shown.split("\r\n") == ["31 97", "ready", "a line", "got a line", ""]


@pytest.mark.long
def test_tour_shows_bursts_and_explains_why_reads_were_refused(tmp_path: Path) -> None:
    shown = in_a_terminal("tour", "-o", str(tmp_path), keys=b"s", after=b"\xe2")
    screen, explanation = shown.split("\x1b[?1049l")
    assert re.search(r"flash1 .*\b[5-9]\d% ", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", " ", screen))
    assert re.search(r"revoked [1-9]", explanation) and "data errors 0 in" in explanation
    assert "happened  revoked; its latency" in explanation and "; took 2" in explanation


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--kernel", "/nonexistent", "--", "true"), "make kernel"),
        (("--profile", "floppy", "--", "true"), "profile=floppy"),
        (("--profile", "consumer,enterprise", "--", "true"), "2 profiles for 3 drives"),
        (("--set", "channels", "--", "true"), "NAME=VALUE"),
    ],
)
def test_lab_run_error_names_the_cause(arguments: tuple[str, ...], message: str) -> None:
    result = lab_run(*arguments)
    assert result.returncode != 0
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_guest_ends_when_its_starter_is_killed(tmp_path: Path) -> None:
    """SIGKILL gives the starter no chance to end the guest itself."""
    began = tmp_path / "began"
    arguments = ["--drives", "0", "--out", str(tmp_path), "--"]
    arguments += ["sh", "-c", f": >{began}; while :; do :; done"]
    lab = subprocess.Popen([sys.executable, "-m", "linnapp", "lab", "run", *arguments])
    while not began.exists():
        assert lab.poll() is None
        time.sleep(0.1)
    machine = int(Path(f"/proc/{lab.pid}/task/{lab.pid}/children").read_text())
    session = os.getsid(machine)
    assert _processes_of(session)
    lab.kill()
    lab.wait()
    patience = time.monotonic() + 300
    while processes := _processes_of(session):
        assert time.monotonic() < patience, processes
        time.sleep(0.1)


def _processes_of(session: int) -> list[int]:
    """Return the processes of a session that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, its_session = stat.read_text().rpartition(")")[2].split()[:4]
            if int(its_session) == session and state != "Z":
                found.append(int(stat.parent.name))
    return found


def test_a_crashing_guest_is_an_error() -> None:
    result = lab_run("--drives", "0", "--", "sh", "-c", "echo c >/proc/sysrq-trigger; sleep 10")
    assert result.returncode != 0
    assert "died before its command ended" in result.stderr


#: Every second page, because adjacent pages would form one mapping.
MANY_MAPPINGS = """
import mmap, sys
pages = int(sys.argv[1])
memory = mmap.mmap(-1, 2 * pages * mmap.PAGESIZE)
for place in range(0, len(memory), 2 * mmap.PAGESIZE):
    memory[place] = 1
"""


def test_too_many_mappings_error_names_the_sysctl(tmp_path: Path) -> None:
    allowed = int(Path("/proc/sys/vm/max_map_count").read_text())
    if allowed > 100_000:
        pytest.skip(f"this host lets a process have {allowed} mappings")
    (tmp_path / "map.py").write_text(MANY_MAPPINGS)
    result = lab_run("--", "python3", str(tmp_path / "map.py"), str(allowed))
    assert result.returncode == 128 + signal.SIGSEGV
    assert "sysctl -w vm.max_map_count=" in result.stderr
    assert "max_map_count" not in lab_run("--", "python3", str(tmp_path / "map.py"), "1000").stderr
