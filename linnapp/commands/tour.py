# SPDX-License-Identifier: MIT
"""``linnapp tour``: watch emulated drives stall, live."""

from __future__ import annotations

from pathlib import Path

import click

from linnapp.option_types import FOLDER

#: Length of the workload; the drives stall from 10 s on.
_SECONDS = 25


@click.command()
@click.option("-o", "--output", type=FOLDER, default=Path("out/tour"), help="Folder for all files.")
def tour(output: Path) -> None:
    """Watch three emulated drives stall in turn for half a minute, with `linnapp top`.

    The paper's network refuses slow reads, which then go to another drive. Afterwards the command
    explains two decisions. Like `linnapp demo`, it needs the lab kernel, but no root rights and no
    compiler.
    """
    from linnapp.lab.array import Array
    from linnapp.lab.command import guest_environment, run_and_exit
    from linnapp.lab.demo import EXAMPLE_MODELS, check_programs
    from linnapp.lab.guest import Guest
    from linnapp.lab.host import linnapp
    from linnapp.lab.uml import DEFAULT_KERNEL, run

    array = Array()
    output.mkdir(parents=True, exist_ok=True)
    output = output.resolve()
    click.echo("Generating a workload. After 10 s, one drive after the other is slow for 3 s.")
    check_programs()
    linnapp(
        *("generate", "demo", "-o", str(output), "--drives", str(array.n_drives)),
        *("--duration", str(_SECONDS)),
    )
    guest = Guest(
        kernel=DEFAULT_KERNEL,
        out_dir=output,
        setup=array.setup_script(),
        environment=guest_environment(array.devices, output),
    )
    script = Path(__file__).parents[1] / "lab" / "tour.sh"
    run_and_exit(lambda: run(["sh", str(script), str(output), str(EXAMPLE_MODELS)], guest))
