# SPDX-License-Identifier: MIT
"""`linnapp lab qemu`: run a command on the patched x86-64 kernel with NVMe drives."""

from __future__ import annotations

from pathlib import Path

import click

from linnapp.lab.command import Asked, guest_environment, guest_options, run_and_exit
from linnapp.lab.qemu import DEFAULT_KERNEL, QemuGuest, run


@click.command("qemu", context_settings={"ignore_unknown_options": True})
@click.option("--drives", default=3, help="NVMe drives, /dev/nvme0n1 and on.")
@click.option("--cpus", default=2, help="CPUs of the guest.")
@click.option(
    "--accel",
    type=click.Choice(["auto", "kvm", "tcg"]),
    default="auto",
    help="auto: KVM where it works, else TCG.",
)
@click.option(
    "--modules",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="For another --kernel: its modules, as /lib/modules/VERSION.",
)
@click.option(
    "--count-instructions",
    is_flag=True,
    help="Time in the guest is its instructions, 1 ns each. With --cpus 1.",
)
@guest_options(DEFAULT_KERNEL, "make kernel-x86", memory_mb=2048)
def qemu(
    asked: Asked, drives: int, cpus: int, accel: str, modules: Path | None, count_instructions: bool
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
        n_cpus=cpus,
        n_drives=drives,
        drive_mb=asked.size_mb,
        accel=accel,
        modules=modules,
        counts_instructions=count_instructions,
        **asked.of_guest,
    )
    guest.environment = guest_environment(guest, asked.out_dir)
    run_and_exit(lambda: run(asked.command, guest), asked.dmesg)
