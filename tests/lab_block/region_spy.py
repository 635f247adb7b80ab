# SPDX-License-Identifier: MIT
"""``region_spy.py FILE``: submit 20 hinted reads for each 8 KiB of 512, and print the places where
more or fewer are refused than at most others.
"""

from __future__ import annotations

import errno
import mmap
import os
import sys
import time
from collections import Counter

RWF_LATCRIT = 0x8000

#: Not a multiple of a read's latency, so that the other program has one in flight.
PAUSE_S = 130e-6


def main() -> None:
    fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, 4096)
    refused = dict.fromkeys(range(64), 0)
    for region in list(refused) * 20:
        time.sleep(PAUSE_S)
        try:
            os.preadv(fd, [buffer], region * 8192, RWF_LATCRIT)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            refused[region] += 1
    usual = Counter(refused.values()).most_common(1)[0][0]
    print(*(f"{region}:{n}" for region, n in refused.items() if n != usual))


if __name__ == "__main__":
    main()
