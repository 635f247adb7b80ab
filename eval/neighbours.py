# SPDX-License-Identifier: MIT
"""Do reads of one place wait for each other on emulated drives as they do on a real one?

`python -m eval.neighbours LOG` does the I/Os of a real drive's log (FlashNet's) again on emulated
drives, with as many in flight as the log's threads had, and holds against each other what a read
of 4 KiB took by how many others were in flight in its region (docs/formats.md) and on its drive. It
leaves out/eval/neighbours/figure.png and table.md, which eval/results/studies.md has.
"""

from __future__ import annotations

import argparse
import io
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr  # type: ignore[import-untyped]

from eval import figures
from eval.files import write_text
from eval.places import Places
from linnapp.lab.array import Array
from linnapp.lab.guest import Guest
from linnapp.lab.uml import DEFAULT_KERNEL, run
from linnapp.model.latency_model import FEATURES
from linnapp.trace.formats.conversion import convert
from linnapp.trace.logged_drive import PAGE_BYTES, LoggedDrive
from linnapp.trace.recorded import open_recording

Numbers = NDArray[np.float64]

PROFILES = ("consumer-nvme", "enterprise-a")
#: Of the log's 64 threads each had one.
IN_FLIGHT = 64
#: Others in flight in a read's region, from and below.
REGION_BINS = ((0, 1), (1, 2), (2, 4), (4, 8), (8, 16), (16, IN_FLIGHT))
#: Others in flight on its drive.
DRIVE_BINS = ((0, 32), (32, 56), (56, IN_FLIGHT))
#: Of fewer reads no median is told.
ENOUGH = 50


@dataclass(frozen=True)
class Reads:
    """Reads of 4 KiB: what they took, and how many others they found in flight."""

    latency_us: Numbers
    on_drive: Numbers
    in_region: Numbers

    @classmethod
    def of(cls, trace: Path) -> Reads:
        """Of a recording."""
        drive = LoggedDrive()
        rows = []
        for chunk in open_recording(trace):
            features = drive.features_of(chunk)
            served = chunk.is_served_read
            found = np.column_stack([
                chunk.latency_ns[served] / 1000,
                *(features[:, FEATURES.index(name)] for name in ("reads_in_flight", "in_region")),
            ])  # fmt: skip
            rows.append(found[chunk.size_bytes[served] == PAGE_BYTES])
        return cls(*np.concatenate(rows).T)

    def median_us(self, region: tuple[int, int], drive: tuple[int, int] | None = None) -> float:
        """Of those that found so many; nan of too few."""
        chosen = (self.in_region >= region[0]) & (self.in_region < region[1])
        if drive:
            chosen &= (self.on_drive >= drive[0]) & (self.on_drive < drive[1])
        latency_us = self.latency_us[chosen]
        return float(np.median(latency_us)) if len(latency_us) >= ENOUGH else np.nan


def replay(log: Path, out: Path, kernel: Path) -> dict[str, Path]:
    """Recordings of its I/Os done again, as soon as there is room, on a drive of each profile."""
    array = Array(n_drives=len(PROFILES), profile=",".join(PROFILES))
    places = Places(out)
    script, recorded = "", {}
    for profile, device in zip(PROFILES, array.devices, strict=True):
        iolog, folder = out / f"{profile}.iolog", out / profile
        convert(log, iolog, device_name=device)
        script += (
            f"linnapp trace {device} -o {places.of(folder)} -- fio --name=again"
            f" --filename={device} --direct=1 --ioengine=io_uring --iodepth={IN_FLIGHT}"
            f" --clocksource=clock_gettime --read_iolog={places.of(iolog)} --replay_no_stall=1"
            f" --output={places.of(out / f'{profile}.fio')}\n"
        )
        recorded[profile] = folder / f"{Path(device).name}.blk"
    guest = Guest(
        kernel=kernel,
        folders=places.folders,
        setup=array.setup_script() + places.setup(),
        environment=places.environment(array),
    )
    sink = io.BytesIO()
    result = run(["sh", "-ec", script], guest, cwd=places.cwd, stdout=sink, stderr=sink)
    if result.status:
        raise SystemExit(f"status {result.status}\n{sink.getvalue().decode()}")
    return recorded


def table(drives: dict[str, Reads]) -> str:
    """A drive a row: medians by what is in flight in the region, and how they go together."""

    def name(low: int, high: int) -> str:
        return str(low) if high == low + 1 else f"{low} or more" if high == IN_FLIGHT else (
            f"{low} to {high - 1}"
        )  # fmt: skip

    header = ["median us, by others in flight in the region", *(name(*b) for b in REGION_BINS)]
    header += ["rank correlation with these", "with those on the drive"]
    lines = [header, ["---"] * len(header)]
    for drive, reads in drives.items():
        medians = (reads.median_us(region) for region in REGION_BINS)
        together = (
            spearmanr(reads.latency_us, others).statistic
            for others in (reads.in_region, reads.on_drive)
        )
        lines.append([drive, *(f"{us:.0f}" for us in medians), *(f"{r:.2f}" for r in together)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def draw(drives: dict[str, Reads], path: Path) -> None:
    """A panel a drive, a line by what is in flight there, a point by what is in the region."""
    figure, all_axes = plt.subplots(1, len(drives), figsize=(4 * len(drives), 3.2))
    for axes, (drive, reads) in zip(np.atleast_1d(all_axes), drives.items(), strict=True):
        for low, high in DRIVE_BINS:
            medians = [reads.median_us(region, (low, high)) for region in REGION_BINS]
            axes.plot(medians, marker="o", label=f"{low} to {high - 1}")
        axes.set(title=drive, yscale="log", xlabel="others in flight in the region, from")
        axes.set_xticks(range(len(REGION_BINS)), [str(low) for low, _ in REGION_BINS])
    np.atleast_1d(all_axes)[0].set_ylabel("median read latency (us)")
    np.atleast_1d(all_axes)[-1].legend(title="on the drive", fontsize="small")
    figures.save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m eval.neighbours")
    parser.add_argument("log", type=Path, help="of a real drive, in FlashNet's format")
    parser.add_argument("--out", type=Path, default=Path("out/eval/neighbours"))
    parser.add_argument("--kernel", type=Path, default=DEFAULT_KERNEL)
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    recorded = replay(arguments.log, out, arguments.kernel)
    drives = {"real": Reads.of(arguments.log)}
    drives |= {profile: Reads.of(trace) for profile, trace in recorded.items()}
    write_text(out / "table.md", table(drives))
    draw(drives, out / "figure.png")
    print(table(drives), end="")


if __name__ == "__main__":
    main()
