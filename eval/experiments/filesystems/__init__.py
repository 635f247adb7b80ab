# SPDX-License-Identifier: MIT
"""How robust file systems in several configurations are against a slow drive.

    make eval-filesystems
    make eval-filesystems LINNOS_FILESYSTEMS=ext4,xfs
    make eval-filesystems LINNOS_SLOWNESS=all

Not among what `make eval` runs: it is about the stack above the drive, not about LinnOS.
"""

from __future__ import annotations

from eval.experiment import Experiment
from eval.experiments.filesystems.design import PARAMETERS, SLOWNESS_VARIABLE, SYSTEMS_VARIABLE
from eval.experiments.filesystems.figure import draw
from eval.experiments.filesystems.measured import run
from eval.experiments.filesystems.text import reading, table

EXPERIMENT = Experiment(
    name="filesystems",
    title="File systems on a slow drive",
    source="uScope Fig. 2, 3, 6, 7, 10",
    parameters=PARAMETERS,
    run=run,
    table=table,
    reading=reading,
    draw=draw,
    paper="uScope runs Filebench on ext4, xfs, f2fs and btrfs on a RAM disk that some I/Os of are "
    "delayed: mixes that write suffer more, ordered data more than writeback, slow I/Os in a row "
    "more than scattered ones.",
    differs="Filebench is not in Debian 12: a program of our own does the operations of its mixes. "
    "The guest's processor takes no virtual time, so that what is slowed is all there is; threads "
    "rest between repeats. A run is seconds long and not 800 s, on some 1000 files and not 80,000, "
    "and what a file system does every few seconds it does every second. Added time holds up no "
    "other I/O of the drive. One parameter of Table 3 is changed at a time; xfs has inodes of 256 "
    "bytes only in its old format, and of 128 not at all. SPDK is left out.",
    sources=("eval/intervals.py", "eval/scores.py"),
    command=f"make eval-filesystems, or with {SYSTEMS_VARIABLE}=NAME,NAME, {SLOWNESS_VARIABLE}=all",
)
