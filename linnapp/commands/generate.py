# SPDX-License-Identifier: MIT
"""``linnapp generate``: generate a workload from a profile."""

from __future__ import annotations

from pathlib import Path

import click

from linnapp.option_types import FOLDER, ByteSize, FiniteRange


@click.command()
@click.argument("profile", required=False)
@click.option("-o", "--output", type=FOLDER, help="Directory to fill.")
@click.option("--drives", type=click.IntRange(1, 1000), default=3, help="Number of drives.")
@click.option(
    "--duration",
    type=FiniteRange(0, 1e9, min_open=True),
    default=60.0,
    help="Seconds of the workload.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), default=1, help="Equal seeds give equal files."
)
@click.option("--drive-bytes", type=ByteSize(), help="Size of the drives, e.g. 1G.")
@click.option("--list", "list_profiles", is_flag=True, help="List the profiles and exit.")
def generate(
    profile: str | None,
    output: Path | None,
    drives: int,
    duration: float,
    seed: int,
    drive_bytes: int | None,
    list_profiles: bool,
) -> None:
    """Make a workload from PROFILE: a fio iolog (version 3) per drive, DIR/flash0.iolog and so on.

    PROFILE is a name that --list prints, or a TOML file as described in traces/README.md.

    The profiles of the LinnOS paper's Table 1, az-c to co-e, have all values of the table in 120 s
    or more. A shorter file has the mean rate, and may have a lower maximum over 10 s.
    """
    from linnapp.trace.workload import load_profile, profile_names

    if list_profiles:
        for name in profile_names():
            known = load_profile(name)
            click.echo(f"{name:12} {known.mean_iops:8.0f} IOPS  {known.description}")
        return
    if profile is None or output is None:
        raise click.UsageError("give a PROFILE and -o DIR, or --list")

    from linnapp.errors import LinnappError
    from linnapp.files import os_errors
    from linnapp.trace.convert import write_iolog
    from linnapp.trace.workload import array_seeds
    from linnapp.trace.workload import generate as draw

    chosen = load_profile(profile)
    size = drive_bytes or chosen.drive_bytes
    largest = max(*chosen.read_sizes, *chosen.write_sizes)
    if size < max(largest, chosen.region_bytes):
        raise LinnappError(
            f"--drive-bytes {size}: smaller than the profile's largest I/O or region, "
            f"{max(largest, chosen.region_bytes)}"
        )
    chosen.check_regions(size)
    with os_errors(output):
        output.mkdir(parents=True, exist_ok=True)
    own, shared = array_seeds(seed, drives)
    for drive, child in enumerate(own):
        path = output / f"flash{drive}.iolog"
        ios = write_iolog(path, draw(chosen, duration, child, size, shared), f"/dev/{path.stem}")
        click.echo(f"{path}: {ios} I/Os in {duration:g} s")
