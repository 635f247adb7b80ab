# SPDX-License-Identifier: MIT
"""A Debian machine in QEMU with the disk that make_image.sh makes, and a root shell on it."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from linnapp.lab.qemu import QEMU, kvm_works

#: Size of /dev/nvme0n1 and of each following drive, in MiB.
DRIVE_MB = 1024
#: Limit of a drive: reads wait behind simultaneous writes, as on an SSD.
DRIVE_BYTES_PER_S = 60_000_000
#: Timeout of systemd's answers, 25 s by default: an emulated CPU may need more.
BUS_TIMEOUT = "10min"


class Machine:
    """A machine that runs until `stop`, which discards its changes; a reboot keeps them.

    Parameters
    ----------
    image, key : Path
        The machine's disk, which is not changed, and root's SSH key for it.
    folder : Path
        The folder of the drives' images and the console's output.
    """

    def __init__(self, image: Path, key: Path, folder: Path) -> None:
        self.console = folder / "console"
        self._disk = folder / "disk.img"
        self._drives = [folder / f"nvme{k}.img" for k in range(3)]
        subprocess.run(["cp", "--sparse=always", image, self._disk], check=True)
        with socket.create_server(("127.0.0.1", 0)) as listening:
            self._port = listening.getsockname()[1]
        self._options = [
            *("-i", str(key), "-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR"),
            *("-o", "UserKnownHostsFile=/dev/null", "-o", "ConnectTimeout=30"),
        ]
        # All commands share one connection, because the guest takes a second or two to set one
        # up. The path of a socket must be short.
        self._sockets = tempfile.TemporaryDirectory(prefix="walk")
        self._options += ["-o", f"ControlPath={self._sockets.name}/ssh"]
        self._connection: subprocess.Popen[bytes] | None = None
        accel = os.environ.get("LINNOS_QEMU_ACCEL", "auto")
        if accel == "auto":
            accel = "kvm" if kvm_works(image.with_name("vmlinuz")) else "tcg"
        #: True if QEMU emulates the CPU, about thirty times slower.
        self.translated = accel == "tcg"
        # In separate threads, emulated CPUs may run forever into a breakpoint
        # that another has removed, as the end of blktrace removes those of trace points.
        accel = "tcg,thread=single" if self.translated else accel
        arguments = [
            *(QEMU, "-nodefaults", "-no-user-config", "-display", "none"),
            *("-machine", "q35", "-accel", accel, "-smp", "2", "-m", "6144"),
            # Under emulation, programs crash at the gather instructions of AVX2, which numpy's
            # argsort uses. The emulated processor is older, and has the AVX that TensorFlow
            # requires.
            *("-cpu", "IvyBridge" if self.translated else "max"),
            *("-serial", f"file:{self.console}", "-device", "virtio-rng-pci"),
            *("-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{self._port}-:22"),
            *("-device", "virtio-net-pci,netdev=net"),
            *("-drive", f"file={self._disk},format=raw,if=virtio,cache=unsafe"),
        ]
        for k, drive in enumerate(self._drives):
            with drive.open("wb") as file:
                file.truncate(DRIVE_MB << 20)
            arguments += [
                "-drive",
                f"if=none,id=drive{k},file={drive},format=raw,cache=unsafe,"
                f"throttling.bps-total={DRIVE_BYTES_PER_S}",
                *("-device", f"nvme,drive=drive{k},serial=walk{k}"),
            ]
        self._qemu = subprocess.Popen(arguments, stdin=subprocess.DEVNULL)

    def run(self, command: str, *, timeout_s: float = 600, check: bool = True) -> str:
        """Run a command in root's shell; return its stdout and stderr.

        Raises
        ------
        AssertionError
            If the command fails and `check` is true.
        """
        patient = f"export SYSTEMD_BUS_TIMEOUT={BUS_TIMEOUT}; {command}"
        result = self._ssh(f"bash -lc {shlex.quote(patient)}", timeout_s)
        assert not check or not result.returncode, (
            f"{command}: {result.returncode}\n{result.stdout}"
        )
        return result.stdout

    def copy(self, source: Path, target: str) -> None:
        """Copy a file, or a folder with its content, to the machine."""
        done = subprocess.run(
            [*self._command("scp", "-P", "-q", "-r")[:-1], source, f"root@127.0.0.1:{target}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert not done.returncode, done.stderr

    def wait_until_up(self, *, after_boot: str = "", timeout_s: float = 900) -> str:
        """Wait until it accepts connections after a boot other than `after_boot`; return its id."""
        end = time.monotonic() + timeout_s
        self._hang_up()
        while time.monotonic() < end and self._qemu.poll() is None:
            result = self._ssh("cat /proc/sys/kernel/random/boot_id", 120)
            boot = result.stdout.strip()
            if not result.returncode and boot != after_boot:
                self._connection = subprocess.Popen(
                    self._command("ssh", "-p", "-MN"),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                self.run("systemctl is-system-running --wait", check=False)
                return boot
            time.sleep(2)
        raise AssertionError(f"no answer:\n{self.console.read_text(errors='replace')[-4000:]}")

    def stop(self) -> None:
        """End the machine as a power cut does."""
        self._hang_up()
        self._qemu.terminate()
        self._qemu.wait()
        self._sockets.cleanup()
        for file in (self._disk, *self._drives):
            file.unlink()

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection.wait()
            self._connection = None

    def _command(self, program: str, port_option: str, *options: str) -> list[str]:
        return [program, port_option, str(self._port), *self._options, *options, "root@127.0.0.1"]

    def _ssh(self, command: str, timeout_s: float) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(
                [*self._command("ssh", "-p"), command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=timeout_s,
            )
        except subprocess.TimeoutExpired as error:
            raise AssertionError(
                f"{command}: not done after {timeout_s} s\n{error.stdout!r}"
            ) from error
