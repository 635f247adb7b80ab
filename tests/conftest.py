# SPDX-License-Identifier: MIT
"""Fixtures that the tests share: a lab guest, and what was built for it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from guest_runs import GuestResult, run_script
from networks_by_hand import network

from linnapp.lab.array import Array
from linnapp.lab.command import guest_environment
from linnapp.lab.guest import Guest
from linnapp.lab.uml import DEFAULT_KERNEL, run

Boot = Callable[..., GuestResult]

#: Shell functions that every script in the lab's guest has.
FUNCTIONS = Path(__file__).parent / "lab" / "guest.sh"

#: Seconds until a test gives up on a guest; long enough for a busy machine.
GIVE_UP_S = 1800.0


def pytest_configure() -> None:
    """Make tests independent of the environment that they are started in.

    A background job of a script inherits ctrl-C as ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Programs that tests start leave no compiled modules in folders that tests compare.
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest tests first, so that no worker waits for one that starts last."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture(scope="session")
def guest_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of programs for the guest: `paced_reads`, and a `fio` that starts quickly."""
    directory = tmp_path_factory.mktemp("programs")
    lab = Path(__file__).parent / "lab"
    compile_it = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"]
    for name, *options in (("paced_reads",), ("fio_start", "-shared", "-fPIC")):
        program = directory / f"{name}{'.so' if options else ''}"
        subprocess.run([*compile_it, *options, "-o", program, lab / f"{name}.c"], check=True)
    fio = shutil.which("fio") or "fio"
    command = directory / "fio"
    command.write_text(f'#!/bin/sh\nLD_PRELOAD={directory}/fio_start.so exec {fio} "$@"\n')
    command.chmod(0o755)
    return directory


@pytest.fixture
def boot(tmp_path: Path, guest_programs: Path, monkeypatch: pytest.MonkeyPatch) -> Boot:
    """Boot the lab kernel and run a shell script in it.

    The script sees ``$OUT``, the test's ``tmp_path``, which it may write to, and the functions of
    ``lab/guest.sh``.
    """
    if not DEFAULT_KERNEL.exists():
        pytest.fail(f"{DEFAULT_KERNEL}: no lab kernel; `make kernel` builds it")
    monkeypatch.setenv("PATH", f"{guest_programs}{os.pathsep}{os.environ['PATH']}")

    def boot(
        script: str,
        array: Array | None = None,
        *,
        kernel: Path = DEFAULT_KERNEL,
        kernel_args: tuple[str, ...] = (),
        check: bool = True,
        timeout_s: float = GIVE_UP_S,
    ) -> GuestResult:
        array = array or Array(size_mb=256)
        guest = Guest(
            kernel=kernel,
            out_dir=tmp_path,
            setup=array.setup_script(),
            environment={**guest_environment(array.devices, tmp_path), "OUT": str(tmp_path)},
            kernel_args=kernel_args,
            timeout_s=timeout_s,
        )
        return run_script(run, guest, f". {FUNCTIONS}\n{script}", tmp_path, check=check)

    return boot


@pytest.fixture(scope="session")
def queue_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a model that predicts slow if more than 12 pages are pending.

    Its predictions can be verified without running a network, and under load both occur often.
    """
    path = tmp_path_factory.mktemp("models") / "queue.linnos"
    network({12: 100, 13: 10, 14: 1}, (12_000, 0), threshold_us=200).save(path)
    return path
