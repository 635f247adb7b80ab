# SPDX-License-Identifier: MIT
"""linnos-ublk on a kernel without ublk: options, rings, threads, and the record of a mirror."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIBLINNOS = ROOT / "liblinnos"
UBLK = LIBLINNOS / "ublk"


@pytest.fixture(scope="module")
def program() -> Path:
    out = ROOT / "build" / "ublk"
    subprocess.run(["make", "-s", "-C", UBLK, f"OUT={out}"], check=True, capture_output=True)
    return out / "linnos-ublk"


def run(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a"], "the number of replicas is 1; it must be from 2 to 16"),
        (["a", "b"], "exactly one of --assume-clean, --compare and --resync"),
        (["--assume-clean", "--compare", "a", "b"], "exactly one of --assume-clean, --compare"),
        (["--assume-clean", *"abcdefghijklmnopq"], "there are more than 16 replicas"),
        (["--assume-clean", "--size", "3Q", "a", "b"], "--size 3Q: it must be a number of bytes"),
        (["--assume-clean", "--size", "99999999T", "a", "b"], "must be a whole number"),
        (["--assume-clean", "--queues", "33", "a", "b"], "from 1 to 32"),
        (["--assume-clean", "--margin", "101", "a", "b"], "from 0 to 100"),
        (["--assume-clean", "--hedge-percentile", "100", "a", "b"], "from 0 to 99.9999999;"),
        (["--assume-clean", "--max-duplicates", "nan", "a", "b"], "must be a number"),
        (["--remove", "0", "a"], "--remove 0 takes no replicas"),
        (["--remove", "x"], "must be a whole number"),
        (["--nonsense"], "lists the options"),
    ],
)
def test_bad_usage_says_what_would_be_accepted(
    program: Path, arguments: list[str], message: str
) -> None:
    result = run(program, *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr


@pytest.mark.skipif(Path("/dev/ublk-control").exists(), reason="this kernel has ublk")
def test_missing_driver_error_names_the_remedy(program: Path) -> None:
    result = run(program, "--assume-clean", "a", "b")
    assert result.returncode == 1
    assert "modprobe ublk_drv" in result.stderr


def compiled(folder: Path, test: str, modules: list[str], *flags: str) -> Path:
    """Return a test program that is linked with modules of linnos-ublk."""
    include = (UBLK, LIBLINNOS, LIBLINNOS / "io", LIBLINNOS / "include", ROOT / "core/userspace")
    subprocess.run(
        ["gcc", "-D_GNU_SOURCE", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-g",
         *(f"-I{path}" for path in include), '-DPROGRAM="linnos-ublk"', '-DPROGRAM_VERSION=""',
         "-o", folder / test, UBLK / "tests" / f"{test}.c",
         *(UBLK / f"{name}.c" for name in modules), LIBLINNOS / "program/program.c", *flags],
        check=True,
    )  # fmt: skip
    return folder / test


@pytest.mark.parametrize("state", ["full", "wait"])
def test_worker_exits_with_a_message_when_its_ring_cannot_be_entered(
    tmp_path: Path, state: str
) -> None:
    program = compiled(tmp_path, "forbidden_ring", ["worker"], "-luring", "-pthread")
    result = run(program, state)
    if result.returncode == 77:
        pytest.skip("io_uring or seccomp is not available")
    assert result.returncode == 1
    assert result.stderr == (
        "linnos-ublk: /dev/ublkb5: queue 2 can no longer be served: io_uring_enter: "
        "Operation not permitted; the server exits without an orderly stop\n"
    )


def test_short_read_is_reported_with_its_own_reason(tmp_path: Path) -> None:
    result = run(compiled(tmp_path, "short_read", ["reads"]))
    assert (result.returncode, result.stdout) == (0, "-5 8192\n")
    assert result.stderr == (
        "linnos-ublk: /dev/ublkb5: read of 4096 bytes at 8192: all replicas have become shorter\n"
    )


def test_first_thread_is_created_with_pr_set_io_flusher_when_reads_are_hedged(
    program: Path, tmp_path: Path
) -> None:
    source = UBLK / "tests" / "first_thread.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "p.so", source], check=True)
    images = [tmp_path / "a", tmp_path / "b"]
    for image in images:
        image.write_bytes(bytes(1 << 20))
    result = subprocess.run(
        [program, "--assume-clean", "--hedge-us", "100", *images],
        env={**os.environ, "LD_PRELOAD": str(tmp_path / "p.so")},
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert result.stdout == "PR_SET_IO_FLUSHER is set\n", result.stderr


@pytest.fixture(scope="module")
def state_tests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(
        tmp_path_factory.mktemp("state"), "test_state",
        ["state", "identity", "replicas", "resync"],
        "-fsanitize=address,undefined", '-DSTATE_FOLDER="state"',
        "-Wl,--wrap=identity_get,--wrap=identity_get_name",
    )  # fmt: skip


@pytest.mark.parametrize(
    "name", re.findall(r"^TEST\((\w+)\)$", (UBLK / "tests/test_state.c").read_text(), re.M)
)
def test_c_test_of_the_mirror_s_record_passes(state_tests: Path, tmp_path: Path, name: str) -> None:
    result = subprocess.run(
        [state_tests, name], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        env={"PATH": "/usr/bin:/bin", "ASAN_OPTIONS": "detect_leaks=0"},
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
