# SPDX-License-Identifier: MIT
"""The emulated flash array: shell commands that set it up in a guest."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from linnapp.errors import LinnappError

CONFIGFS = "/sys/kernel/config/flashsim"

#: A drive's flushes are timed from its power-on, and the steps before that may take slightly
#: different times on other machines, also in virtual time. So wait for a full second of the guest's
#: clock, to the nanosecond: all steps after reading the clock take the same time in every boot.
WAIT_FOR_FULL_SECOND = """\
left_ns=$((1000000000 - $(/bin/date +%s%N) % 1000000000))
/bin/sleep "$((left_ns / 1000000000)).$(printf %09d $((left_ns % 1000000000)))"
"""


@dataclass(frozen=True)
class Array:
    """An array of `flashsim` drives, `/dev/flash0` and on."""

    #: Number of drives, which are replicas of each other; three in the paper.
    n_drives: int = 3
    #: Profile of every drive, or one per drive, separated by commas.
    profile: str = "enterprise"
    #: Exported size of each drive.
    size_mb: int = 1024
    #: Drive k is seeded with ``seed + k``.
    seed: int = 1
    #: True if the drives begin in a steady state, False if they are new.
    precondition: bool = True
    #: Values of other flashsim attributes of every drive, by name.
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def devices(self) -> list[str]:
        """Paths of the drives in the guest."""
        return [f"/dev/flash{k}" for k in range(self.n_drives)]

    def setup_script(self) -> str:
        """Return shell commands that switch the drives on; empty if there are no drives."""
        if not self.n_drives:
            return ""
        profiles = self.profile.split(",")
        if len(profiles) not in (1, self.n_drives):
            raise LinnappError(
                f"--profile {self.profile}: {len(profiles)} profiles for {self.n_drives} drives"
            )
        lines = [
            f"[ -d {CONFIGFS} ] || {{ echo 'this kernel has no flashsim driver:"
            " build the lab kernel with `make kernel`'; exit 1; }",
            WAIT_FOR_FULL_SECOND,
        ]
        for k in range(self.n_drives):
            drive = f"{CONFIGFS}/flash{k}"
            attributes = {
                "profile": profiles[k % len(profiles)],
                "size_mb": str(self.size_mb),
                "seed": str(self.seed + k),
                **self.parameters,
                "power": "1",
            }
            if self.precondition:
                attributes["precondition"] = "1"
            lines.append(f"mkdir {drive}")
            for name, value in attributes.items():
                message = shlex.quote(f"flashsim refused {name}={value} for drive flash{k}")
                target = f"{drive}/{shlex.quote(name)}"
                write = f"echo {shlex.quote(value)} >{target}"
                lines.append(f"{write} || {{ echo {message}; exit 1; }}")
        return "\n".join(lines) + "\n"
