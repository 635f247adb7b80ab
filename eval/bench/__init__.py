# SPDX-License-Identifier: MIT
"""Speed and cost of our own code, mostly as ratios to a reference measured in the same run.

`make bench` runs the measurements in the table of `__main__`. The modules are: `kernel`, the
policy in a program (kernel/bench); `asking`, queries before a read; `in_kernel`, hinted reads in
the lab's kernel; `off_cost`, the cost for those who do not use LinnOS; `module_cost`, the module on
an unpatched kernel; `ublk_cost`, the mirror as a block device compared with md; `library`,
liblinnos compared with pread(2); `replayer`, compared with fio; `training`; `watching` and `top`,
the cost of `linnapp watch` and `linnapp top`.
"""

from __future__ import annotations

from eval.cache import ROOT

#: The folder of the results.
OUT = ROOT / "out" / "bench"

#: The network that the policy decides with.
MODEL = ROOT / "models" / "example" / "flash0.linnos"


class BenchError(Exception):
    """A benchmark cannot run here; the message names what is missing."""
