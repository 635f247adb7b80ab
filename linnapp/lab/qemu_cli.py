# SPDX-License-Identifier: MIT
"""`linnapp lab qemu`: run a command on the patched x86-64 kernel with NVMe drives."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from linnapp.lab.guest import LabError
from linnapp.lab.qemu import DEFAULT_KERNEL, QemuGuest, run


@click.command("qemu", context_settings={"ignore_unknown_options": True})
@click.option("--drives", default=3, show_default=True, help="NVMe drives, /dev/nvme0n1 and on.")
@click.option("--size-mb", default=1024, show_default=True, help="Size of each drive.")
@click.option("--cpus", default=2, show_default=True, help="CPUs of the guest.")
@click.option("--mem-mb", default=2048, show_default=True, help="Guest memory.")
@click.option(
    "--accel",
    type=click.Choice(["auto", "kvm", "tcg"]),
    default="auto",
    show_default=True,
    help="auto: KVM where it works, else TCG.",
)
@click.option(
    "--out",
    "out_dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="The one folder CMD may write to, besides tmpfs. Default: none.",
)
@click.option(
    "--kernel",
    type=click.Path(path_type=Path, dir_okay=False),
    default=DEFAULT_KERNEL,
    help="bzImage to boot. Default: the one `make kernel-x86` built.",
)
@click.option(
    "--dmesg", type=click.Path(path_type=Path, dir_okay=False), help="Save the kernel log."
)
@click.option("--timeout", type=float, metavar="S", help="Give up after S seconds.")
@click.option("--kernel-arg", multiple=True, help="Another kernel parameter.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def qemu(
    drives: int,
    size_mb: int,
    cpus: int,
    mem_mb: int,
    accel: str,
    out_dir: Path | None,
    kernel: Path,
    dmesg: Path | None,
    timeout: float | None,
    kernel_arg: tuple[str, ...],
    command: tuple[str, ...],
) -> None:
    """Boot the patched x86-64 kernel under QEMU and run CMD there, in real time.

    CMD sees this machine's files read-only, its output and exit status come
    back. $LINNOS_DRIVES holds the drives' paths, separated by commas,
    $LINNOS_OUT the folder given with --out. For the real nvme driver and
    several CPUs, not for latencies.

    \b
    linnapp lab qemu -- sh -c 'ls /sys/block/nvme0n1/mq; nproc'
    """
    guest = QemuGuest(
        kernel=kernel,
        memory_mb=mem_mb,
        out_dir=out_dir,
        kernel_args=kernel_arg,
        timeout_s=timeout,
        n_cpus=cpus,
        n_drives=drives,
        drive_mb=size_mb,
        accel=accel,
    )
    programs = [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    guest.environment = {
        "LINNOS_DRIVES": ",".join(guest.devices),
        "PATH": os.pathsep.join([*programs, "/usr/sbin", "/usr/bin", "/sbin", "/bin"]),
    }
    if out_dir is not None:
        guest.environment["LINNOS_OUT"] = str(out_dir.resolve())
    try:
        result = run(command, guest)
    except LabError as error:
        raise click.ClickException(str(error)) from None
    if dmesg is not None:
        dmesg.write_text(result.dmesg)
    sys.exit(result.status)
