# SPDX-License-Identifier: MIT
"""The policy in the block layer: one shell script per subject, run in the booted kernel.

The first lines of each ``test_*.sh`` in this folder say what it proves. ``debug_*.sh`` need
features of the debug kernel, above all fault injection. They use null_blk, whose latency is only a
timer.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from networks_by_hand import network
from trees_by_hand import last_read, one_tree

from linnapp.lab.array import Array
from linnapp.model import N_SPLITS

if TYPE_CHECKING:
    from guest_runs import GuestResult

HERE = Path(__file__).parent
SCRIPTS = sorted(path.stem for path in HERE.glob("test_*.sh"))
DEBUG_SCRIPTS = sorted(path.stem for path in HERE.glob("debug_*.sh"))
#: Scripts that need drives of flashsim.
NEED_FLASHSIM = {"test_discard"}
DEBUG_KERNEL = HERE.parents[1] / "build" / "linux-um-debug" / "linux"
#: The kernels that `make test-series` builds, which lack flashsim.
SERIES_KERNELS = sorted((HERE.parents[1] / "build" / "series").glob("*/um/linux"))


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the programs of the tests; the beginning of each describes it."""
    directory = tmp_path_factory.mktemp("tools")
    for program in ("lcread", "failnth", "passthrough"):
        compile_it = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", HERE / f"{program}.c"]
        subprocess.run([*compile_it, "-o", directory / program, "-luring", "-laio"], check=True)
    return directory


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save models: constant ``slow`` and ``fast``; ``queue`` and ``deep``, slow from 10 and 300
    pending pages; latency models ``last``, slow if the last read took more than 50 us, ``region``,
    slow if another read is in flight in its region.
    """
    directory = tmp_path_factory.mktemp("models")
    for name, model in {
        "slow": network(bias=(0, 1)),
        "fast": network(bias=(1, 0)),
        "queue": network({12: 1000, 13: 1000}, (500_000, 0)),
        "deep": network({12: 1000}, (2_500_000, 0)),
    }.items():
        model.save(directory / f"{name}.linnos")
    limits = {"threshold_us": 150, "refuse_us": 50, "overdue_us": 1_000_000}
    last_read(**limits).save(directory / "last.linnos")
    one_tree([("in_region", 0)] * N_SPLITS, [10] * 8 + [1000] * 8, **limits).save(
        directory / "region.linnos"
    )
    return directory


def run_script(
    name: str, boot: Callable[..., GuestResult], tools: Path, models: Path, **how: object
) -> None:
    result = boot(
        f"export TESTS={HERE} TOOLS={tools} LCREAD={tools}/lcread MODELS={models}\n"
        f"sh -c '. $TESTS/lib.sh; . $0; clean_log' {HERE / name}.sh",
        kernel_args=("null_blk.nr_devices=0",),
        check=False,
        **how,
    )
    assert result.status == 0, result.stdout + result.stderr


@pytest.mark.lab
@pytest.mark.parametrize("name", SCRIPTS)
def test_script_passes_on_the_lab_kernel(
    name: str, boot: Callable[..., GuestResult], tools: Path, models: Path
) -> None:
    run_script(name, boot, tools, models)


@pytest.fixture
def debug_kernel() -> Path:
    if not DEBUG_KERNEL.exists():
        pytest.fail(f"{DEBUG_KERNEL}: no debug kernel; `make kernel-debug` builds it")
    return DEBUG_KERNEL


def run_kunit(boot: Callable[..., GuestResult], kernel: Path) -> None:
    result = boot(
        "true",
        Array(n_drives=0),
        kernel=kernel,
        kernel_args=("kunit.enable=1", "kunit.filter_glob=linnos*"),
    )
    suites = re.findall(r"# (linnos[\w-]*): pass:(\d+) fail:(\d+)", result.dmesg)
    assert suites, result.dmesg[-3000:]
    assert all(int(passed) and not int(failed) for _, passed, failed in suites), suites
    assert not re.search(r"\bnot ok\b|KASAN|UBSAN|WARNING|BUG:|INFO: ", result.dmesg)


@pytest.mark.debug
def test_kunit_suites_pass_on_the_debug_kernel(
    boot: Callable[..., GuestResult], debug_kernel: Path
) -> None:
    run_kunit(boot, debug_kernel)


@pytest.mark.debug
@pytest.mark.parametrize("name", SCRIPTS + DEBUG_SCRIPTS)
def test_script_passes_on_the_debug_kernel(
    name: str, boot: Callable[..., GuestResult], tools: Path, models: Path, debug_kernel: Path
) -> None:
    """Run the same tests with KASAN, lockdep and UBSAN."""
    run_script(name, boot, tools, models, kernel=debug_kernel)


def version_of(kernel: Path) -> str:
    return kernel.parents[1].name


@pytest.mark.series
@pytest.mark.parametrize("kernel", SERIES_KERNELS, ids=version_of)
def test_kunit_suites_pass_on_kernels_with_the_series(
    boot: Callable[..., GuestResult], kernel: Path
) -> None:
    run_kunit(boot, kernel)


@pytest.mark.series
@pytest.mark.parametrize("kernel", SERIES_KERNELS, ids=version_of)
@pytest.mark.parametrize("name", [name for name in SCRIPTS if name not in NEED_FLASHSIM])
def test_script_passes_on_kernels_with_the_series(
    name: str, boot: Callable[..., GuestResult], tools: Path, models: Path, kernel: Path
) -> None:
    """Run the same tests on the kernels that have the patch series and nothing else of ours."""
    run_script(name, boot, tools, models, kernel=kernel, array=Array(n_drives=0))
