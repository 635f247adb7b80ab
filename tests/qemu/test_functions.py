# SPDX-License-Identifier: MIT
"""`linnapp layers --functions`, with time as a count of instructions: on Debian's kernel, and
for LinnOS's own functions on our kernel."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eval.bench import MODEL, OUT
from eval.bench.kernel import FOLDER as TOOLS
from eval.bench.kernel import build, latency_model
from eval.bench.stepping import NULL_BLK
from linnapp.lab.guest import REPOSITORY
from linnapp.lab.qemu import QemuGuest, run

pytestmark = pytest.mark.qemu

KERNEL = REPOSITORY / "build" / "kernel-debian"
OURS = REPOSITORY / "build" / "linux-x86-functions" / "bzImage"
PROGRAM = REPOSITORY / "eval" / "experiments" / "functions" / "guest" / "direct_io.c"
READS = Path(__file__).with_name("functions_of_reads.py")


def counting(script: str, out: Path, **settings: Any) -> str:
    """Run a script in a guest whose clock counts instructions; return its output."""
    guest = QemuGuest(
        counts_instructions=True,
        n_cpus=1,
        n_drives=1,
        drive_mb=256,
        memory_mb=1536,
        out_dir=out,
        environment={"PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin"},
        timeout_s=1800,
        **settings,
    )
    output, errors = io.BytesIO(), io.BytesIO()
    result = run(["sh", "-ec", script], guest, stdout=output, stderr=errors)
    assert not result.status, errors.getvalue().decode()
    return output.getvalue().decode()


def paths_to(node: dict[str, Any], name: str) -> Iterator[tuple[str, ...]]:
    """Yield the callers of each node of this name in a tree."""
    for called in node["called"]:
        if called["name"] == name:
            yield (node["name"],)
        for path in paths_to(called, name):
            yield (node["name"], *path)


def test_layers_shows_the_functions_of_writes(tmp_path: Path) -> None:
    kernels = list((KERNEL / "boot").glob("vmlinuz-*"))
    if not kernels:
        pytest.skip(f"{KERNEL}: no kernel with its functions traceable; make kernel-debian")
    program = tmp_path / "direct_io"
    subprocess.run(["gcc", "-O2", "-static", "-o", program, PROGRAM], check=True)
    script = (
        "mkfs.ext4 -q /dev/nvme0n1; mount /dev/nvme0n1 /run/mnt\n"
        f"{program} write /run/mnt/file 1048576 8; sync\n"
        f"linnapp layers --functions --json -- {program} write /run/mnt/file 1048576 8"
        f" >{tmp_path}/said\n"
        "linnapp layers --functions -- sh -c 'exit 3' || test $? = 3\n"
        # No trace instance remains.
        'test -z "$(ls /sys/kernel/debug/tracing/instances)"\n'
    )
    modules = next((KERNEL / "lib" / "modules").iterdir())
    counting(script, tmp_path, kernel=kernels[0], modules=modules)
    calls = json.loads((tmp_path / "said").read_text())
    (call,) = calls["calls"]
    assert call["call"] == "write" and call["calls"] == 8
    # It may not sleep: on a busy machine the drive may finish before the writer waits.
    assert {"split", "pages", "mapping", "driver", "queue", "filesystem", "entry"} <= set(
        call["groups"]
    )
    assert sum(group["share"] for group in call["groups"].values()) == pytest.approx(1)
    # 256 pages per call take some time, and no group has a negative time.
    pages = next(f for f in call["functions"] if f["name"] == "bio_iov_iter_get_pages")
    assert pages["calls"] >= 8 and call["groups"]["pages"]["us"] / 8 > 5
    # The tree has the same times as the functions, and a page is added by a function that the VFS
    # calls.
    tree = call["tree"]
    assert tree["name"].endswith("_sys_write") and tree["calls"] == 8
    assert tree["with_called_us"] == pytest.approx(call["measured_us"])
    found = list(paths_to(tree, "bio_iov_iter_get_pages"))
    assert found and all("vfs_write" in path for path in found)
    assert 0 < calls["overhead"]["inside_ns"] <= calls["overhead"]["function_ns"] < 10_000
    assert calls["lost"] == {"times": 0, "calls": 0}


#: Functions of LinnOS that the block layer calls for a hinted read.
HOOKS = {
    "blk_linnos_decide",
    "blk_linnos_track",
    "blk_linnos_issue",
    "__blk_linnos_answer",
    "blk_linnos_done",
}


def test_layers_shows_the_functions_of_linnos(tmp_path: Path) -> None:
    if not OURS.exists():
        pytest.skip(
            f"{OURS}: no kernel of ours with its functions traceable; make kernel-x86-functions"
        )
    build("guest-tools")
    OUT.mkdir(parents=True, exist_ok=True)
    command = ("python3", READS, TOOLS / "null_reads", MODEL, latency_model())
    output = counting(
        shlex.join([*map(str, command), "nullb0", "nvme0n1"]),
        tmp_path,
        kernel=OURS,
        kernel_args=[
            # On a busy machine the kernel may mark the paused clock as unstable.
            "tsc=reliable",
            *(f"null_blk.{each}" for each in ("nr_devices=1", *NULL_BLK)),
        ],
    )
    (tmp_path / "said").write_text(output)
    cases = [json.loads(line) for line in output.splitlines()]
    assert len(cases) == 10
    for case in cases:
        name = tuple(case[key] for key in ("drive", "model", "mode"))
        assert case["status"] == case["lost"] == 0 < case["overhead_ns"], name
        linnos_us = case["groups"].get("linnos", {"us": 0.0})["us"] / case["calls"]
        functions = {f["name"]: f for f in case["functions"] if f["group"] == "linnos"}
        if case["mode"] == "off":
            # A policy that has been on is still called for each read; it returns at once.
            assert linnos_us < 0.1, name
            off_ns, off_us = case["hinted_ns"], case["us"] / case["calls"]
            off_linnos_us = linnos_us
            continue
        assert case["inferences"] > 0.9 * case["calls"], name
        assert functions["linnos_predict"]["calls"] == case["inferences"]
        if case["drive"] == "nullb0":
            assert set(functions) >= HOOKS, name
            # The same read takes longer by the same time, traced or not.
            more_us = (case["hinted_ns"] - off_ns) / 1000
            assert case["us"] / case["calls"] - off_us == pytest.approx(more_us, rel=0.1), name
            assert linnos_us - off_linnos_us == pytest.approx(more_us, rel=0.1), name
        else:
            # Completions while the reader sleeps are not in its system call.
            assert set(functions) >= HOOKS - {"__blk_linnos_answer", "blk_linnos_done"}
