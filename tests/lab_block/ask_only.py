# SPDX-License-Identifier: MIT
"""``ask_only.py COUNT FILE`` asks about reads of 128 KiB, sends none, and prints how often the
answer was to probe the drive.
"""

from __future__ import annotations

import os
import sys

import ask


def main() -> None:
    fd = os.open(sys.argv[2], os.O_RDONLY)
    answers = (ask.ask([fd], 131072).drives[0] for _ in range(int(sys.argv[1])))
    print(sum(bool(drive.flags & ask.PROBE) for drive in answers))


if __name__ == "__main__":
    main()
