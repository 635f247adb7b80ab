# SPDX-License-Identifier: MIT
"""linnos-ublk on a machine that is killed: QEMU gets SIGKILL during writes, and dm-flakey drops
writes from a moment before on. The next boot checks the remaining data."""

from __future__ import annotations

import io
import os
import signal
import subprocess
from pathlib import Path

import pytest
from debian import debian_kernel

from linnapp.lab import qemu
from linnapp.lab.guest import REPOSITORY, CrashError
from linnapp.lab.qemu import QemuGuest

pytestmark = pytest.mark.qemu

SCRIPT = """
PATH={folder}:$PATH
mkdir -p /run
modprobe -d $UNPACKED -a ublk_drv dm_flakey nvme
for k in 0 1 2 3; do until [ -b /dev/nvme${{k}}n1 ]; do sleep 0.1; done; done
{before}
python3 $TESTS/power_cut_mirror.py $OUT/log {seed} 2>&1
"""

#: NVMe drives and their partitions have identities of their own.
IDENTITIES = """
mount -t tmpfs none /var/lib
serve() {
    rm -f /run/said
    linnos-ublk --json --assume-clean "$@" >/run/said 2>>/run/err & server=$!
    until [ -s /run/said ]; do kill -0 $server; sleep 0.1; done
    kill $server; wait $server
}
serve /dev/nvme0n1 /dev/nvme1n1
for k in 2 3; do
    addpart /dev/nvme${k}n1 1 2048 65536
    until [ -b /dev/nvme${k}n1p1 ]; do sleep 0.1; done
done
serve /dev/nvme2n1p1 /dev/nvme3n1p1
for record in /var/lib/linnos-ublk/*; do tr -c '[:print:]' '\\n' <$record | grep nvme; done
cat /run/err
for k in 2 3; do delpart /dev/nvme${k}n1 1; done
umount /var/lib
"""


class Watched(io.BytesIO):
    """The guest's output; QEMU is killed when the guest requests it."""

    def __init__(self, image: Path) -> None:
        super().__init__()
        self.image = image

    def write(self, data: bytes) -> int:  # type: ignore[override]
        written = super().write(data)
        if b"kill\n" in self.getvalue():
            os.kill(self.pid(), signal.SIGKILL)
        return written

    def pid(self) -> int:
        """Return the PID of the QEMU that has the image as a drive; no other program does."""
        for process in Path("/proc").glob("[0-9]*"):
            arguments = (process / "cmdline").read_bytes().split(b"\0")
            if arguments[0].endswith(qemu.QEMU.encode()) and any(
                f"file={self.image},".encode() in argument for argument in arguments
            ):
                return int(process.name)
        raise AssertionError("QEMU has ended before it was killed")


@pytest.mark.long
@pytest.mark.parametrize("n_cuts", [2, pytest.param(20, marks=pytest.mark.crashes)])
def test_mirror_is_equal_and_complete_after_power_cuts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_cuts: int
) -> None:
    folder = REPOSITORY / "build" / "ublk"
    subprocess.run(
        ["make", "-s", "-C", REPOSITORY / "liblinnos" / "ublk", f"OUT={folder}"], check=True
    )
    kernel = debian_kernel("kernel-debian", ours=False)
    images = [tmp_path / f"drive{k}.img" for k in range(4)]
    for image in images:
        with image.open("wb") as file:
            file.truncate(256 << 20)
    arguments = qemu._arguments

    def with_drives(guest: QemuGuest, control: Path) -> list[str]:
        drives: list[str] = []
        for k, image in enumerate(images):
            drives += ["-drive", f"if=none,id=kept{k},file={image},format=raw"]
            drives += ["-device", f"nvme,drive=kept{k},serial=kept{k}"]
        return [*arguments(guest, control), *drives]

    monkeypatch.setattr(qemu, "_arguments", with_drives)
    unpacked = str(kernel.modules.parents[2])
    n_differed = 0
    for seed in [*range(1, n_cuts + 1), -1]:
        guest = QemuGuest(
            kernel=kernel.image,
            modules=kernel.modules,
            n_drives=0,
            one_thread=True,
            out_dir=tmp_path,
            environment={
                "OUT": str(tmp_path),
                "TESTS": str(Path(__file__).parent),
                "UNPACKED": unpacked,
                "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin",
            },
            accel=os.environ.get("LINNOS_QEMU_ACCEL", "auto"),
            timeout_s=1800,
        )
        output = Watched(images[0])
        script = SCRIPT.format(folder=folder, seed=seed, before=IDENTITIES if seed == 1 else "")
        errors = io.BytesIO()
        try:
            result = qemu.run(["sh", "-ec", script], guest, stdout=output, stderr=errors)
        except CrashError:
            assert seed > 0, output.getvalue()
        else:
            assert seed == -1 and not result.status, output.getvalue() + errors.getvalue()
        text = output.getvalue().decode()
        print(seed, text)
        assert "kill" in text or "complete" in text
        n_differed += "differed 0" not in text
        if seed == 1:
            assert "nvme.1b36-6b657074" in text and "-00000001, from sector 2048" in text
            assert "no serial number" not in text.split("differed")[0]
    # At the first boot no data exists that could differ.
    print("replicas differed after", n_differed, "of", n_cuts, "cuts")
    assert n_differed > n_cuts / 4
