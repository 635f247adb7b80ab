# SPDX-License-Identifier: MIT
"""Speed of our own code, as ratios to a reference measured in the same run: `make bench`.

A module for each of what is measured: the admission path (`kernel`, whose programs are in
kernel/bench), the same in the lab's kernel (`in_kernel`), what it costs those who do not use it
(`off_cost`), what the module costs on a kernel without the patch (`module_cost`), those who ask
before they read (`asking`), the mirror as a block device beside md's
(`ublk_cost`), liblinnos beside pread(2) (`library`), the replayer beside fio
(`replayer`), what `linnapp watch` costs those it watches (`watching`) and what
`linnapp top` takes itself (`top`), what an OSD of Ceph takes (`osd`), and `linnapp` on made-up
recordings (`linnapp`, `recordings`).
"""

from __future__ import annotations

from eval.cache import ROOT

#: Where each benchmark leaves its numbers.
OUT = ROOT / "out" / "bench"

#: What the admission path decides with.
MODEL = ROOT / "models" / "example" / "flash0.linnos"


class BenchError(Exception):
    """A benchmark cannot run here; the message says what is missing."""
