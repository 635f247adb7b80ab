# SPDX-License-Identifier: MIT
"""Which functions of the kernel a direct read or write spends its time in.

    make eval-functions

Not among what `make eval` runs: it is about the stack above the drive, not about LinnOS.
"""

from __future__ import annotations

from eval.experiment import Experiment
from eval.experiments.functions.measured import PARAMETERS, run
from eval.experiments.functions.text import draw, reading, table

EXPERIMENT = Experiment(
    name="functions",
    title="Where direct reads and writes spend their time in the kernel",
    source="Logan et al. (poster)",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    paper="Logan, Kougkas and Sun, Quantifying the Overheads of the Modern Linux I/O Stack, trace "
    "O_DIRECT reads and writes of 4 KB to 100 MB on ext4 and xfs with trace-cmd's function graph. "
    "They give numbers for one case, 100 MB written to an allocated file, ext4 on a SATA SSD: of "
    "2,398 ms for 1 GB, 20 % in bio_add_page and 6 % in splitting and merging.",
    differs="Linux 6.12 as Debian builds it, not 4.15: ext4 and xfs use iomap, bios hold ranges "
    "of pages. Time is a count of instructions, 1 ns each, in QEMU, the drive QEMU's NVMe: what "
    "is asleep is no drive's time and left out, so shares are of the software's. Only the "
    "functions at the border of a part are traced, and what tracing takes is taken off; the poster "
    "does not say which were, nor of taking anything off. Hundreds of calls of 4 KiB, but two of "
    "100 MB.",
    sources=(
        "eval/debian_kernel.py",
        "linnapp/insight/functions.py",
        "linnapp/insight/function_recording.py",
    ),
)
