# SPDX-License-Identifier: MIT
"""Errors in the kernel log of a guest, and arguments that make them appear."""

from __future__ import annotations

import re

#: Arguments of a kernel: a hanging task ends the guest, and its stack is shown.
PANIC_WHEN_HUNG = (
    "sysctl.kernel.hung_task_timeout_secs=60",
    "sysctl.kernel.hung_task_panic=1",
)

#: Kernel errors, which no test may leave in the log.
COMPLAINT = re.compile(
    r"BUG: (?!KCSAN)|WARNING:|Oops|general protection|refcount_t|KASAN|UBSAN"
    r"|detected stall|self-detected|soft lockup|blocked for more than"
    r"|possible recursive locking|possible circular locking|inconsistent lock state"
    r"|suspicious RCU usage|Bad page|list_add corruption|list_del corruption|not ok "
)


#: KCSAN reports every race in the kernel; those with one of our functions on a stack are
#: ours. (The kernel's release contains our name in every report.) A report ends with a line of "=".
KCSAN_REPORT = re.compile(r"BUG: KCSAN:.*?(?=={20}|\Z)", re.DOTALL)
OURS = re.compile(r"(?:linnos|flashsim)\w*\+0x|\[linnos\]")


def complaints(log: str) -> list[str]:
    """Return lines of a kernel log with kernel errors, and with races in our code."""
    lines = [line for line in log.splitlines() if COMPLAINT.search(line)]
    return lines + [report for report in KCSAN_REPORT.findall(log) if OURS.search(report)]
