# SPDX-License-Identifier: MIT
"""`linnapp lab run`: output, exit status, files, virtual time and errors."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
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


def test_output_and_exit_status_pass_through(tmp_path: Path) -> None:
    ran = lab_run("--drives", "0", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (ran.returncode, ran.stdout, ran.stderr) == (7, "out\n", "err\n")


def test_much_output_arrives_whole() -> None:
    ran = lab_run("--drives", "0", "--", "seq", "100000")
    assert ran.stdout == "".join(f"{n}\n" for n in range(1, 100001))


def test_only_the_output_folder_is_writable(tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    other.mkdir()
    script = f"echo kept >{out}/file; echo lost >{other}/file"
    ran = lab_run("--drives", "0", "--out", str(out), "--", "sh", "-c", script)
    assert ran.returncode != 0 and "Read-only file system" in ran.stderr
    assert (out / "file").read_text() == "kept\n"
    assert not (other / "file").exists()


def test_drives_are_up_and_sleeping_is_free() -> None:
    script = (
        "test -b /dev/flash0 && test -b /dev/flash1 && echo $LINNOS_DRIVES; sleep 1000; uptime -p"
    )
    ran = lab_run("--drives", "2", "--size-mb", "64", "--", "sh", "-c", script)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[0] == "/dev/flash0,/dev/flash1"
    assert "16 minutes" in ran.stdout


def test_a_run_repeats_exactly(quick_fio: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{quick_fio}{os.pathsep}{os.environ['PATH']}")
    command = (
        "fio --name=mix --filename=/dev/flash0 --rw=randrw --bs=4k --iodepth=8 --ioengine=io_uring"
        " --direct=1 --size=16m --randseed=5 --clocksource=clock_gettime"
        " --output-format=terse --terse-version=3 | cut -d';' -f 6-120;"
        " cat /sys/kernel/debug/flashsim/flash0/counters"
    )
    first, second = (lab_run("--drives", "1", "--", "sh", "-c", command) for _ in range(2))
    assert first.returncode == 0 and "reads" in first.stdout
    assert first.stdout == second.stdout


def test_nothing_of_the_host_but_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SECRET", "of-the-caller")
    monkeypatch.chdir(tmp_path)
    script = (
        "env; cat /proc/1/environ /proc/cmdline; hostname; ! grep ^host /proc/cpuinfo; date +%s"
    )
    ran = lab_run("--drives", "0", "--", "sh", "-ec", script)
    assert ran.returncode == 0, ran.stderr
    assert "A_SECRET" not in ran.stdout and "linnos_control" not in ran.stdout
    # The working folder is the caller's, and named nowhere else.
    assert ran.stdout.count(str(tmp_path)) == ran.stdout.count(f"PWD={tmp_path}") == 1
    assert "linnos\n1600000000\n" in ran.stdout
    assert {"HOME=/run/home", f"PATH={_path(ran.stdout)}"} <= set(ran.stdout.splitlines())


def _path(output: str) -> str:
    """PATH in the output of env: the caller's is in it, so that its tools are found."""
    (path,) = (line for line in output.splitlines() if line.startswith("PATH="))
    assert os.environ["PATH"] in path
    return path.removeprefix("PATH=")


def test_output_to_a_terminal_is_one_in_the_guest() -> None:
    command = shlex.join(
        [sys.executable, "-m", "linnapp", "lab", "run", "--drives", "0", "--", "test", "-t", "1"]
    )
    ran = subprocess.run(
        ["script", "-qec", command, "/dev/null"], capture_output=True, text=True, timeout=3600
    )
    assert ran.returncode == 0, ran.stdout


def test_folders_with_awkward_names(tmp_path: Path) -> None:
    out = tmp_path / "a folder, 'quoted' = $odd"
    script = 'echo kept >"$LINNOS_OUT/file" && cat "$LINNOS_OUT/file" && echo here >relative'
    out.mkdir()
    ran = lab_run("--drives", "0", "--out", ".", "--", "sh", "-c", script, cwd=out)
    assert (ran.returncode, ran.stdout) == (0, "kept\n"), ran.stderr
    assert (out / "relative").read_text() == "here\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--kernel", "/nonexistent", "--", "true"), "make kernel"),
        (("--profile", "floppy", "--", "true"), "profile=floppy"),
        (("--profile", "consumer,enterprise", "--", "true"), "2 profiles for 3 drives"),
        (("--set", "channels", "--", "true"), "NAME=VALUE"),
    ],
)
def test_errors_name_the_thing(arguments: tuple[str, ...], message: str) -> None:
    ran = lab_run(*arguments)
    assert ran.returncode != 0
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_crashing_guest_is_an_error() -> None:
    ran = lab_run("--drives", "0", "--", "sh", "-c", "echo c >/proc/sysrq-trigger; sleep 10")
    assert ran.returncode != 0
    assert "died before its command ended" in ran.stderr
